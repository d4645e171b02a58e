"""A document -> passages with one sentence each that says where in the document they stand, written by a model.

The model sums the document up once, then says for each passage what it is about; the sentence joins the meta that
`meta` puts in front, for the index only. What it wrote is kept under (model, prompt, document, passage), so a run that
was stopped goes on where it was and a second one costs nothing. Without a model the passages are those of `meta`, and
the document says so among its problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Protocol

from headwater.chunkers._inner import Inner
from headwater.chunkers._layout import Blocks
from headwater.chunkers.meta import MetaChunker, with_meta
from headwater.messages import Message
from headwater.protocols import Embedder, LanguageModel
from headwater.tokens import Unit, count_tokens, language, token_spans
from headwater.types import Chunk, Document, text_hash
from headwater.wanted import check

# Grows with every change of the prompts: what was written for another is not used.
PROMPT: Final = 1
# Two or three sentences, and one.
SUMMARY_TOKENS: Final = 200
CONTEXT_TOKENS: Final = 80
# Of what a model can be shown, the share that a document may take: its own count of tokens may be larger than ours.
SHOWN_SHARE: Final = 0.6
# More of a document than this says no more about what it is.
MOST_SHOWN_TOKENS: Final = 24_000
DEADLINE_SECONDS: Final = 60.0

_SUMMARY: Final = {
    "en": "Say in two or three sentences what this document is and what it covers. Name the names in it. "
    "Write only the sentences.\n\n<document title={title!r}>\n{text}\n</document>",
    "zh": "用两三句话说明这份文档是什么、讲了哪些内容，写出其中的名称。只写这几句话。\n\n"
    "<document title={title!r}>\n{text}\n</document>",
}
_CONTEXT: Final = {
    "en": "A document is about this: {summary}\n\nThis passage is from its section {section!r}:\n<passage>\n{text}\n"
    "</passage>\n\nWrite one short sentence that says what the passage is about within the document, so that it is "
    "found by a search. Write only the sentence.",
    "zh": "一份文档的内容是：{summary}\n\n下面的段落来自其中的“{section}”一节：\n<passage>\n{text}\n</passage>\n\n"
    "用一句简短的话说明这个段落在文档中讲的是什么，便于检索。只写这一句话。",
}


class Notes(Protocol):
    """What a model wrote, kept. Safe for use from several threads."""

    def get(self, key: bytes) -> str | None:
        """What was put under this key."""
        ...

    def put(self, key: bytes, text: str) -> None:
        """Keep it; when this returns it is durable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a model will be asked, at most; what is kept from before is not counted."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


