"""Text in the filter language -> a tree whose `matches` is the meaning every store must reproduce.

    tag = "x" and (page >= 3 or section contains "Methods") and date >= 2025-01-01 and not archived

The language:

- `and`, `or`, `not` (also `&&`, `||`, `!`) in any case; `not` binds tightest, then `and`, then `or`; parentheses group.
- `key = value` (also `==`), `!=`, `<`, `<=`, `>`, `>=`, `key contains value`, `key in (value, ...)` (also with square
  brackets), `key not in (...)`, `key not contains value`, and a bare `key`. `*` is everything, and so is empty text.
- A value is "quoted" (or 'quoted'; inside, a backslash goes before a quote or a backslash), a number, `true`, `false`,
  or a bare word: `methods`, `北京`, `v1.2`, `2025-01-01`. Full-width signs (＝ （ ） ，) are read like the narrow ones.
- A key is letters of any script, digits, `_`, `-` and dots; it starts with a letter or `_`. `ALIASES` has the spellings
  that mean another key.

The meaning:

- An attribute with several values matches when any of them does. A missing attribute matches nothing.
- `!=` is exactly `not =`: it holds for a document without the attribute, and for tags when no tag is equal.
- Numbers compare with numbers (`true` is 1, `false` is 0), strings with strings by code point. Anything else is false.
- Dates are ISO 8601 strings in UTC. A literal that is a year, a month, a day or a time compares with a stored date at
  the literal's own precision: `date <= 2025-01-01` includes that whole day and `date = 2025-01` the whole month. Zones
  are not converted.
- `contains` looks for a part of a string and ignores case and full width.
- A bare key holds when the value, or any of several, is neither false nor 0 nor empty.
"""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, TypeAlias

from headwater.errors import FilterError

Value: TypeAlias = str | int | float | bool
Attributes: TypeAlias = Mapping[str, Value | tuple[Value, ...]]
Op: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]

# What people write for the names that documents and chunks have.
ALIASES: Final[Mapping[str, str]] = {
    "tags": "tag", "pages": "page", "sections": "section", "type": "content_type", "user_id": "owner",
    "project_id": "collection",
}  # fmt: skip
# No person writes deeper or longer; a bound keeps a hostile filter from using up the stack or the clock.
MAX_DEPTH: Final = 64
MAX_CHARS: Final = 10_000

_EXAMPLE: Final = 'tag = "x" and (page >= 3 or section contains "Methods") and date >= 2025-01-01 and not archived'
_OPS: Final[tuple[Op, ...]] = ("=", "!=", "<", "<=", ">", ">=")
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_RESERVED: Final = frozenset({"and", "or", "not", "in", "contains", "true", "false"})
_KEY: Final = re.compile(r"[^\W\d][\w-]*(?:\.[\w-]+)*")
_STORED_DATE: Final = re.compile(r"\d{4}-\d\d(?:-\d\d(?:[T ].*)?)?", re.DOTALL | re.ASCII)
_DATE: Final = re.compile(
    r"(\d{4}(?:-\d\d(?:-\d\d(?:T\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?)?)?)?)(?:Z|\+00:00)?", re.ASCII
)


# ------------------------------------------------------------------------------------------- meaning


def test(op: Op | Literal["contains"], stored: Value, literal: Value) -> bool:
    """Whether one stored value satisfies one comparison. Of several values, `!=` asks all of them, the others any."""
    if op == "contains":
        return isinstance(stored, str) and isinstance(literal, str) and _loosely(literal) in _loosely(stored)
    if op == "!=":
        return not test("=", stored, literal)
    if isinstance(stored, str) and _STORED_DATE.fullmatch(stored) and (date := _DATE.fullmatch(str(literal))):
        # A bare year was read as a number and is still a date to a stored date.
        stored, literal = stored[: len(date[1])], date[1]
    if isinstance(stored, str) != isinstance(literal, str):
        return False
    return bool(_ORDERS[op](stored, literal))


