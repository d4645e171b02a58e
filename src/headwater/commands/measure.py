"""The command that measures how good retrieval is."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.commands.flags import options
from headwater.places import cache_folder, default_home

if TYPE_CHECKING:
    from headwater.config import Config
    from headwater.evaluate.dataset import JudgedSet
    from headwater.evaluate.report import Gate
    from headwater.evaluate.run import Measurement
    from headwater.indexer import Progress

# A line of progress this often.
PROGRESS_LINE_SECONDS = 5.0

Measured = dict[str, dict[str, "Measurement"]]


@click.command(name="eval")
@click.argument("sets", nargs=-1, required=True, metavar="SET…", type=click.Path(path_type=Path))
@click.option(
    "--mode", "modes", multiple=True, type=click.Choice(["hybrid", "keyword", "semantic"]), help="Only this mode."
)
@click.option(
    "--compare", "other", metavar="PRESET", help="Measure this preset too, and show what it has over the first."
)
@click.option("--gate", "gates", multiple=True, metavar="GATE", help="Fail unless e.g. 'ndcg@10>=0.7' on every set.")
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write a report, .html or .md.")
@click.option(
    "--rows", type=click.Path(path_type=Path, dir_okay=False), help="Write every query's figures as JSON lines."
)
@click.option(
    "--cut", is_flag=True, help="Cut documents with the chunker of the settings; a document is one chunk else."
)
@click.option(
    "--work", type=click.Path(path_type=Path, file_okay=False), help="Where indexes are kept for the next time."
)
@options("preset", "home", "json")
def evaluate(
    *,
    sets: tuple[Path, ...],
    modes: tuple[str, ...],
    other: str | None,
    gates: tuple[str, ...],
    report: Path | None,
    rows: Path | None,
    cut: bool,
    work: Path | None,
    preset: str | None,
    home: Path | None,
    as_json: bool,
) -> None:
    """Measure retrieval on test sets: folders with corpus.jsonl, queries.jsonl and qrels/test.tsv.

    A SET may also be a folder of such folders. The settings of the home are measured, on indexes of the sets' own.

    \b
    Example:
      headwater eval sets/scifact --mode hybrid --gate 'ndcg@10>=0.7'
    """
    from headwater import config as settings
    from headwater.evaluate import report as reports
    from headwater.evaluate.dataset import find_sets, read_set

    wanted = [reports.parse_gate(text) for text in gates]
    for file in filter(None, (report, rows)):
        _refuse_unwritable(file)
    where = home or default_home()
    config = settings.load(where, preset=preset)
    compared = settings.load(where, preset=other) if other else None
    found = _named(read_set(folder) for given in sets for folder in find_sets(given))
    kept_in = work or cache_folder() / "eval"

    def measured(config: "Config") -> Measured:
        return _measured(found, config, home=where, modes=modes, work=kept_in, cut=cut)

    first = measured(config)
    second = measured(compared) if compared else None
    changes = reports.differences(first, second) if second else []
    shown = second or first
    lines = _gates(wanted, shown, [*modes] or [(compared or config).options().mode])
    comparison = reports.markdown_differences(changes, before=_preset(config), after=str(other)) if second else ""
    if report is not None:
        facts = {**facts_of(shown), "chunks": "cut by the chunker of the settings" if cut else "one to a document"}
        told = [text for _, text in lines]
        page = reports.html(shown, facts=facts, comparison=comparison, gates=told)
        table = f"{reports.markdown(shown)}\n\n{comparison}".rstrip() + "\n"
        report.write_text(page if report.suffix.lower() in (".html", ".htm") else table, encoding="utf-8")
    if rows is not None:
        rows.write_text("".join(_rows(shown)), encoding="utf-8")
    if as_json:
        from headwater.shapes import to_json

        click.echo(to_json(reports.shape(shown, changes)))
    else:
        click.echo(_table(shown))
        click.echo(f"\n{comparison}" if comparison else "", nl=bool(comparison))
    for kept, text in lines:
        click.echo(f"{'kept' if kept else 'missed'}: {text}", err=True)
    if not all(kept for kept, _ in lines):
        sys.exit(1)


def _refuse_unwritable(file: Path) -> None:
    """Before anything is measured: that may take an hour, and what was measured would be lost."""
    from headwater.errors import UsageError

    if not os.access(file if file.exists() else file.absolute().parent, os.W_OK):
        raise UsageError(
            f"{str(file)!r} cannot be written; name a file in a folder that is there and may be written to"
        )


def facts_of(measured: Measured) -> dict[str, str]:
    """What the figures were measured with."""
    from importlib.metadata import version

    one = next(iter(next(iter(measured.values())).values()))
    return {"headwater": version("headwater"), "embedder": one.embedder, "preset": one.preset, **one.settings}


def _measured(
    sets: Sequence["JudgedSet"], config: "Config", *, home: Path, modes: Sequence[str], work: Path, cut: bool
) -> Measured:
    from headwater.evaluate.run import MODES, indexed, make_embedder, measure

    embedder = make_embedder(config, home=home)
    found: Measured = {}
    for one in sets:
        if one.unknown_documents:
            click.echo(f"note: {one.name}: {one.unknown_documents} relevant documents are not in the corpus", err=True)
        progress = _Lines(one.name)
        indexing = indexed(one, config, work=work, embedder=embedder, cut=cut, on_progress=progress.indexed)
        with indexing as kb:
            for mode in (mode for mode in MODES if not modes or mode in modes):
                measurement = measure(kb, one, mode, on_progress=progress.searched(mode))
                found.setdefault(one.name, {})[mode] = measurement
                for note in measurement.degraded:
                    click.echo(f"note: {one.name} {mode}: {note}", err=True)
    return found


def _named(sets: Iterator["JudgedSet"]) -> list["JudgedSet"]:
    """The sets, of which no two may have the same name: the figures are listed by it."""
    from headwater.errors import UsageError

    found: dict[str, JudgedSet] = {}
    for one in sets:
        if one.name in found:
            raise UsageError(f"two sets are named {one.name!r}: {found[one.name].folder}, {one.folder}; rename one")
        found[one.name] = one
    return list(found.values())


def _gates(gates: Sequence["Gate"], measured: Measured, modes: Sequence[str]) -> list[tuple[bool, str]]:
    """Every gate on every set, in the modes asked for; in the one that people search with when none was."""
    return [
        (gate.kept(one), f"{gate} on {name}, {mode}: {one.summary[gate.figure]:.4f}")
        for gate in gates
        for name, found in measured.items()
        for mode, one in found.items()
        if mode in modes
    ]


def _preset(config: "Config") -> str:
    return str(config.settings["preset"].value)


def _table(measured: Measured) -> str:
    from headwater.evaluate.metrics import METRICS

    widest = max(len(name) for name in measured)
    lines = [f"{'set':{widest}}  {'mode':8}  {'  '.join(METRICS)}  queries  p50 ms  p95 ms"]
    for name, modes in measured.items():
        for mode, one in modes.items():
            cells = "  ".join(f"{one.summary[metric]:{len(metric)}.3f}" for metric in METRICS)
            took = f"{one.summary['queries']:7d}  {one.summary['p50_ms']:6.1f}  {one.summary['p95_ms']:6.1f}"
            lines.append(f"{name:{widest}}  {mode:8}  {cells}  {took}")
    return "\n".join(lines)


def _rows(measured: Measured) -> Iterator[str]:
    for name, modes in measured.items():
        for mode, one in modes.items():
            for row in one.rows:
                told: dict[str, Any] = {"set": name, "mode": mode, "query": row.query_id, **row.metrics}
                told |= {"took_ms": row.milliseconds, "ranking": list(row.ranking)}
                yield json.dumps(told, ensure_ascii=False) + "\n"


class _Lines:
    """A line on standard error now and then: a set may take long."""

    def __init__(self, name: str) -> None:
        self.name, self.last = name, time.monotonic()

    def indexed(self, progress: "Progress") -> None:
        """So many documents are in."""
        self._say(f"{progress.done:,} documents indexed")

    def searched(self, mode: str) -> Callable[[int, int], None]:
        """So many queries are done."""
        return lambda done, total: self._say(f"{mode}, {done:,} of {total:,} queries")

    def _say(self, text: str) -> None:
        if time.monotonic() - self.last >= PROGRESS_LINE_SECONDS:
            self.last = time.monotonic()
            click.echo(f"{self.name}: {text}", err=True)
