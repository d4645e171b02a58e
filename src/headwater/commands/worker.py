"""The command that indexes what servers of the same home were sent."""

import signal
from pathlib import Path

import click

from headwater.commands.flags import options


@click.command()
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@options("home")
def worker(*, once: bool, home: Path | None) -> None:
    """Work on the jobs of a home, look again at what it is subscribed to, tell webhooks: beside a server or without.

    \b
    Example:
      headwater worker
    """
    from headwater.build import open_home
    from headwater.server import logs
    from headwater.server.announcer import Announcer
    from headwater.server.worker import Worker
    from headwater.storage.ledger import Ledger

    logs.set_up()
    with open_home(home) as kb:
        ledger = Ledger(kb.home)
        settings = kb.config.server()
        announcer = Announcer(ledger, web=lambda: kb.web)
        working = Worker(kb, ledger, attempts=settings.job_attempts, on_done=lambda _: announcer.wake())
        if once:
            working.refresher.step()
            while working.step():
                pass
            while announcer.step():
                pass
        else:
            announcer.start()
            signal.signal(signal.SIGTERM, lambda *_: working.stop(timeout_seconds=0))
            click.echo(f"working on {kb.home}; stop it with Ctrl-C", err=True)
            try:
                working.run()
            except KeyboardInterrupt:
                working.stop(timeout_seconds=0)
            announcer.close()
        ledger.close()
