"""A home -> its vector engine made ready in the background, while the rest is still being imported.

turbovec takes a tenth of a second at its first use, whatever the size of the index, and needs no interpreter for it: a
command that searches once begins it first of all.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path


def begin(home: Path) -> None:
    """Start, and come back at once."""
    threading.Thread(target=_load, args=(home,), name="headwater-warm", daemon=True).start()


def _load(home: Path) -> None:
    for path in sorted(home.glob("vectors-*/vectors.tvim")):
        import turbovec

        with suppress(OSError, ValueError):  # whoever searches loads it too, and says what is wrong with it
            turbovec.IdMapIndex.load(str(path))
            return  # its first use is what takes long; the index itself is opened by whoever searches
