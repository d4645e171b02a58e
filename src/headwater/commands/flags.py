"""Options that several commands share."""

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

Command = Callable[..., None]

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
# Item 79 of the designs' list: what `--mmr` means without a number.
MMR_LAMBDA = 0.7


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A time such as 200ms, 1.5s or 2 (seconds), in seconds; `such_as` is what an error proposes."""

    name = "time"

    def __init__(self, such_as: str = "200ms, 1.5s or 2") -> None:
        self.such_as = such_as

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        """Refuse what is no time, and no time at all."""
        if isinstance(value, float):
            return value
        found = _DURATION.fullmatch(str(value).lower())
        seconds = float(found[1]) * _SECONDS[found[2] or "s"] if found else 0.0
        if seconds <= 0:
            self.fail(f"{value!r} is no time above 0; write {self.such_as}", param, context)
        return seconds


class Folder(click.Path):
    """A folder by its path. An empty text is none: a variable of a shell was not set."""

    def __init__(self, *, file_okay: bool = False) -> None:
        super().__init__(path_type=Path, file_okay=file_okay)

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        """Refuse nothing at all, which paths take for the current folder."""
        if value == "":
            self.fail("'' is no folder; the current one is '.'", param, context)
        return super().convert(value, param, context)


_KNOWN = {
    "home": click.option("--home", type=Folder(), help="Folder of the knowledge base."),
    "json": click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    "collection": click.option("--collection", metavar="NAME", help="Only this collection."),
    "folder": click.option("--folder", metavar="F", help="Only this folder and those in it."),
    "preset": click.option("--preset", metavar="NAME", help="balanced, fast, recall, precision (docs/presets.md)."),
    "where": click.option("--where", default="", metavar="FILTER", help="Only what matches, e.g. 'tag = \"hr\"'."),
    "mode": click.option(
        "--mode", type=click.Choice(["hybrid", "keyword", "semantic", "substring"]), help="How to search."
    ),
    "top_n": click.option("--top-n", type=click.IntRange(1, 1000), metavar="N", help="How many passages."),
}


def options(*names: str) -> Callable[[Command], Command]:
    """Give a command these options, in this order."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = _KNOWN[name](command)
        return command

    return decorate


# Each by the name of its option in the settings' section `retrieve`.
_STAGES: dict[str, Callable[[Command], Command]] = {
    "rerank": click.option("--rerank", metavar="NAME", help="Look at the first hits again: builtin, or none."),
    "mmr_lambda": click.option(
        "--mmr",
        "mmr_lambda",
        type=click.FloatRange(0, 1),
        is_flag=False,
        flag_value=MMR_LAMBDA,
        metavar="[LAMBDA]",
        help="Hits that differ: 1 relevance only, 0 difference only; 0.7 without a number.",
    ),
    "collapse": click.option("--collapse/--no-collapse", default=None, help="Near-duplicates behind the best of them."),
    "parent": click.option("--parent/--no-parent", default=None, help="The larger passages that hits were cut from."),
    "window": click.option("--window", type=click.IntRange(0, 20), metavar="K", help="K neighbours on either side."),
    "rewrite": click.option("--rewrite/--no-rewrite", default=None, help="Ask in several ways; needs a model."),
    "hyde": click.option("--hyde/--no-hyde", default=None, help="Search with an imagined answer; needs a model."),
    "synonyms": click.option("--synonyms/--no-synonyms", default=None, help="Ask with words that mean the same too."),
    "feedback": click.option("--feedback/--no-feedback", default=None, help="Ask again with words of the first hits."),
    "typos": click.option("--typos/--no-typos", default=None, help="Read a word that nothing has as the likeliest."),
    "related": click.option("--related/--no-related", default=None, help="What strong hits link to may come in."),
    "enumerate": click.option(
        "--enumerate",
        type=click.Choice(["auto", "always", "never"]),
        help="Go through everything: for questions that ask for all, always, or never.",
    ),
    "deadline_seconds": click.option(
        "--budget", "deadline_seconds", type=Duration(), metavar="TIME", help="Be done by then, e.g. 200ms."
    ),
}


def stages(command: Command) -> Command:
    """Give a command the options of the stages of a search; it gets what was said as `stages`, by setting."""

    @wraps(command)
    def collected(**given: Any) -> None:
        said = {name: given.pop(name) for name in _STAGES}
        if said["rerank"] == "none":
            said["rerank"] = ""
        command(**given, stages={name: value for name, value in said.items() if value is not None})

    decorated: Command = collected
    for option in reversed(_STAGES.values()):
        decorated = option(decorated)
    return decorated
