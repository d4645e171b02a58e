"""Requests to a model's server -> its answers. Waits when told to, tries again what may succeed, says what failed.

No message holds a key: what a server says back is cleaned first, and what it says about a refused key is left out.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from queue import Empty, Queue
from threading import Event, Lock, Thread
from typing import Any, Final
from urllib.parse import urlsplit

from headwater.errors import BackendError

OFFLINE_VARIABLE: Final = "HEADWATER_OFFLINE"
HOMELY: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Waits between attempts: half a second, doubled each time, up to half a minute: limits mostly count by the minute.
FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 30.0
# A server that asks for more patience than this has run out of quota, not of breath.
MOST_PATIENCE_SECONDS: Final = 120.0
# After this many refusals in a row a smaller request is worth a try: limits count texts and tokens too.
CROWDED: Final = 3
# Bytes of what a server says about its failure that are worth showing, and that are read at all.
MOST_SAID: Final = 300
MOST_READ: Final = 20_000
# A server that is there takes a connection within this.
CONNECT_SECONDS: Final = 10.0

_TRY_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TOO_LARGE: Final = re.compile(
    r"too (large|long|many|big)|larger than|longer than|batch.?size|exceed|maximum|at most|less than|max_\w*length"
    r"|最大|最多|超过|超出|超长|过长",
    re.IGNORECASE,
)
_OUT_OF_QUOTA: Final = re.compile(
    r"insufficient_quota|arrearage|exceeded your current quota|余额不足|欠费", re.IGNORECASE
)
# Keys as the services write them, whole or with their middle starred out.
_KEYS: Final = re.compile(r"\b(sk|hf|key)[-_][\w*.-]{6,}")


class TooLarge(BackendError):
    """The server would take fewer texts, or shorter ones: always, or `for_now`."""

    def __init__(self, message: str, *, for_now: bool = False) -> None:
        super().__init__(message)
        self.for_now = for_now


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for an answer, and how often to ask again."""

    timeout_seconds: float
    max_retries: int


