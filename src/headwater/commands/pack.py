"""The commands that put a whole knowledge base into one file or another home, and erase documents from it."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from headwater.commands.flags import Folder, options

if TYPE_CHECKING:
    from headwater.comparing import Named
    from headwater.copying import OnCopied
    from headwater.pack_file import Packed


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--no-models", is_flag=True, help="Leave out models that were downloaded into the home.")
@click.option("--keys", is_flag=True, help="Take along API keys (as hashes) and webhooks with their secrets.")
@options("home", "json")
def pack(*, file: Path, no_models: bool, keys: bool, home: Path | None, as_json: bool) -> None:
    """Put the knowledge base into one file, while everything goes on, wherever its stores are.

    \b
    Example:
      headwater pack backup.headwater
    """
    from headwater.archive import pack as write
    from headwater.build import open_home

    with _tidy_at_the_end(), open_home(home, create=False) as kb:
        packed = write(kb, file, models=not no_models, keys=keys, on_copied=_telling(as_json=as_json))
    _print(packed, "packed", as_json=as_json)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--check", is_flag=True, help="Compare every hash and write nothing.")
@click.option("--diff", is_flag=True, help="Say what the pack and the home do not share, and write nothing.")
@click.option("--merge", is_flag=True, help="Add what the pack holds to a home that has documents.")
@click.option("--theirs", is_flag=True, help="With --merge: where a document differs, take the pack's.")
@click.option("--ours", is_flag=True, help="With --merge: where a document differs, keep the home's. The default.")
@options("home", "json")
def unpack(
    *,
    file: Path,
    check: bool,
    diff: bool,
    merge: bool,
    theirs: bool,
    ours: bool,
    home: Path | None,
    as_json: bool,
) -> None:
    """Make a knowledge base of a pack, in a folder where there is none yet, or add a pack to one.

    A folder with settings keeps them: stores in servers that they choose are filled.

    \b
    Example:
      headwater unpack backup.headwater --home ./restored
      headwater unpack backup.headwater --merge
    """
    from headwater.archive import unpack as read
    from headwater.errors import UsageError
    from headwater.pack_file import verify
    from headwater.places import default_home

    if sum((check, diff, merge)) > 1:
        raise UsageError("--check, --diff and --merge are three things to do; name one of them")
    if (theirs or ours) and not merge:
        raise UsageError("--theirs and --ours say what --merge does; add --merge, or leave them out")
    if theirs and ours:
        raise UsageError("--theirs and --ours exclude each other; name one of them")
    place, tell = home or default_home(), _telling(as_json=as_json)
    with _tidy_at_the_end():
        if diff:
            _diff(file, place, as_json=as_json)
        elif merge:
            _merge(file, place, theirs=theirs, tell=tell, as_json=as_json)
        else:
            packed = verify(file) if check else read(file, place, on_copied=tell)
            _print(packed, "all is well with" if check else "unpacked", as_json=as_json)


@click.command()
@click.option("--to", "target", type=Folder(), required=True, help="The other home.")
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

    with open_home(home, create=False) as source, open_home(target) as other:
        done = write(source, other, on_copied=_telling(as_json=as_json))
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
            if not click.confirm("Erase them for good?"):
                click.echo("nothing was erased", err=True)
                sys.exit(1)
        done = kb.forget(*document_ids)
    if as_json:
        click.echo(to_json(asdict(done)))
        return
    click.echo(f"erased {done.documents} documents, {done.answers} answers and turns, {done.searches} searches")
    if done.spaces:
        click.echo(f"{done.spaces} earlier space(s) held them too and were dropped: `reindex --back` has nowhere to go")


@contextmanager
def _tidy_at_the_end() -> Iterator[None]:
    """Told to end (`timeout`, a container that stops, a terminal that closes), clear away what is half-written first.

    It may be as large as the home, has a name that is not listed, and holds what may have to be forgotten.
    """

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # told again: at once
        sys.exit(128 + number)

    told = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
    heard = [number for number in {*told} if signal.getsignal(number) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def _telling(*, as_json: bool) -> "OnCopied":
    """How far a copy is, for people."""

    def tell(done: int, total: int) -> None:
        if not as_json:
            click.echo(f"{done:,} of {total:,} documents", err=True)

    return tell


def _merge(file: Path, home: Path, *, theirs: bool, tell: "OnCopied", as_json: bool) -> None:
    from headwater.merging import merge, merged_shape
    from headwater.shapes import to_json

    done = merge(file, home, theirs=theirs, on_copied=tell)
    if as_json:
        click.echo(to_json(merged_shape(done)))
        return
    counts = f"added {done.added:,} documents, replaced {done.replaced:,}; {done.same:,} were the same"
    click.echo(f"{counts}, {len(done.kept):,} stayed as they were")
    for one in done.kept:
        click.echo(f"  {_said(one)}")
    if done.words:
        click.echo(f"added {done.words:,} words to the dictionary")
    if done.waiting:
        click.echo(f"{done.waiting:,} changes were not indexed when the pack was made, and are not in it", err=True)


def _diff(file: Path, home: Path, *, as_json: bool) -> None:
    from headwater.merging import diff, differences_shape
    from headwater.shapes import to_json

    found = diff(file, home)
    if as_json:
        click.echo(to_json(differences_shape(found)))
        return
    for title, named in (
        ("only in the pack", found.only_in_pack),
        ("only in the home", found.only_in_home),
        ("different", found.different),
    ):
        if named:
            click.echo(f"{title}: {len(named):,}")
        for one in named:
            click.echo(f"  {_said(one)}")
    for what, pair in (("embedder", found.embedder), ("chunker", found.chunker)):
        if pair is not None:
            click.echo(f"{what}: {pair[0]} in the pack, {pair[1]} in the home")
    if found.settings:
        click.echo(f"settings: {', '.join(found.settings)}")
    click.echo(f"the same: {found.same:,}")


def _said(one: "Named") -> str:
    kinds = f"  ({', '.join(one.kinds)})" if one.kinds else ""
    return f"{one.collection}  {one.uri}{kinds}"


def _print(packed: "Packed", done: str, *, as_json: bool) -> None:
    from headwater.pack_file import shape
    from headwater.shapes import to_json

    if as_json:
        click.echo(to_json(shape(packed)))
        return
    counts = f"{packed.documents:,} documents, {packed.chunks:,} chunks, {packed.files} files, {packed.bytes:,} bytes"
    click.echo(f"{done} {packed.file}: {counts}")
    if not packed.indexes:
        click.echo("not every index is in it; unpacking makes them again from the catalog", err=True)
