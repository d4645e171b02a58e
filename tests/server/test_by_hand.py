"""What was changed of a document by hand: kept beside it, and put on it again."""

from headwater.server.by_hand import kept_aside, merged, relabelled, set_aside
from headwater.types import Chunk, Document, Span, text_hash

TEXT = "---\nof: water\n---\nThe pump runs. The weir holds. The gauge reads seven."
FRONT, PUMP, WEIR = Span(0, 18), Span(18, 32), Span(29, 48)
DOCUMENT = Document(uri="u", text=TEXT, id="d", hidden=(FRONT,))
HASH = text_hash(TEXT).hex()


def aside(span: Span) -> dict[str, object]:
    text = TEXT[span.start : span.end]
    return kept_aside(Chunk(span=span, text=text, document_id="d", section="S", pages=(2, 3), kind="table"))


def test_a_passage_is_set_aside_and_shown_again() -> None:
    away = merged({}, {"aside": [aside(PUMP)], "text": HASH})
    assert relabelled(DOCUMENT, away).hidden == (Span(0, 32),)
    (chunk,) = set_aside(DOCUMENT, away)
    assert (chunk.name, chunk.text) == ("d:18-32", "The pump runs.")
    assert (chunk.section, chunk.pages, chunk.kind) == ("S", (2, 3), "table")
    back = merged(away, {"show": [list(PUMP)], "text": HASH})
    assert set_aside(DOCUMENT, back) == []
    # Out of the document as it is stored, and of the one that is parsed again: what its parser hides stays hidden.
    assert relabelled(relabelled(DOCUMENT, away), back).hidden == relabelled(DOCUMENT, back).hidden == (FRONT,)
    again = merged(back, {"aside": [aside(PUMP)], "text": HASH})
    assert relabelled(relabelled(DOCUMENT, back), again).hidden == (Span(0, 32),) and again["show"] == []


def test_passages_that_overlap_do_not_show_each_other() -> None:
    away = merged(merged({}, {"aside": [aside(PUMP)], "text": HASH}), {"aside": [aside(WEIR)], "text": HASH})
    assert relabelled(DOCUMENT, away).hidden == (Span(0, 48),)
    back = merged(away, {"show": [list(PUMP)], "text": HASH})
    assert relabelled(relabelled(DOCUMENT, away), back).hidden == (FRONT, WEIR)
    deleted = merged(back, {"hide": [list(WEIR)], "text": HASH})
    assert set_aside(DOCUMENT, deleted) == [] and relabelled(DOCUMENT, deleted).hidden == (FRONT, WEIR)


def test_another_text_has_none_of_it() -> None:
    away = merged({"changes": {"title": "T"}}, {"aside": [aside(PUMP)], "text": HASH})
    other = Document(uri="u", text="Another text, that is as long as it has to be.", id="d")
    assert set_aside(other, away) == [] and relabelled(other, away).hidden == ()
    new = merged(away, {"hide": [[0, 7]], "text": text_hash(other.text).hex()})
    assert (new["aside"], new["hide"], new["changes"]) == ([], [[0, 7]], {"title": "T"})


def test_what_an_earlier_server_kept_is_read() -> None:
    kept = {"changes": {}, "hide": [list(WEIR)], "text": HASH}
    assert relabelled(DOCUMENT, kept).hidden == (FRONT, WEIR) and set_aside(DOCUMENT, kept) == []
    assert merged(kept, {"aside": [aside(PUMP)], "text": HASH})["hide"] == [list(WEIR)]
