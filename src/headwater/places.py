"""Where things lie that nobody named: the home, and what can be made again."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.errors import BackendError


def default_home() -> Path:
    """`HEADWATER_HOME`, else `./.headwater` where it exists, else the user's data directory."""
    if named := os.environ.get("HEADWATER_HOME"):
        return Path(named)
    here = Path(".headwater")
    if here.is_dir():
        return here
    from platformdirs import user_data_path

    return user_data_path("headwater", appauthor=False)


def make_home(path: Path) -> None:
    """Make its folder where there is none; BackendError where that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BackendError(f"the home {str(path)!r} cannot be made: {error}; name another with --home") from error


def cache_folder() -> Path:
    """Where what can be made again is kept: the user's cache directory."""
    from platformdirs import user_cache_path

    return user_cache_path("headwater", appauthor=False)
