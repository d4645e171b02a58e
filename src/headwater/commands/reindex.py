"""The command that moves a home to another embedder or chunker."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.commands.flags import options
from headwater.commands.manage import ProgressLines, cost_line

if TYPE_CHECKING:
    from headwater.build import KnowledgeBase
    from headwater.spaces import Reindexed
    from headwater.types import Space


@click.command()
@click.option("--back", is_flag=True, help="Return to what the home was made with before.")
@click.option("--confirm", is_flag=True, help="Drop what --back would return to.")
@click.option(
    "--compare",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="SET",
    help="Score both on a test set, a folder as `eval` takes it.",
)
@options("preset", "home", "json")
def reindex(
    *, back: bool, confirm: bool, compare: Path | None, preset: str | None, home: Path | None, as_json: bool
) -> None:
    """Move to the embedder and chunker of the settings: build beside, compare, switch.

    Searching and adding go on meanwhile. Stopped half-way, the next run goes on from there.

    \b
    Example:
      headwater reindex
      headwater reindex --back
    """
    from headwater.build import open_home
    from headwater.shapes import to_json

    if back and confirm:
        raise click.UsageError("--back returns to what --confirm drops; give one of them")
    with open_home(home, preset=preset, create=False) as kb:
        if confirm:
            dropped = kb.confirm()
            click.echo(to_json({"dropped": dropped}) if as_json else f"dropped {dropped} earlier space(s)")
            return
        both = [kb.space, kb.spaces.target(back=back)]
        scores = _scores(kb, both, compare) if compare is not None else {}
        if not back and (cost := kb.cost()) is not None and cost.calls:
            click.echo(cost_line(cost), err=True)
        with ProgressLines(enabled=not as_json) as progress:
            done = kb.reindex(back=back, on_progress=progress.show)
    if as_json:
        click.echo(to_json({**_shape(done), **({"ndcg_at_10": scores} if compare is not None else {})}))
        return
    _print(done)
    for side, score in scores.items():
        click.echo(f"nDCG@10 {score:.4f} {side}")


def _scores(kb: "KnowledgeBase", spaces: "list[Space]", folder: Path) -> dict[str, float]:
    """What the settings of both reach on a test set, each in an index of its own."""
    from headwater.evaluate.dataset import read_set
    from headwater.evaluate.run import indexed, make_embedder, measure
    from headwater.places import cache_folder
    from headwater.side import made_with

    judged_set, scores = read_set(folder), {}
    for name, space in zip(("before", "after"), spaces, strict=True):
        config = made_with(space, kb.config)
        embedder = make_embedder(config, home=kb.home)
        with indexed(judged_set, config, work=cache_folder() / "eval", embedder=embedder, cut=True) as measured:
            scores[name] = round(float(measure(measured, judged_set, "hybrid").summary["ndcg@10"]), 4)
    return scores


def _shape(done: "Reindexed") -> dict[str, Any]:
    def told(side: str, chunks: int) -> dict[str, Any]:
        space = getattr(done, side)
        return {"space": space.id, "embedder": space.embedder, "chunker": space.chunker, "chunks": chunks}

    return {
        "before": told("before", done.chunks_before),
        "after": told("after", done.chunks_after),
        "documents": done.documents,
        "filled": done.filled,
        "queries": done.comparison.queries,
        "overlap_at_10": done.comparison.overlap,
        "changed": list(done.comparison.changed),
        "degraded": list(done.comparison.degraded),
        "took_ms": done.took_ms,
    }


def _print(done: "Reindexed") -> None:
    for side, chunks in (("before", done.chunks_before), ("after", done.chunks_after)):
        space = getattr(done, side)
        click.echo(f"{side:7}{chunks:,} chunks, {space.embedder}, {space.chunker}")
    compared = done.comparison
    click.echo(f"overlap@10 {compared.overlap:.2f} over {compared.queries} queries made from the documents' headings")
    if compared.changed:
        click.echo("differ most: " + "; ".join(compared.changed))
    for note in compared.degraded:
        click.echo(f"  note: {note}", err=True)
    click.echo(f"switched: {done.documents:,} documents, {done.filled:,} done now, in {done.took_ms / 1000:.1f} s")
    click.echo("`headwater reindex --back` returns; `headwater reindex --confirm` drops what it would return to")
