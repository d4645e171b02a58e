"""An endpoint -> which models it has, how one does, and its settings in headwater.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from headwater.config import FILE_NAME, load
from headwater.errors import BackendError, SettingError
from headwater.messages import Message
from headwater.models.http import get_json
from headwater.models.known import OLLAMA
from headwater.protocols import LanguageModel
from headwater.write import Writing

# Somebody at home answers at once.
LOOK_SECONDS = 1.0
LIST_SECONDS = 10.0
_NAME = re.compile(r"[A-Za-z0-9_-]+")


def ollama_url() -> str:
    """Where an Ollama runs on this machine; empty where none does."""
    try:
        get_json(f"{OLLAMA.base_url}/models", timeout_seconds=LOOK_SECONDS)
    except BackendError:
        return ""
    return OLLAMA.base_url


def models_at(base_url: str, *, key: str = "") -> list[str]:
    """The names of the models that an endpoint lists; none where it lists none."""
    try:
        given = get_json(f"{base_url.rstrip('/')}/models", key=key, timeout_seconds=LIST_SECONDS)
    except BackendError:
        return []
    data = given.get("data") if isinstance(given, dict) else None
    return [str(one["id"]) for one in data or [] if isinstance(one, dict) and one.get("id")]


def trial(model: LanguageModel, question: str, *, deadline_seconds: float) -> dict[str, Any]:
    """What it says to a short question, and how long that takes. Raises BackendError."""
    began = perf_counter()
    first = 0.0
    text = ""
    writing = Writing(model, [Message(role="user", content=question)], max_tokens=64, deadline_seconds=deadline_seconds)
    for piece in writing:
        first = first or perf_counter() - began
        text += piece
    return {
        "model": model.name,
        "text": " ".join(text.split()),
        "first_ms": first * 1000,
        "total_ms": (perf_counter() - began) * 1000,
        "input_tokens": writing.usage.input_tokens,
        "output_tokens": writing.usage.output_tokens,
        "context_tokens": model.context_tokens,
        "tools": bool(getattr(model, "takes_tools", False)),
    }


def install(home: Path, settings: Mapping[str, Any], *, name: str = "") -> Path:
    """Write a model's section into the home's settings, in the place of the one that is there."""
    if name and not _NAME.fullmatch(name):
        raise SettingError(f"a model's name has letters, digits, - and _ only, got {name!r}")
    home.mkdir(parents=True, exist_ok=True)
    file = home / FILE_NAME
    section = f"llm.{name}" if name else "generate"
    # Strings of JSON are strings of TOML.
    table = f"[{section}]\n" + "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items()
    )
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    pattern = re.compile(rf"^\[{re.escape(section)}\]\s*\n(?:(?!\s*\[).*\n?)*", re.MULTILINE)
    after = pattern.sub(lambda _: f"{table}\n", before, count=1) if pattern.search(before) else None
    if after is None:
        after = f"{before.rstrip()}\n\n{table}" if before.strip() else table
    temporary = file.with_suffix(".new")
    temporary.write_text(after.rstrip() + "\n", encoding="utf-8")
    temporary.replace(file)
    load(home)  # what was written can be read
    return file
