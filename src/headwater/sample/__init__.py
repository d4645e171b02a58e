"""A small bilingual knowledge base to try at once: the handbook of an invented hydrology station.

`station/` holds the documents, `questions.toml` the questions they answer and some they do not.
"""

import shutil
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any


def copy_to(folder: Path) -> Path:
    """Lay the sample's documents into a folder; what is there already stays as it is."""
    with resources.as_file(resources.files("headwater.sample") / "station") as station:
        for source in sorted(station.rglob("*")):
            target = folder / source.relative_to(station)
            if source.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
    return folder


def questions() -> list[dict[str, Any]]:
    """Every question with what its answer must cite; one without a `file` has no answer in the sample."""
    text = (resources.files("headwater.sample") / "questions.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)
    return [*found["question"], *found["unanswered"]]
