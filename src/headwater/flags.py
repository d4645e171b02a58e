"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path

import click

Command = Callable[..., None]

_KNOWN = {
    "home": click.option(
        "--home", type=click.Path(path_type=Path, file_okay=False), help="Folder of the knowledge base."
    ),
    "json": click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    "collection": click.option("--collection", metavar="NAME", help="Only this collection."),
    "preset": click.option("--preset", metavar="NAME", help="balanced, fast, recall or precision."),
    "where": click.option("--where", default="", metavar="FILTER", help="Only what matches, e.g. 'tag = \"hr\"'."),
    "mode": click.option("--mode", type=click.Choice(["hybrid", "keyword", "semantic"]), help="How to search."),
    "top_n": click.option("--top-n", type=click.IntRange(1, 1000), metavar="N", help="How many passages."),
}


def options(*names: str) -> Callable[[Command], Command]:
    """Give a command these options, in this order."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = _KNOWN[name](command)
        return command

    return decorate
