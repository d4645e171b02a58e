"""The commands that put a whole knowledge base into one file or another home, and erase documents from it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.commands.flags import options

if TYPE_CHECKING:
    from headwater.archive import Packed


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--no-models", is_flag=True, help="Leave out models that were downloaded into the home.")
@click.option("--keys", is_flag=True, help="Take along API keys (as hashes) and webhooks with their secrets.")
@options("home", "json")
def pack(*, file: Path, no_models: bool, keys: bool, home: Path | None, as_json: bool) -> None:
    """Put the knowledge base into one file, while everything goes on.

    \b
    Example:
      headwater pack backup.headwater
    """
    from headwater.archive import pack as write
    from headwater.build import open_home

    with open_home(home, create=False) as kb:
        packed = write(kb, file, models=not no_models, keys=keys)
    _print(packed, "packed", as_json=as_json)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--check", is_flag=True, help="Compare every hash and write nothing.")
@options("home", "json")
def unpack(*, file: Path, check: bool, home: Path | None, as_json: bool) -> None:
    """Make a knowledge base of a pack, in a folder where there is none yet.

    \b
    Example:
      headwater unpack backup.headwater --home ./restored
    """
    from headwater.archive import unpack as read
    from headwater.archive import verify
    from headwater.places import default_home

    packed = verify(file) if check else read(file, home or default_home())
    _print(packed, "all is well with" if check else "unpacked", as_json=as_json)


@click.command()
@click.option("--to", "target", type=click.Path(path_type=Path, file_okay=False), required=True, help="The other home.")
@options("home", "json")
def copy(*, target: Path, home: Path | None, as_json: bool) -> None:
    """Copy every document into another home, whatever their catalogs are. Nothing is read or embedded again.

    The other home is new or was made with the same embedder and chunker. What it has already stays as it is.

    \b
    Example:
      headwater copy --to ./library-pg
    """
    from dataclasses import asdict

    from headwater.build import open_home
    from headwater.copying import copy as write
    from headwater.shapes import to_json

    def tell(done: int, total: int) -> None:
        if not as_json:
            click.echo(f"{done:,} of {total:,} documents", err=True)

    with open_home(home, create=False) as source, open_home(target) as other:
        done = write(source, other, on_copied=tell)
    if as_json:
        click.echo(to_json(asdict(done)))
        return
    click.echo(f"copied {done.documents:,} documents, {done.chunks:,} chunks; {done.there:,} were there already")


@click.command()
@click.argument("document_ids", nargs=-1, required=True, metavar="ID…")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options("home", "json")
def forget(*, document_ids: tuple[str, ...], yes: bool, home: Path | None, as_json: bool) -> None:
    """Erase documents everywhere: index, caches, history, answers, originals. Nothing of them is left in any file.

    The files they came from stay. ID is an id of `list`, a path or an address.

    \b
    Example:
      headwater forget handbook/old.md
    """
    from dataclasses import asdict

    from headwater.build import open_home
    from headwater.shapes import to_json

    with open_home(home, create=False) as kb:
        named = [kb.record(given) for given in document_ids]
        if not yes and not as_json and sys.stdin.isatty():
            for record in named:
                click.echo(f"{record.id}  {record.title}  ({record.uri})")
            click.confirm("Erase them for good?", abort=True)
        done = kb.forget(*document_ids)
    if as_json:
        click.echo(to_json(asdict(done)))
        return
    click.echo(f"erased {done.documents} documents, {done.answers} answers and turns, {done.searches} searches")
    if done.spaces:
        click.echo(f"{done.spaces} earlier space(s) held them too and were dropped: `reindex --back` has nowhere to go")


def _print(packed: "Packed", done: str, *, as_json: bool) -> None:
    from headwater.archive import shape
    from headwater.shapes import to_json

    if as_json:
        click.echo(to_json(shape(packed)))
        return
    counts = f"{packed.documents:,} documents, {packed.chunks:,} chunks, {packed.files} files, {packed.bytes:,} bytes"
    click.echo(f"{done} {packed.file}: {counts}")
    if not packed.indexes:
        click.echo("the indexes were being written to; unpacking makes them again from the catalog", err=True)
