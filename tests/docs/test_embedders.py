"""docs/embedders.md names every setting of every embedder with its default, and every prefix that is used."""

import json
import re
from pathlib import Path

import pytest

from headwater.home import GIVEN
from headwater.models.known import MODELS
from headwater.models.openai import OpenAIEmbedder
from headwater.registry import installed, load, settable

TEXT = (Path(__file__).parents[2] / "docs" / "embedders.md").read_text(encoding="utf-8")
PARTS = re.split(r"^## (.+)$", TEXT, flags=re.MULTILINE)
SECTIONS = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))


@pytest.mark.parametrize("name", ["onnx", "openai", "sentence-transformers"])
def test_every_setting_is_documented_with_its_default(name: str) -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.+?) \|", SECTIONS[name], flags=re.MULTILINE))
    real = settable(load("embedders", name), GIVEN["embed"])
    assert rows == {key: "none" if value is None else f"`{json.dumps(value)}`" for key, value in real.items()}


def test_every_embedder_is_in_the_table() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:here|on)", TEXT, flags=re.MULTILINE)
    assert set(installed("embedders")) <= set(rows)


def test_every_prefix_is_documented() -> None:
    used = {
        line
        for model in MODELS
        for prefix in (model.query_prefix, model.passage_prefix)
        for line in prefix.splitlines()
    }
    assert used
    for line in used:
        assert f"`{line}`" in SECTIONS["Prefixes"]


def test_how_often_work_is_stored() -> None:
    assert f"after every {OpenAIEmbedder.commit_texts:,} texts" in TEXT
