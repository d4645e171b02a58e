"""A home -> every setting in force there, with where it comes from; no key and no password among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headwater import config as settings
from headwater.errors import BackendError, SettingError
from headwater.home import GIVEN, Home, weighed
from headwater.places import default_home
from headwater.registry import load, settable
from headwater.stores import CATALOG_FILE, following, is_served, veiled, without_making


@dataclass(frozen=True, slots=True)
class Designed:
    """What the design behind a preset has in the place of a setting, and why it is not what is in effect."""

    value: Any
    why: str


def design_of(preset: str) -> dict[str, Designed]:
    """By the name of a setting: what a preset's design has and this engine does otherwise."""
    told: Mapping[str, Mapping[str, Any]] = settings.preset_file(preset).get(settings.DESIGN, {})
    return {name: Designed(note["value"], str(note["why"])) for name, note in told.items()}


def effective_settings(home: Path | None = None, *, preset: str | None = None) -> dict[str, settings.Setting]:
    """Every setting in force by name, the components' own among them, each with where it comes from."""
    path = home or default_home()
    config = _as_opened(path, following(settings.load(path, preset=preset)))
    found = settings.defaults()
    for section, (group, _) in settings.COMPONENTS.items():
        name = config.component_name(section)
        own = {f"{section}.{key}": value for key, value in settable(load(group, name), GIVEN.get(section, ())).items()}
        found.update({key: settings.Setting(value, "default") for key, value in own.items()})
    found.update({name: veiled(name, setting) for name, setting in config.settings.items()})
    return dict(sorted(found.items()))


def _as_opened(path: Path, config: settings.Config) -> settings.Config:
    """The settings with what the home itself tells; they can be looked at, and mended, while a server is away."""
    if not is_served(config) and not (path / CATALOG_FILE).exists():
        return config
    try:
        opened = Home(path, without_making(config))
    except (BackendError, SettingError):
        if is_served(config):
            return config
        raise
    told = weighed(opened.settled, opened.fingerprint)
    opened.catalog.close_store()
    return replace(config, settings={**config.settings, **told.settings})
