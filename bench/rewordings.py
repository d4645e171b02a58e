"""Questions with answers, and sentences of documents -> other sentences: some say the same, some do not.

For the labelled sets of `citations.py`. Each function gives None where its rule does not fit.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import headwater
from headwater.tokens import is_cjk

HAN_DIGITS = "零一二三四五六七八九"
UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
LARGEST_WORD = 99
# Sentences that hang on a condition or a contrast do not bear that a part of them is left out.
CONDITION = re.compile(
    r"如果|若|除非|但|虽|尽管|只有|除了|假如|不仅|否则|却|而不|\b(?:if|unless|although|though|but|except|only|while|whereas|"
    r"however|not|neither|nor|than|either|whether|hypothes|suggest|may|might|could)\b",
    re.IGNORECASE,
)

# -------------------------------------------------------------------------------------- statements


def statement(question: str, answer: str) -> str | None:
    """The question answered in a sentence."""
    asked = question.strip().rstrip("?？。. ")
    return _chinese(asked, answer) if is_cjk(asked[-1:]) or "？" in question else _english(asked, answer)


_WHERE_ASKED = re.compile(
    r"什么时候|什么时间|何时|哪一年|哪年|哪一天|谁|哪位|哪一位|何人|什么人|哪里|哪儿|何处|何地|什么地方|多少|哪个国家|哪个城市|"
    r"(?<=[是叫为])什么(?:名字)?$|哪(?:两|三|几|一)?[个家所座种些]\w{2}(?=[^\w]|合|的|[是有])"
)


def _chinese(asked: str, answer: str) -> str | None:
    places = list(_WHERE_ASKED.finditer(asked))
    if (
        len(places) != 1
        or re.search(r"为什么|为何|如何|怎|几|吗$|哪", asked.replace(places[0][0], ""))
        or "，" in answer
    ):
        return None
    start, end = places[0].span()
    after = asked[end:]
    for size in (3, 2, 1):  # 多少人 and 3人: the unit stands once
        if places[0][0] == "多少" and after[:size] and answer.endswith(after[:size]):
            after = after[size:]
            break
    before = asked[:start]
    if before.endswith("在") and answer.startswith(("在", "于")):
        before = before[:-1]
    return f"{before}{answer}{after}。" if before or after else None


_ENGLISH: tuple[tuple[str, str], ...] = (
    (r"Who (was|is|were|are) ((?:the|an?|[A-Z])\S* .+)", r"\2 \1 {}"),
    (r"Who ((?:\w+ed|made|built|wrote|led|won|gave|took|became|began|held|ran|sent|said) .+)", r"{} \1"),
    (
        r"What (is|was|are|were) (the (?:name|capital|term|title|number|largest|first|second|main|population) .+)",
        r"\2 \1 {}",
    ),
    (r"What (is|was|are|were) ((?:the|an?|[A-Z])\S* [^?]+) (called|named|known as)", r"\2 \1 \3 {}"),
    (
        r"(?:When|In what year|What year|On what date) (was|were) (.+?) "
        r"(\w+ed|built|born|made|begun|written|held|sent)( .*)?",
        r"\2 \1 \3\4 in {}",
    ),
    (r"Where (?:is|was) (.+?) (located|born|held|based|built|found|situated)( .*)?", r"\1 was \2\3 in {}"),
    (r"How many (.+?) (are|were) there( .*)?", r"There \2 {} \1\3"),
    (r"How many (.+?) (are|were) (\w+ed.*)", r"{} \1 \2 \3"),
    (r"What (?:\w+ )?(\w+ed (?:the|an?|in|to|by|for) .+)", r"{} \1"),
    (r"Which (?:\w+) (\w+ed .+)", r"{} \1"),
)


def _english(asked: str, answer: str) -> str | None:
    if len(answer.split()) > 7:
        return None
    for pattern, shape in _ENGLISH:
        found = re.fullmatch(pattern, asked)
        if found:
            said = found.expand(shape.replace("{}", "\0")).replace("\0", answer)
            said = re.sub(r"\b(in|on|at|by) (?=(?:in|on|at|by|during|near|the early|about) )", "", said)
            said = " ".join(said.split())
            return f"{said[0].upper()}{said[1:]}."
    return None


# ----------------------------------------------------------------------------- sentences that say the same


def clause_dropped(sentence: str, chance: random.Random) -> str | None:
    """Without its last clause, or one between commas."""
    if CONDITION.search(sentence):
        return None
    comma = "，" if "，" in sentence else ", "
    end = sentence[-1]
    parts = sentence[:-1].split(comma)
    least = 8 if comma == "，" else 30
    if len(parts) < 3 or any(mark in sentence for mark in '“”"（(；;：:、'):
        return None
    if comma == ", " and re.search(r", (?:and|or) ", sentence):
        return None  # a list is no clause
    drop = chance.choice(range(1, len(parts)))
    kept = comma.join(part for place, part in enumerate(parts) if place != drop)
    return kept + end if len(kept) >= least and len(parts[0]) > least // 2 else None


def reordered(sentence: str) -> str | None:
    """What stands before the first comma goes behind."""
    if CONDITION.search(sentence):
        return None
    if found := re.fullmatch(
        r"((?:In|On|At|During|By|After|Since|Before|Under|With|From) [^,]{4,60}), ([^,]+)\.", sentence
    ):
        first, rest = found.groups()
        # A name keeps its capital letter.
        return f"{rest[0].upper()}{rest[1:]} {first[0].lower()}{first[1:]}."
    if found := re.fullmatch(r"([^，；：（“、]{6,40})，([^，；：（“、]{6,40})。", sentence):
        return f"{found[2]}，{found[1]}。"
    return None


def numbers_written(sentence: str) -> str | None:
    """Its numbers as words, or its words as numbers."""
    chinese = is_cjk(sentence[:1]) or is_cjk(sentence[1:2])

    def word(found: re.Match[str]) -> str:
        value = int(found[0])
        if value > LARGEST_WORD or found[0].startswith("0"):
            return found[0]
        return _han(value) if chinese else _words(value)

    said = re.sub(r"(?<![\d.,:\-–−/×A-Za-z] )(?<![\d.,:\-–−/A-Za-z])\d{1,2}(?![\d.,:\-–−/A-Za-z%'’])", word, sentence)
    said = re.sub(r"(\d+)年(\d+)月(\d+)日", r"\1-\2-\3", said)
    said = re.sub(r"(\d)%(?!\w)", r"\1 per cent" if not chinese else r"\1％", said)
    said = re.sub(r"(\d),(\d{3})\b", r"\1\2", said)
    return said if said != sentence else None


def _han(value: int) -> str:
    tens, ones = divmod(value, 10)
    if value < 10:
        return HAN_DIGITS[value]
    return ("" if tens == 1 else HAN_DIGITS[tens]) + "十" + (HAN_DIGITS[ones] if ones else "")


def _words(value: int) -> str:
    if value < 20:
        return UNITS[value]
    tens, ones = divmod(value, 10)
    return TENS[tens] + (f"-{UNITS[ones]}" if ones else "")


@cache
def _traditional() -> dict[str, str]:
    lines = (Path(headwater.__file__).parent / "folding.txt").read_text("utf-8").splitlines()
    found: dict[str, str] = {}
    for source, target in zip(*lines[-2:], strict=True):
        if "\u4e00" <= source <= "\u9fff":
            found.setdefault(target, source)
    return found


def traditional(sentence: str) -> str | None:
    """In traditional characters."""
    said = "".join(_traditional().get(char, char) for char in sentence)
    return said if said != sentence else None


# ------------------------------------------------------------------------- sentences that say otherwise


def number_changed(sentence: str, chance: random.Random) -> str | None:
    """One of its numbers is another."""
    places = [found for found in re.finditer(r"(?<![A-Za-z\d.])\d+(?:[.,]\d+)*(?![A-Za-z])", sentence)]
    if not places:
        return None
    place = chance.choice(places)
    digits = [n for n, char in enumerate(place[0]) if char.isdigit()]
    where = chance.choice(digits[-2:])
    other = chance.choice([char for char in "123456789" if char != place[0][where]])
    number = place[0][:where] + other + place[0][where + 1 :]
    return sentence[: place.start()] + number + sentence[place.end() :]


def negated(sentence: str, chance: random.Random) -> str | None:
    """It says not, or says it no more."""
    chinese = is_cjk(sentence[:1]) or is_cjk(sentence[1:2])
    if chinese:
        rules = [
            (r"没有", "有"),
            (r"不是", "是"),
            (r"不能", "能"),
            (r"并未", "已"),
            (r"(?<![不就但可总还只若凡正都也于])是(?![否不非])", "不是"),
            (r"(?<![没所只拥具还])有(?![关限效些时所])", "没有"),
            (r"(?<![不])能够", "不能"),
            (r"(?<![不机社])会(?=[在被把对]|使)", "不会"),
            (r"(?<![不])可以", "不可以"),
        ]
    else:
        rules = [
            (r"\b(was|were|is|are|did|does|do|has|have|had|can|could|will) not\b", r"\1"),
            (r"\b(was|were|is|are|can|will|would|could|should) (?!not\b)", r"\1 not "),
            (r"\b(has|have|had) (?=\w+ed\b)", r"\1 not "),
            (r"\b(has|have|had) (?=been\b)", r"\1 never "),
        ]
    fitting = [(pattern, said) for pattern, said in rules if len(re.findall(pattern, sentence)) == 1]
    if not fitting:
        return None
    pattern, said = chance.choice(fitting)
    return re.sub(pattern, said, sentence)
