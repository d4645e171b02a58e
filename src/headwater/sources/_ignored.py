"""Names of files and folders that are nobody's documents, for whoever lists or watches folders."""

from __future__ import annotations

from typing import Final

# Names that hold no documents of a person's. Hidden ones (.git, .obsidian, .trash, .#lock) go by their dot.
IGNORED: Final = (
    "node_modules",
    "__pycache__",
    "*~",
    "*.swp",
    "*.swo",
    "*.bak",
    "#*#",
    "~$*",
    "Thumbs.db",
    "desktop.ini",
)
