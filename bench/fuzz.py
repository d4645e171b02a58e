"""Files of every kind, damaged in a thousand ways -> what the sandboxed parsers make of each, and a page of figures.

`python bench/fuzz.py --files 10000 --write bench/results/fuzz.md`. Every file is told by its number and the seed, so
that one that went wrong can be made again: `python bench/fuzz.py --again 4711 --keep FOLDER`. A document that comes out
is cut and checked as any other. Exit 1 when a parser failed in a way that nobody foresaw, died without having met a
limit, or gave a document that is not sound.
"""

import argparse
import io
import os
import random
import re
import sys
import threading
import time
import zipfile
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from headwater.chunkers.auto import AutoChunker
from headwater.config import Ingest
from headwater.doctor import examine
from headwater.errors import EmptyDocument, SourceError
from headwater.kinds import kind_of
from headwater.parsing import Parsers
from headwater.sandbox.limits import resident_bytes
from headwater.types import Blob, Document

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "faults"))
sys.path.insert(0, str(Path(__file__).parent))

import mixed_files

import hostile
import hostile_office
import hostile_texts

DATA = Path(__file__).parents[1] / "tests" / "data"
MEGABYTE = 1024**2
LIMITS = Ingest(
    parse_wall_seconds=30.0, parse_cpu_seconds=10, parse_memory_bytes=1024 * MEGABYTE, parse_output_chars=10_000_000
)
WAITING = 12
SAMPLE_SECONDS = 0.02
# Recognition takes seconds a picture, whatever the picture: of these kinds so many files are made for a hundred others.
RARE = {"png": 8, "tiff": 20, "scan.pdf": 5}
USUAL = 100
OUTCOMES = ("document", "empty", "reason", "limit", "died", "unexpected", "unsound")
BAD = ("died", "unexpected", "unsound")
# What a worker says that died of what it may not take: libraries that get no memory end their process.
_LIMIT = re.compile(r"parsing took more than|characters of text|wants more memory")
_NUMBER = re.compile(rb"\d{1,10}")
_TOKEN = re.compile(rb"<[^<>]{1,200}>|\"[^\"]{0,100}\"|[{}\[\],:]")
_ODD_NUMBERS = (
    b"0",
    b"-1",
    b"1",
    b"255",
    b"65536",
    b"2147483647",
    b"4294967296",
    b"99999999999999999999",
    b"1e309",
    b"nan",
)


def seeds() -> dict[str, bytes]:
    """Small sound files, by kind."""
    found = {kind: make(7) for kind, make in mixed_files.KINDS.items()}
    found |= {f"long.{kind}": data for kind, data in hostile.whole_files().items()}
    words = "The gauge at the old bridge is read every morning. 老桥水位站每天早上八点观测一次水位。"
    found["rtf"] = rb"{\rtf1\ansi{\fonttbl{\f0 Times;}}\f0 The gauge\par {\b is read} every \u27700 ?morning.\par}"
    found["odt"] = hostile_office.opened(f"<text:h text:outline-level='1'>One</text:h><text:p>{words}</text:p>")
    cells = "<table:table-cell><text:p>a</text:p></table:table-cell>" * 3
    found["ods"] = hostile_office.opened(
        f"<table:table table:name='T'>{f'<table:table-row>{cells}</table:table-row>' * 4}</table:table>", sheet=True
    )
    found["pptx"] = hostile_office.deck(hostile_office.shape(words) * 3)
    found["ipynb"] = (
        b'{"cells": [{"cell_type": "markdown", "source": ["# One\\n", "words"]}, {"cell_type": "code", "source": "x",'
        b' "outputs": [{"output_type": "stream", "text": "1"}]}], "metadata": {}, "nbformat": 4}'
    )
    found["js"] = (
        b"/* words */\nclass A {\n  b(c) { return `${c}`; }\n}\nexport const d = (e) => { return e + 1; };\n" * 5
    )
    found["mbox"] = b"From a@example.org Mon Mar  3 08:00:00 2025\n" + hostile_texts.HEAD.encode() + b"\nwords\n\n"
    found["jsonl"] = b'{"name": "Lin", "level": 3.5}\n{"name": "Wang", "level": 4}\n' * 9
    for name in ("deck.pptx", "manual.docx", "staff.xlsx", "old.xls", "news-zh.html", "goods.tsv", "goods.json"):
        found[f"sample.{name}"] = (DATA / name).read_bytes()
    for name in ("one.pdf", "twocol-en.pdf", "twocol-zh.pdf", "encrypted.pdf", "scan.pdf"):
        found[name if name == "scan.pdf" else f"sample.{name}"] = (DATA / "pdf" / name).read_bytes()
    found["png"], found["tiff"] = (DATA / "scan.png").read_bytes(), tiff()
    return found


