"""docs/answers.md names every setting of a language model with its default, every service and every prompt."""

import json
import re
from pathlib import Path

from headwater.home import GIVEN
from headwater.models.known import PROVIDERS
from headwater.registry import load, settable
from headwater.wording import Prompts

TEXT = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")


def test_every_setting_of_a_model_is_documented_with_its_default() -> None:
    part = TEXT.partition("### Settings of a model")[2].partition("###")[0]
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.+?) \|", part, flags=re.MULTILINE))
    real = settable(load("generators", "openai"), GIVEN["generate"])
    assert rows == {key: "none" if value is None else f"`{json.dumps(value)}`" for key, value in real.items()}


def test_every_service_is_documented() -> None:
    for provider in PROVIDERS.values():
        row = re.search(rf"^\| .* \| `{re.escape(provider.base_url)}` \| (.+) \|$", TEXT, flags=re.MULTILINE)
        assert row is not None, provider.name
        assert re.findall(r"`(\w+)`", row[1]) == list(provider.key_variables)


def test_every_prompt_is_documented() -> None:
    part = TEXT.partition("## Prompts")[2].partition("##")[0]
    named = {
        name for row in re.findall(r"^\| (`.+?) \|", part, flags=re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert named == set(Prompts().names())
