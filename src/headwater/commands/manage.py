"""The commands that manage documents and the home they live in."""

import shutil
import sys
import time
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

import click

from headwater.commands.flags import Duration, options
from headwater.errors import SpaceMismatch, UsageError

if TYPE_CHECKING:
    from headwater.build import KnowledgeBase
    from headwater.indexer import Progress
    from headwater.strategies import Cost
    from headwater.types import Report

# Where there is no terminal to draw a bar on: the first line of progress after so long, each next one after twice as
# long as the one before, up to so long. What ends at once says nothing, and what takes hours fills no log.
FIRST_LINE_SECONDS = 0.5
PROGRESS_LINE_SECONDS = 10.0
# What each part of the work consists of, as the indexer counts it.
PARTS_OF_WORK = {
    "parse": ("read", "parse", "chunk", "check"),
    "embed": ("embed",),
    "store": ("text index", "vector index", "catalog"),
}
STANDARD_INPUT = "-"
STOPPED_CODE = 130  # as shells say it of what Ctrl-C ended


def _echo_json(value: Any) -> None:
    from headwater.shapes import to_json

    click.echo(to_json(value))


def _open(home: Path | None, *, create: bool = False, preset: str | None = None) -> "KnowledgeBase":
    from headwater.build import open_home

    return open_home(home, create=create, preset=preset)


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("--collection", default="default", show_default=True, metavar="NAME", help="Where the documents go.")
@click.option("--tag", "tags", multiple=True, metavar="T", help="Tag every document; may be repeated.")
@click.option("--folder", default="", metavar="F", help="File every document under this folder.")
@click.option("--strategy", default="", metavar="S", help="Cut every document this way (see docs/chunking.md).")
@click.option(
    "--chunk-size", default=0, metavar="N", type=click.IntRange(0), help="Passages of at most so many tokens."
)
@click.option("--prune", is_flag=True, help="Remove what is gone from the named folders, lists and sitemaps.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")
@click.option(
    "--every", type=Duration("30m, 6h or 1d"), metavar="TIME", help="Look at the named addresses this often, e.g. 6h."
)
@options("preset", "home", "json")
def add(
    *,
    sources: tuple[str, ...],
    every: float | None,
    collection: str,
    tags: tuple[str, ...],
    folder: str,
    strategy: str,
    chunk_size: int,
    prune: bool,
    dry_run: bool,
    preset: str | None,
    home: Path | None,
    as_json: bool,
) -> None:
    """Add files, folders, vaults, pages, feeds, exports of bookmarks, or standard input (`-`).

    Only what changed is worked on.

    \b
    Example:
      headwater add ./handbook --tag hr
      headwater add https://example.org/leave bookmarks.html
    """
    if every is not None and not all(source.lower().startswith(("http://", "https://")) for source in sources):
        raise click.UsageError("--every is for addresses of the web; `headwater watch` keeps folders in step")
    with _open(home, create=True, preset=preset) as kb, ProgressLines(enabled=not as_json) as progress:
        given: dict[str, Any] = {"collection": collection, "tags": tags, "folder": folder}
        given |= {"strategy": strategy, "chunk_size": chunk_size}
        named = [source for source in sources if source != STANDARD_INPUT]
        report: Report | None = None
        if named:
            if (cost := kb.cost(*named, **given)) is not None:
                click.echo(cost_line(cost), err=True)
            try:
                report = kb.add(*named, **given, prune=prune, dry_run=dry_run, on_progress=progress.show)
            except KeyboardInterrupt:
                progress.clear()
                click.echo(stopped_line(progress.seen, left=kb.catalog.pending()), err=True)
                sys.exit(STOPPED_CODE)
            if every is not None and not dry_run:
                from headwater.refresh import subscribe

                for source in named:
                    subscribe(kb, source, every_seconds=every, collection=collection, tags=tags, folder=folder)
        if STANDARD_INPUT in sources:
            if sys.stdin is None:
                raise UsageError("standard input is closed; pipe something into it, or name a file")
            piped = kb.add_bytes(sys.stdin.buffer.read(), **given, dry_run=dry_run)
            report = piped if report is None else _joined(report, piped)
        assert report is not None
    if as_json:
        from headwater.shapes import report_shape

        _echo_json(report_shape(report))
    else:
        print_report(report, dry_run=dry_run)
    if report.failed:
        sys.exit(1)