class ContextualChunker:
    """Cuts as `meta` does over `inner`. `parallel` passages are asked about at a time."""

    def __init__(
        self,
        *,
        language_model: Callable[[], LanguageModel | None] = lambda: None,
        notes: Callable[[], Notes] | None = None,
        inner: Inner = "recursive",
        size: int = 512,
        overlap: int = 64,
        unit: Unit = "tokens",
        parallel: int = 4,
        embedder: Callable[[], Embedder] | None = None,
    ) -> None:
        self.meta = MetaChunker(inner=inner, size=size, overlap=overlap, unit=unit, embedder=embedder)
        self.parallel = max(1, parallel)
        self._model, self._notes = language_model, notes or _InMemory().itself
        model = language_model()
        # The model and the prompts are part of it: others write something else.
        self.fingerprint = f"contextual/1 model={model.name if model else ''} prompt={PROMPT} ({self.meta.fingerprint})"

    def chunk(self, document: Document) -> list[Chunk]:
        """The passages. Raises BackendError where the model fails; what it wrote until then is kept."""
        chunks = self.meta.chunk(document)
        model = self._model()
        if model is None or not chunks:
            return chunks
        summary = self._said(model, _key(model, document), _summary(model, document), SUMMARY_TOKENS)
        with ThreadPoolExecutor(self.parallel, thread_name_prefix="headwater-context") as pool:
            asked = [pool.submit(self._context, model, document, chunk, summary) for chunk in chunks]
            try:
                told: dict[int, str] = {}
                for number, answer in enumerate(asked):
                    told[number] = answer.result()
                    check()
            except BaseException:
                pool.shutdown(cancel_futures=True)  # a server that is down is not asked a thousand times
                raise
        return with_meta(document, chunks, Blocks(document.blocks), told=told)

    def remarks(self, document: Document) -> tuple[str, ...]:
        """What the reader of a document should know about how it was cut."""
        if self._model() is not None or not document.text.strip():
            return ()
        return (
            "no language model is set, so its passages carry title and section but no context of their own; "
            "set one, then remove and add the document again",
        )

    def may_ask(self, *, strategy: object, collection: str) -> bool:
        """Whether a language model may be asked about documents that are added so: about any."""
        return True

    def estimate(self, document: Document) -> Estimate:
        """What it will cost to cut this document."""
        model, notes = self._model(), self._notes()
        if model is None:
            return Estimate()
        chunks = self.meta.chunk(document)
        found = Estimate()
        if chunks and notes.get(_key(model, document)) is None:
            asked = count_tokens(_summary(model, document))
            found += Estimate(calls=1, input_tokens=asked, output_tokens=SUMMARY_TOKENS)
        for chunk in chunks:
            if notes.get(_key(model, document, chunk)) is None:
                asked = count_tokens(_context(document, chunk, "")) + SUMMARY_TOKENS
                found += Estimate(calls=1, input_tokens=asked, output_tokens=CONTEXT_TOKENS)
        return found

    def _context(self, model: LanguageModel, document: Document, chunk: Chunk, summary: str) -> str:
        return self._said(model, _key(model, document, chunk), _context(document, chunk, summary), CONTEXT_TOKENS)

    def _said(self, model: LanguageModel, key: bytes, prompt: str, max_tokens: int) -> str:
        """What the model says to it, in one line; from before where it was asked already."""
        notes = self._notes()
        kept = notes.get(key)
        if kept is not None:
            return kept
        pieces = model.stream(
            [Message(role="user", content=prompt)], max_tokens=max_tokens, deadline_seconds=DEADLINE_SECONDS
        )
        said = " ".join("".join(piece.text for piece in pieces).split())
        notes.put(key, said)
        return said


class _InMemory:
    """Notes that end with the process."""

    def __init__(self) -> None:
        self._kept: dict[bytes, str] = {}

    def itself(self) -> Notes:
        return self

    def get(self, key: bytes) -> str | None:
        return self._kept.get(key)

    def put(self, key: bytes, text: str) -> None:
        self._kept[key] = text


def _key(model: LanguageModel, document: Document, chunk: Chunk | None = None) -> bytes:
    about = f"{model.name}\0{PROMPT}\0{document.title}\0{chunk.section if chunk else ''}".encode(
        "utf-8", "surrogatepass"
    )
    parts: Sequence[bytes] = (about, text_hash(document.text), text_hash(chunk.text) if chunk else b"")
    return blake2b(b"\0".join(parts), digest_size=16).digest()


def _summary(model: LanguageModel, document: Document) -> str:
    most = max(1, min(MOST_SHOWN_TOKENS, int((model.context_tokens - SUMMARY_TOKENS) * SHOWN_SHARE)))
    end = next((start for number, (start, _) in enumerate(token_spans(document.text)) if number >= most), None)
    text = document.text[:end]
    if end is not None:  # of what is not shown, the headings
        headings = [section.path for section in document.structure if section.span.start >= end]
        text += "\n…\n" + "\n".join(headings[: most // 20])
    return _SUMMARY[language(text)].format(title=document.title, text=text)


def _context(document: Document, chunk: Chunk, summary: str) -> str:
    section = chunk.section or document.title
    return _CONTEXT[language(chunk.text)].format(summary=summary, section=section, text=chunk.text)