class Pace:
    """When the next request may go out; shared by all threads that ask one server."""

    def __init__(self, requests_per_minute: int) -> None:
        self._gap = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._next = 0.0
        self._lock = Lock()

    def wait(self, stopped: Event | None = None) -> None:
        """Return when it is this thread's turn, or nobody waits for it any more."""
        with self._lock:
            turn = max(time.monotonic(), self._next)
            self._next = turn + self._gap
        (stopped or Event()).wait(max(0.0, turn - time.monotonic()))

    def hold(self, seconds: float) -> None:
        """Nobody asks again before this much time has passed."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


class Waits:
    """How long to wait for the first piece of a stream, for each further one, and for all of it, from now on."""

    def __init__(self, *, first_seconds: float, next_seconds: float, total_seconds: float) -> None:
        self.first_seconds, self.next_seconds, self.total_seconds = first_seconds, next_seconds, total_seconds
        self._end = time.monotonic() + total_seconds

    def left(self) -> float:
        """Seconds until all of it must be here."""
        return max(0.0, self._end - time.monotonic())


class Reply:
    """What a server answers, as it comes: `chunks` of bytes, and what it says they are."""

    def __init__(self, opened: _Opened, *, name: str, cleaned: Callable[[str], str]) -> None:
        self.mime = opened.mime
        self._opened, self._name, self._cleaned = opened, name, cleaned

    def chunks(self, *, told: Callable[[], bool] = lambda: True) -> Iterator[bytes]:
        """Each as it comes. While `told` is false nothing of worth has come, and the wait is the one for the first.

        Raises BackendError when it takes too long or breaks off.
        """
        waits, began = self._opened.waits, time.monotonic()
        try:
            while True:
                patience = waits.next_seconds if told() else began + waits.first_seconds - time.monotonic()
                try:
                    came = self._opened.queue.get(timeout=max(0.0, min(patience, waits.left())))
                except Empty:
                    raise BackendError(f"{self._name} {self._lateness(told=told())}") from None
                if came is None:
                    return
                if isinstance(came, str):
                    raise BackendError(f"{self._name} {self._cleaned(came)}")
                yield came
                if not waits.left():
                    raise BackendError(f"{self._name} {self._lateness(told=told())}")
        finally:
            self._opened.stopped.set()

    def _lateness(self, *, told: bool) -> str:
        waits = self._opened.waits
        if not waits.left():
            return f"was not done within {waits.total_seconds:g} s"
        if told:
            return f"stopped in the middle: nothing came for {waits.next_seconds:g} s"
        return f"said nothing within {waits.first_seconds:g} s"


class _Opened:
    """A request whose answer is read by a thread of its own, so that every wait has its own length."""

    def __init__(self, client: Any, url: str, *, body: Mapping[str, Any], key: str, waits: Waits) -> None:
        self._client, self._url, self._body, self.waits = client, url, body, waits
        self._headers = {"Accept": "text/event-stream, application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self.queue: Queue[bytes | str | None] = Queue()  # bytes, an error in words, or None at the end
        self._begun: Queue[tuple[int, Any, float | None]] = Queue()
        self.stopped = Event()
        self.mime = ""

    def begin(self) -> tuple[int, Any, float | None]:
        """Status, what was said where it is a refusal, and how long to wait. Status 0: no answer."""
        Thread(target=self._read, daemon=True, name="headwater-reply").start()
        patience = min(self.waits.first_seconds, self.waits.left())
        try:
            return self._begun.get(timeout=patience)
        except Empty:
            self.stopped.set()
            return 0, f"gave no answer within {patience:g} s", None

    def _read(self) -> None:
        import httpx2

        longest = max(self.waits.first_seconds, self.waits.next_seconds)
        timeout = httpx2.Timeout(longest, connect=min(longest, CONNECT_SECONDS))
        try:
            with self._client.stream(
                "POST", self._url, json=self._body, headers=self._headers, timeout=timeout
            ) as response:
                self.mime = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                if response.status_code != 200:
                    said = response.read()[:MOST_READ].decode("utf-8", "replace")
                    self._begun.put((response.status_code, said, _wait_seconds(response.headers)))
                    return
                self._begun.put((200, "", None))
                for chunk in response.iter_bytes():
                    if self.stopped.is_set():
                        return
                    self.queue.put(chunk)
            self.queue.put(None)
        except httpx2.TimeoutException:
            self._failed("stopped answering")
        except httpx2.InvalidURL as error:
            self._failed(f"is not an address ({error}): set base_url")
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            self._failed(f"broke off ({type(error).__name__}: {error})")

    def _failed(self, words: str) -> None:
        self._begun.put((0, words, None))
        self.queue.put(words)


class Endpoint:
    """A server that takes and gives JSON. Safe for use from several threads."""

    def __init__(self, base_url: str, *, api_key: str = "", requests_per_minute: int = 0, key_hint: str = "") -> None:
        self.base_url = base_url.rstrip("/")
        self._api_key, self._key_hint = api_key, key_hint
        self._pace = Pace(requests_per_minute)
        self._lock = Lock()
        self._client: Any = None

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        patience: Patience,
        divisible: bool = False,
        stopped: Event | None = None,
    ) -> Any:
        """The answer. TooLarge means: ask for less; too many requests mean it only where the request is `divisible`.

        Once `stopped` is set it does not ask again.
        """
        refuse_if_offline(self.base_url)
        refused = 0
        reason = ""
        for attempt in range(patience.max_retries + 1):
            self._pace.wait(stopped)
            if stopped is not None and stopped.is_set():
                raise BackendError(reason or f"{self._name} was not asked: another request had failed")
            status, said, wait = self._ask(path, body, patience.timeout_seconds)
            if status == 200:
                return said
            reason = self._reason(status, said)
            if status not in _TRY_AGAIN and status != 0:
                raise self._refusal(status, str(said), reason)
            refused = refused + 1 if status == 429 else 0
            if status == 429 and _OUT_OF_QUOTA.search(str(said)):
                raise BackendError(f"{reason}: the account has no quota left")
            if wait is not None and wait > MOST_PATIENCE_SECONDS:
                raise BackendError(f"{reason}: it asks to wait {wait:.0f} s; try again then")
            if divisible and refused >= CROWDED:
                raise TooLarge(reason, for_now=True)
            self._pace.hold(min(FIRST_WAIT_SECONDS * 2**attempt, LONGEST_WAIT_SECONDS) if wait is None else wait)
        raise BackendError(f"{reason}; asked {patience.max_retries + 1} times")

    def stream(self, path: str, body: Mapping[str, Any], *, waits: Waits, max_retries: int) -> Reply:
        """The answer as its bytes come. Asked again only while nothing has come yet; TooLarge means: ask for less."""
        refuse_if_offline(self.base_url)
        reason = ""
        for attempt in range(max_retries + 1):
            self._pace.wait()
            opened = _Opened(self._connections(), f"{self.base_url}/{path}", body=body, key=self._api_key, waits=waits)
            status, said, wait = opened.begin()
            if status == 200:
                return Reply(opened, name=self._name, cleaned=self.cleaned)
            reason = self._reason(status, said)
            if status not in _TRY_AGAIN and status != 0:
                raise self._refusal(status, str(said), reason)
            if status == 429 and _OUT_OF_QUOTA.search(str(said)):
                raise BackendError(f"{reason}: the account has no quota left")
            pause = min(FIRST_WAIT_SECONDS * 2**attempt, LONGEST_WAIT_SECONDS) if wait is None else wait
            if pause >= waits.left():
                raise BackendError(f"{reason}; there was no time to ask again")
            if attempt < max_retries:
                self._pace.hold(pause)
        raise BackendError(f"{reason}; asked {max_retries + 1} times")

    def hold(self, seconds: float) -> None:
        """Let the server rest."""
        self._pace.hold(seconds)

    def close(self) -> None:
        """Let go of the connections; the next request makes new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(self, path: str, body: Mapping[str, Any], timeout_seconds: float) -> tuple[int, Any, float | None]:
        """Status, content and how long to wait. Status 0: no answer, or half of one."""
        import httpx2

        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        try:
            response = self._connections().post(
                f"{self.base_url}/{path}", json=body, headers=headers, timeout=timeout_seconds
            )
            if response.status_code == 200:
                content = response.json()
                if isinstance(content, dict) and content.get("error"):  # as some gateways tell of a failure
                    return 0, f"answered with an error: {content['error']}", None
                return 200, content, None
            return response.status_code, response.text, _wait_seconds(response.headers)
        except httpx2.TimeoutException:
            return 0, f"gave no answer within {timeout_seconds:g} s", None
        except httpx2.InvalidURL as error:
            raise BackendError(f"{self._name} is not an address ({error}): set base_url") from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            return 0, f"cannot be reached ({type(error).__name__}: {error})", None
        except ValueError:
            return 0, "answered with something that is not JSON", None

    def _connections(self) -> Any:
        import httpx2

        with self._lock:
            if self._client is None:
                self._client = httpx2.Client()
            return self._client

    @property
    def _name(self) -> str:
        return shown(self.base_url)

    def _reason(self, status: int, said: Any) -> str:
        if status == 0:
            return f"{self._name} {self.cleaned(str(said))}"
        if status == 429:
            return f"{self._name} takes no more requests now (429)"
        return f"{self._name} answered {status}: {self.cleaned(str(said)) or 'nothing'}"

    def _refusal(self, status: int, said: str, reason: str) -> BackendError:
        if status in (401, 403):
            how = "refused the key" if self._api_key else "wants a key and none was given"
            return BackendError(f"{self._name} {how} ({status}); {self._key_hint or 'set api_key'}")
        if status == 413 or (status in (400, 422) and _TOO_LARGE.search(said)):
            return TooLarge(reason)
        if status == 404:
            return BackendError(f"{reason}; check the model's name and base_url, which mostly ends in /v1")
        return BackendError(reason)

    def cleaned(self, said: str) -> str:
        """What a server said, on one line, without the key."""
        found = re.search(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"', said)
        if page := re.search(r"<title>\s*(.*?)\s*</title>", said, re.DOTALL | re.IGNORECASE):
            said = f"a page with the title {page[1]!r}"
        line = " ".join((found[1] if found else said).split())
        if self._api_key:
            line = line.replace(self._api_key, "…")
        return _KEYS.sub("…", line)[:MOST_SAID]


def get_json(url: str, *, key: str = "", timeout_seconds: float) -> Any:
    """What an address answers, once; BackendError where that is no JSON."""
    import httpx2

    refuse_if_offline(url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        response = httpx2.get(url, headers=headers, timeout=timeout_seconds)
        if response.status_code != 200:
            raise BackendError(f"{shown(url)} answered {response.status_code}")
        return response.json()
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise BackendError(f"{shown(url)} cannot be reached ({type(error).__name__})") from None


def shown(url: str) -> str:
    """An address without the name and password it may hold."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else url


def refuse_if_offline(url: str) -> None:
    """Raise where the person said that nothing may leave this machine."""
    switch = os.environ.get(OFFLINE_VARIABLE, "").lower()
    if switch not in ("", "0", "false", "no") and urlsplit(url).hostname not in HOMELY:
        raise BackendError(f"{OFFLINE_VARIABLE} is set, so {shown(url)} is not asked; unset it to allow the network")


def _wait_seconds(headers: Mapping[str, str]) -> float | None:
    """What `Retry-After` asks for: seconds, milliseconds in OpenAI's own header, or a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        given = headers.get("retry-after", "")
        return max(0.0, float(given)) if given else None
    except ValueError:
        try:
            return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
        except ValueError:
            return None
