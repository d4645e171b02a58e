"""Pages, feeds and sitemaps that were subscribed to -> looked at again when their time has come, beside the rest.

A thread of its own: a site that is slow holds up neither what was sent nor what is asked.
"""

import threading

from headwater.build import KnowledgeBase
from headwater.errors import BackendError
from headwater.refresh import Refreshed, refresh
from headwater.server import logs

# How soon after its time something is looked at. No period is shorter than a minute, and looking costs one query.
CHECK_SECONDS = 5.0


class Refresher:
    """Looks again and again until it is told to stop. Safe to have in several processes of one home."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb, self._stop = kb, threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread = threading.Thread(target=self._run, name="headwater-refresher", daemon=True)
        self._thread.start()

    def stop(self, *, timeout_seconds: float) -> None:
        """End after the address in hand; the others are due the next time."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def step(self) -> list[Refreshed]:
        """Look at what is due now. A store or a disk that fails is no reason to end: it is due again."""
        try:
            done = refresh(self._kb, goes_on=lambda: not self._stop.is_set())
        except (BackendError, OSError) as error:
            logs.warn("Subscriptions cannot be looked at", error=error, reason=str(error))
            return []
        for one in done:
            _tell(one)
        return done

    def _run(self) -> None:
        while not self._stop.is_set():
            self.step()
            self._stop.wait(CHECK_SECONDS)


def _tell(one: Refreshed) -> None:
    report = one.report
    counts = {"added": report.added, "updated": report.updated, "failed": len(report.failed)} if report else {}
    logs.tell("Subscription looked at", **counts, well=not one.error)