def is_date(literal: str) -> bool:
    """Whether it may be equal to a stored date that is written otherwise."""
    return _DATE.fullmatch(literal) is not None


def _loosely(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _any(meta: Attributes, key: str, holds: Callable[[Value], bool]) -> bool:
    value = meta.get(key)
    if value is None:
        return False
    return any(map(holds, value)) if isinstance(value, tuple) else holds(value)


@dataclass(frozen=True, slots=True)
class All:
    """Everything."""

    def matches(self, meta: Attributes) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Compare:
    """The attribute stands in this relation to the value."""

    key: str
    op: Op
    value: Value

    def __post_init__(self) -> None:
        _settle(self, self.key)
        if self.op not in _OPS:
            raise FilterError(f"a comparison is one of {' '.join(_OPS)}, got {self.op!r}")
        _check_value(self.value)

    def matches(self, meta: Attributes) -> bool:
        if self.op == "!=":
            return not _any(meta, self.key, lambda stored: test("=", stored, self.value))
        return _any(meta, self.key, lambda stored: test(self.op, stored, self.value))


@dataclass(frozen=True, slots=True)
class Contains:
    """The attribute holds this text as a part of it."""

    key: str
    text: str

    def __post_init__(self) -> None:
        _settle(self, self.key)
        if not isinstance(self.text, str):
            raise FilterError(f"contains needs a text, got {self.text!r}; put it in quotes")

    def matches(self, meta: Attributes) -> bool:
        return _any(meta, self.key, lambda stored: test("contains", stored, self.text))


@dataclass(frozen=True, slots=True)
class In:
    """The attribute is equal to one of the values."""

    key: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        _settle(self, self.key)
        if not isinstance(self.values, tuple):
            raise FilterError(f"in needs a tuple of values, got {self.values!r}")
        for value in self.values:
            _check_value(value)

    def matches(self, meta: Attributes) -> bool:
        return _any(meta, self.key, self._holds)

    def _holds(self, stored: Value) -> bool:
        if isinstance(stored, str) and not _STORED_DATE.fullmatch(stored):
            return stored in self.values  # the same, without a call for each of many
        return any(test("=", stored, value) for value in self.values)


@dataclass(frozen=True, slots=True)
class Has:
    """The attribute is there and says yes."""

    key: str

    def __post_init__(self) -> None:
        _settle(self, self.key)

    def matches(self, meta: Attributes) -> bool:
        return _any(meta, self.key, bool)


@dataclass(frozen=True, slots=True)
class And:
    """Every part holds. `conjoin` makes one of any number of filters."""

    parts: tuple[Filter, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts)

    def matches(self, meta: Attributes) -> bool:
        return all(part.matches(meta) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """Some part holds. `disjoin` makes one of any number of filters."""

    parts: tuple[Filter, ...]

    def __post_init__(self) -> None:
        _check_parts(self.parts)

    def matches(self, meta: Attributes) -> bool:
        return any(part.matches(meta) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Filter

    def matches(self, meta: Attributes) -> bool:
        return not self.part.matches(meta)


Filter: TypeAlias = All | Compare | Contains | In | Has | And | Or | Not

ALL: Final = All()
NOTHING: Final = Not(ALL)


def _settle(node: Compare | Contains | In | Has, key: str) -> None:
    if not isinstance(key, str) or not _KEY.fullmatch(key) or key.lower() in _RESERVED:
        raise FilterError(f"a filter key is a name such as tag or meta.author, got {key!r}")
    object.__setattr__(node, "key", ALIASES.get(key, key))


def _check_value(value: object) -> None:
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise FilterError(f"a filter value is a string, a finite number, true or false, got {value!r}")


def _check_parts(parts: object) -> None:
    if not isinstance(parts, tuple) or len(parts) < 2:
        raise FilterError(f"and/or need a tuple of two or more filters, got {parts!r}; see conjoin and disjoin")


def conjoin(*filters: Filter) -> Filter:
    """All of these hold: nested ones are flattened, ALL is dropped, none at all is ALL."""
    parts: list[Filter] = []
    for one in filters:
        flat = conjoin(*one.parts) if isinstance(one, And) else one
        parts.extend(flat.parts if isinstance(flat, And) else () if flat == ALL else (flat,))
    return ALL if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def disjoin(*filters: Filter) -> Filter:
    """Any of these holds; none at all is NOTHING."""
    return NOTHING if not filters else filters[0] if len(filters) == 1 else Or(filters)


def within(folder: str) -> Filter:
    """What lies in a folder or in one inside of it; a path from the root is compared with where files came from."""
    key, name = ("uri", folder.rstrip("/")) if folder.startswith("/") else ("folder", folder.strip("/"))
    # After `/` comes `0`: what begins with `hr/` stands between `hr/` and `hr0`.
    inside = conjoin(Compare(key, ">=", f"{name}/"), Compare(key, "<", f"{name}0"))
    return disjoin(Compare(key, "=", name), inside)


# ------------------------------------------------------------------------------------------- writing


def to_text(where: Filter) -> str:  # noqa: PLR0911
    """The filter in the filter language: `parse` gives the same filter back."""
    match where:
        case All():
            return "*"
        case Compare(key, op, value):
            return f"{key} {op} {_value_text(value)}"
        case Contains(key, text):
            return f"{key} contains {_value_text(text)}"
        case In(key, values):
            return f"{key} in ({', '.join(map(_value_text, values))})"
        case Has(key):
            return key
        case And(parts):
            return " and ".join(map(_part_text, parts))
        case Or(parts):
            return " or ".join(map(_part_text, parts))
        case Not(part):
            return f"not {_part_text(part)}"


def _part_text(part: Filter) -> str:
    return f"({to_text(part)})" if isinstance(part, And | Or) else to_text(part)


def _value_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


# ------------------------------------------------------------------------------------------- reading

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | “[^”]*”)
    | (?P<sign>&& | \|\| | [=＝]{1,2} | [!！][=＝] | <> | [<＜][=＝] | [>＞][=＝] | [<>＜＞!！()（）\[\]［］,，、*≤≥≠])
    | (?P<word>[\w.\-+\#:/@%]+)
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
# Every other spelling of a sign, and the words that signs stand for.
_SPELLINGS: Final = {
    "==": "=", "<>": "!=", "≤": "<=", "≥": ">=", "≠": "!=", "、": ",", "&&": "and", "||": "or", "!": "not",
}  # fmt: skip
# Keys that hold dates: before or after a word such as 2025/01/31 would be told by letters, which nobody means.
_DATED: Final = frozenset({"date", "created", "updated"})
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_CLOSING: Final = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # string, sign, word or end
    text: str  # a string without its quotes; a keyword or sign in its one spelling
    raw: str
    start: int


def parse(text: str) -> Filter:
    """The filter that the text says. Raises FilterError, which says where it stopped making sense."""
    if not isinstance(text, str):
        raise FilterError(f"a filter is a text such as {_EXAMPLE}, or a Filter, got {text!r}")
    if len(text) > MAX_CHARS:
        raise FilterError(f"a filter has at most {MAX_CHARS:,} characters, got {len(text):,}; use fewer conditions")
    if not text.strip():
        return ALL
    return _Reader(text).whole()


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    place = 0
    while not found or found[-1].kind != "end":
        match = _TOKEN.match(text, place)
        if match is None:
            rest = text[place:].lstrip()
            wanted = "a closing quote" if rest[0] in "\"'“" else "a name, a value or a sign"
            _fail(repr(rest[:20]), len(text) - len(rest), wanted)
        place = match.end()
        kind = match.lastgroup or "end"
        raw = said = match[kind]
        if kind == "string":
            said = raw[1:-1] if raw[0] == "“" else re.sub(r"\\(.)", r"\1", raw[1:-1], flags=re.DOTALL)
        elif kind == "sign":
            sign = unicodedata.normalize("NFKC", raw)
            said = _SPELLINGS.get(sign, sign)
            kind = "word" if said in _RESERVED else "sign"
        elif raw.lower() in _RESERVED:
            said = raw.lower()
        found.append(_Token(kind, said, raw, match.end() - len(raw)))
    return found


def _fail(got: str, start: int, expected: str) -> NoReturn:
    raise FilterError(f"bad filter at character {start + 1}: expected {expected}, got {got}. Example: {_EXAMPLE}")


class _Reader:
    """Recursive descent: one method per rule, loosest first."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._place = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self) -> _Token:
        token = self._next
        self._place += token.kind != "end"
        return token

    def _is(self, kind: str, text: str) -> bool:
        if self._next.kind != kind or self._next.text != text:
            return False
        self._place += 1
        return True

    def _expected(self, what: str, token: _Token) -> NoReturn:
        _fail("the end" if token.kind == "end" else repr(token.raw), token.start, what)

    def whole(self) -> Filter:
        where = self._either(0)
        if self._next.kind != "end":
            self._expected("and, or, or the end", self._next)
        return where

    def _either(self, depth: int) -> Filter:
        parts = [self._both(depth)]
        while self._is("word", "or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _both(self, depth: int) -> Filter:
        parts = [self._one(depth)]
        while self._is("word", "and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            _fail("one more level", self._next.start, f"at most {MAX_DEPTH} levels of parentheses and not")
        if self._is("word", "not"):
            return Not(self._one(depth + 1))
        if self._is("sign", "("):
            where = self._either(depth + 1)
            if not self._is("sign", ")"):
                self._expected("and, or, or a closing parenthesis", self._next)
            return where
        if self._is("sign", "*"):
            return ALL
        return self._condition()

    def _condition(self) -> Filter:
        token = self._take()
        key = token.text
        if token.kind != "word" or key in _RESERVED or not _KEY.fullmatch(key):
            self._expected("a key such as tag, page, section or date", token)
        for op in _OPS:
            if self._is("sign", op):
                return Compare(key, op, self._date() if key in _DATED and op not in ("=", "!=") else self._value())
        start = self._place
        negated = self._is("word", "not")
        if self._is("word", "in"):
            where = self._in(key)
        elif self._is("word", "contains"):
            where = Contains(key, self._text())
        else:
            self._place = start
            return Has(key)
        return Not(where) if negated else where

    def _in(self, key: str) -> Filter:
        opening = self._take()
        closing = _CLOSING.get(opening.text) if opening.kind == "sign" else None
        if closing is None:
            self._expected('a list such as ("a", "b")', opening)
        values: list[Value] = []
        while not self._is("sign", closing):
            if values and not self._is("sign", ","):
                self._expected(f"a comma or {closing}", self._next)
            values.append(self._value())
        return In(key, tuple(values))

    def _text(self) -> str:
        token = self._take()
        if token.kind not in ("string", "word") or (token.kind == "word" and token.text in _RESERVED):
            self._expected("a text, in quotes if it has spaces or is a word of the language", token)
        return token.text

    def _date(self) -> Value:
        token, value = self._next, self._value()
        if token.kind == "word" and isinstance(value, str) and not is_date(value):
            self._expected("a date such as 2025, 2025-01 or 2025-01-31", token)
        return value

    def _value(self) -> Value:
        token = self._take()
        if token.kind == "string":
            return token.text
        if token.kind != "word" or token.text in _RESERVED - {"true", "false"}:
            self._expected("a value, in quotes if it has spaces or is a word of the language", token)
        if token.text in ("true", "false"):
            return token.text == "true"
        return self._number(token) if _NUMBER.fullmatch(token.text) else token.text

    def _number(self, token: _Token) -> int | float:
        with suppress(ValueError):  # thousands of digits
            number = int(token.text) if token.text.lstrip("+-").isdigit() else float(token.text)
            if math.isfinite(number):
                return number
        self._expected("a number of a sensible size", token)
