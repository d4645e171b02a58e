"""docs/rerankers.md names every reranker, every setting of each with its default, and every name that is known."""

import json
import re
from pathlib import Path

import pytest

from headwater.models.known import RERANKERS
from headwater.registry import installed, load, settable
from headwater.rerankers import GIVEN

TEXT = (Path(__file__).parents[2] / "docs" / "rerankers.md").read_text(encoding="utf-8")
PARTS = re.split(r"^## (.+)$", TEXT, flags=re.MULTILINE)
SECTIONS = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))


@pytest.mark.parametrize(
    ("name", "section"),
    [("onnx", "onnx"), ("http", "http"), ("cohere", "http"), ("jina", "http"), ("dashscope", "http"), ("llm", "llm")],
)
def test_every_setting_is_documented_with_its_default(name: str, section: str) -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.+?) \|", SECTIONS[section], flags=re.MULTILINE))
    real = settable(load("rerankers", name), GIVEN)
    assert rows == {key: "none" if value is None else f"`{json.dumps(value)}`" for key, value in real.items()}


def test_every_reranker_is_in_the_table() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:here|on)", TEXT, flags=re.MULTILINE)
    assert set(installed("rerankers")) == set(rows)


def test_every_known_name_is_there() -> None:
    for known in RERANKERS:
        assert f"`{known.name}`" in TEXT
        assert known.use in installed("rerankers")
