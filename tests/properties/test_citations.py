"""Whatever a generator writes, every citation is a slice of its document and every marker has a citation."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.assemble import assemble
from headwater.cite import cite, joined
from headwater.models.extractive import ExtractiveGenerator
from headwater.statements import statements
from headwater.types import Chunk, Context, Hit, Options, Query, Record, Sentence, Span

VOCABULARY = "dam river 1936 221 metres leave weeks paid PPR-9087 大坝 建于 年 员工 享有 年假 天 批准 水位"
WORDS = VOCABULARY.split()
ENDS = (". ", "! ", "。", "？", "\n", "\n\n", "[3] ", ".[2] ", " | ", "； ", " ")
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
texts = st.lists(st.tuples(phrases, st.sampled_from(ENDS)), min_size=1, max_size=12).map(
    lambda parts: "".join(phrase + end for phrase, end in parts)
)
SHAPES = (
    "",
    " [1]",
    "[2]",
    "[1][2]",
    " [1, 2]",
    "【1】",
    "[ID:2]",
    " [99]",
    "[0]",
    " [来源 1]",
    "（来源 2）",
    "[1-3]",
    "[^2]",
)
markers = st.sampled_from(SHAPES)
answers = st.lists(st.tuples(phrases, markers, st.sampled_from(ENDS)), max_size=8).map(
    lambda parts: "".join(phrase + marker + end for phrase, marker, end in parts)
)
MARKER = re.compile(r"\[(\d+)\]")

ANY_MARKER = re.compile(r"[\[【（](?:ID:|来源 |\^)?\d+(?:(?:, |-)\d+)*[\]】）]")


def letters(text: str) -> str:
    return re.sub(r"\W+", "", ANY_MARKER.sub("", text))


@st.composite
def contexts(draw: st.DrawFn) -> tuple[Context, dict[str, str]]:
    """Passages cut from documents at random places, packed as the engine packs them."""
    documents = {f"d{n}": text for n, text in enumerate(draw(st.lists(texts, min_size=1, max_size=3)))}
    hits: list[Hit] = []
    for id, text in documents.items():
        for ordinal in range(draw(st.integers(1, 2))):
            start = draw(st.integers(0, len(text) - 1))
            end = draw(st.integers(start + 1, len(text)))
            chunk = Chunk(
                id=(int(id[1:]) + 1) << 20 | ordinal, span=Span(start, end), text=text[start:end], document_id=id
            )
            hits.append(Hit(chunk=chunk, record=Record(id=id, uri=f"{id}.md"), score=1.0, scores={"semantic": 0.9}))
    query = Query(text=draw(phrases), options=Options(max_context_tokens=draw(st.sampled_from([5, 50, 3000]))))
    return assemble(query, hits), documents


def check(sentences: list[Sentence], documents: dict[str, str]) -> None:
    text, citations = joined(sentences)
    assert [citation.marker for citation in citations] == list(range(1, len(citations) + 1))
    assert len({(citation.document_id, citation.span) for citation in citations}) == len(citations)
    for citation in citations:
        assert documents[citation.document_id][citation.span.start : citation.span.end] == citation.quote
        assert citation.quote
    assert {int(number) for number in MARKER.findall(text)} == {citation.marker for citation in citations}
    for sentence in sentences:
        assert {int(n) for n in MARKER.findall(sentence.text)} == {one.marker for one in sentence.citations}


@given(contexts(), answers)
def test_citations_resolve_whatever_is_written(made: tuple[Context, dict[str, str]], answer: str) -> None:
    context, documents = made
    check(list(cite([answer], context)), documents)


@given(contexts(), answers, st.integers(1, 40))
def test_in_pieces_of_any_size_nothing_is_lost(made: tuple[Context, dict[str, str]], answer: str, size: int) -> None:
    context, documents = made
    sentences = list(cite([answer[start : start + size] for start in range(0, len(answer), size)], context))
    check(sentences, documents)
    assert letters(joined(sentences)[0]) == letters(answer)


@given(contexts())
def test_extracted_sentences_are_quotes(made: tuple[Context, dict[str, str]]) -> None:
    context, documents = made
    pieces = list(ExtractiveGenerator().generate(context))
    sentences = list(cite(pieces, context))
    check(sentences, documents)
    assert len(sentences) == len(pieces) <= context.query.options.max_sentences
    for sentence in sentences:
        assert sentence.citations
        assert all(citation.support == "supported" for citation in sentence.citations)


@given(contexts())
def test_packing_keeps_slices_and_shows_nothing_twice(made: tuple[Context, dict[str, str]]) -> None:
    context, documents = made
    for hit in context.hits:
        span = hit.chunk.span
        assert documents[hit.document_id][span.start : span.end] == hit.chunk.text
    spans = sorted((hit.document_id, *hit.chunk.span) for hit in context.hits)
    for (one, _, end), (other, start, _) in pairwise(spans):
        assert one != other or end < start


@given(texts)
def test_statements_are_slices_in_order(text: str) -> None:
    place = 0
    for statement in statements(text):
        assert place <= statement.start < statement.end <= len(text)
        assert text[statement.start : statement.end].strip() == text[statement.start : statement.end]
        place = statement.end
