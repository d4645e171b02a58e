"""Digits that are set higher than the text -> the same with `^` in front: 10⁶ must not read 106."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

POWER_SIGN: Final = "^"
# An exponent, or the charge of an ion; a raised word ("st", "TM") changes no number.
_POWER: Final = re.compile(r"[-+−–]?\d{1,3}[-+−–]?|[-+−–]")
# How far it is looked back for what a power is of: runs may be empty.
_RUNS_BACK: Final = 4


def power_of(raised: str, before: Sequence[str]) -> str:
    """Raised words as they follow these: with the sign where they are the power of something."""
    last = next((words for words in reversed(before[-_RUNS_BACK:]) if words), "")
    goes_on = last.startswith(POWER_SIGN)  # a power in several runs has one sign
    is_power = last[-1:].isalnum() and not goes_on and _POWER.fullmatch(raised.strip()) is not None
    return POWER_SIGN + raised if is_power else raised
