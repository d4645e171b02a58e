"""Every sample file reads as its golden outline says, which was compared by eye with the file in its own program.

The kind is told by content and the parser is found as an ingest finds it. Of long texts the golden file has the
beginning and the end. To write them anew after a change that is meant: `WRITE_GOLDEN=1 pytest
tests/parsers/test_samples.py`, then read the difference.
"""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from headwater.config import Ingest
from headwater.errors import EmptyDocument, SourceError
from headwater.kinds import kind_of
from headwater.parsers import READS
from headwater.registry import load
from headwater.types import Blob, Document

DATA = Path(__file__).parents[1] / "data"
GOLDEN = Path(__file__).parents[1] / "golden" / "samples"
# Others have golden files of their own, beside them or in tests/golden/pdf; what is recognised is measured elsewhere.
ELSEWHERE = {"deck.pptx", "manual.docx", "twocol-en.pdf", "twocol-zh.pdf", "scan.png", "scan.pdf", "scan-truth.txt"}
SAMPLES = sorted(
    path.relative_to(DATA).as_posix()
    for path in DATA.rglob("*")
    if path.is_file() and path.name not in ELSEWHERE and path.suffix != ".golden" and "cross-encoder" not in path.parts
)
SHOWN_LINES = 40
WRITE = "WRITE_GOLDEN"


@pytest.fixture(autouse=True)
def without_recognition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.parsers._ocr.available", lambda: False)


def read(name: str) -> Document:
    data = (DATA / name).read_bytes()
    mime = kind_of(name, data)
    [parser] = [parser for parser, mimes in READS.items() if mime in mimes]
    parsed: Document = load("parsers", parser)().parse(Blob(uri=name, data=data, mime=mime))
    return parsed


def told(document: Document, outline: Callable[[Document], str]) -> str:
    """The outline, with the middle of a long text left out, and what else was found."""
    head, _, text = outline(document).partition("\n---\n")
    lines = text.split("\n")
    if len(lines) > SHOWN_LINES:
        left_out = f"... {len(lines) - SHOWN_LINES} lines ..."
        lines = [*lines[: SHOWN_LINES // 2], left_out, *lines[-SHOWN_LINES // 2 :]]
    more = [f"mime {document.mime}", f"tags {' '.join(document.tags)}", f"characters {len(document.text)}"]
    more += [f"meta {name} {value!r}" for name, value in sorted(document.meta.items())]
    more += [f"link {link.kind} {link.target} {list(link.span)}" for link in document.links]
    more += [f"attachment {blob.uri} {blob.mime} {len(blob.data)}" for blob in document.attachments]
    more += [f"created {document.created}", f"updated {document.updated}"]
    return "\n".join([head, *more, "---", *lines]) + "\n"


def outcome(name: str, outline: Callable[[Document], str]) -> str:
    try:
        return told(read(name), outline)
    except (EmptyDocument, SourceError) as error:
        return f"{type(error).__name__} {error}\n"


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_reads_as_its_golden_outline_says(name: str, outline: Callable[[Document], str]) -> None:
    golden = GOLDEN / f"{name.replace('/', '-')}.txt"
    found = outcome(name, outline)
    if os.environ.get(WRITE):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_no_golden_file_is_without_its_sample() -> None:
    assert len(SAMPLES) >= 10
    assert {path.name for path in GOLDEN.glob("*.txt")} == {f"{name.replace('/', '-')}.txt" for name in SAMPLES}


@pytest.mark.parametrize("name", SAMPLES)
def test_everything_that_is_pointed_at_is_in_the_text(name: str) -> None:
    try:
        document = read(name)
    except SourceError:
        assert name == "pdf/encrypted.pdf"
        return
    assert len(document.text) <= Ingest().parse_output_chars
    spans = [section.span for section in document.structure] + [block.span for block in document.blocks]
    for start, end in spans:
        assert document.text[start:end].strip()
    assert all(before.span.start <= after.span.start for before, after in pairwise(document.blocks))
