"""Hits -> context: as many whole passages as the budget holds, numbered from 1, and the prompt that shows them.

Neighbours of one document become one passage. What a passage is said to be (its section, the head of its table) is
shown with it and is no part of its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from headwater.clean import clean
from headwater.selection import TICKET_BITS
from headwater.tokens import count_tokens, language
from headwater.types import Chunk, Context, Hit, Query, Span
from headwater.wording import ANSWER, Fence, Prompts, harmless

# A title longer than this says no more about where a passage is from.
MAX_LABEL_CHARS: Final = 120
# Chunks that follow each other leave out the white space between them. More than this is left out for a reason.
MAX_GAP_CHARS: Final = 8
# What stands between passages, in tokens: the rule and the line breaks.
SEPARATOR: Final = "\n\n---\n\n"

_WORDS: Final = {
    "en": {"source": "Source", "page": "page {0}", "pages": "pages {0}-{1}", "between": ", "},
    "zh": {"source": "来源", "page": "第 {0} 页", "pages": "第 {0}-{1} 页", "between": "，"},
}

Count = Callable[[str], int]
# The text of a document between two characters; None where the document is gone.
Between = Callable[[str, Span], str | None]


def assemble(
    query: Query,
    hits: Sequence[Hit],
    *,
    prompts: Prompts | None = None,
    budget_tokens: int | None = None,
    count: Count = count_tokens,
    between: Between | None = None,
    fence: Fence | None = None,
) -> Context:
    """Pack hits in rank order into the budget. Passage n is `hits[n - 1]`.

    One that does not fit is left out, for a later one may; with `pack = "greedy_stop"` it ends the context.
    """
    passages: list[Hit] = []
    left = query.options.max_context_tokens
    if budget_tokens is not None:
        left = min(left, budget_tokens)
    costs: dict[int, int] = {}

    def cost(hit: Hit) -> int:
        if id(hit) not in costs:
            costs[id(hit)] = count(shown(hit, 1, language(query.text)))
        return costs[id(hit)]

    kept: list[Hit] = []  # so that no two hits share an id
    for hit in hits:
        joined = [n for n, passage in enumerate(passages) if _gap(passage, hit, between) is not None]
        made = hit
        for n in joined:
            made = _merge(passages[n], made, _gap(passages[n], made, between) or "")
        kept.append(made)
        more = cost(made) - sum(cost(passages[n]) for n in joined)
        if more > left:
            if query.options.pack == "greedy_stop":
                break
            continue
        left -= more
        passages[slice(joined[0], joined[0] + 1) if joined else slice(len(passages), None)] = [made]
        for n in reversed(joined[1:]):  # the hit closed the gap between passages that were apart
            del passages[n]
    return _context(query, passages, prompts or Prompts(), fence or Fence.new())


def overhead(query: Query, prompts: Prompts) -> str:
    """What a prompt says beside its passages: so much of a model's room is taken already."""
    context = _context(query, [], prompts, Fence.new())
    return f"{context.system}\n{context.prompt}"


def numbered(hits: Sequence[Hit], about: str, *, first: int = 1) -> str:
    """The passages as a model is shown them, `[Source n: where from]` over each; to be put between fences."""
    spoken = language(about)
    return SEPARATOR.join(shown(hit, n, spoken) for n, hit in enumerate(hits, start=first))


def shown(hit: Hit, number: int, spoken: str) -> str:
    """One passage under its label, with what its chunk is said to be."""
    words = _WORDS[spoken]
    above = harmless(_above(hit.chunk))
    text = harmless(hit.chunk.text)
    return f"[{words['source']} {number}: {_label(hit, words)}]\n" + (f"({above})\n" if above else "") + text


def _context(query: Query, passages: Sequence[Hit], prompts: Prompts, fence: Fence) -> Context:
    prompt = prompts.get(query.options.template or ANSWER, about=query.text).filled(
        {
            "passages": fence.around(numbered(passages, query.text)),
            "question": query.text.strip(),
            "opening": fence.opening,
            "closing": fence.closing,
        }
    )
    return Context(
        query=query, hits=tuple(passages), prompt=prompt.user, system=prompt.system, grounded=prompt.grounded
    )


def _gap(one: Hit, other: Hit, between: Between | None) -> str | None:
    """What stands between two passages that belong together; None for those that do not. Most overlap."""
    first, second = sorted((one.chunk, other.chunk), key=lambda chunk: chunk.span)
    if (
        one.document_id != other.document_id
        or first.kind != second.kind
        or first.id >> TICKET_BITS != second.id >> TICKET_BITS
    ):
        return None
    if second.span.start <= first.span.end:
        return ""
    if between is None or second.section != first.section or second.span.start - first.span.end > MAX_GAP_CHARS:
        return None
    gap = between(one.document_id, Span(first.span.end, second.span.start))
    return gap if gap is not None and not gap.strip() else None


def _merge(passage: Hit, hit: Hit, gap: str) -> Hit:
    """One passage of two, under the better one's rank: no sentence is shown twice, none is cut in half."""
    first, second = sorted((passage.chunk, hit.chunk), key=lambda chunk: chunk.span)
    text = first.text + gap + second.text[max(0, first.span.end - second.span.start) :]
    pages = sorted({*first.pages, *second.pages})
    above = _above(first)  # what stands over the earlier one stands over both
    chunk = replace(
        passage.chunk,
        span=Span(first.span.start, first.span.start + len(text)),
        text=text,
        index_text=f"{above}\n{text}" if above else "",
        pages=(pages[0], pages[-1]) if pages else (),
    )
    return replace(passage, chunk=chunk, found=tuple(dict.fromkeys((*passage.found, *hit.found))))


def _above(chunk: Chunk) -> str:
    """What was put before a chunk for the index and its label does not say: the head of a table, a note."""
    if not chunk.index_text:
        return ""
    before, found, _ = chunk.index_text.partition(chunk.text)
    if not found:
        cleaned = clean(chunk.text, chunk.kind)
        before, found, _ = chunk.index_text.rpartition(cleaned) if cleaned else ("", "", "")
    if not found:
        return ""
    lines = [" ".join(line.split()) for line in before.splitlines()]
    repeated = {chunk.section, *(title for title in chunk.section.split(" > "))}
    kept = [line for line in lines if line and line not in repeated]
    return "\n".join(line for line, after in pairwise([*kept, ""]) if line != after)


def _label(hit: Hit, words: dict[str, str]) -> str:
    pages = hit.chunk.pages
    page = ""
    if pages:
        page = (words["page"] if pages[0] == pages[-1] else words["pages"]).format(pages[0], pages[-1])
    name = hit.title or hit.uri.rstrip("/").rsplit("/", 1)[-1]
    # Titles are the documents' own words: a bracket in one must not end the label.
    parts = (
        harmless(" ".join(part.replace("[", "(").replace("]", ")").split()))[:MAX_LABEL_CHARS]
        for part in (name, page, hit.chunk.section)
    )
    return words["between"].join(part for part in parts if part)
