"""The commands that make, list and revoke API keys."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.commands.flags import options
from headwater.errors import UsageError
from headwater.places import default_home

if TYPE_CHECKING:
    from headwater.storage.ledger import Ledger

_SPAN = re.compile(r"(\d{1,5})([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7, "y": 24 * 365}


@click.group()
def key() -> None:
    """API keys, each bound to an owner, and where wished to collections, rights and a time.

    \b
    Example:
      headwater key create --owner anna
    """


@key.command()
@click.option("--owner", default="local", show_default=True, metavar="NAME", help="Whose documents it is for.")
@click.option("--collection", "collections", multiple=True, metavar="NAME", help="Only this one; may be repeated.")
@click.option("--rights", type=click.Choice(["read", "write", "admin"]), default="write", show_default=True)
@click.option("--expires", default="", metavar="WHEN", help="12h, 30d, 1y, or a date; never by default.")
@click.option("--name", default="", metavar="TEXT", help="What it is for.")
@options("home", "json")
def create(
    *,
    owner: str,
    collections: tuple[str, ...],
    rights: Any,
    expires: str,
    name: str,
    home: Path | None,
    as_json: bool,
) -> None:
    """Make a key. It is shown this once: the home keeps only a hash.

    \b
    Example:
      headwater key create --owner anna --collection handbook --rights read --expires 30d
    """
    ledger = _ledger(home)
    made, secret = ledger.keys.create(owner, name=name, collections=collections, rights=rights, expires=until(expires))
    ledger.close()
    if as_json:
        _json({"id": made.id, "key": secret})
    else:
        click.echo(f"{secret}\n\nkey {made.id} of {owner}, may {rights}; it is not shown again")


@key.command(name="list")
@options("home", "json")
def list_keys(home: Path | None, as_json: bool) -> None:
    """List the keys, without their secrets.

    \b
    Example:
      headwater key list
    """
    ledger = _ledger(home)
    found = ledger.keys.listed()
    ledger.close()
    if as_json:
        names = ("id", "owner", "name", "rights", "created", "expires", "revoked", "used")
        _json([{**{n: getattr(one, n) for n in names}, "collections": list(one.collections)} for one in found])
        return
    for one in found:
        where = ", ".join(one.collections) or "all collections"
        ends = f"revoked {one.revoked}" if one.revoked else f"until {one.expires}" if one.expires else "no end"
        click.echo(f"{one.id}  {one.owner}  {one.rights}  {where}  {ends}  {one.name}".rstrip())


@key.command()
@click.argument("key_id", metavar="ID")
@options("home", "json")
def revoke(key_id: str, home: Path | None, as_json: bool) -> None:
    """Let a key allow nothing from now on.

    \b
    Example:
      headwater key revoke 1cc42cbc0098
    """
    ledger = _ledger(home)
    ledger.keys.revoke(key_id)
    ledger.close()
    _json({"revoked": key_id}) if as_json else click.echo(f"revoked {key_id}")


def until(given: str) -> str:
    """When a key ends: a time from now, or a date; empty for never."""
    if not given:
        return ""
    now = datetime.now(UTC)
    try:
        if span := _SPAN.fullmatch(given.strip().lower()):
            ends = now + timedelta(hours=int(span[1]) * _HOURS[span[2]])
        else:
            ends = datetime.fromisoformat(given)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{given!r} is no time; write 12h, 30d, 1y or 2026-12-31") from error
    ends = ends if ends.tzinfo else ends.replace(tzinfo=UTC)
    if ends <= now:
        raise UsageError(f"a key that ends at {given!r} would never be good for anything; name a time to come")
    return ends.astimezone(UTC).isoformat(timespec="milliseconds")


def _ledger(home: Path | None) -> "Ledger":
    from headwater.storage.ledger import Ledger

    path = home or default_home()
    path.mkdir(parents=True, exist_ok=True)
    return Ledger(path)


def _json(value: Any) -> None:
    from headwater.shapes import to_json

    click.echo(to_json(value))
