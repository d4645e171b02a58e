"""What each strategy is for."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest

from headwater import strategies
from headwater.chunkers.auto import STRATEGIES, AutoChunker
from headwater.chunkers.hierarchical import HierarchicalChunker
from headwater.chunkers.meta import MetaChunker
from headwater.chunkers.recursive import RecursiveChunker
from headwater.chunkers.semantic import SemanticChunker
from headwater.chunkers.sentence import SentenceChunker
from headwater.chunkers.whole import WholeChunker, is_faq
from headwater.errors import SettingError, UsageError
from headwater.models.hashed import HashedEmbedder
from headwater.parsers.markdown import MarkdownParser
from headwater.tokens import count_tokens
from headwater.types import Blob, Block, Chunk, Document, Matrix, Section, Span


def texts(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def markdown(text: str, uri: str = "a.md") -> Document:
    return MarkdownParser().parse(Blob(uri=uri, data=text.encode()))


# ------------------------------------------------------------------------------------------- sentence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pi is 3.14 today. It was e.g. 3 before. Done!", ["Pi is 3.14 today.", "It was e.g. 3 before.", "Done!"]),
        ("See https://example.com/a.b?c=d.e for more. Good.", ["See https://example.com/a.b?c=d.e for more.", "Good."]),
        ("第一句。第二句！第三句？最后", ["第一句。", "第二句！", "第三句？", "最后"]),
        ("Dr. Miller came at 5 p.m. on Monday. He left.", ["Dr. Miller came at 5 p.m. on Monday.", "He left."]),
    ],
)
def test_sentences_end_where_they_end(text: str, expected: list[str]) -> None:
    assert texts(SentenceChunker(minimum=0).chunk(Document(uri="a", text=text))) == expected


def test_sentences_are_packed_to_a_minimum_and_a_small_rest_joins_the_last() -> None:
    text = "这里有一句不长不短的话。" * 10 + "完。"
    chunks = SentenceChunker(minimum=30, size=60).chunk(Document(uri="a", text=text))
    assert [count_tokens(chunk.text) for chunk in chunks] == [36, 36, 50]
    short = SentenceChunker(minimum=30, size=120).chunk(Document(uri="a", text="这里有一句不长不短的话。" * 3 + "完。"))
    assert len(short) == 1
    for chunk in chunks:
        assert chunk.text.endswith("。")


# ------------------------------------------------------------------------------------------- semantic


class Topics:
    """An embedder that knows three topics by a word each, and counts how often it is asked."""

    fingerprint, dim = "topics/1", 3

    def __init__(self) -> None:
        self.calls = 0

    def embed(self, texts: Sequence[str], role: Literal["query", "passage"]) -> Matrix:
        self.calls += 1
        rows = [[1.0 + 9 * (word in text) for word in ("pump", "leave", "水")] for text in texts]
        matrix = np.array(rows, dtype=np.float32)
        return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def test_a_passage_ends_where_the_topic_changes_and_the_embedder_is_asked_once() -> None:
    topics = ["The pump is here. " * 8, "You may take leave now. " * 6, "水位正在上升。" * 9]
    document = Document(uri="a", text="".join(topics))
    embedder = Topics()
    chunks = SemanticChunker(embedder=lambda: embedder, size=200, minimum=10, drift=0.2).chunk(document)
    assert texts(chunks) == [topic.strip() for topic in topics]
    assert embedder.calls == 1


def test_a_topic_that_is_too_large_is_parted_where_its_sides_are_least_alike() -> None:
    document = Document(uri="a", text="The pump is here. " * 40 + "You may take leave now. " * 40)
    chunks = SemanticChunker(embedder=Topics, size=150, minimum=20, drift=0.0).chunk(document)
    assert all(count_tokens(chunk.text) <= 150 for chunk in chunks)
    assert [{word for word in ("pump", "leave") if word in chunk.text} for chunk in chunks].count(
        {"pump", "leave"}
    ) == 0


def test_paragraphs_stay_whole_where_they_are_the_grain() -> None:
    paragraphs = ["The pump is here. You may take leave. " * 3, "水位正在上升。" * 5, "The pump again. " * 5]
    document = Document(uri="a", text="\n\n".join(paragraphs))
    chunks = SemanticChunker(embedder=Topics, size=60, minimum=5, drift=1.0, grain="paragraphs").chunk(document)
    assert texts(chunks) == [paragraph.strip() for paragraph in paragraphs]


def test_the_embedder_is_part_of_the_fingerprint() -> None:
    first, second = (SemanticChunker(embedder=made).fingerprint for made in (Topics, HashedEmbedder))
    assert first != second
    assert Topics.fingerprint in first


# ----------------------------------------------------------------------------------------------- meta


def test_meta_of_a_manual_is_title_and_section_path() -> None:
    document = markdown("---\ntitle: Pump guide\n---\n# Safety\n\n## Power\n\nDisconnect it first.\n")
    (chunk,) = MetaChunker().chunk(document)
    words = "# Safety\n\n## Power\n\nDisconnect it first."
    assert chunk.index_text == f"<meta>Pump guide\nSafety > Power</meta>\n<content>{words}</content>"
    assert chunk.searchable_text == f"Pump guide\nSafety > Power\n{words}"
    assert chunk.text == words


def test_a_long_title_is_not_told_of_a_short_passage() -> None:
    title = "Seasonal variation of sediment transport in regulated lowland rivers"
    text = "A few words only. " * 3 + "Many words follow here. " * 40
    section = Section(title="More", level=1, path="More", span=Span(text.index("Many"), len(text)))
    document = Document(uri="a", text=text, title=title, structure=(section,))
    short, long = MetaChunker(size=200, overlap=0).chunk(document)
    assert title not in short.searchable_text
    assert long.searchable_text.startswith(f"{title}\nMore\n")


def test_meta_of_slides_is_the_heading_path_and_the_notes() -> None:
    text = "Intake\nKeep it clean.\nMention the storm of 2019.\n"
    slide, notes = Span(0, 22), Span(22, len(text))
    document = Document(
        uri="deck.pptx",
        text=text,
        title="Training",
        structure=(Section(title="Intake", level=1, path="Intake", span=Span(0, len(text))),),
        blocks=(Block(kind="note", span=notes, about=slide),),
    )
    first, second = MetaChunker(size=9, overlap=0).chunk(document)
    assert first.index_text == (
        "<meta>Training\nIntake\nMention the storm of 2019.</meta>\n<content>Intake\nKeep it clean.</content>"
    )
    assert second.kind == "note"
    assert second.searchable_text == "Training\nIntake\nIntake Keep it clean.\nMention the storm of 2019."


def test_meta_of_data_is_the_column_names_on_every_part() -> None:
    rows = [f"{number}\tValve {number}\n" for number in range(30)]
    text = "".join(rows)
    starts = tuple(sum(map(len, rows[:number])) for number in range(len(rows)))
    block = Block(kind="table", span=Span(0, len(text)), header="No., Part", rows=starts)
    document = Document(uri="parts.csv", text=text, title="Parts", content_type="table", blocks=(block,))
    assert AutoChunker(size=20, overlap=0).strategy(document) == "rows"
    chunks = AutoChunker(size=20, overlap=0).chunk(document)
    assert len(chunks) > 3
    for chunk in chunks:
        assert chunk.index_text.startswith("<meta>Parts\nNo., Part</meta>\n<content>")
        assert all(line.strip() + "\n" in text for line in chunk.text.splitlines())


def test_a_caption_carries_what_it_is_about_and_the_table_its_caption() -> None:
    table, caption = "a\tb\n1\t2\n", "Table 3: Flow by month."
    middle = "Other words stand in between. " * 5
    text = f"{table}{middle}\n{caption}\n"
    blocks = (
        Block(kind="table", span=Span(0, len(table)), header="a, b", rows=(0, 4)),
        Block(kind="caption", span=Span(text.index(caption), len(text)), about=Span(0, len(table))),
    )
    document = Document(uri="a", text=text, blocks=blocks)
    plain = RecursiveChunker(size=12, overlap=0).chunk(document)
    assert plain[-1].text == caption
    assert plain[-1].kind == "caption"
    assert plain[-1].index_text == f"a b 1 2\n{caption}"
    told = MetaChunker(size=12, overlap=0).chunk(document)
    assert told[0].index_text.startswith(f"<meta>{caption}\na, b</meta>")


def test_code_carries_the_line_that_says_what_it_is() -> None:
    lines = ["def torque(bolt):", *(f"    step_{number}()" for number in range(40))]
    text = "\n".join(lines)
    block = Block(kind="code", span=Span(0, len(text)), header=lines[0])
    chunks = AutoChunker(size=40, overlap=0).chunk(
        Document(uri="a.py", text=text, mime="text/x-python", blocks=(block,))
    )
    assert len(chunks) > 3
    assert all(lines[0] in chunk.searchable_text for chunk in chunks)
    assert all(line in {line.strip() for line in lines} for c in chunks for line in map(str.strip, c.text.split("\n")))


# --------------------------------------------------------------------------------------- hierarchical


def test_children_are_small_and_parents_are_sections() -> None:
    body = "The pump needs oil every year, and the seals need grease. "
    document = markdown(f"# One\n\n{body * 40}\n\n# Two\n\n{body * 5}")
    chunks = HierarchicalChunker(size=64, overlap=8, parent_size=2048).chunk(document)
    children = [chunk for chunk in chunks if chunk.parent]
    parents = [chunk for chunk in chunks if not chunk.parent]
    assert [parent.section for parent in parents] == ["One", "Two"]
    assert all(count_tokens(child.text) <= 64 for child in children)
    assert all(chunks[child.parent].section == child.section for child in children)
    assert len(children) > 8


# ---------------------------------------------------------------------------------------------- whole


def test_questions_stay_with_their_answers() -> None:
    text = (
        "# Help\n\nWrite to us.\n\n## Billing\n\n**Q1:** What does it cost?\n**A1:** Nothing. It is free.\n\n"
        "**Q2:** For how long?\n\n**A2:** For ever.\n\n## 其他\n\n"
        "问：怎么注销？\n答：联系客服。\n\n问：多久生效？\n答：三天。\n"
    )
    document = markdown(text)
    assert is_faq(document)
    assert texts(WholeChunker().chunk(document)) == [
        "# Help\n\nWrite to us.",
        "## Billing\n\n**Q1:** What does it cost?\n**A1:** Nothing. It is free.",
        "**Q2:** For how long?\n\n**A2:** For ever.",
        "## 其他\n\n问：怎么注销？\n答：联系客服。",
        "问：多久生效？\n答：三天。",
    ]


def test_headings_that_ask_start_an_entry_each() -> None:
    document = markdown(
        "# FAQ\n\n## Why?\n\nBecause.\n\n### Really\n\nYes.\n\n## How long?\n\nA day.\n\n## 多久？\n\n三天。\n"
    )
    assert is_faq(document)
    chunks = WholeChunker().chunk(document)
    assert texts(chunks) == [
        "# FAQ\n\n## Why?\n\nBecause.\n\n### Really\n\nYes.",
        "## How long?\n\nA day.",
        "## 多久？\n\n三天。",
    ]
    assert chunks[1].section == "FAQ > How long?"


@pytest.mark.parametrize(
    "text", ["A. Smith wrote it.\nQ. What?\n" * 2, "No questions here at all. " * 9, "Q: one\nA: two"]
)
def test_what_is_no_list_of_questions_is_not_taken_for_one(text: str) -> None:
    assert not is_faq(Document(uri="a", text=text))


def test_a_short_document_is_one_passage_and_a_long_one_is_cut() -> None:
    short = markdown("# A\n\nOne.\n\n# B\n\nTwo.\n")
    assert texts(WholeChunker().chunk(short)) == [short.text.strip()]
    chunks = WholeChunker(size=50).chunk(markdown("# A\n\n" + "Words that go on. " * 60 + "\n\n# B\n\nTwo.\n"))
    assert len(chunks) > 4
    assert all(count_tokens(chunk.text) <= 50 for chunk in chunks)


# ----------------------------------------------------------------------------------------------- auto

PLAIN = Document(uri="a", text="Plain words. " * 20)
NOTES = markdown("# One\n\nText.\n\n# Two\n\nText.\n")


@pytest.mark.parametrize(
    ("document", "strategy"),
    [
        (PLAIN, "recursive"),
        (NOTES, "meta"),
        (Document(uri="a.py", text="x = 1\n", mime="text/x-python"), "code"),
        (markdown("| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 20), "rows"),
        (Document(uri="q", text="Q: a?\nA: b.\nQ: c?\nA: d.\n问：e？\n答：f。\n"), "whole"),
        (Document(uri="p", text="page one\fpage two", page_starts=(0, 9)), "meta"),
        (Document(uri="a", text="x", meta={"strategy": "sentence"}), "sentence"),
        (Document(uri="a", text="x", meta={"strategy": "growth"}), "recursive"),  # a property of the document's own
        (Document(uri="a", text="x", collection="manuals"), "technical"),
        (Document(uri="a", text="x", collection="manuals", meta={"strategy": "whole"}), "whole"),
    ],
)
def test_the_strategy_suits_the_document(document: Document, strategy: str) -> None:
    assert AutoChunker(collections={"manuals": "technical"}).strategy(document) == strategy


def test_plain_text_is_cut_as_recursive_does() -> None:
    assert AutoChunker().chunk(PLAIN) == RecursiveChunker().chunk(PLAIN)
    assert AutoChunker(size=20, overlap=3).chunk(PLAIN) == RecursiveChunker(size=20, overlap=3).chunk(PLAIN)


@pytest.mark.parametrize(("profile", "size", "overlap"), [("technical", 500, 50), ("long", 1000, 100)])
def test_profiles(profile: str, size: int, overlap: int) -> None:
    document = Document(uri="a", text="A sentence of seven words or so. " * 900, meta={"strategy": profile})
    chunks = AutoChunker().chunk(document)
    assert [chunk.span for chunk in chunks] == [
        chunk.span for chunk in RecursiveChunker(size=size, overlap=overlap).chunk(document)
    ]
    faq = Document(uri="a", text="A sentence of seven words or so. " * 100, meta={"strategy": "faq"})
    assert len(AutoChunker().chunk(faq)) == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_document_may_have_a_size_of_its_own(strategy: str) -> None:
    auto = AutoChunker(embedder=Topics)
    text = "A sentence of seven words or so.\n" * 100
    chunks = auto.chunk(Document(uri="a", text=text, meta={"strategy": strategy, "chunk_size": 40}))
    assert {count_tokens(chunk.text) <= 40 for chunk in chunks if chunk.parent or strategy != "hierarchical"} == {True}


@pytest.mark.parametrize("overlap", [0, 20])
def test_a_document_may_have_an_overlap_of_its_own(overlap: int) -> None:
    text = "A sentence of seven words or so.\n" * 100
    told = {"strategy": "recursive", "chunk_size": 40, "chunk_overlap": overlap}
    chunks = AutoChunker().chunk(Document(uri="a", text=text, meta=told))
    right = RecursiveChunker(size=40, overlap=overlap).chunk(Document(uri="a", text=text))
    assert [chunk.span for chunk in chunks] == [chunk.span for chunk in right]
    assert chunks != AutoChunker().chunk(Document(uri="a", text=text, meta={**told, "chunk_overlap": "some"}))


def test_an_overlap_that_cannot_be_is_refused() -> None:
    asked = strategies.asked_for(AutoChunker(), chunk_size=40, chunk_overlap=0)
    assert asked == {"chunk_size": 40, "chunk_overlap": 0}
    for size, overlap in ((40, 40), (40, -1), (0, 10)):
        with pytest.raises(UsageError, match="chunk overlap must be from 0 to below the chunk size"):
            strategies.asked_for(AutoChunker(), chunk_size=size, chunk_overlap=overlap)
    with pytest.raises(UsageError, match="cuts every document alike"):
        strategies.asked_for(RecursiveChunker(), chunk_size=40, chunk_overlap=10)


def test_one_fingerprint_for_all_that_it_may_choose() -> None:
    prints = {
        AutoChunker().fingerprint,
        AutoChunker(size=300).fingerprint,
        AutoChunker(collections={"a": "whole"}).fingerprint,
        AutoChunker(collections={"a": "meta"}).fingerprint,
    }
    assert len(prints) == 4
    assert AutoChunker(collections={"a": "meta", "b": "whole"}).fingerprint == (
        AutoChunker(collections={"b": "whole", "a": "meta"}).fingerprint
    )


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: SentenceChunker(size=10, minimum=11), "chunk.minimum"),
        (lambda: SemanticChunker(embedder=Topics, drift=2.0), "chunk.drift"),
        (lambda: SemanticChunker(embedder=Topics, window=0), "chunk.window"),
        (lambda: SemanticChunker(embedder=Topics, grain="words"), "chunk.grain"),  # type: ignore[arg-type]
        (lambda: MetaChunker(inner="other"), "chunk.inner"),  # type: ignore[arg-type]
        (lambda: MetaChunker(inner="semantic"), "needs an embedder"),
        (lambda: HierarchicalChunker(size=10, overlap=1, parent_size=5), "chunk.parent_size"),
        (lambda: WholeChunker(size=0), "chunk.size"),
        (lambda: AutoChunker(collections={"a": "other"}), "chunk.collections.a: no strategy is named 'other'"),
    ],
)
def test_wrong_settings_are_refused_by_name(make: type, named: str) -> None:
    with pytest.raises(SettingError, match=named):
        make()
