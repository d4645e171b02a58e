"""Settings of a home -> where its stores are: which catalog, the indexes that go with it, and the locks.

A catalog is a file of the home's folder, or tables of a database server. Whatever depends on which of them it is stands
here, so that nobody else has to ask.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from headwater.config import SECRET, Config, Setting
from headwater.protocols import Catalog
from headwater.storage.lock import HomeLock

if TYPE_CHECKING:
    from headwater.intake import Lock

CATALOG_FILE: Final = "catalog.sqlite"
# What a catalog in a server is called in the settings, and so are the indexes that go with it.
SERVED: Final = "postgres"
# Index sections that follow the catalog, and the keys that they take from it.
FOLLOWING: Final = ("text_index", "vector_index")
STORES: Final = ("catalog", *FOLLOWING)
# What a store in a server is called in the settings, whichever store it is.
SERVERS: Final = (SERVED, "milvus")
INHERITED: Final = ("url", "schema")
NOT_SHOWN: Final = "(not shown)"
# The password of an address: postgresql://name:password@host/database, ?password=..., or host=... password=...
_PASSWORDS: Final = (
    re.compile(r"(?<=://)([^/@:]*):[^@]*@(?=[^@]*$)"),
    re.compile(r"(?i)([?&\s]|^)((?:ssl)?password)\s*=\s*('[^']*'|[^&\s]+)"),
)


@runtime_checkable
class Placed(Protocol):
    """A catalog that says where it is."""

    def place(self) -> dict[str, str]:
        """For people; never with a password."""
        ...


@runtime_checkable
class Served(Protocol):
    """A catalog in a server, which several machines may use."""

    def lock(self, name: str) -> Lock:
        """A lock that holds among all of them."""
        ...

    def identity(self) -> list[int]:
        """Numbers that no copy of it has."""
        ...


@runtime_checkable
class Scrubbed(Protocol):
    """A catalog that keeps what was removed in its files until it is told not to."""

    def scrub(self) -> None:
        """Leave no trace of it."""
        ...


def is_served(config: Config) -> bool:
    """Whether the catalog is in a server, and not in the home's folder."""
    return config.component_name("catalog") == SERVED


def following(config: Config) -> Config:
    """The settings, with indexes in the server where the catalog is and nothing is said of them."""
    if not is_served(config):
        return config
    own: dict[str, Setting] = {}
    for section in FOLLOWING:
        if f"{section}.use" not in config.settings:
            own[f"{section}.use"] = Setting(SERVED, "catalog.use")
        elif config.component_name(section) != SERVED:
            continue
        for key in INHERITED:
            given = config.settings.get(f"catalog.{key}")
            if given is not None and f"{section}.{key}" not in config.settings:
                own[f"{section}.{key}"] = Setting(given.value, f"catalog.{key}")
    return replace(config, settings={**config.settings, **own})


def without_making(config: Config) -> Config:
    """The settings, by which nothing is made in a server that holds no catalog."""
    kept = {name: setting for name, setting in config.settings.items() if name != "catalog.create"}
    return replace(config, settings=kept)


def lock_of(catalog: Catalog, home: Path, name: str) -> Lock:
    """The lock of this name: where the catalog is in a server it holds among all machines."""
    return catalog.lock(name) if isinstance(catalog, Served) else HomeLock(home / f"{name}.lock")


def place_of(catalog: Catalog, config: Config) -> dict[str, str]:
    """Which catalog was opened."""
    return catalog.place() if isinstance(catalog, Placed) else {"use": config.component_name("catalog")}


def scrub(catalog: Catalog) -> None:
    """Leave no trace of what was removed from a catalog."""
    if isinstance(catalog, Scrubbed):
        catalog.scrub()


def identity_of(catalog: Catalog) -> list[int] | None:
    """What tells a catalog in a server from a copy of it; a file is told by its own number."""
    return catalog.identity() if isinstance(catalog, Served) else None


def in_servers(config: Config) -> tuple[str, ...]:
    """The sections whose stores are in a server, and not in the home's folder."""
    every = following(config)
    return tuple(section for section in STORES if every.component_name(section) in SERVERS)


def embedded(config: Config) -> Config:
    """The settings, with every store in the home's folder."""
    away = in_servers(config)
    kept = {name: setting for name, setting in config.settings.items() if name.partition(".")[0] not in away}
    return replace(config, settings=kept)


def veiled(name: str, setting: Setting) -> Setting:
    """A key that was written out is not shown; one that is only named is. Of an address, all but the password is."""
    value: Any = setting.value
    if not isinstance(value, str) or not value or value.startswith(SECRET):
        return setting
    if name.endswith(("api_key", "password", "token")) or (name == "cache.url" and "@" in value):
        return Setting(NOT_SHOWN, setting.origin)
    return Setting(without_password(value), setting.origin) if name.endswith(("url", "uri")) else setting


def without_password(address: str) -> str:
    """An address as it may be shown."""
    whole, named = _PASSWORDS
    shown = whole.sub(rf"\1:{NOT_SHOWN}@", address)
    return named.sub(rf"\1\2={NOT_SHOWN}", shown)
