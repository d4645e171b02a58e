"""Names -> classes, through entry points. Built-ins register the same way plugins do.

A class is imported when it is named in the configuration, never before.
"""

import inspect
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any

from headwater.errors import SettingError, UnknownComponent
from headwater.models.known import known_reranker

GROUPS = (
    "sources",
    "parsers",
    "chunkers",
    "embedders",
    "catalogs",
    "text_indexes",
    "vector_indexes",
    "rerankers",
    "generators",
)


def installed(group: str) -> dict[str, EntryPoint]:
    """Every component of a group by name; a plugin may not shadow a built-in."""
    found: dict[str, EntryPoint] = {}
    for point in _points().select(group=f"headwater.{group}"):
        if point.name not in found or point.value.startswith("headwater."):
            found[point.name] = point
    return dict(sorted(found.items()))


@cache
def _points() -> Any:  # two classes with the same `select`, by Python version
    """Every entry point of every package; finding them means reading a file of each, so it is done once."""
    return entry_points()


@cache
def _built_in() -> dict[tuple[str, str], EntryPoint]:
    """Our own entry points, from one file: a search needs no others, and reading all takes as long as searching."""
    try:
        own = distribution("headwater").entry_points
    except PackageNotFoundError:  # run from its source
        return {}
    return {(point.group, point.name): point for point in own}


def load(group: str, name: str) -> type:
    """The class behind a name; an unknown one is refused with the names that exist."""
    built_in = _built_in().get((f"headwater.{group}", name))
    if built_in is not None:  # a plugin may not shadow it
        found: type = built_in.load()
        return found
    known = installed(group)
    if group == "rerankers" and name not in known and (model := known_reranker(name)) is not None:
        name = model.use  # a model's name stands for what runs it
    if name not in known:
        names = ", ".join(known) or "none"
        raise UnknownComponent(f"no {group} component is named {name!r}; installed: {names}")
    loaded: type = known[name].load()
    return loaded


def settable(component: type, given: tuple[str, ...] = ()) -> dict[str, Any]:
    """The keyword arguments of a component that settings may give, with their defaults."""
    parameters = inspect.signature(component).parameters.values()
    keyword = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in given]
    return {p.name: p.default for p in keyword if p.default is not p.empty}


def accepted(component: type, offered: Mapping[str, Any]) -> dict[str, Any]:
    """Of what is offered, the keyword arguments that the component names."""
    named = inspect.signature(component).parameters
    return {key: value for key, value in offered.items() if key in named}


def check_settings(component: type, settings: Mapping[str, Any], *, section: str, given: tuple[str, ...] = ()) -> None:
    """Refuse a key that the component does not take, naming those that it does."""
    known = settable(component, given)
    for key in settings:
        if key not in known:
            names = ", ".join(sorted(known)) or "none"
            raise SettingError(f"unknown setting {section}.{key!s}; {component.__name__} takes: {names}")
