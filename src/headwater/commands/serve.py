"""The command that serves a home over HTTP."""

import ipaddress
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import click

from headwater.commands.flags import options
from headwater.errors import UsageError
from headwater.places import default_home, make_home

GRACE_SECONDS = 30  # for streams under way when the server is told to stop
# How long one thread of Python may go on before another has its turn; 5 ms are usual. A search gives its turn away at
# every look into a store and has to get it back each time, from the indexer too.
TURN_SECONDS = 0.0005
# Requests run beside each other, so a product of matrices that takes every core for itself only makes the others wait,
# and its threads turn in circles meanwhile: 50 ms of processor time a search became 33. Read when numpy is imported.
ONE_THREAD_EACH = {"OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
# glibc gives threads up to eight heaps a core, and what one frees the others do not get: under mixed load a server of
# 420 MB grew to 560 in five minutes, and stays with two. malloc.h's number of that setting.
HEAPS, _ARENA_MAX = 2, -8


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen; this machine only by default.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    envvar="PORT",  # as whoever runs containers for others hands it out
    help="On which port, also as PORT; 0 for any that is free.",
)
@click.option("--insecure", is_flag=True, help="Listen elsewhere without a key: everybody is the local owner.")
@click.option("--no-worker", is_flag=True, help="Only answer; `headwater worker` indexes.")
@options("preset", "home")
def serve(
    *, host: str | None, port: int | None, insecure: bool, no_worker: bool, preset: str | None, home: Path | None
) -> None:
    """Serve the knowledge base over HTTP, with a page. No key is needed on this machine while there is none.

    \b
    Example:
      headwater serve --port 8571
    """
    from headwater import config as settings

    for name, value in ONE_THREAD_EACH.items():
        os.environ.setdefault(name, value)
    sys.setswitchinterval(TURN_SECONDS)
    _keep_few_heaps()
    path = home or default_home()
    make_home(path)
    if not os.access(path, os.W_OK):
        raise UsageError(
            f"{str(path)!r} cannot be written to, and a server keeps its jobs, keys and history there; "
            "name another home with --home, or search this one with `headwater search`"
        )
    config = settings.load(path, preset=preset)
    server_settings = config.server()
    address = host or server_settings.host
    _refuse_open(path, address, insecure=insecure)

    from headwater.build import open_home
    from headwater.storage.ledger import Ledger

    # What cannot be opened is refused with a sentence, before anything listens.
    open_home(path, config=config).close()
    Ledger(path).close()

    import uvicorn

    from headwater.server import logs
    from headwater.server.app import create_app
    from headwater.server.gate import LOOPBACK_HOSTS

    logs.set_up()
    local = is_loopback(address)
    app = create_app(
        path,
        config=config,
        open_access=local or insecure,
        allowed_hosts=(*LOOPBACK_HOSTS, address.lower()) if local else ("*",),
        work=not no_worker,
    )
    listening = _listen(address, server_settings.port if port is None else port)
    shown = f"[{address}]" if ":" in address else address
    click.echo(f"http://{shown}:{listening.getsockname()[1]}/ serves {path}; stop it with Ctrl-C", err=True)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_graceful_shutdown=GRACE_SECONDS,
            limit_concurrency=None,
            proxy_headers=False,
        )
    )
    # The server ends itself in order when it is told to, and then tells again: that must not end it with an error.
    for told_to_stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(told_to_stop, lambda *_: None)
    try:
        server.run(sockets=[listening])
    except SystemExit as error:  # it says so with codes of its own
        sys.exit(1 if error.code else 0)
    state = getattr(app.state, "headwater", None)
    if state is not None and state.worker.is_working:
        os._exit(0)  # a model that does not answer would be waited for; nothing is lost by a kill, so not by this


def _keep_few_heaps() -> None:
    """Where the C library is glibc; others have no such setting, or no need of it."""
    if sys.platform == "linux":
        with suppress(AttributeError, OSError):
            import ctypes

            ctypes.CDLL(None).mallopt(_ARENA_MAX, HEAPS)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server there."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _refuse_open(home: Path, host: str, *, insecure: bool) -> None:
    if is_loopback(host) or insecure:
        return
    from headwater.storage.ledger import Ledger

    ledger = Ledger(home)
    keyed = ledger.keys.any()
    ledger.close()
    if not keyed:
        raise UsageError(
            f"{host!r} can be reached by others and there is no key; make one with `headwater key create`, "
            "or say --insecure to let everybody in"
        )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or the event loop leaves Nagle's algorithm on and every answer waits 40 ms for an acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        raise UsageError(f"cannot listen on {host!r}, port {port}: {error}; name another with --port") from error
    listening.listen(2048)
    return listening
