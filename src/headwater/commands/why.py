"""The command that tells why a document is among the hits of a query, or why not."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.commands.flags import options, stages

if TYPE_CHECKING:
    from headwater.causes import Explanation


@click.command()
@click.argument("query")
@click.argument("document")
@stages
@options("mode", "top_n", "where", "folder", "collection", "preset", "home", "json")
def why(
    *,
    query: str,
    document: str,
    stages: dict[str, Any],
    mode: Any,
    top_n: int | None,
    where: str,
    folder: str | None,
    collection: str | None,
    preset: str | None,
    home: Path | None,
    as_json: bool,
) -> None:
    """Tell where a document stands in a search, what kept it out, and what would bring it in.

    DOCUMENT is an id of `list`, a path, or the id of one passage.

    \b
    Example:
      headwater why "parental leave" handbook/leave.md
    """
    from headwater.build import open_home

    said = {"mode": mode, "top_n": top_n}
    chosen = {**stages, **{name: value for name, value in said.items() if value is not None}}
    with open_home(home, preset=preset, create=False) as kb:
        told = kb.why(query, document, where=where, folder=folder, collection=collection, options=chosen)
    if as_json:
        from headwater.shapes import explanation_shape, to_json

        click.echo(to_json(explanation_shape(told)))
    else:
        _print(told)


def _print(told: "Explanation") -> None:
    click.echo(f"{told.title or told.uri or told.document}: {'found' if told.found else 'not found'}")
    click.echo(f"  {told.reason}" + (f" ({told.cause})" if told.cause else ""))
    if told.change:
        click.echo(f"  to bring it in: {told.change}")
    for clause, holds in told.filters.items():
        click.echo(f"  filter {clause}: {'fits' if holds else 'does not fit'}")
    if told.matched or told.missing:
        click.echo(
            f"  words it has: {', '.join(told.matched) or 'none'}; it lacks: {', '.join(told.missing) or 'none'}"
        )
    for lane, terms in told.lanes.items():
        click.echo(f"    {lane}: {' '.join(terms['matched']) or '-'}  |  {' '.join(terms['missing']) or '-'}")
    for one in told.stages:
        place = (
            f"rank {one.rank} of {one.of}, score {one.score:.4f}"
            if one.rank and one.score is not None
            else (f"not among {one.of}")
        )
        click.echo(f"  {one.stage:10} {place}  {one.passage}".rstrip())
    for note in told.notes:
        click.echo(f"  note: {note}")
