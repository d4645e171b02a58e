"""A question, and what was said before -> a question that a search understands.

With a language model: other ways to ask, an imagined answer, a follow-up made complete. Without one, a follow-up takes
over the words of the last question that it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from headwater.facts import names
from headwater.highlight import Terms
from headwater.mend import mended
from headwater.messages import Message
from headwater.protocols import LanguageModel
from headwater.tokens import fold, is_cjk, language
from headwater.wording import Prompts
from headwater.write import SHORT_SECONDS, SHORT_TOKENS, Writing, messages_of, said

# Turns of a conversation that are shown to condense a follow-up, and characters of each: what it refers to is near.
SHOWN_TURNS: Final = 6
SHOWN_CHARS: Final = 600
# A question of more telling words stands on its own unless it points back.
SHORT_UNITS: Final = {"en": 3, "zh": 5}
_LATIN: Final = re.compile(r"[^\W\d_\u2e80-\U000323af]")
_FEW_DIGITS: Final = re.compile(r"\d{1,3}")  # so that a year is two of them
# "What about dinner in France?" can be asked by itself; of one word nobody knows what is asked.
OWN_UNITS: Final = 2
# A rewritten question longer than this is an answer.
MAX_QUESTION_CHARS: Final = 400

_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"queries": {"type": "array", "items": {"type": "string"}}},
    "required": ["queries"],
    "additionalProperties": False,
}
_ITEM: Final = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)、:：]|[（(]\d{1,2}[)）])\s*")
_LABEL: Final = re.compile(
    r"^\s*(?:(?:standalone|complete|rewritten|condensed) )?(?:question|query|rewrite|answer)\s*\d*\s*[:：]\s*"
    r"|^\s*(?:完整的?问题|改写后的问题|问题|查询|改写)\s*\d*\s*[:：]\s*",
    re.IGNORECASE,
)
_POINTS_BACK: Final = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|there|the same|ones?|former|latter)\b"
    r"|^(?:and|but|or|so|also|then|why|how come|what about|how about|what if|else)\b|\b(?:else|instead|too)\s*[?？]?$"
    r"|它|他|她|其(?!他|余|实|中)|该(?!如何|怎)|这|那(?!么多)|此|前者|后者|上述|同样|呢[?？。]?$|还有|另外|^为什么[?？]?$|^怎么办",
    re.IGNORECASE,
)
# "What about sick leave?", "And in Lyon?", "那年假呢？": what is asked stays, what it is asked about is another.
_OTHER_SUBJECT: Final = re.compile(
    r"^(?:and |but |so )?(?:what|how) about .+?\s*[?？.]*$|^(?:那么?|至于|而)?[^，,]{1,20}?呢[?？。]?$|"
    r"^(?:(?:and|but|or|so) (?:(?:for|in|on|at|with|of|to|from|by|as) )?|(?:for|in|at|with|of|the) )"
    r"(?!(?:how|what|when|where|who|whom|whose|why|which|is|are|was|were|do|does|did|has|have|had|can|could|will|would|"
    r"shall|should|may|must|if|then|not|it|they|he|she|this|that|i|we|you)\b)"
    r"[^\s,?？]+(?: [^\s,?？]+){0,3}\s*[?？.]*$",
    re.IGNORECASE,
)


def rewrites(
    model: LanguageModel,
    question: str,
    history: Sequence[Message] = (),
    *,
    prompts: Prompts | None = None,
    limit: int = 3,
    hint: str = "",
    deadline_seconds: float = SHORT_SECONDS,
) -> list[str]:
    """At most `limit` other ways to ask, from JSON or from lines; none of them the question. Raises BackendError."""
    shown = f"{_shown(history)}\n\n" if history else ""
    values = {"question": question, "count": str(limit), "history": shown, "hint": hint}
    prompt = (prompts or Prompts()).get("rewrite", about=question).filled(values)
    writing = Writing(
        model, messages_of(prompt), schema=_SCHEMA, max_tokens=SHORT_TOKENS, deadline_seconds=deadline_seconds
    )
    found: list[str] = []
    for line in _listed("".join(writing)):
        plain = _plain(line)
        if plain and len(plain) <= MAX_QUESTION_CHARS and plain not in (*found, question.strip()):
            found.append(plain)
    return found[:limit]


def hyde(
    model: LanguageModel,
    question: str,
    *,
    prompts: Prompts | None = None,
    deadline_seconds: float = SHORT_SECONDS,
) -> str:
    """An imagined answer, to search with its meaning. Raises BackendError."""
    prompt = (prompts or Prompts()).get("hyde", about=question).filled({"query": question})
    return said(model, prompt, deadline_seconds=deadline_seconds)


def condense(
    model: LanguageModel,
    history: Sequence[Message],
    question: str,
    *,
    prompts: Prompts | None = None,
    deadline_seconds: float = SHORT_SECONDS,
) -> str:
    """The question so that it needs no conversation; as it is where the model gives none. Raises BackendError."""
    if not history:
        return question
    values = {"history": _shown(history), "question": question}
    prompt = (prompts or Prompts()).get("condense", about=question).filled(values)
    lines = [line for line in said(model, prompt, deadline_seconds=deadline_seconds).splitlines() if line.strip()]
    found = _plain(lines[0]) if lines else ""
    return found if found and len(found) <= MAX_QUESTION_CHARS else question


def carried_over(history: Sequence[Message], question: str, *, about: str = "") -> str:
    """The same without a model: a follow-up that is short or points back takes the last question's words with it.

    Of those, the words that stand in `about`, the titles of what answered it, and codes: they name the subject. Where
    it names another subject of the same kind, it takes along what was asked instead.
    """
    before = next((one.content for one in reversed(history) if one.role == "user" and one.content.strip()), "")
    if not before or not _follows(question):
        return question
    words = _longest(Terms.of(before))
    kept = [word for word in words if before[word.start : word.end].lower() not in question.lower()]
    old: set[str] = set()
    if _OTHER_SUBJECT.match(question.strip()):
        new = [question[word.start : word.end] for word in _longest(Terms.of(question))]
        old = _subject([before[word.start : word.end] for word in words], new)
        old |= _renamed(words, before=before, question=question)
        kept = [word for word in kept if before[word.start : word.end] not in old]
    runs: list[str] = []
    end = -1
    for word in kept:  # Chinese words side by side stay together: the cutter may have cut them wrongly
        written = before[word.start : word.end]
        if word.start == end and is_cjk(written[0]):
            runs[-1] += written
        else:
            runs.append(written)
        end = word.end
    if old:  # another subject takes the place of the old one: the rest is what was asked of it, and stays
        runs = [run for run in runs if len(run) > 1] or runs
        about = ""
    subject = [found for run in runs if (found := _named(run, about)) and found not in question]
    return " ".join((question.strip(), *dict.fromkeys(subject or runs)))


class ModelRewriter:
    """A Rewriter that asks a language model."""

    def __init__(self, model: LanguageModel, prompts: Prompts | None = None) -> None:
        self._model, self._prompts = model, prompts or Prompts()

    def rewrites(self, question: str, *, limit: int, deadline_seconds: float) -> Sequence[str]:
        """At most `limit` other ways to ask."""
        return rewrites(self._model, question, prompts=self._prompts, limit=limit, deadline_seconds=deadline_seconds)

    def imagined(self, question: str, *, deadline_seconds: float) -> str:
        """A passage that would answer it."""
        return hyde(self._model, question, prompts=self._prompts, deadline_seconds=deadline_seconds)


def stands_alone(question: str) -> bool:
    """Whether a question may be one of its own: it points back to nothing, or names its subject in several words."""
    plain = question.strip()
    if _OTHER_SUBJECT.match(plain):
        return len(Terms.of(plain).units) >= OWN_UNITS
    return not _POINTS_BACK.search(plain)


def _points_back(question: str) -> bool:
    plain = question.strip()
    return bool(_POINTS_BACK.search(plain) or _OTHER_SUBJECT.match(plain))


def _follows(question: str) -> bool:
    return _points_back(question) or len(Terms.of(question).units) < SHORT_UNITS[language(question)]


def _longest(terms: Terms) -> list[Any]:
    """The telling words in order, without those inside longer ones."""
    words = sorted(set(terms.words), key=lambda word: (word.start, -word.end))
    kept: list[Any] = []
    for word in words:
        if not kept or word.end > kept[-1].end:
            kept.append(word)
    return kept


def _named(run: str, about: str) -> str:
    """The part of a run of words that titles have too: all of a code, the longest piece of Chinese, a whole word."""
    if _has_digit(run) or not about:
        return run if about else ""
    if not is_cjk(run[0]):
        return run if re.search(rf"\b{re.escape(run)}\b", about, re.IGNORECASE) else ""
    pieces = (run[start:end] for start in range(len(run)) for end in range(start + 2, len(run) + 1))
    return max((piece for piece in pieces if piece in about), key=len, default="")


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _subject(words: Sequence[str], new: Sequence[str]) -> set[str]:
    """The old subject, which a new one takes the place of: what shares its last character or its head, or a code."""
    heads = {word.lower() for word in new}
    shapes = {_shape(word) for word in new if _has_digit(word)}
    found: set[str] = {word for word in words if _has_digit(word) and _shape(word) in shapes}
    for place, word in enumerate(words):
        if word.lower() in heads and place and not _has_digit(word):  # "parental leave" -> "sick leave"
            found.add(words[place - 1])
        if is_cjk(word[-1]) and any(other != word and other[-1] == word[-1] for other in new):
            found.add(word)
    return found


def _shape(word: str) -> str:
    """What can stand in the place of a code or a number: a code for any other, 4.3 for 4.2, 2003 for 1998, not 11."""
    return "code" if _LATIN.search(word) else _FEW_DIGITS.sub("0", word)


def _renamed(words: Sequence[Any], *, before: str, question: str) -> set[str]:
    """The old name, where the question has another one: Lyon, then Oslo. Of several, which is meant is unknown."""
    known = names(before)
    found = [word for word in words if fold(before[word.start : word.end]) in known]
    apart = any(before[one.end : other.start].strip() for one, other in pairwise(found))
    if apart or not names(question):
        return set()
    return {before[word.start : word.end] for word in found}


def _shown(history: Sequence[Message]) -> str:
    turns = [one for one in history if one.role in ("user", "assistant") and one.content.strip()][-SHOWN_TURNS:]
    return "\n".join(f"{one.role}: {' '.join(one.content.split())[:SHOWN_CHARS]}" for one in turns)


def _listed(text: str) -> list[str]:
    """The entries of a JSON list or object, else the lines."""
    try:
        value = mended(text)
    except ValueError:
        return text.splitlines()
    if isinstance(value, dict):
        value = next((one for one in value.values() if isinstance(one, list)), list(value.values()))
    found = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    found += [str(next(iter(one.values()))) for one in value if isinstance(one, dict) and one]
    return found or text.splitlines()


def _plain(line: str) -> str:
    """Without the number, the label and the quotes that models put around a question."""
    return _LABEL.sub("", _ITEM.sub("", line)).strip().strip("\"'“”‘’`*").strip()
