"""docs/coverage.md lists every item of the five designs once, and names only files and tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ITEMS = 119
TOPICS = {"embedders", "documents", "retrieval", "answers", "service", "page"}

ROWS = re.findall(
    r"^\| (\d+) \| (.+?) \| (.*?) ?\| (.+?) \|$",
    (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8"),
    flags=re.MULTILINE,
)


def test_every_item_is_listed_once_and_in_order() -> None:
    assert [int(number) for number, *_ in ROWS] == list(range(1, ITEMS + 1))


def test_every_item_is_served_or_says_by_what_it_will_be() -> None:
    for number, _, where, test in ROWS:
        if test.startswith("not yet: "):
            assert not where, f"item {number} is both served and not yet"
            topics = set(test.removeprefix("not yet: ").split(", "))
            assert topics <= TOPICS or test.startswith("not yet: later issues"), f"item {number}: {test}"
        else:
            assert "`" in where, f"item {number} names no file"
            assert "`tests/" in test, f"item {number} names no test"


def test_every_named_file_and_test_exists() -> None:
    named = {name for _, _, where, test in ROWS for name in re.findall(r"`((?:src|tests)/[^`:]+)", where + test)}
    assert len(named) > 20
    missing = sorted(name for name in named if not (ROOT / name).exists())
    assert not missing, f"docs/coverage.md names what is not there: {missing}"


def test_every_named_test_function_exists() -> None:
    for _, _, _, test in ROWS:
        for path, function in re.findall(r"`(tests/[^`:]+)::(\w+)`", test):
            assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path} has no {function}"
