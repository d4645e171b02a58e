"""A message, the conversation it belongs to, and what is kept -> events, and the answer kept for later.

What was said is stored before the model is asked: a message is never lost because an answer failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Final, Literal, Protocol

from headwater.converse import converse, titles_of
from headwater.engine import Engine
from headwater.filters import conjoin, to_text
from headwater.messages import Message
from headwater.protocols import Catalog
from headwater.rewrite import carried_over
from headwater.turns import Conversation, KeptAnswer, Turn, passage_of
from headwater.types import Answer, Citation, Event, Hit, Query, attributes

# Turns that a model is shown again, and passages that are carried from one answer to the next question.
SHOWN_TURNS: Final = 8
MAX_CARRIED: Final = 3

Keep = Literal["all", "chat", "none"]


class ConversationStore(Protocol):
    """Where conversations and answers are kept."""

    def create(self, title: str) -> Conversation: ...

    def get(self, id: str) -> Conversation: ...

    def append(self, id: str, turn: Turn) -> None: ...

    def keep(self, answer: KeptAnswer) -> KeptAnswer: ...

    def answer(self, id: str) -> KeptAnswer: ...

    def answers(self) -> list[KeptAnswer]: ...


class Chats:
    """Conversations that persist, and answers that can be looked at again."""

    def __init__(self, *, store: ConversationStore, engine: Callable[[], Engine], catalog: Catalog, keep: Keep) -> None:
        self._store, self._engine, self._catalog, self._keep = store, engine, catalog, keep

    def stream(self, query: Query, *, conversation_id: str = "", use_knowledge_base: bool = True) -> Iterator[Event]:
        """The next message of a conversation, else the first of a new one; the Answer says which."""
        conversation = self._store.get(conversation_id) if conversation_id else self._store.create(query.text)
        turns = conversation.turns
        self._store.append(conversation.id, Turn(role="user", content=query.text))
        for event in converse(
            self._engine(),
            query,
            history=_history(turns),
            carried=self._carried(turns, query),
            use_knowledge_base=use_knowledge_base,
        ):
            yield self._answered(event, query, conversation.id) if isinstance(event, Answer) else event

    def completed(self, query: Query, conversation_id: str) -> str:
        """A follow-up with what it leaves unsaid and the conversation says. No model is asked, and nothing is kept."""
        turns = self._store.get(conversation_id).turns
        return carried_over(_history(turns), query.text, about=titles_of(self._carried(turns, query)))

    def kept(self, events: Iterator[Event], question: str) -> Iterator[Event]:
        """The events of a single question; its answer is kept where all answers are."""
        for event in events:
            if isinstance(event, Answer) and self._keep == "all":
                yield replace(event, id=self._kept(event, question, "").id)
            else:
                yield event

    def replay(self, id: str) -> KeptAnswer:
        """An answer as it was, with the cited documents that are no longer what they were."""
        return self._marked(self._store.answer(id))

    def stale(self) -> list[KeptAnswer]:
        """Answers whose sources are other text now, the latest first; each question as it was last answered."""
        latest: dict[tuple[str, str], KeptAnswer] = {}
        for kept in self._store.answers():
            latest.setdefault((kept.asked, kept.where), kept)
        return [marked for kept in latest.values() if (marked := self._marked(kept)).stale]

    def _marked(self, kept: KeptAnswer) -> KeptAnswer:
        now = self._catalog.content_hashes(list(kept.hashes))
        changed = {one for one, hash in kept.hashes.items() if now.get(one) != hash}
        uris = dict.fromkeys(one.uri for one in kept.citations if one.document_id in changed)
        return replace(kept, stale=tuple(uris))

    def _answered(self, answer: Answer, query: Query, conversation_id: str) -> Answer:
        id = self._kept(answer, query.text, conversation_id).id if self._keep != "none" else ""
        turn = Turn(
            role="assistant",
            content=answer.text,
            asked=answer.query.text,
            answer_id=id,
            model=answer.model,
            citations=answer.citations,
            evidence=_evidence(answer.hits, answer.citations),
        )
        self._store.append(conversation_id, turn)
        return replace(answer, id=id, conversation_id=conversation_id)

    def _kept(self, answer: Answer, question: str, conversation_id: str) -> KeptAnswer:
        cited = list(dict.fromkeys(citation.document_id for citation in answer.citations))
        return self._store.keep(
            KeptAnswer(
                id="",
                owner="",
                question=question,
                asked=answer.query.text,
                text=answer.text,
                accepted=answer.verdict.accepted,
                reason=answer.verdict.reason,
                score=answer.verdict.score,
                model=answer.model,
                generation=answer.generation,
                options=asdict(answer.query.options),
                where=to_text(answer.query.where),
                citations=answer.citations,
                passages=tuple(passage_of(hit) for hit in answer.hits),
                corrected=answer.corrected,
                degraded=answer.degraded,
                hashes=self._catalog.content_hashes(cited),
                conversation_id=conversation_id,
            )
        )

    def _carried(self, turns: Sequence[Turn], query: Query) -> list[Hit]:
        """What the last answer rested on, as far as it is still alive and may be seen."""
        last = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
        if last is None or not last.evidence:
            return []
        allowed = conjoin(query.scope, query.where)
        alive = self._catalog.chunks(last.evidence)
        pairs = [alive[id] for id in last.evidence if id in alive]
        return [
            Hit(chunk=chunk, record=record, score=0.0, reasons=("the answer before cited it",))
            for chunk, record in pairs
            if allowed.matches(attributes(record, chunk))
        ]


def _history(turns: Sequence[Turn]) -> list[Message]:
    """What was said, each question as it was understood: a follow-up to a follow-up finds its subject there."""
    shown: list[Message] = []
    for turn in turns[-SHOWN_TURNS:]:
        if turn.role == "assistant" and turn.asked and shown and shown[-1].role == "user":
            shown[-1] = replace(shown[-1], content=turn.asked)
        shown.append(Message(role=turn.role, content=turn.content))
    return shown


def _evidence(hits: Sequence[Hit], citations: Sequence[Citation]) -> tuple[int, ...]:
    """The chunks that hold what was cited, best first."""
    found = (
        hit.chunk.id
        for citation in citations
        for hit in hits
        if hit.document_id == citation.document_id
        and hit.chunk.span.start < citation.span.end
        and citation.span.start < hit.chunk.span.end
    )
    return tuple(dict.fromkeys(found))[:MAX_CARRIED]
