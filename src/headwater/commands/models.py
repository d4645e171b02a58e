"""The commands about models that embed and rerank: which are known, which are here, and how to fetch one."""

import sys
import time
from pathlib import Path
from typing import Any

import click

from headwater.commands.flags import options

# A line of progress this often where there is no terminal.
PROGRESS_LINE_SECONDS = 5.0
MEGABYTE = 1_000_000


@click.group()
def models() -> None:
    """Embedding models: what is known, what is on disk, and fetching one.

    \b
    Example:
      headwater models list
    """


@models.command(name="list")
@options("home", "json")
def list_models(*, home: Path | None, as_json: bool) -> None:
    """List the models on disk, and those whose name alone is enough in the settings.

    \b
    Example:
      headwater models list
    """
    from headwater.models.fetch import pulled
    from headwater.models.known import MODELS, RERANKERS

    here = [{"name": name, "path": str(path), "bytes": size} for name, path, size in pulled(_folder(home))]
    known = [
        {
            "name": model.name,
            "dim": model.dim,
            "max_tokens": model.max_tokens,
            "from": model.provider or model.hub_id,
            "use": "openai" if model.provider else "onnx" if model.hub_id else "sentence-transformers",
            "query_prefix": model.query_prefix,
            "passage_prefix": model.passage_prefix,
        }
        for model in MODELS
    ]
    rerankers = [{"name": model.name, "from": model.hub_id or model.model, "use": model.use} for model in RERANKERS]
    if as_json:
        from headwater.shapes import to_json

        click.echo(to_json({"pulled": here, "known": known, "rerankers": rerankers}))
        return
    click.echo("on disk:" + ("" if here else " none but the one that comes with headwater"))
    for model in here:
        click.echo(f"  {model['name']}  {int(str(model['bytes'])) / MEGABYTE:.0f} MB  {model['path']}")
    click.echo("known by name (numbers in a vector, where from, embed.use):")
    for row in known:
        click.echo(f"  {row['name']:<38} {row['dim']:>4}  {row['from'] or '-':<56} {row['use']}")
    click.echo("rerankers known by name (where from, rerank.use):")
    for one in rerankers:
        click.echo(f"  {one['name']:<38}       {one['from']:<56} {one['use']}")


@models.command()
@click.argument("name")
@click.option(
    "--precision", type=click.Choice(["fp32", "int8"]), default="fp32", show_default=True, help="Which weights."
)
@click.option(
    "--revision", default="main", show_default=True, metavar="R", help="A branch, tag or commit of the model."
)
@click.option("--from", "base_url", default="", metavar="URL", help="A mirror of the hub, e.g. https://hf-mirror.com.")
@options("home", "json")
def pull(*, name: str, precision: Any, revision: str, base_url: str, home: Path | None, as_json: bool) -> None:
    """Fetch a model's ONNX files into the home, checked; a pull that broke off goes on where it stopped.

    \b
    Example:
      headwater models pull bge-small-zh-v1.5
    """
    from headwater.models.fetch import pull as fetch
    from headwater.models.known import known_reranker

    progress = _Lines(enabled=not as_json)
    folder = _folder(home)
    place = fetch(name, folder, precision=precision, revision=revision, base_url=base_url, on_progress=progress.show)
    known_as = place.relative_to(folder).as_posix()
    if as_json:
        from headwater.shapes import to_json

        click.echo(to_json({"name": known_as, "path": str(place), "precision": precision}))
        return
    click.echo(f"{known_as} is in {place}; to use it, put this into headwater.toml:\n")
    reranks = known_reranker(name) is not None
    section = '[retrieve]\nrerank = "onnx"\n\n[rerank]' if reranks else "[embed]"
    click.echo(f'{section}\nuse = "onnx"\nmodel = "{known_as}"\nprecision = "{precision}"')


def _folder(home: Path | None) -> Path:
    from headwater.config import MODELS_FOLDER
    from headwater.places import default_home

    return (home or default_home()) / MODELS_FOLDER


class _Lines:
    """One line that is drawn over on a terminal, a line now and then elsewhere."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled, self.last, self.on_terminal = enabled, 0.0, sys.stderr.isatty()

    def show(self, file: str, done: int, total: int) -> None:
        """Show how much of a file is here."""
        now = time.monotonic()
        if not self.enabled or (
            done < total and now - self.last < (0.1 if self.on_terminal else PROGRESS_LINE_SECONDS)
        ):
            return
        self.last = now
        line = f"{file}  {done / MEGABYTE:,.1f} of {total / MEGABYTE:,.1f} MB"
        start = "\r\033[K" if self.on_terminal else ""
        click.echo(f"{start}{line}", err=True, nl=done >= total or not self.on_terminal)
