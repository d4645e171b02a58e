"""A server under mixed load for a while -> its memory minute by minute, and whether it stayed flat.

    python bench/soak.py                     30 minutes
    python bench/soak.py --minutes 5         a quick look

Searches, questions, conversations, uploads and deletions, all at once, against a real `headwater serve`. Writes
bench/results/soak.md; exits with 1 when memory grew by more than a tenth after the warm-up, or anything failed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

from corpus import prepare
from scale import machine, note, quantile
from serve import MARKS, filled, fresh
from serving import Server, form, request

HERE = Path(__file__).resolve().parent
MINUTES = 30.0
CHUNKS = 5_000
QUESTIONS = 3_000
FLAT = 0.10  # how much more memory may be held at the end than after the warm-up
WARM_UP_SHARE = 1 / 6  # of the time: threads start, allocators find their size
WARM_UP_SEARCHES = 2_500  # and so many searches at least, until the caches of results and passages are full
SAMPLE_SECONDS = 5.0
KEPT_DOCUMENTS = 200  # uploaded ones; beyond that the oldest goes for each that comes
KEPT_CONVERSATIONS = 20
TURNS = 4  # in a conversation, before the next begins
DONE_SECONDS = 120.0
# (what, how many at once, seconds between two of each)
PACE = {"search": (2, 0.02), "ask": (1, 0.1), "chat": (1, 0.2), "upload": (1, 0.5)}


class Soak:
    """The load, and what came of it."""

    def __init__(self, server: Server, texts: list[str], documents: list[tuple[str, str]]) -> None:
        self.server, self.over = server, threading.Event()
        self.documents = cycle(documents)
        self.dataset = server.call("POST", "/api/v1/datasets", {"name": "soak"})["id"]
        self.lock, self.chance = threading.Lock(), random.Random(7)
        self.texts = texts
        self.counts: Counter[str] = Counter()
        self.milliseconds: dict[str, list[float]] = {name: [] for name in PACE}
        self.failures: list[str] = []
        self.warm_seconds = 0.0
        self.uploaded: deque[str] = deque()
        self.conversations: deque[str] = deque()

    def run(self, seconds: float) -> list[tuple[float, float]]:
        """(second, resident megabytes) from now on, while everything else goes on."""
        threads = [
            threading.Thread(target=self._keep, args=(name, getattr(self, f"_{name}"), pause))
            for name, (several, pause) in PACE.items()
            for _ in range(several)
        ]
        for thread in threads:
            thread.start()
        began, samples = time.monotonic(), []
        while (at := time.monotonic() - began) < seconds and not self.failures:
            samples.append((at, self.server.searching()))
            if len(self.milliseconds["search"]) < WARM_UP_SEARCHES:
                self.warm_seconds = at
            self.over.wait(SAMPLE_SECONDS)
        self.warm_seconds = max(self.warm_seconds, WARM_UP_SHARE * seconds)
        self.over.set()
        for thread in threads:
            thread.join()
        return samples

    def _keep(self, name: str, do: Callable[[Any], None], pause: float) -> None:
        connection = self.server.connect()
        try:
            while not self.over.is_set():
                began = time.perf_counter()
                do(connection)
                self.milliseconds[name].append((time.perf_counter() - began) * 1000)
                self.over.wait(pause)
        except Exception as error:  # whatever it was, it ends the run and is told
            self.failures.append(f"{name}: {type(error).__name__}: {error}")
            self.over.set()
        finally:
            connection.close()

    def _call(self, connection: Any, method: str, path: str, body: Any = None) -> Any:
        status, told = request(connection, method, path, body)
        with self.lock:
            self.counts[f"{method} {path.partition('?')[0].rpartition('/')[2][:20]} {status}"] += 1
        if status == 429:
            self.over.wait(1)
            return None
        if status != 200:
            raise RuntimeError(f"{method} {path} answered {status}: {told}")
        return told["data"]

    def _question(self) -> str:
        with self.lock:
            return self.chance.choice(self.texts)

    def _search(self, connection: Any) -> None:
        self._call(connection, "POST", "/api/v1/retrieval", {"question": self._question()})

    def _ask(self, connection: Any) -> None:
        self._call(connection, "POST", "/api/v1/ask", {"question": self._question()})

    def _chat(self, connection: Any) -> None:
        told, id = None, ""
        for _ in range(TURNS):
            body = {"question": self._question(), "conversation_id": id}
            told = self._call(connection, "POST", "/api/v1/conversations", body)
            id = told["conversation_id"] if told else id
        if id:
            self.conversations.append(id)
        if len(self.conversations) > KEPT_CONVERSATIONS:
            self._call(connection, "DELETE", f"/api/v1/conversations/{self.conversations.popleft()}")

    def _upload(self, connection: Any) -> None:
        """One document in, and the oldest out when it is there."""
        name, text = next(self.documents)
        path = f"/api/v1/datasets/{self.dataset}/documents"
        changed = text.replace("# Page", f"# Page of second {time.monotonic():.0f}", 1)
        told = self._call(connection, "POST", path, form({name: changed}))
        if told is None:
            return
        end = time.monotonic() + DONE_SECONDS
        while (job := self._call(connection, "GET", f"/api/v1/jobs/{told[0]['job_id']}")) is None or job["state"] in (
            *("pending", "processing"),
            "indexed",
        ):
            if time.monotonic() > end:
                raise RuntimeError(f"a job does not end: {job}")
            time.sleep(0.1)
        if job["state"] != "completed":
            raise RuntimeError(f"a job ended as {job['state']}: {job['reason']}")
        if told[0]["id"] not in self.uploaded:
            self.uploaded.append(told[0]["id"])
        if len(self.uploaded) > KEPT_DOCUMENTS:
            self._call(connection, "DELETE", path, {"ids": [self.uploaded.popleft()]})


def by_minute(samples: list[tuple[float, float]]) -> list[float]:
    """The median of each minute that has one."""
    minutes: dict[int, list[float]] = {}
    for second, megabytes in samples:
        minutes.setdefault(int(second // 60), []).append(megabytes)
    return [statistics.median(values) for _, values in sorted(minutes.items())]


def growth(samples: list[tuple[float, float]], *, after: float) -> float:
    """How much more is held in the last tenth of what follows the warm-up than in its first, as a share."""
    warm = [megabytes for at, megabytes in samples if at >= after]
    tenth = len(warm) // 10
    if not tenth:
        return float("inf")  # too short to say
    return statistics.median(warm[-tenth:]) / statistics.median(warm[:tenth]) - 1


def report(soak: Soak, samples: list[tuple[float, float]], grown: float, options: argparse.Namespace) -> str:
    """The run as Markdown."""
    complaints = soak.server.complaints()
    lines = [
        f"# {options.minutes:g} minutes of mixed load",
        "",
        f"`python bench/soak.py --minutes {options.minutes:g}` over a home of {options.chunks:,} chunks: searches and "
        "questions with the settings as they come, conversations of four turns, uploads that are waited for and "
        f"deleted again when {KEPT_DOCUMENTS} more have come. {machine()}, shared by server and client. "
        f"Load average at the end: {os.getloadavg()[0]:.1f}.",
        "",
        "| | done | p50, ms | p99, ms |",
        "|---|---:|---:|---:|",
    ]
    for name, taken in soak.milliseconds.items():
        shown = [f"{quantile(taken, share):.0f}" for share in (0.5, 0.99)] if taken else ["-", "-"]
        lines.append(f"| {name} | {len(taken):,} | {shown[0]} | {shown[1]} |")
    refused = sum(count for what, count in soak.counts.items() if what.endswith(" 429"))
    lines += [
        "",
        f"Failures: {len(soak.failures)}. Told to come back (429): {refused}. Lines of the log that complain: "
        f"{len(complaints)}.",
        "",
        f"Resident memory, the last tenth of the time after a warm-up of {soak.warm_seconds / 60:.1f} minutes against "
        f"the first tenth: {grown:+.1%} (bar {FLAT:+.0%}).",
        "",
        "| minute | MB |",
        "|---:|---:|",
        *(f"| {minute} | {megabytes:.0f} |" for minute, megabytes in enumerate(by_minute(samples), 1)),
    ]
    lines += ["", *(f"- {told}" for told in (*soak.failures, *complaints[:5]))] if soak.failures or complaints else []
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--corpus", type=Path, help="a folder of .jsonl.gz (field `pos`) or of text files")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--write", type=Path, default=HERE / "results" / "soak.md")
    options = parser.parse_args()
    corpus = prepare(options.chunks, source=options.corpus, data=options.data)
    note("the home")
    home, running = filled(corpus, options.data), options.data / "soak-running"
    shutil.rmtree(running, ignore_errors=True)
    shutil.copytree(home, running)
    server = Server(running)
    try:
        texts = [MARKS.sub(" ", one).strip() or "?" for one in corpus.questions(QUESTIONS)]
        soak = Soak(server, texts, list(fresh(corpus, min(10 * KEPT_DOCUMENTS * 2, corpus.size))))
        note(f"{options.minutes:g} minutes")
        samples = soak.run(options.minutes * 60)
    finally:
        code = server.stop()
    grown = growth(samples, after=soak.warm_seconds)
    text = report(soak, samples, grown, options)
    print(text)
    options.write.parent.mkdir(parents=True, exist_ok=True)
    options.write.write_text(text, "utf-8")
    shutil.rmtree(running, ignore_errors=True)
    return 0 if code == 0 and not soak.failures and not server.complaints() and grown <= FLAT else 1


if __name__ == "__main__":
    sys.exit(main())
