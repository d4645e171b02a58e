"""Chunks of any text: exact slices, everything covered, nothing too large, no more overlap than asked for."""

import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.chunkers.recursive import RecursiveChunker
from headwater.clean import clean, is_blank
from headwater.errors import SettingError, SourceError
from headwater.parsers.markdown import MarkdownParser
from headwater.tokens import Unit, length
from headwater.types import Blob, Block, Chunk, Document, Section, Span

WORDS = [
    *("alpha", "beta", "C++", "3.14", "a_b.c", "e.g.", "supercalifragilistic" * 4, "“quoted”", "naïve", "e\u0301"),
    *(
        "北京大学",
        "的",
        "检索",
        "増強",
        "こんにちは",
        "안녕",
        "👨‍👩‍👧",
        "🇨🇳",
        "\u200b",
        "%",
        "#tag",
        "|",
        "```",
        "- item",
    ),
    *("。", "！", "？", ". ", "! ", "; ", "；", "，", ", ", " ", "\n", "\n\n", "\n\n\n", "\t", "\u3000", "\f", "\r\n"),
]
plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)
wordy = st.lists(st.sampled_from(WORDS), max_size=150).map("".join)
texts = st.one_of(wordy, plain)
markdown = st.lists(
    st.sampled_from(
        [
            *(
                "# One\n",
                "## Two\n",
                "### 三\n",
                "Title\n===\n",
                "Some words about it. And more of them.\n",
                "\n",
                "\n\n",
            ),
            *(
                "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n",
                "```python\nx = 1\ny = 2\n# no heading\n```\n",
            ),
            *(
                "中文段落，有两句话。第二句在这里！\n",
                "<!-- hidden -->\n",
                "%%also hidden%%\n",
                "    indented\n",
                "- item\n",
            ),
        ]
    ),
    max_size=40,
).map("".join)
sizes = st.tuples(st.integers(1, 80), st.integers(0, 79)).map(lambda pair: (pair[0], pair[1] % pair[0]))
units = st.sampled_from(["chars", "tokens"])
separators = st.sampled_from([None, ["\n\n", "\n", "。", "！", "？", ";", "；"], [["。", "."], " ", ""], []])


def covered(document: Document, chunks: list[Chunk]) -> None:
    """Every visible character outside what is hidden is in some chunk, and nothing hidden is in any."""
    seen = [False] * len(document.text)
    for chunk in chunks:
        for place in range(*chunk.span):
            seen[place] = True
    hidden = {place for span in document.hidden for place in range(*span)}
    for place, char in enumerate(document.text):
        if place in hidden:
            assert not seen[place], f"hidden {char!r} at {place}"
        elif not char.isspace():
            assert seen[place], f"{char!r} at {place}"


def well_formed(document: Document, chunks: list[Chunk]) -> None:
    for chunk in chunks:
        assert document.text[chunk.span.start : chunk.span.end] == chunk.text
        assert chunk.text and chunk.text == chunk.text.strip()
    for before, after in pairwise(chunks):
        assert before.span.start < after.span.start and before.span.end < after.span.end


@given(texts, sizes, units, separators)
@example("a" * 200, (10, 4), "chars", None)
@example("字" * 200, (10, 4), "tokens", None)
@example("word " * 60 + "x" * 90 + " end", (7, 3), "tokens", None)
@example("   \n\n \f ", (5, 1), "chars", None)
def test_any_text(text: str, bounds: tuple[int, int], unit: Unit, cuts: list[str] | None) -> None:
    size, overlap = bounds
    chunker = RecursiveChunker(size=size, overlap=overlap, unit=unit, separators=cuts)
    document = Document(uri="a", text=text)
    chunks = chunker.chunk(document)
    well_formed(document, chunks)
    covered(document, chunks)
    assert chunks == chunker.chunk(document)
    for chunk in chunks:
        assert length(chunk.text, unit) <= size
    for before, after in pairwise(chunks):
        shared = text[after.span.start : max(after.span.start, before.span.end)]
        assert length(shared, unit) <= overlap


@given(markdown, sizes, units)
def test_any_markdown(text: str, bounds: tuple[int, int], unit: Unit) -> None:
    size, overlap = bounds
    try:
        document = MarkdownParser().parse(Blob(uri="a.md", data=text.encode()))
    except SourceError:
        assert is_blank(text) or "hidden" in text
        return
    chunks = RecursiveChunker(size=size, overlap=overlap, unit=unit).chunk(document)
    well_formed(document, chunks)
    covered(document, chunks)
    starts = {section.span.start for section in document.structure}
    for chunk in chunks:
        headings = sorted(starts & set(range(*chunk.span)))
        # Only headings with nothing under them stand before another heading in one chunk.
        for heading, following in pairwise(headings):
            lines = document.text[heading:following].strip().split("\n")
            assert len(lines) <= 2, chunk.text
        assert "```" in chunk.text or "|" in chunk.text or length(chunk.text, unit) <= size
    for table in (block for block in document.blocks if block.kind == "table"):
        rows = {table.span.start, table.span.end}
        rows |= {place + 1 for place in range(*table.span) if text[place] == "\n"}
        rows |= {place for place in range(*table.span) if text[place] == "\n"}
        for chunk in chunks:
            for edge in chunk.span:
                assert not table.span.start < edge < table.span.end or edge in rows


