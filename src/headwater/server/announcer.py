"""Messages of the outbox -> the addresses that want them, signed, again and again until they arrive or are a day old.

Signed with HMAC-SHA256 over `time.body` in `X-Headwater-Signature: t=TIME,v1=HEX`. What a process could not send before
it ended is in the ledger, and the next one sends it.
"""

import hmac
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headwater.errors import BackendError, SourceError
from headwater.server import logs
from headwater.storage.ledger import Job, Ledger, Message

if TYPE_CHECKING:
    from headwater.sources.web import Web

# Between attempts, in seconds; the last one again and again.
PAUSES = (1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)
# What could not be told for so long is told no more: whoever listens has to look at the jobs anyway.
KEPT_SECONDS = 24 * 3600.0
# A listener that is there and says no has its reasons, and those behind in the line wait: it is asked so often.
REFUSED_ATTEMPTS = 4
# Statuses of a listener that may say yes later.
LATER = frozenset({408, 425, 429})
TIMEOUT_SECONDS = 10.0
LEASE_SECONDS = 3 * TIMEOUT_SECONDS
ADDRESSES_AT_ONCE = 4
# Messages of other processes are noticed this often; those of this one wake the thread.
IDLE_SECONDS = 2.0


class Announcer:
    """Sends in the background (`start`), or what is due now (`step`). Safe to have in several processes of one home.

    `web` gives the way out: it resolves a name, judges every address it has, and connects to one that it judged.
    """

    def __init__(self, ledger: Ledger, *, web: "Callable[[], Web]") -> None:
        self._ledger, self._web = ledger, web
        self._stop, self._awake = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread = threading.Thread(target=self._run, name="headwater-webhooks", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """A job has ended."""
        self._awake.set()

    def close(self) -> None:
        """End after the messages in hand; the others are there the next time."""
        self._stop.set()
        self._awake.set()
        if self._thread is not None:
            self._thread.join(TIMEOUT_SECONDS + 1.0)

    def step(self) -> int:
        """Send the oldest message of every address where it is due; return how many there were."""
        due = self._ledger.outbox.take(limit=ADDRESSES_AT_ONCE, lease_seconds=LEASE_SECONDS)
        if due:
            with ThreadPoolExecutor(len(due), thread_name_prefix="headwater-webhooks") as sending:
                outcomes = list(sending.map(self._tried, due))
            for message, (reason, again) in zip(due, outcomes, strict=True):
                self._settle(message, reason, again=again)
        return len(due)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._awake.clear()
            try:
                busy = self.step()
            except BackendError as error:  # the ledger itself: nothing to do but wait
                logs.warn("Webhooks cannot be told", error=error, reason=str(error))
                busy = 0
            if not busy:
                self._awake.wait(IDLE_SECONDS)

    def _settle(self, message: Message, reason: str, *, again: bool) -> None:
        if not reason:
            self._ledger.outbox.drop(message)
            return
        told: dict[str, Any] = {"webhook": message.webhook, "delivery": message.id, "attempts": message.attempts}
        if again and time.time() - message.created < KEPT_SECONDS:
            logs.warn("A webhook did not arrive", **told, reason=reason)
            pause = PAUSES[min(message.attempts, len(PAUSES)) - 1]
            self._ledger.outbox.postpone(message, until=time.time() + pause, reason=reason)
        else:
            logs.warn("A webhook was given up", **told, reason=reason)
            self._ledger.outbox.drop(message)

    def _tried(self, message: Message) -> tuple[str, bool]:
        """Why it did not arrive, empty where it did; and whether another try may help."""
        body = body_of(message)
        headers = {
            "Content-Type": "application/json",
            "X-Headwater-Signature": signature(message.secret, body),
            "X-Headwater-Delivery": message.id,
        }
        try:
            status = self._web().post(message.url, body, headers=headers, seconds=TIMEOUT_SECONDS)
        except SourceError as error:
            return str(error), bool(getattr(error, "again", False))
        if 200 <= status < 300:
            return "", False
        refused = status < 500 and status not in LATER
        return f"status {status}", not refused or message.attempts < REFUSED_ATTEMPTS


def body_of(message: Message) -> bytes:
    """What is sent: the same bytes at every attempt."""
    from headwater.server import wire  # brings the web framework, which a worker needs for nothing else

    told = {"id": message.id, "event": message.event, "data": wire.job_shape(Job(**message.job))}
    return json.dumps(told).encode()


def signature(secret: str, body: bytes) -> str:
    """The time, and the proof that who sent a body at that time knows the secret."""
    moment = str(int(time.time()))
    signed = hmac.new(secret.encode(), f"{moment}.".encode() + body, "sha256").hexdigest()
    return f"t={moment},v1={signed}"
