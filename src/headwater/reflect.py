"""The sentences of an answer -> a verdict: whether it stands on what it cites, and how well.

Without a language model the verdict is that of the citations. With one, it also gives marks from 1 to 10 on four
criteria and says what is missing; a model that gives none leaves the verdict to the citations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from headwater.errors import BackendError
from headwater.highlight import Terms
from headwater.protocols import LanguageModel
from headwater.scanning import Term
from headwater.tokens import language
from headwater.types import Query, Sentence, Support, Verdict
from headwater.wording import Fence, Prompts, harmless
from headwater.write import said_object

# What a sentence is worth by its best citation. Weak is half: somebody should look at the quote.
WORTH: Final[dict[Support, float]] = {"supported": 1.0, "weak": 0.5, "unsupported": 0.0}
# Of the question's words, those that the answer and its sources have. Below this, weak sentences may be about
# something else; sentences in their source's own words are let through, for the writer may have used other words.
MIN_COVERAGE: Final = 0.25
SUPPORT_SHARE: Final = 0.7  # of the score; the rest is coverage. A true answer to a part of it beats a full invention

CRITERIA: Final = ("accuracy", "completeness", "relevance", "trustworthiness")
LEAST_MARK, BEST_MARK = 1.0, 10.0
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        **{name: {"type": "integer", "minimum": 1, "maximum": 10} for name in CRITERIA},
        "suggestions": {"type": "string"},
    },
    "required": [*CRITERIA, "suggestions"],
    "additionalProperties": False,
}
# A suggestion is one sentence that goes into the next search; a longer one is talk.
MAX_SUGGESTION_CHARS: Final = 300

# Before, between and behind the words that were looked for.
LOOKED_FOR: Final = {"zh": ("查找的词：", "、", "。"), "en": ("Looked for: ", ", ", ".")}
MAX_WORDS_SHOWN: Final = 8  # more explain nothing


class Judgement(NamedTuple):
    """What a round came to. `marks` are empty and `failure` says why where the model gave none."""

    verdict: Verdict
    marks: Mapping[str, float]
    suggestion: str
    failure: str = ""


def reflect(query: Query, sentences: Sequence[Sentence]) -> Verdict:
    """Accepted when something in it rests on a source that is about the question.

    What rests on none is marked or left out already; it costs marks, and takes nothing away from the rest.
    """
    stating = [one for one in sentences if one.citations or one.support is not None]
    cited = [sentence for sentence in stating if sentence.citations]
    if not cited:
        reason = "no sentence has a source" if stating else "no passage answers it"
        return Verdict(accepted=False, reason=reason, score=1.0)
    worth = [max((WORTH[citation.support] for citation in one.citations), default=0.0) for one in stating]
    support, coverage = sum(worth) / len(worth), _coverage(query, cited)
    score = round(1 + 9 * (SUPPORT_SHARE * support + (1 - SUPPORT_SHARE) * coverage), 1)
    if coverage < MIN_COVERAGE and max(worth) < 1.0:
        return Verdict(accepted=False, reason="weak support, and little of what is asked is covered", score=score)
    weak, lacking = sum(0.0 < one < 1.0 for one in worth), worth.count(0.0)
    reason = f"{worth.count(1.0)} of {len(worth)} sentences are supported"
    reason += (f", {weak} weakly" if weak else "") + (f", {lacking} not at all" if lacking else "")
    return Verdict(accepted=True, reason=reason, score=score)


def looked_for(query: Query) -> str:
    """A sentence, in the language of the question, with the words of it that were looked for; empty where none were."""
    words = Terms.of(query.text).words
    whole: list[Term] = []
    reached = -1  # where the words so far end: one that begins later and ends no later is a part of one of them
    for word in sorted({word[:2]: word for word in words}.values(), key=lambda word: (word.start, -word.end)):
        if word.end > reached:
            whole.append(word)
            reached = word.end
    shown = list(dict.fromkeys(query.text[word.start : word.end] for word in whole))[:MAX_WORDS_SHOWN]
    lead, between, end = LOOKED_FOR[language(query.text)]
    return f"{lead}{between.join(shown)}{end}" if shown else ""


def judge(
    query: Query,
    sentences: Sequence[Sentence],
    *,
    model: LanguageModel | None,
    prompts: Prompts,
    passages: str = "",
    deadline_seconds: float = 10.0,
) -> Judgement:
    """The verdict of the citations, with the model's marks as its score where a model judges.

    An answer that its sources do not bear out stays refused whatever the marks are.
    """
    verdict = reflect(query, sentences)
    if model is None or not sentences:
        return Judgement(verdict, {}, "")
    fence = Fence.new()
    prompt = prompts.get("reflect", about=query.text).filled(
        {
            "passages": fence.around(passages),
            "question": query.text.strip(),
            "answer": fence.around(harmless(" ".join(sentence.text.strip() for sentence in sentences))),
            "opening": fence.opening,
            "closing": fence.closing,
        }
    )
    try:
        given = said_object(model, prompt, schema=SCHEMA, deadline_seconds=deadline_seconds)
    except BackendError as error:
        return Judgement(verdict, {}, "", str(error))
    marks = _marks(given)
    if not marks:
        return Judgement(verdict, {}, "", f"{model.name} gave no marks")
    score = round(sum(marks.values()) / len(marks), 1)
    shown = ", ".join(f"{name} {mark:g}" for name, mark in marks.items())
    suggestion = given.get("suggestions", given.get("suggestion", ""))
    if isinstance(suggestion, list):
        suggestion = " ".join(map(str, suggestion))
    return Judgement(
        Verdict(accepted=verdict.accepted, reason=f"{verdict.reason}; {shown}", score=score),
        marks,
        " ".join(str(suggestion or "").split())[:MAX_SUGGESTION_CHARS],
    )


def _marks(given: Mapping[str, Any]) -> dict[str, float]:
    """Every criterion that has a number, in words or digits, brought between 1 and 10. Half of them must be there."""
    found: dict[str, float] = {}
    folded = {str(name).lower().strip(): value for name, value in given.items()}
    for name in CRITERIA:
        value = folded.get(name)
        if isinstance(value, Mapping):  # {"accuracy": {"score": 8, "reason": "..."}}
            value = value.get("score")
        if isinstance(value, str):
            try:
                value = float(value.split("/")[0])
            except ValueError:
                continue
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = min(BEST_MARK, max(LEAST_MARK, float(value)))
    return found if 2 * len(found) >= len(CRITERIA) else {}


def _coverage(query: Query, sentences: Sequence[Sentence]) -> float:
    parts = [sentence.text for sentence in sentences]
    parts += (f"{one.title}\n{one.section}\n{one.quote}" for sentence in sentences for one in sentence.citations)
    seen = "\n".join(parts)
    terms = Terms.of(query.text)
    return len(terms.covered(seen, [(0, len(seen))])[0]) / max(1, len(terms.units))
