"""The commands that keep a home in step: with folders as they change, with pages and feeds on a schedule."""

from __future__ import annotations

import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.commands.flags import Folder, options

if TYPE_CHECKING:
    from headwater.build import KnowledgeBase
    from headwater.sources.watch import Watch
    from headwater.types import Report

# After a store or a model failed: the first pause, which doubles up to the longest.
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR…", type=Folder(file_okay=True))
@click.option("--collection", default="default", show_default=True, metavar="NAME", help="Where the documents go.")
@click.option("--tag", "tags", multiple=True, metavar="T", help="Tag every document; may be repeated.")
@click.option("--folder", default="", metavar="F", help="File every document under this folder.")
@click.option("--prune", is_flag=True, help="Remove at the start what went while nobody watched.")
@click.option("--no-delete", is_flag=True, help="Keep documents whose files are deleted.")
@options("preset", "home", "json")
def watch(
    *,
    folders: tuple[Path, ...],
    collection: str,
    tags: tuple[str, ...],
    folder: str,
    prune: bool,
    no_delete: bool,
    preset: str | None,
    home: Path | None,
    as_json: bool,
) -> None:
    """Keep folders in step with the knowledge base until Ctrl-C: new, changed, renamed and deleted files.

    A folder that goes away as a whole (a disk that is taken out) takes nothing with it.

    \b
    Example:
      headwater watch ./handbook ./notes
    """
    from headwater.build import open_home
    from headwater.sources.watch import Watch
    from headwater.types import Labels

    if prune and no_delete:
        raise click.UsageError("--prune removes what --no-delete keeps; give one of them")
    for one in folders:
        if one.exists() and not one.is_dir():
            raise click.UsageError(f"only folders can be watched, got the file {str(one)!r}; watch its folder")
    with open_home(home, preset=preset) as kb:
        watching = Watch(folders, ignore=[kb.home])
        signal.signal(signal.SIGTERM, lambda *_: watching.stop())
        keeper = _Keeper(kb, watching, collection=collection, labels=Labels(tags=tags, folder=folder), as_json=as_json)
        try:
            for one in watching.folders:
                keeper.sync(one, prune=prune) if one.is_dir() else keeper.tell(one, "is not there; waiting for it")
            click.echo(f"watching {len(folders)} folder(s); stop with Ctrl-C", err=True)
            for event in watching.events():
                if event.kind == "changed":
                    keeper.sync(event.folder, prune=not no_delete)
                elif event.kind == "begun":
                    keeper.sync(event.folder, prune=prune)
                elif event.kind == "back":
                    keeper.tell(event.folder, "is back")
                    keeper.sync(event.folder, prune=prune)
                else:
                    what = "went away" if event.kind == "gone" else "is another folder now, and empty"
                    keeper.tell(event.folder, f"{what}; its documents are kept until it is back")
        except KeyboardInterrupt:
            watching.stop()
    click.echo("stopped; what was acknowledged is kept", err=True)


class _Keeper:
    """Brings the home in step with one folder at a time, and says what it did."""

    def __init__(self, kb: KnowledgeBase, watching: Watch, *, collection: str, labels: Any, as_json: bool) -> None:
        self.kb, self.watching, self.collection = kb, watching, collection
        self.labels, self.as_json = labels, as_json
        self.tried: dict[str, str] = {}

    def sync(self, folder: Path, *, prune: bool) -> None:
        """What is there now is what the home has; tried until it succeeds or the watch ends."""
        from headwater.errors import BackendError, NotFound

        pause = FIRST_PAUSE_SECONDS
        while not self.watching.stopped.is_set():
            try:
                report = self.kb.intake.add(
                    [folder], collection=self.collection, labels=self.labels, prune=prune, tried=self.tried
                )
            except NotFound:
                return  # it went in this moment: the watch says so
            except BackendError as error:
                click.echo(f"error: {error}; trying again in {pause:.0f} s", err=True)
                self.watching.stopped.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                self._show(folder, report)
                return

    def tell(self, folder: Path, words: str) -> None:
        """Something a person should know."""
        click.echo(f"{folder} {words}", err=True)

    def _show(self, folder: Path, report: Report) -> None:
        if self.as_json:
            from headwater.shapes import report_shape

            # A line each, for a program that reads along.
            click.echo(json.dumps({"folder": str(folder), **report_shape(report)}, ensure_ascii=False))
            return
        done = (report.added, report.updated, report.removed, len(report.failed))
        if any(done):
            at = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
            counts = "added {}, updated {}, removed {}, failed {}".format(*done)
            click.echo(f"{at} {folder}: {counts}")
        for failure in report.failed:
            click.echo(f"  failed: {failure.uri}: {failure.reason}", err=True)
        if report.missing:
            click.echo(f"  {len(report.missing)} documents have no file any more; --prune removes them", err=True)


@click.command()
@click.option("--all", "every", is_flag=True, help="Look at all of them, whether it is time or not.")
@click.option("--list", "listed", is_flag=True, help="Say what is looked at and how it went; do nothing.")
@click.option("--stop", metavar="URL", help="Look at this address no more; what it brought stays.")
@options("home", "json")
def refresh(*, every: bool, listed: bool, stop: str | None, home: Path | None, as_json: bool) -> None:
    """Look again at pages, feeds and sitemaps that were added with --every and whose time has come.

    \b
    Example:
      headwater refresh
      headwater refresh --list
    """
    from headwater.build import open_home
    from headwater.refresh import refresh as look_again
    from headwater.refresh import unsubscribe
    from headwater.shapes import report_shape, to_json
    from headwater.storage.subscriptions import Subscriptions

    with open_home(home, create=False) as kb:
        if stop is not None:
            count = unsubscribe(kb, stop)
            click.echo(to_json({"stopped": count}) if as_json else f"stopped {count}")
            return
        if listed:
            _print_list(Subscriptions(kb.home).all(), as_json=as_json)
            return
        done = look_again(kb, every=every)
    if as_json:
        shapes = [
            {"url": one.url, "error": one.error, **(report_shape(one.report) if one.report else {})} for one in done
        ]
        click.echo(to_json(shapes))
    for one in done if not as_json else ():
        report = one.report
        counts = f"added {report.added}, updated {report.updated}, unchanged {report.unchanged}" if report else ""
        click.echo(f"{one.url}: {one.error or counts}")
    if not as_json:
        click.echo(f"looked at {len(done)}")
    if any(one.error for one in done):
        sys.exit(1)


def _print_list(found: Any, *, as_json: bool) -> None:
    from headwater.shapes import to_json

    rows = [
        {
            "url": one.url,
            "collection": one.collection,
            "every_seconds": one.every_seconds,
            "next": _time(one.due),
            "last": _time(one.checked),
            "error": one.error,
        }
        for one in found
    ]
    if as_json:
        click.echo(to_json(rows))
        return
    for row in rows:
        click.echo(f"{row['url']}  every {row['every_seconds']:.0f} s, next {row['next']}  {row['error']}".rstrip())
    click.echo(f"{len(rows)} addresses")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
