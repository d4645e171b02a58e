"""The command that lets a program on this machine use a home as tools: MCP over standard input and output."""

from pathlib import Path

import click

from headwater.commands.flags import options
from headwater.errors import UsageError
from headwater.places import default_home


@click.command()
@click.option("--key", envvar="HEADWATER_KEY", default="", metavar="KEY", help="See and do only what this key may.")
@options("preset", "home")
def mcp(*, key: str, preset: str | None, home: Path | None) -> None:
    """Offer search, fetch, ask, list_collections and add to a program over standard input and output (MCP).

    \b
    Example:
      headwater mcp --home ~/notes
    """
    from importlib.util import find_spec

    from headwater.server.mcp import MISSING

    if find_spec("mcp") is None:
        raise UsageError(MISSING)

    import anyio

    from headwater import config as settings
    from headwater.server.app import closed, opened
    from headwater.server.auth import Caller, authenticate
    from headwater.server.tools import server_of
    from headwater.types import LOCAL_OWNER

    path = home or default_home()
    path.mkdir(parents=True, exist_ok=True)
    state = opened(path, settings.load(path, preset=preset), open_access=True)
    try:
        # Who can start this can read the home's files: without a key it is the home's own owner.
        caller = authenticate(state, key) if key else Caller(owner=LOCAL_OWNER, rights="admin")
        state.worker.start()
        anyio.run(server_of(lambda: state, lambda _: caller).run_stdio_async)
    finally:
        closed(state)
