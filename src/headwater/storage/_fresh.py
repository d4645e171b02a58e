"""The last few changes of a text index: chunks' terms in, their BM25 out, before the index itself has them.

A commit of tantivy makes some twenty files durable one after the other, whatever it holds; a block appended to a
journal makes one. So a small change goes here, and into the index together with others later. The journal is blocks of
`checksum length` and JSON, the first of which names the journal: an emptied one gets another name, and a reader that
knows the name reads only what is new. Only the last block can be torn, for each is durable before the next is begun.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from bisect import bisect_right
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple
from zlib import crc32

from headwater.selection import TICKET_BITS
from headwater.storage._lanes import REQUIRED_IN, Containing, Question, Term, worth

FILE: Final = "fresh.journal"
# `checksum length`, padded: eight hexadecimal digits, a blank, ten digits and the end of the line.
_HEAD_BYTES: Final = 20

# Lengths as tantivy keeps them, in one byte: exact below 40, then eight to each doubling of the step.
_STEPS: Final = chain(repeat(1, 40), (2 << power for power in range(27) for _ in range(8)))
_LENGTHS: Final = list(accumulate(_STEPS, initial=0))

# Among so many common words of a chunk there is one that the index knows.
SOME_TOKENS: Final = 100

Terms = Mapping[str, str]  # by field, with spaces between


class Statistics(NamedTuple):
    """What an index says of the chunks that it holds."""

    chunks: int
    containing: Containing
    mean_length: Callable[[str], float]  # of a field; 0 where nothing has it


class _Held:
    """Chunks by id with postings, and the tickets that the index must drop."""

    def __init__(self) -> None:
        self.rows: dict[int, Terms] = {}
        self.postings: dict[tuple[str, str], dict[int, int]] = {}
        self.lengths: dict[str, dict[int, int]] = {}
        self.tickets: dict[int, list[int]] = {}
        self.gone: set[int] = set()

    def apply(self, change: dict[str, Any]) -> None:
        rows = [(int(id), terms) for id, terms in change.get("add", ())]
        for ticket in {id >> TICKET_BITS for id, _ in rows} | set(change.get("remove", ())):
            self._drop(ticket)
        for id, terms in rows:
            self._put(id, terms)

    def _drop(self, ticket: int) -> None:
        self.gone.add(ticket)
        for id in self.tickets.pop(ticket, ()):
            for field, terms in self.rows.pop(id).items():
                del self.lengths[field][id]
                for token in set(terms.split()):
                    posting = self.postings[field, token]
                    del posting[id]
                    if not posting:
                        del self.postings[field, token]

    def _put(self, id: int, terms: Terms) -> None:
        self.rows[id] = terms
        self.tickets.setdefault(id >> TICKET_BITS, []).append(id)
        for field, joined in terms.items():
            counts = Counter(joined.split())
            self.lengths.setdefault(field, {})[id] = counts.total()
            for token, count in counts.items():
                self.postings.setdefault((field, token), {})[id] = count

    def scores(self, question: Question, index: Statistics, *, k1: float, b: float) -> dict[int, float]:
        """The BM25 of each chunk that holds a term, as if the index held them too."""
        if not self.rows:
            return {}
        chunks = index.chunks + len(self.rows)

        def containing(field: str, token: str) -> int:
            return index.containing(field, token) + len(self.postings.get((field, token), ()))

        def of(term: Term) -> dict[int, float]:
            posting = self.postings.get((term.field, term.token))
            if not posting:
                return {}
            lengths = self.lengths[term.field]
            mean = index.mean_length(term.field) or sum(lengths.values()) / chunks
            unit = worth(term, chunks=chunks, containing=containing) * (k1 + 1)
            return {
                id: unit * count / (count + k1 * (1 - b + b * _kept_length(lengths[id]) / mean))
                for id, count in posting.items()
            }

        found: dict[int, float] = {}
        for term in question.all_terms:
            for id, score in of(term).items():
                found[id] = found.get(id, 0.0) + score
        for phrase in question.phrases:
            parts = [ChainMap(*map(of, terms)) for terms in phrase]  # a chunk has one of the terms of a place
            for id in set.intersection(*map(set, parts)):
                found[id] += sum(part[id] for part in parts)
        return found

    def with_all(self, tokens: Iterable[str]) -> set[int]:
        """The chunks that hold each of these where a required term may stand."""
        found = set(self.rows)
        for token in tokens:
            found &= set().union(*(self.postings.get((field, token), ()) for field in REQUIRED_IN))
        return found


class Fresh:
    """The last changes and their journal. Safe for use from several threads.

    What a journal of another name holds is `settled` by whoever has made the index see what left the one before.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.RLock()
        self._held, self._next = _Held(), _Held()
        self._name, self._end = "", 0  # of the journal, as far as it was read or written
        self._unwritten: list[dict[str, Any]] = []

    # ------------------------------------------------------------------------------------------ changing

    def add(self, rows: Mapping[int, Terms]) -> None:
        """Take these chunks; `write` makes it durable. What their tickets had is dropped, also from the index."""
        self._change({"add": [[id, dict(terms)] for id, terms in rows.items()]})

    def remove(self, tickets: Iterable[int]) -> None:
        """Drop every chunk of these tickets, also from the index when it is written next; `write` makes it durable."""
        self._change({"remove": sorted(tickets)})

    def _change(self, change: dict[str, Any]) -> None:
        with self._lock:
            self.settle()
            self._held.apply(change)
            self._unwritten.append(change)

    def forget(self) -> None:
        """Hold nothing any more, in memory: what is in the journal goes with the next `clear`."""
        with self._lock:
            self._held = self._next = _Held()
            self._unwritten = []

    # ----------------------------------------------------------------------------------------- on disk

    def write(self) -> None:
        """Append what is new to the journal, durably; raises OSError, and then nothing of it counts."""
        with self._lock:
            if not self._unwritten:
                return
            blocks = [] if self._name else [{"name": secrets.token_hex(8)}]
            change = self._unwritten[0] if len(self._unwritten) == 1 else {"all": self._unwritten}
            try:
                there = self.path.exists()
                with open(self.path, "r+b" if there else "xb") as file:
                    file.seek(self._end)
                    file.truncate()
                    file.write(b"".join(map(_block, [*blocks, change])))
                    file.flush()
                    os.fsync(file.fileno())
                    end = file.tell()
                if not there:
                    _sync_folder(self.path.parent)
            except OSError:
                self.discard()
                raise
            self._name = blocks[0]["name"] if blocks else self._name
            self._end, self._unwritten = end, []

    def discard(self) -> None:
        """Forget what was not written."""
        with self._lock:
            if self._unwritten:
                self._unwritten, self._name = [], ""
                self.load()
                self.settle()

    def load(self) -> bool:
        """Read what another process wrote since; whether there is something to settle."""
        with self._lock:
            if self._unwritten:
                return False
            try:
                file = open(self.path, "rb")  # noqa: SIM115 - closed below, where there is one
            except FileNotFoundError:
                self._begin("")
                return self._next is not self._held
            with file:
                first = _read_block(file)
                name = first.get("name", "") if first else ""
                if name != self._name or not name:
                    self._begin(name)
                    self._end = file.tell() if name else 0
                if name:
                    file.seek(self._end)
                    while change := _read_block(file):
                        for one in change.get("all", (change,)):
                            self._next.apply(one)
                        self._end = file.tell()
            return self._next is not self._held

    def settle(self) -> None:
        """Hold what the journal of the new name holds."""
        with self._lock:
            self._held = self._next

    def clear(self) -> None:
        """Hold nothing any more, durably: the index has it all."""
        with self._lock:
            if self.path.exists():
                with open(self.path, "r+b") as file:
                    file.truncate(0)
                    os.fsync(file.fileno())
            self._name, self._end = "", 0
            self.forget()

    def _begin(self, name: str) -> None:
        self._name, self._end = name, 0
        if name or not _is_empty(self._next):
            self._next = _Held()

    # ------------------------------------------------------------------------------------------ reading

    def __len__(self) -> int:
        return len(self._held.rows)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell the index."""
        return _is_empty(self._held)

    @property
    def has_unwritten(self) -> bool:
        """Whether something was not made durable yet."""
        return bool(self._unwritten)

    def rows(self) -> list[tuple[int, Terms]]:
        """Every chunk and its terms."""
        with self._lock:
            return list(self._held.rows.items())

    def tickets(self) -> dict[int, int]:
        """Every ticket it holds and how many chunks of it."""
        with self._lock:
            return {ticket: len(ids) for ticket, ids in self._held.tickets.items()}

    def replaced(self) -> set[int]:
        """Tickets of which nothing in the index counts any more."""
        with self._lock:
            return set(self._held.gone)

    def tokens(self, field: str) -> list[str]:
        """Some of the terms that its chunks have in this field, the commonest first."""
        with self._lock:
            held = self._held.postings.items()
            counts = Counter({token: len(ids) for (name, token), ids in held if name == field})
        return [token for token, _ in counts.most_common(SOME_TOKENS)]

    def containing(self, field: str, token: str) -> int:
        """How many of its chunks have a token in a field."""
        return len(self._held.postings.get((field, token), ()))

    def found(
        self, question: Question, index: Statistics, *, needed: Iterable[str], k1: float, b: float
    ) -> tuple[dict[int, float], set[int]]:
        """The BM25 of its chunks that hold a term and all that is needed; and what is `replaced` at that moment."""
        with self._lock:
            scores, whole = self._held.scores(question, index, k1=k1, b=b), self._held.with_all(needed)
            return {id: score for id, score in scores.items() if id in whole}, set(self._held.gone)


def _is_empty(held: _Held) -> bool:
    return not held.rows and not held.gone


def _kept_length(length: int) -> int:
    return _LENGTHS[bisect_right(_LENGTHS, length) - 1]


def _block(change: dict[str, Any]) -> bytes:
    data = json.dumps(change, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return b"%08x %010d\n%s\n" % (crc32(data), len(data), data)


def _read_block(file: BinaryIO) -> dict[str, Any] | None:
    """The block that begins here, or None where none does or it is torn."""
    head = file.read(_HEAD_BYTES)
    if len(head) != _HEAD_BYTES or not head[9:19].isdigit():
        return None
    data = file.read(int(head[9:19]))
    if file.read(1) != b"\n" or b"%08x" % crc32(data) != head[:8]:
        return None
    told: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
    return told


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