@click.command(name="list")
@click.option("--problems", is_flag=True, help="Only documents that something is wrong with, and what would help.")
@options("where", "collection", "home", "json")
def list_documents(*, problems: bool, where: str, collection: str | None, home: Path | None, as_json: bool) -> None:
    """List the documents.

    \b
    Example:
      headwater list --where 'tag = "hr"'
    """
    with _open(home) as kb:
        records = kb.documents(where, collection=collection)
    if problems:
        records = [record for record in records if record.error or record.problems]
    if as_json:
        from headwater.shapes import record_shape

        _echo_json([record_shape(record) for record in records])
        return
    for record in records:
        state = record.state if not record.error else f"{record.state}: {record.error}"
        click.echo(f"{record.id}  {record.chunks:5d} chunks  {state}  {record.title}  ({record.uri})")
        for problem in record.problems if problems else ():
            click.echo(f"    {problem}")
    click.echo(f"{len(records)} documents")


@click.command()
@click.argument("document_id", metavar="ID")
@options("home", "json")
def show(document_id: str, home: Path | None, as_json: bool) -> None:
    """Show one document with its chunks. ID is an id of `list`, or a path.

    \b
    Example:
      headwater show handbook/leave.md
    """
    with _open(home) as kb:
        record, chunks = kb.record(document_id), kb.chunks(document_id)
        strategy = ""
        with suppress(SpaceMismatch):  # `chunk` was changed and nothing reindexed: it is shown, as it is found
            strategy = kb.strategy(document_id) if chunks else ""
        alike, attachments = kb.alike(document_id), kb.attachments(document_id)
    if as_json:
        from headwater.shapes import checkup_shape, record_shape

        passages = [
            {"chunk_id": c.name, "span": list(c.span), "section": c.section, "pages": list(c.pages), "text": c.text}
            for c in chunks
        ]
        labels = {"tags": list(record.tags), "folder": record.folder, "content_type": record.content_type}
        cut = {"strategy": strategy, "passages": passages}
        checkup = checkup_shape(record, alike, attachments)
        _echo_json({**record_shape(record), **labels, "meta": dict(record.meta), **checkup, **cut})
        return
    click.echo(f"{record.title}\n  id {record.id}\n  uri {record.uri}\n  state {record.state} {record.error}".rstrip())
    for label in ("collection", "folder", "content_type", "created", "updated"):
        if value := getattr(record, label):
            click.echo(f"  {label} {value}")
    if strategy:
        click.echo(f"  strategy {strategy}, {len(chunks)} chunks")
    if record.coverage:
        click.echo(f"  coverage {', '.join(f'{name} {value}' for name, value in sorted(record.coverage.items()))}")
    for problem in record.problems:
        click.echo(f"  problem: {problem}")
    for other, share in alike:
        click.echo(f"  nearly the same as {other.uri} ({share:.0%})")
    for part in attachments:
        click.echo(f"  attachment {part.uri}: {part.state} {part.error}".rstrip())
    if record.tags:
        click.echo(f"  tags {', '.join(record.tags)}")
    for chunk in chunks:
        click.echo(f"\n[{chunk.span.start}-{chunk.span.end}] {chunk.section}\n{chunk.text}")


@click.command()
@click.argument("document_ids", nargs=-1, required=True, metavar="ID…")
@options("home", "json")
def remove(document_ids: tuple[str, ...], home: Path | None, as_json: bool) -> None:
    """Remove documents from the knowledge base; the files themselves stay.

    \b
    Example:
      headwater remove handbook/old.md
    """
    with _open(home) as kb:
        count = kb.remove(*document_ids)
    _echo_json({"removed": count}) if as_json else click.echo(f"removed {count} documents")


@click.command()
@options("home", "json")
def status(home: Path | None, as_json: bool) -> None:
    """Show counts, sizes and what waits to be indexed.

    \b
    Example:
      headwater status
    """
    with _open(home) as kb:
        found = kb.status()
    if as_json:
        _echo_json(found)
        return
    place = found["catalog"]
    found["catalog"] = ", ".join([place.pop("use"), *(f"{what} {where}" for what, where in place.items())])
    jobs = found.pop("jobs")
    found["jobs"] = ", ".join(f"{state} {number}" for state, number in jobs.items() if number) or "none"
    for space in found.pop("spaces"):
        if space["state"] != "active":
            found[space["state"]] = f"{space['embedder']}, {space['chunker']}, {space['documents']} documents"
    for name, value in found.items():
        click.echo(f"{name:14} {value}")
    if any(found[name] for name in ("failed", "empty", "with_problems")):
        click.echo("`headwater list --problems` says what is wrong and what would help")


