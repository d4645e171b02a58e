"""The commands that manage documents and the home they live in."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.flags import options

if TYPE_CHECKING:
    from headwater.build import KnowledgeBase
    from headwater.indexer import Progress
    from headwater.types import Report

# A line of progress this often where there is no terminal to draw a bar on.
PROGRESS_LINE_SECONDS = 2.0


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
@click.option("--prune", is_flag=True, help="Remove documents whose files are gone from the named folders.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")
@options("preset", "home", "json")
def add(
    *,
    sources: tuple[str, ...],
    collection: str,
    tags: tuple[str, ...],
    folder: str,
    prune: bool,
    dry_run: bool,
    preset: str | None,
    home: Path | None,
    as_json: bool,
) -> None:
    """Add files and folders, or standard input (`-`). Only what changed is worked on.

    \b
    Example:
      headwater add ./handbook --tag hr
    """
    with _open(home, create=True, preset=preset) as kb, ProgressLines(enabled=not as_json) as progress:
        if sources == ("-",):
            report = kb.add_bytes(sys.stdin.buffer.read(), collection=collection, tags=tags, folder=folder)
        else:
            report = kb.add(
                *sources,
                collection=collection,
                tags=tags,
                folder=folder,
                prune=prune,
                dry_run=dry_run,
                on_progress=progress.show,
            )
    if as_json:
        from headwater.shapes import report_shape

        _echo_json(report_shape(report))
    else:
        print_report(report, dry_run=dry_run)
    if report.failed:
        sys.exit(1)


@click.command(name="list")
@options("where", "collection", "home", "json")
def list_documents(where: str, collection: str | None, home: Path | None, as_json: bool) -> None:
    """List the documents.

    \b
    Example:
      headwater list --where 'tag = "hr"'
    """
    with _open(home) as kb:
        records = kb.documents(where, collection=collection)
    if as_json:
        from headwater.shapes import record_shape

        _echo_json([record_shape(record) for record in records])
        return
    for record in records:
        state = record.state if not record.error else f"{record.state}: {record.error}"
        click.echo(f"{record.id}  {record.chunks:5d} chunks  {state}  {record.title}  ({record.uri})")
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
    if as_json:
        from headwater.shapes import record_shape

        passages = [
            {"chunk_id": c.name, "span": list(c.span), "section": c.section, "pages": list(c.pages), "text": c.text}
            for c in chunks
        ]
        labels = {"tags": list(record.tags), "folder": record.folder, "content_type": record.content_type}
        _echo_json({**record_shape(record), **labels, "meta": dict(record.meta), "passages": passages})
        return
    click.echo(f"{record.title}\n  id {record.id}\n  uri {record.uri}\n  state {record.state} {record.error}".rstrip())
    for label in ("collection", "folder", "content_type", "created", "updated"):
        if value := getattr(record, label):
            click.echo(f"  {label} {value}")
    for problem in record.problems:
        click.echo(f"  problem: {problem}")
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
    for space in found.pop("spaces"):
        if space["state"] != "active":
            found[space["state"]] = f"{space['embedder']}, {space['chunker']}, {space['documents']} documents"
    for name, value in found.items():
        click.echo(f"{name:14} {value}")


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
            click.echo("`headwater check --repair` mends this")
    if found:
        sys.exit(1)


@click.group()
def config() -> None:
    """Settings, and where they come from."""


@config.command(name="show")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@options("preset", "home", "json")
def config_show(origin: bool, preset: str | None, home: Path | None, as_json: bool) -> None:
    """Show every setting in force.

    \b
    Example:
      headwater config show --origin
    """
    from headwater.home import effective_settings

    found = effective_settings(home, preset=preset)
    if as_json:
        plain = {name: s.value for name, s in found.items()}
        with_origin = {name: {"value": s.value, "origin": s.origin} for name, s in found.items()}
        _echo_json(with_origin if origin else plain)
        return
    for name, setting in found.items():
        value = json.dumps(setting.value, ensure_ascii=False)
        click.echo(f"{name} = {value}" + (f"    # {setting.origin}" if origin else ""))


@click.command()
@options("json")
def plugins(as_json: bool) -> None:
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

    def __enter__(self) -> "ProgressLines":
        return self

    def __exit__(self, *_: object) -> None:
        if self.enabled and self.on_terminal:
            click.echo("\r\033[K", err=True, nl=False)

    def show(self, progress: "Progress") -> None:
        """Show how far the work has come."""
        now = time.monotonic()
        if not self.enabled or (not self.on_terminal and now - self.last < PROGRESS_LINE_SECONDS):
            return
        self.last = now
        line = f"{progress.done}/{progress.total} documents, {progress.chunks} chunks  {Path(progress.uri).name}"
        click.echo(f"\r\033[K{line[:100]}" if self.on_terminal else line, err=True, nl=not self.on_terminal)


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
        click.echo(f"  {len(report.missing)} documents have no file any more; --prune removes them", err=True)
