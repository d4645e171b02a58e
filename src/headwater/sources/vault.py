"""An Obsidian vault -> changes of its files, each with its place in the vault and a link that opens it there.

A vault is a folder with `.obsidian` in it; what is hidden (`.obsidian`, `.trash`) is no document, nor is what the
vault's own settings leave out. A part of a vault, or one note, is told from its vault all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from headwater.protocols import Source
from headwater.types import Blob, Change, Labels

SIGN: Final = ".obsidian"
# Drawings and boards that only Obsidian's own programs read.
_NOT_NOTES: Final = (".canvas", ".base", ".excalidraw")
_NO_LABELS: Final = Labels()


def vault_of(path: Path) -> Path | None:
    """The vault that a file or a folder is, or stands in."""
    there = path.resolve()
    return next((folder for folder in (there, *there.parents) if (folder / SIGN).is_dir()), None)


class VaultSource:
    """The files of `files`, which lie in a vault, as documents of that vault."""

    def __init__(self, root: Path, *, files: Source, labels: Labels = _NO_LABELS) -> None:
        self.root, self.files, self.labels = Path(root).resolve(), files, labels
        self._left_out = _ignored_by_settings(self.root / SIGN / "app.json")

    def scan(self) -> Iterator[Change]:
        """Every file but what the vault leaves out."""
        for change in self.files.scan():
            path = Path(change.uri)
            if not path.is_relative_to(self.root):  # a link that leads out of the vault
                yield change
                continue
            inside = path.relative_to(self.root)
            if path.suffix.lower() in _NOT_NOTES or any(
                left_out.search(inside.as_posix()) for left_out in self._left_out
            ):
                continue
            yield self._of_the_vault(change, inside)

    def read(self, uri: str) -> Blob:
        """The bytes of a file."""
        return self.files.read(uri)

    def _of_the_vault(self, change: Change, inside: Path) -> Change:
        name = inside.as_posix()
        note = name.removesuffix(".md")
        link = f"obsidian://open?vault={quote(self.root.name, safe='')}&file={quote(note, safe='')}"
        folder = "/".join(filter(None, (self.labels.folder.strip("/"), inside.parent.as_posix().strip("."))))
        told = {"vault": self.root.name, "path": name, "link": link}
        labels = replace(change.labels, folder=folder, meta={**told, **change.labels.meta})
        return replace(change, labels=labels)


def _ignored_by_settings(file: Path) -> list[re.Pattern[str]]:
    """ "Excluded files" of the vault: beginnings of paths, or expressions between slashes."""
    try:
        said = json.loads(file.read_text(encoding="utf-8")).get("userIgnoreFilters", ())
        return [re.compile(one[1:-1] if _is_expression(one) else "^" + re.escape(one)) for one in said if one]
    except (OSError, ValueError, AttributeError, TypeError, re.error):
        return []  # settings of another program: without them nothing is left out


def _is_expression(one: str) -> bool:
    return len(one) > 2 and one.startswith("/") and one.endswith("/")
