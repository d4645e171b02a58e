"""docs/milvus.md names every setting of the index with its default."""

import json
import re
from pathlib import Path

from headwater.home import GIVEN
from headwater.registry import load, settable

TEXT = (Path(__file__).parents[2] / "docs" / "milvus.md").read_text(encoding="utf-8")


def test_every_setting_is_documented_with_its_default() -> None:
    part = TEXT.partition("## Settings")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.+?) \|", part, flags=re.MULTILINE))
    real = settable(load("vector_indexes", "milvus"), GIVEN["vector_index"])
    assert rows == {key: f"`{json.dumps(value)}`" for key, value in real.items()}