def tiff() -> bytes:
    """A scan of two pages."""
    from PIL import Image

    with Image.open(DATA / "scan.png") as picture:
        small, made = picture.convert("L").resize((300, 300)), io.BytesIO()
        small.save(made, "TIFF", save_all=True, append_images=[small], compression="tiff_lzw")
    return made.getvalue()


# ------------------------------------------------------------------------------------------------- mutations


def mutated(number: int, seed: int, sound: dict[str, bytes]) -> tuple[str, bytes]:
    """The kind and the bytes of file `number`."""
    chosen = random.Random(f"{seed}:{number}")
    kinds = sorted(sound)
    kind = chosen.choices(kinds, [RARE.get(name, USUAL) for name in kinds])[0]
    other = sound[chosen.choice(kinds)]
    data = sound[kind]
    for _ in range(chosen.choice((1, 1, 2, 4))):
        data = (
            _repacked(data, other, chosen)
            if data[:2] == b"PK" and chosen.random() < 0.7
            else _changed(data, other, chosen)
        )
    return kind, data


def _changed(data: bytes, other: bytes, chosen: random.Random) -> bytes:
    """One change of one of these sorts."""
    if not data:
        return other[: chosen.randrange(1, 2000)]
    changed, size = bytearray(data), len(data)
    start = chosen.randrange(size)
    end = min(size, start + chosen.choice((1, 8, 64, 512, 4096)))
    match chosen.randrange(8):
        case 0:  # bits
            for _ in range(chosen.choice((1, 3, 20))):
                changed[chosen.randrange(size)] ^= 1 << chosen.randrange(8)
        case 1:  # the end is missing
            del changed[start:]
        case 2:  # a piece twice, or many times
            changed[start:start] = changed[start:end] * chosen.choice((1, 2, 200))
        case 3:  # a piece is missing
            del changed[start:end]
        case 4:  # a piece of another file
            place = chosen.randrange(max(1, len(other)))
            changed[start:end] = other[place : place + chosen.choice((8, 512, 8192))]
        case 5:  # noise, or one byte over and over
            changed[start:end] = chosen.choice(
                (chosen.randbytes(end - start), bytes([chosen.choice((0, 32, 255))]) * (end - start))
            )
        case 6:  # a number
            return _replaced(data, _NUMBER, chosen.choice(_ODD_NUMBERS), chosen)
        case _:  # a word of its language
            return _replaced(data, _TOKEN, None, chosen)
    return bytes(changed)


def _replaced(data: bytes, pattern: re.Pattern[bytes], by: bytes | None, chosen: random.Random) -> bytes:
    """With one match in place of another, or with `by`; or with one left out, or repeated."""
    found = list(pattern.finditer(data[: 4 * MEGABYTE]))
    if not found:
        return data[: chosen.randrange(len(data))]
    one = chosen.choice(found)
    new = by if by is not None else chosen.choice((b"", one[0] * 2, one[0] * 500, chosen.choice(found)[0]))
    return data[: one.start()] + new + data[one.end() :]


