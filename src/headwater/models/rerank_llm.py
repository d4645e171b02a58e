"""A question and passages -> how well each answers, by a language model that is shown the first of them at once.

Listwise reranking (Sun et al., "Is ChatGPT Good at Search?", EMNLP 2023): the model writes the numbers of the passages
that help, best first. What it leaves out, and what it was not shown, follows in the order it had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from headwater.errors import BackendError, SettingError
from headwater.models._settings import share_of, whole
from headwater.protocols import LanguageModel
from headwater.types import Hit
from headwater.wording import Fence, Prompts, harmless
from headwater.write import counted, room, said_object

SECTION: Final = "rerank"
PROMPT: Final = "rank"
# Twenty are what models still keep apart (the paper's window).
PASSAGES: Final = 20
# About a paragraph: enough to see what a passage is about.
PASSAGE_CHARS: Final = 500

_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"order": {"type": "array", "items": {"type": "integer"}}},
    "required": ["order"],
    "additionalProperties": False,
}


class LanguageModelReranker:
    """The language model of the settings as a judge. Safe for use from several threads where the model is."""

    def __init__(
        self,
        *,
        language_model: Callable[[], LanguageModel | None] | None = None,
        prompts: Prompts | None = None,
        passages: int = PASSAGES,
        passage_chars: int = PASSAGE_CHARS,
        share: float = 1.0,
    ) -> None:
        self._model, self._prompts = language_model or (lambda: None), prompts or Prompts()
        self._passages = whole("passages", passages, least=2, section=SECTION)
        self._passage_chars = whole("passage_chars", passage_chars, least=50, section=SECTION)
        self.share = share_of(share, section=SECTION)  # read by the stage: how much it counts beside the fused score
        self.fingerprint = f"llm:{self._passages}:{self._passage_chars}"

    def score(self, question: str, hits: Sequence[Hit], *, deadline_seconds: float) -> list[float]:
        """How many stand below each, as a share. Raises BackendError, also where the model writes no order."""
        if len(hits) < 2 or not question.strip():
            return [float(len(hits) - place) for place in range(len(hits))]
        model = self._model()
        if model is None:
            raise SettingError("rerank.use = 'llm' needs a language model: set one with `headwater llm setup`")
        if deadline_seconds <= 0:
            raise BackendError("no time was left")
        shown = self._shown(model, question, hits)
        fence = Fence.new()
        listed = "\n\n".join(f"({number}) {text}" for number, text in enumerate(shown, start=1))
        values = {"question": question, "passages": fence.around(listed), "count": str(len(shown))}
        prompt = self._prompts.get(PROMPT, about=question).filled(values)
        told = said_object(model, prompt, schema=_SCHEMA, deadline_seconds=deadline_seconds)
        order = [place - 1 for place in _order(told, len(shown), model.name)]
        ranking = [*order, *(place for place in range(len(hits)) if place not in set(order))]
        scores = [0.0] * len(hits)
        for below, place in enumerate(reversed(ranking)):
            scores[place] = below / len(hits)
        return scores

    def _shown(self, model: LanguageModel, question: str, hits: Sequence[Hit]) -> list[str]:
        """The first passages, as many as the model has room for."""
        left = room(model, taken=question)
        texts: list[str] = []
        for hit in hits[: self._passages]:
            title = hit.record.title.strip()
            text = harmless(f"{title}: {hit.chunk.text}" if title else hit.chunk.text)
            text = " ".join(text[: self._passage_chars].split())
            left -= counted(model, text)
            if left < 0 and len(texts) >= 2:
                break
            texts.append(text)
        return texts


def _order(told: dict[str, Any], count: int, name: str) -> list[int]:
    """The numbers it wrote, each once; BackendError where these are none."""
    listed = told.get("order", next((value for value in told.values() if isinstance(value, list)), None))
    if not isinstance(listed, list):
        raise BackendError(f"{name} was asked for an order of passages and wrote {str(told)[:80]!r}")
    found: dict[int, None] = {}
    for value in listed:
        number = int(value.strip("()[] ")) if isinstance(value, str) and value.strip("()[] ").isdigit() else value
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= count:
            raise BackendError(f"{name} put passage {value!r} in order, of {count} that it was shown")
        found[number] = None
    if not found:
        raise BackendError(f"{name} put no passage in order, of {count} that it was shown")
    return list(found)
