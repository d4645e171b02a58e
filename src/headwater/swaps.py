"""Two folded sentences -> where one has something else than the other in the same place, all around being the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final

from headwater.tokens import is_cjk

_TOKEN: Final = re.compile(
    r"[^\W\d_\u2e80-\U000323af]+(?:['-][^\W\d_\u2e80-\U000323af]+)*|[\u2e80-\U000323af]|\d+(?:[.,]\d+)*"
)
# What stands for a thing that was named before.
_PRONOUNS: Final = frozenset(
    "he she it they this that these those which who there his her its their him them 他 她 它 其 该 此 这 那".split()
)
_SMALL: Final = frozenset(
    (
        "the a an of in on at to for by with from and or as is was were are be been has have had also did do does "
        "的 了 是 在 于 和 与 及 等 有 被 由 为 以 将 把 而 并 也 都 就 曾 后 中 里 上 下 之 所 则 又 再 即 "
        "任 到 从 向 对 地 得 着 过 会 能 可 要 个 名 位"
    ).split()
)
# So many words or characters on either side must be the same, and so many at most differ.
SAME_CHARS: Final = 2
SAME_WORDS: Final = 2
MOST_CHARS: Final = 8
MOST_WORDS: Final = 4
LEAST_PREFIX: Final = 3


def swaps(said: str, given: str, *, from_start: bool = True) -> Iterator[tuple[str, str]]:
    """What is said and what is given instead of it, for each such place.

    Without `from_start` nothing is said of how they begin: what a clause is about may stand in another one.
    """
    ones, others = _TOKEN.findall(said), _TOKEN.findall(given)
    blocks = SequenceMatcher(None, ones, others, autojunk=False).get_opcodes()
    for place, (kind, start, end, other_start, other_end) in enumerate(blocks):
        if kind != "replace" or not (place or from_start):
            continue
        mine, theirs = ones[start:end], others[other_start:other_end]
        before = ones[blocks[place - 1][1] : start] if place else None
        after = ones[end : blocks[place + 1][2]] if place + 1 < len(blocks) else None
        # What is the same up to the start of both is enough, however short it is.
        if place and blocks[place - 1][1] == blocks[place - 1][3] == 0:
            before = None
        if not (_short(mine) and _short(theirs) and _same(before) and _same(after)) or (
            before is None and after is None
        ):
            continue
        told, source = _telling(mine), _telling(theirs)
        if not told or not source or _PRONOUNS.issuperset(theirs):
            continue
        one, other = _joined(told), _joined(source)
        # A longer or a shorter form of the same, and what the other one says elsewhere, is no swap.
        if one in other or other in one or one in given or other in said or one.isdigit() or other.isdigit():
            continue
        if _spelt_alike(one, other):
            continue
        yield _joined(mine), _joined(theirs)


def _spelt_alike(one: str, other: str) -> bool:
    """Metres and meters, builds and built: the same word, or as good as that."""
    shared = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return not is_cjk(one[0]) and shared >= LEAST_PREFIX and 2 * shared >= max(len(one), len(other))


def _short(tokens: list[str]) -> bool:
    return len(tokens) <= (MOST_CHARS if is_cjk(tokens[0][0]) else MOST_WORDS)


def _same(tokens: list[str] | None) -> bool:
    """Whether a stretch that is the same is long enough; the edge of a sentence is."""
    if tokens is None:
        return True
    return len(tokens) >= (SAME_CHARS if is_cjk(tokens[0][0]) else SAME_WORDS)


def _telling(tokens: list[str]) -> list[str]:
    return [token for token in tokens if token not in _SMALL and token not in _PRONOUNS]


def _joined(tokens: list[str]) -> str:
    return ("" if is_cjk(tokens[0][0]) else " ").join(tokens)