def _repacked(data: bytes, other: bytes, chosen: random.Random) -> bytes:
    """The same archive with one member changed, so that what is wrong lies deeper than the packing."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {member: archive.read(member) for member in archive.infolist()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, zipfile.zlib.error, EOFError):
        return _changed(data, other, chosen)
    if not members:
        return _changed(data, other, chosen)
    victim = chosen.choice(sorted(members, key=lambda member: member.filename))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for member, content in members.items():
            new = _changed(content, other, chosen) if member is victim else content
            archive.writestr(zipfile.ZipInfo(member.filename), new, compress_type=member.compress_type)
    return made.getvalue()


# ----------------------------------------------------------------------------------------------------- the run


@dataclass
class Figures:
    """What came of the files, by kind."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    seconds: dict[str, float] = field(default_factory=dict)  # the worst of a worker
    memory: dict[str, int] = field(default_factory=dict)  # the most a worker was seen to hold
    after: tuple[float, str] = (0.0, "")  # the worst of cutting and checking, in processor time, and with which file
    bad: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


class Fuzz:
    """One run."""

    def __init__(self, parsers: Parsers, *, seed: int, only: str = "") -> None:
        self.parsers, self.seed, self.figures = parsers, seed, Figures()
        self.sound = {kind: data for kind, data in seeds().items() if re.search(only, kind)}
        self.chunker = AutoChunker()

    def run(self, numbers: range) -> None:
        """Parse them all, several at a time."""
        waiting: deque[tuple[int, str, Blob, float, Future[tuple[Document, float]] | None]] = deque()
        stop = threading.Event()
        watch = threading.Thread(target=self._watch, args=(stop,), daemon=True)
        watch.start()
        for number in numbers:
            kind, data = mutated(number, self.seed, self.sound)
            blob = Blob(uri=f"/{kind}/{number}.{kind.rpartition('.')[2]}", data=data)
            blob = Blob(uri=blob.uri, data=data, mime=kind_of(blob.uri, data))
            waiting.append((number, kind, blob, time.perf_counter(), self._started(blob)))
            if len(waiting) > WAITING:
                self._finish(*waiting.popleft())
            if number % 500 == 0:
                print(f"{number} files, {len(self.figures.bad)} bad", flush=True)
        while waiting:
            self._finish(*waiting.popleft())
        stop.set()
        watch.join()

    def _started(self, blob: Blob) -> Future[tuple[Document, float]] | None:
        try:
            start = getattr(self.parsers.named(blob.mime), "start", None)
        except SourceError:
            return None
        return start(blob) if start else None

    def _finish(
        self, number: int, kind: str, blob: Blob, began: float, parsing: Future[tuple[Document, float]] | None
    ) -> None:
        outcome, told = "document", ""
        try:
            if parsing is not None:
                document, seconds = parsing.result()
            else:
                began = time.perf_counter()
                document = self.parsers.named(blob.mime).parse(blob)
                seconds = time.perf_counter() - began
            self.figures.seconds[kind] = max(self.figures.seconds.get(kind, 0.0), seconds)
            began = time.thread_time()
            told = self._faults(document)
            self.figures.after = max(self.figures.after, (time.thread_time() - began, f"{number}, {kind}"))
            outcome = "unsound" if told else "document"
        except EmptyDocument:
            outcome = "empty"
        except SourceError as error:
            told = str(error)
            outcome = _sort(told)
            self.figures.reasons[re.sub(r"/\S+|\d+|'[^']*'|\([^()]*\)", "…", told)[:100]] += 1
        except Exception as error:  # a parser that runs here, or what comes after: all of it is to be told
            outcome, told = "unexpected", f"{type(error).__name__}: {error}"
        self.figures.outcomes[kind][outcome] += 1
        if outcome in BAD:
            self.figures.bad.append(f"{number} {kind} {outcome}: {told[:300]}")
            print(self.figures.bad[-1], flush=True)

    def _faults(self, document: Document) -> str:
        """What is wrong with a document, or nothing."""
        text = document.text
        spans = [section.span for section in document.structure] + [block.span for block in document.blocks]
        if any(not 0 <= start <= end <= len(text) for start, end in (*spans, *document.hidden)):
            return "a span outside the text"
        chunks = self.chunker.chunk(document)
        if any(text[chunk.span.start : chunk.span.end] != chunk.text for chunk in chunks):
            return "a chunk whose text is not that of its span"
        examine(document, chunks)
        return ""

    def _watch(self, stop: threading.Event) -> None:
        while not stop.wait(SAMPLE_SECONDS):
            sandbox = self.parsers.sandbox
            with sandbox._lock:
                busy = [(worker._process.pid, uri.split("/")[1]) for worker, uri in sandbox._busy.items()]
            for pid, kind in busy:
                self.figures.memory[kind] = max(self.figures.memory.get(kind, 0), resident_bytes(pid))