@click.command()
@click.option("--repair", is_flag=True, help="Mend what is wrong from the catalog.")
@options("home", "json")
def check(repair: bool, home: Path | None, as_json: bool) -> None:
    """Compare the catalog with the indexes.

    \b
    Example:
      headwater check --repair
    """
    with _open(home) as kb:
        mended = kb.check(mend=True) if repair else []
        found = kb.check()
    if as_json:
        _echo_json({"problems": found, "repaired": mended})
    else:
        for problem in mended:
            click.echo(f"repaired: {problem}")
        for problem in found:
            click.echo(f"problem: {problem}")
        if not found:
            click.echo("all is well")
        elif not repair:
            click.echo("`headwater check --repair` mends what can be mended from the catalog")
    if found:
        sys.exit(1)


@click.command()
@options("home", "json")
def plugins(home: Path | None, as_json: bool) -> None:
    """List every installed component by kind.

    \b
    Example:
      headwater plugins
    """
    from headwater.registry import GROUPS, installed

    found = {group: {name: point.value for name, point in installed(group).items()} for group in GROUPS}
    if as_json:
        _echo_json(found)
        return
    for group, names in found.items():
        click.echo(f"{group}: {', '.join(names) or 'none'}")


class ProgressLines:
    """A bar on a terminal, a line now and then elsewhere."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled, self.last, self.on_terminal = enabled, time.monotonic(), sys.stderr.isatty()
        self.pause = FIRST_LINE_SECONDS
        self.seen: Progress | None = None

    def __enter__(self) -> "ProgressLines":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the bar away, for what is said next stands in its place."""
        if self.enabled and self.on_terminal:
            click.echo("\r\033[K", err=True, nl=False)

    def show(self, progress: "Progress") -> None:
        """Show how far the work has come."""
        self.seen = progress
        now = time.monotonic()
        if not self.enabled or (not self.on_terminal and now - self.last < self.pause):
            return
        self.last, self.pause = now, min(2 * self.pause, PROGRESS_LINE_SECONDS)
        line = progress_line(progress)
        if self.on_terminal:
            line = f"\r\033[K{_fitted(line, shutil.get_terminal_size().columns - 1)}"
        click.echo(line, err=True, nl=not self.on_terminal)


def _fitted(line: str, columns: int) -> str:
    """As much of a line as stands in so many columns: a bar that wraps leaves its first half behind."""
    room = columns
    for place, character in enumerate(line):
        room -= 2 if east_asian_width(character) in "WF" else 1
        if room < 0:
            return line[:place]
    return line


def progress_line(progress: "Progress") -> str:
    """How far the work has come, what is done now, and what each part of it took so far."""
    counts = f"{progress.done}/{progress.total} documents, {progress.chunks} chunks"
    parsed = f", {progress.prepared} parsed" if progress.prepared else ""
    taken = {part: sum(progress.stage_seconds.get(one, 0.0) for one in of) for part, of in PARTS_OF_WORK.items()}
    times = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in taken.items())
    name = "".join(character if character.isprintable() else "?" for character in Path(progress.uri).name)
    now = " ".join(filter(None, (progress.stage, name)))
    return f"{counts}{parsed}  {now}  ({times})"


def stopped_line(seen: "Progress | None", *, left: int) -> str:
    """What an add did that was stopped in the middle, in a line."""
    total = max(left, seen.total if seen is not None else 0)
    if not total:
        return "stopped before anything was queued"
    queued = f", {left:,} are queued and come first with the next `headwater add`" if left else ""
    return f"stopped: {total - left:,} of {total:,} documents are done and stay{queued}"


def cost_line(cost: "Cost") -> str:
    """What a language model is about to be asked, in a line."""
    if not cost.calls:
        return f"the language model need not be asked about {cost.documents} documents"
    tokens = f"about {cost.input_tokens:,} tokens in and at most {cost.output_tokens:,} out"
    return f"the language model is asked {cost.calls:,} times about {cost.documents:,} documents: {tokens}"


def _joined(first: "Report", second: "Report") -> "Report":
    return replace(first, **{one.name: getattr(first, one.name) + getattr(second, one.name) for one in fields(first)})


def print_report(report: "Report", *, dry_run: bool = False) -> None:
    """What an add did, in a line, and what failed."""
    would = "would be: " if dry_run else ""
    counts = f"added {report.added}, updated {report.updated}, unchanged {report.unchanged}, removed {report.removed}"
    click.echo(
        f"{would}{counts}, failed {len(report.failed)}: {report.chunks:,} chunks in {report.took_ms / 1000:.1f} s"
    )
    for failure in report.failed:
        click.echo(f"  failed: {failure.uri}: {failure.reason}", err=True)
    if report.missing:
        click.echo(
            f"  {len(report.missing)} documents are gone from where they came from; --prune removes them", err=True
        )
