"""What was changed of a document by hand -> what is kept of it beside its original, and the document so changed.

`changes` are labels. `hide` are the spans of passages that were deleted or edited, `aside` passages that are not
available for now, and `show` spans that are available again. They hold for one text, told by its hash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from headwater.types import Chunk, Document, Span, text_hash

OF_TEXT: Final = ("hide", "aside", "show")


def merged(before: dict[str, Any], work: dict[str, Any]) -> dict[str, Any]:
    """All that was ever changed of a document: the later of each label, and all passages of the same text."""
    changes = {**before.get("changes", {}), **work.get("changes", {})}
    if "meta" in work.get("changes", {}):
        changes["meta"] = {**before.get("changes", {}).get("meta", {}), **work["changes"]["meta"]}
    kept = {kind: before.get(kind, []) for kind in OF_TEXT}
    text = before.get("text", "")
    if any(work.get(kind) for kind in OF_TEXT):
        same = kept if text == work["text"] else {}
        # Of each passage the last word: one that is deleted is neither set aside nor shown any more.
        now = {_span(one) for kind in OF_TEXT for one in work.get(kind, [])}
        kept = {
            kind: [*(one for one in same.get(kind, []) if _span(one) not in now), *work.get(kind, [])]
            for kind in OF_TEXT
        }
        text = work["text"]
    return {"changes": changes, **kept, "text": text}


def relabelled(document: Document, work: Mapping[str, Any]) -> Document:
    """A document with all that was changed of it."""
    changes: dict[str, Any] = dict(work.get("changes", {}))
    if "tags" in changes:
        changes["tags"] = tuple(changes["tags"])
    if "meta" in changes:
        kept = {key: tuple(v) if isinstance(v, list) else v for key, v in changes["meta"].items() if v is not None}
        gone = {key for key, value in changes["meta"].items() if value is None}
        changes["meta"] = {**{k: v for k, v in document.meta.items() if k not in gone}, **kept}
    out = [_span(one) for kind in ("hide", "aside") for one in work.get(kind, ())]
    shown = [_span(one) for one in work.get("show", ())]
    if (out or shown) and _is_of(document, work):
        # No passage holds what a parser hides: to show one again takes nothing away from that.
        changes["hidden"] = _joined([*_without(document.hidden, shown), *out])
    return replace(document, **changes)


def kept_aside(chunk: Chunk) -> dict[str, Any]:
    """A passage as it is kept while it is not available."""
    return {"span": list(chunk.span), "section": chunk.section, "pages": list(chunk.pages), "kind": chunk.kind}


def set_aside(document: Document, work: Mapping[str, Any]) -> list[Chunk]:
    """The passages of a document that are not available for now."""
    if not _is_of(document, work):
        return []
    return [
        Chunk(
            span=(span := _span(one)),
            text=document.text[span.start : span.end],
            document_id=document.id,
            section=one["section"],
            pages=tuple(one["pages"]),
            kind=one["kind"],
        )
        for one in work.get("aside", ())
    ]


def _is_of(document: Document, work: Mapping[str, Any]) -> bool:
    return work.get("text") == text_hash(document.text).hex()


def _span(one: Any) -> Span:
    start, end = one["span"] if isinstance(one, dict) else one
    return Span(start, end)


def _without(spans: Sequence[Span], gone: Sequence[Span]) -> list[Span]:
    """The spans, less what these have of them."""
    kept = list(spans)
    for start, end in gone:
        sides = [(Span(one.start, min(one.end, start)), Span(max(one.start, end), one.end)) for one in kept]
        kept = [side for both in sides for side in both if side.start < side.end]
    return kept


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """In order, and apart from one another."""
    kept: list[Span] = []
    for span in sorted(spans):
        if kept and span.start <= kept[-1].end:
            kept[-1] = Span(kept[-1].start, max(kept[-1].end, span.end))
        else:
            kept.append(span)
    return tuple(kept)