def _sort(told: str) -> str:
    if _LIMIT.search(told):
        return "limit"
    if told.startswith("unexpected"):
        return "unexpected"
    return (
        "died"
        if re.search("crashed|stopped answering|makes no sense|is no document|processes running", told)
        else "reason"
    )


def page(figures: Figures, *, files: int, seed: int, minutes: float) -> Iterator[str]:
    """The figures as Markdown."""
    yield "# Fuzz run\n"
    yield f"`python bench/fuzz.py --files {files} --seed {seed}`: files of every kind, each with one to four changes"
    yield "(bits, pieces left out, repeated, exchanged with other files, numbers and tokens edited, also in archives"
    yield "that are packed again), given to the parsers in the sandbox; what came out was cut and checked.\n"
    yield f"Limits: {LIMITS.parse_wall_seconds:g} s, {LIMITS.parse_cpu_seconds} s of processor time,"
    yield f"{LIMITS.parse_memory_bytes // MEGABYTE} MB, {LIMITS.parse_output_chars:,} characters."
    yield f"The run took {minutes:.1f} minutes on {os.cpu_count()} cores that had other work too.\n"
    yield f"| kind | files | {' | '.join(OUTCOMES)} | worst s | worst MB |"
    yield "| --- " * (len(OUTCOMES) + 4) + "|"
    total: Counter[str] = Counter()
    for kind, counted in sorted(figures.outcomes.items()):
        total.update(counted)
        worst = f"{figures.seconds.get(kind, 0.0):.2f} | {figures.memory.get(kind, 0) // MEGABYTE}"
        yield f"| {kind} | {counted.total()} | {' | '.join(str(counted[name]) for name in OUTCOMES)} | {worst} |"
    worst = f"{max(figures.seconds.values(), default=0):.2f} | {max(figures.memory.values(), default=0) // MEGABYTE}"
    yield f"| all | {total.total()} | {' | '.join(str(total[name]) for name in OUTCOMES)} | {worst} |\n"
    yield "`reason`: not read, and told why; `limit`: more time, memory or text than one document may take; `died`:"
    yield "the worker ended without having met a limit; `unexpected`: an error that the parser did not foresee;"
    yield "`unsound`: a document whose spans do not fit. A worker that once recognised a picture keeps its memory, so"
    yield "that the megabytes of a kind may be those of the one before.\n"
    took, which = figures.after
    yield f"The most that cutting and checking took was {took:.2f} s of processor time (file {which}).\n"
    yield "## What went wrong\n"
    yield from (f"- {line}" for line in figures.bad or ["nothing"])
    yield "\n## The most frequent reasons\n"
    yield from (f"- {count} x {told}" for told, count in figures.reasons.most_common(20))


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="the Markdown page to write the figures to")
    parser.add_argument("--only", default="", help="a pattern of kinds")
    parser.add_argument("--again", type=int, help="only the file of this number")
    parser.add_argument("--keep", type=Path, help="the folder to write that file to")
    given = parser.parse_args()
    started, parsers = time.monotonic(), Parsers(LIMITS)
    numbers = (
        range(given.first, given.first + given.files) if given.again is None else range(given.again, given.again + 1)
    )
    fuzz = Fuzz(parsers, seed=given.seed, only=given.only)
    if given.keep and given.again is not None:
        kind, data = mutated(given.again, given.seed, fuzz.sound)
        (given.keep / f"{given.again}.{kind.rpartition('.')[2]}").write_bytes(data)
    try:
        fuzz.run(numbers)
    finally:
        parsers.close()
    minutes = (time.monotonic() - started) / 60
    written = "\n".join(page(fuzz.figures, files=len(numbers), seed=given.seed, minutes=minutes)) + "\n"
    if given.write:
        given.write.write_text(written, encoding="utf-8")
    print(written)
    return 1 if fuzz.figures.bad else 0


if __name__ == "__main__":
    sys.exit(main())