@given(texts)
def test_cleaning_is_stable_and_keeps_every_visible_character(text: str) -> None:
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert is_blank(text) == (cleaned == "")
    for kept in "%+@#/$&*_<>[]=":
        assert cleaned.count(kept) == text.count(kept) or not text.isascii()


def test_cleaning_makes_layout_plain_and_drops_what_no_one_sees() -> None:
    assert clean("a\r\nb\rc\t \td\n\n\n\n\ne  \u3000f ") == "a\nb\nc d\n\ne f"
    assert clean("soft\xadhyphen zero\u200bwidth bell\x07 \ufeffmark e\u0301") == "softhyphen zerowidth bell mark é"
    assert clean("98.5% C++ a@b.c x=1/2 #t 𠮷 㐀 [1]") == "98.5% C++ a@b.c x=1/2 #t 𠮷 㐀 [1]"
    assert clean("def f():\n    return  1\n\n\n", "code") == "def f():\n    return  1"


def spans(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def test_separators_are_tried_from_the_coarsest_and_only_where_needed() -> None:
    text = "第一段很短。\n\n第二段有三句话。这是第二句！这是第三句？\n\n第三段。"
    chunker = RecursiveChunker(size=12, overlap=0, unit="chars")
    assert spans(chunker.chunk(Document(uri="a", text=text))) == [
        "第一段很短。",
        "第二段有三句话。",
        "这是第二句！这是第三句？",
        "第三段。",
    ]


def test_five_hundred_characters_and_fifty_of_overlap() -> None:
    """The values of one of the source designs: every sentence whole, the end of each chunk repeated in the next."""
    sentence = "知识库检索需要把长文档切成合适的片段，每个片段都要能单独读懂。"
    text = "\n\n".join(sentence * 12 for _ in range(4))
    cuts = ["\n\n", "\n", "。", "！", "？", ";", "；"]
    chunks = RecursiveChunker(size=500, overlap=50, unit="chars", separators=cuts).chunk(Document(uri="a", text=text))
    assert len(chunks) == 4
    assert all(len(chunk.text) <= 500 and chunk.text.endswith("。") for chunk in chunks)
    for before, after in pairwise(chunks):
        assert text[after.span.start : before.span.end] == sentence
    tiny = RecursiveChunker(size=40, overlap=0, unit="chars", separators=cuts).chunk(Document(uri="a", text=text))
    assert spans(tiny) == [sentence] * 48


def test_overlap_starts_on_a_sentence_a_clause_or_a_word() -> None:
    chunker = RecursiveChunker(size=70, overlap=30, unit="chars")
    text = "The first sentence is here. The second one is short. The third sentence ends the paragraph. A fourth."
    chunks = spans(chunker.chunk(Document(uri="a", text=text)))
    assert chunks[1].startswith("The second one is short. The third")
    words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    for chunk in spans(chunker.chunk(Document(uri="a", text=words))):
        assert set(chunk.split()) <= set(words.split())


def test_profiles_are_parameters() -> None:
    text = " ".join(f"word{number}." for number in range(3000))
    counts = [
        len(RecursiveChunker(size=size, overlap=overlap).chunk(Document(uri="a", text=text)))
        for size, overlap in ((500, 50), (1000, 100), (100_000, 0))
    ]
    assert counts[0] > counts[1] > counts[2] == 1


def test_sections_paths_and_headings() -> None:
    text = "# Guide\n\n## Install\n\nRun pip.\n\n## Use\n\nAsk it.\n\n# End\n\nThat is all."
    document = MarkdownParser().parse(Blob(uri="g.md", data=text.encode()))
    chunks = RecursiveChunker().chunk(document)
    assert [(chunk.section, chunk.text) for chunk in chunks] == [
        ("Guide > Install", "# Guide\n\n## Install\n\nRun pip."),
        ("Guide > Use", "## Use\n\nAsk it."),
        ("End", "# End\n\nThat is all."),
    ]
    assert chunks[1].index_text == "Guide > Use\n## Use\n\nAsk it."


def test_a_heading_is_never_left_alone_before_its_text() -> None:
    body = "A sentence of some words that goes on. " * 30
    document = MarkdownParser().parse(Blob(uri="g.md", data=f"# A heading of five words\n\n{body}".encode()))
    for size in range(12, 200, 7):
        first = RecursiveChunker(size=size, overlap=0).chunk(document)[0]
        assert "A sentence" in first.text, size


def test_a_table_is_cut_between_rows_and_its_header_goes_along() -> None:
    rows = "\n".join(f"| item {number} | {number * 7} pieces |" for number in range(40))
    text = f"# Stock\n\nWhat we have.\n\n| Name | Amount |\n| --- | --- |\n{rows}\n\nAfter it."
    document = MarkdownParser().parse(Blob(uri="s.md", data=text.encode()))
    chunks = RecursiveChunker(size=60, overlap=0).chunk(document)
    tables = [chunk for chunk in chunks if chunk.kind == "table"]
    assert len(tables) > 3
    for chunk in tables[1:]:
        assert chunk.index_text.startswith("Stock\nName | Amount\n| item")
        assert "| Name" not in chunk.text
        assert all(line.count("|") == 3 for line in chunk.text.split("\n") if line.startswith("|"))
    long_row = Document(uri="r", text="| " + "x " * 500 + "|", blocks=(Block(kind="table", span=Span(0, 1003)),))
    assert len(RecursiveChunker(size=50, overlap=0).chunk(long_row)) == 1


def test_code_is_cut_between_lines() -> None:
    code = "\n".join(f"value_{number} = compute({number}, other={number})" for number in range(60))
    document = MarkdownParser().parse(Blob(uri="c.md", data=f"Intro.\n\n```python\n{code}\n```\n".encode()))
    chunks = RecursiveChunker(size=80, overlap=20).chunk(document)
    assert {chunk.kind for chunk in chunks} == {"code"}
    lines = {"Intro.", "", "```python", "```", *code.split("\n")}
    assert all(line in lines for chunk in chunks for line in chunk.text.split("\n"))


def test_pages_come_from_where_they_start() -> None:
    text = "page one.\f" + "page two. " * 20 + "\fpage three."
    starts = (0, 10, text.index("page three"))
    document = Document(uri="p", text=text, page_starts=starts)
    chunks = RecursiveChunker(size=30, overlap=0, unit="chars").chunk(document)
    assert chunks[0].pages == (1,) and chunks[-1].pages == (3,)
    assert {page for chunk in chunks for page in chunk.pages} == {1, 2, 3}
    assert RecursiveChunker().chunk(document)[0].pages == (1, 2, 3)


def test_sections_that_end_before_the_text_does() -> None:
    section = Section(title="A", level=1, path="A", span=Span(0, 8))
    chunks = RecursiveChunker().chunk(Document(uri="s", text="A\ninsideoutside", structure=(section,)))
    assert [(chunk.section, chunk.text) for chunk in chunks] == [("A", "A\ninside"), ("", "outside")]


def test_the_fingerprint_tells_settings_apart() -> None:
    prints = {
        RecursiveChunker().fingerprint,
        RecursiveChunker(size=500).fingerprint,
        RecursiveChunker(overlap=0).fingerprint,
        RecursiveChunker(unit="chars").fingerprint,
        RecursiveChunker(separators=["\n"]).fingerprint,
    }
    assert len(prints) == 5
    assert RecursiveChunker().fingerprint == "recursive/1 size=512 overlap=64 unit=tokens separators=natural"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"size": 0}, "chunk.size"),
        ({"size": "big"}, "chunk.size"),
        ({"size": 10, "overlap": 10}, "chunk.overlap"),
        ({"overlap": -1}, "chunk.overlap"),
        ({"unit": "words"}, "chunk.unit"),
        ({"separators": "\n"}, "chunk.separators"),
        ({"separators": [1]}, "chunk.separators"),
    ],
)
def test_wrong_settings_are_refused_by_name(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        RecursiveChunker(**arguments)  # type: ignore[arg-type]


def test_more_chunks_than_a_document_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.chunkers._pieces.MAX_CHUNKS", 500)
    chunker = RecursiveChunker(size=1, overlap=0, unit="chars")
    assert len(chunker.chunk(Document(uri="full", text="x" * 500))) == 500
    with pytest.raises(SourceError, match="more than 500 chunks"):
        chunker.chunk(Document(uri="big", text="x" * 501))


@pytest.mark.parametrize(
    "text", ["a" * 400_000, "字" * 400_000, "word " * 80_000, "\n" * 400_000 + "x", "。" * 400_000]
)
def test_time_is_linear(text: str) -> None:
    chunker = RecursiveChunker(size=100, overlap=20)
    chunker.chunk(Document(uri="warm", text="warm 暖"))
    started = time.process_time()
    chunker.chunk(Document(uri="a", text=text))
    assert time.process_time() - started < 5, "hundred times what it takes"
