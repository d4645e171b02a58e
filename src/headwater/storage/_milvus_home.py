"""The folder of a space -> the name of its home, and of its collection in a server that several homes share.

The folder holds a file with the home's name, which is random, and with the number that the file itself has on its disk:
a copy of the file has another number. So a copied home is told from its original, and both from any other home.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from headwater.errors import HomeDamaged, SettingError

FILE_NAME: Final = "milvus.json"
UNSEALED_FILE: Final = "milvus.unsealed"
NAME_BYTES: Final = 16
SHOWN_DIGITS: Final = 8  # of the home's name in a collection's; the description has all of them
# Milvus takes letters, digits and underscores, 255 of them.
_COLLECTION: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def check_name(collection: str) -> None:
    """Raises SettingError for what cannot begin a collection's name."""
    if not _COLLECTION.fullmatch(collection):
        raise SettingError(f"collection must be letters, digits and underscores, not a digit first, got {collection!r}")


def read_name(folder: Path) -> str | None:
    """The home's name; None where nothing was written yet. HomeDamaged for a copy."""
    try:
        with (folder / FILE_NAME).open(encoding="utf-8") as file:
            told, number = json.load(file), os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unusable(folder, f"{FILE_NAME} cannot be read: {error}") from error
    if not isinstance(told, dict) or not re.fullmatch(r"[0-9a-f]{32}", str(told.get("home"))):
        raise _unusable(folder, f"{FILE_NAME} names no home")
    if told.get("file") != number:
        raise _unusable(folder, "this home is a copy of another one, whose vectors are in Milvus")
    return str(told["home"])


def own_name(folder: Path, *, mend: bool = False) -> str:
    """The home's name, made where there is none; with `mend` also in the place of one that cannot be used."""
    try:
        found = read_name(folder)
    except HomeDamaged:
        if not mend:
            raise
        found = None
    if found is not None:
        return found
    made = _name_of_siblings(folder) or secrets.token_hex(NAME_BYTES)
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{FILE_NAME}.new"
    with draft.open("w", encoding="utf-8") as file:
        json.dump({"home": made, "file": os.fstat(file.fileno()).st_ino}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / FILE_NAME)
    return made


def collection_name(collection: str, folder: Path, *, own: str) -> str:
    """`headwater_1a2b3c4d_1` for space 1 of the home 1a2b3c4d…"""
    number = folder.name.rpartition("-")[2]
    return f"{collection}_{own[:SHOWN_DIGITS]}_{number if number.isdecimal() else 0}"


def left_behind(folder: Path, names: Iterable[str], *, collection: str, own: str) -> list[str]:
    """Those of the home's collections whose space was dropped: its folder is gone."""
    prefix = f"{collection}_{own[:SHOWN_DIGITS]}_"
    numbers = {name: name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    kind = folder.name.rpartition("-")[0]
    return [
        name
        for name, number in numbers.items()
        if kind and number.isdecimal() and not (folder.parent / f"{kind}-{number}").exists()
    ]


def unsealed(folder: Path) -> int:
    """How many rows were written since the last segment was closed."""
    try:
        return int((folder / UNSEALED_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def note_unsealed(folder: Path, rows: int) -> None:
    """Remember it for the next process; not knowing only makes searches a little slower."""
    with suppress(OSError):
        (folder / UNSEALED_FILE).write_text(str(rows), encoding="ascii")


def _name_of_siblings(folder: Path) -> str | None:
    """Spaces of one home have one name."""
    kind = folder.name.rpartition("-")[0]
    for other in sorted(folder.parent.glob(f"{kind}-*")) if kind else ():
        with suppress(HomeDamaged):
            if other != folder and (found := read_name(other)):
                return found
    return None


def _unusable(folder: Path, reason: str) -> HomeDamaged:
    return HomeDamaged(
        f"the vector index of {str(folder)!r} cannot be used: {reason}; "
        "`headwater check --repair` builds one of its own from the catalog"
    )
