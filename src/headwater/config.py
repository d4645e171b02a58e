"""Files, environment and flags -> settings, each with the place it came from.

Later wins: default < preset named in a file < headwater.toml < .env < environment < preset given as a flag < flags.
A component section (`chunk`, `embed`, ...) says `use = "name"`; its other keys are the keyword arguments of that class.
Secrets are written `env:NAME` and looked up when they are needed.
"""

import difflib
import math
import os
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from headwater.errors import BackendError, SettingError
from headwater.settings_file import from_text, with_setting, without_setting
from headwater.types import Options

FILE_NAME = "headwater.toml"
ENVIRONMENT_PREFIX = "HEADWATER_"
DEFAULT_PRESET = "balanced"
SECRET = "env:"
DESIGN = "design"  # the section of a preset that tells what is not a setting in effect
MODELS_FOLDER = "models"  # in a home: what `headwater models pull` fetched

# Section -> (group of entry points, the component in use when nothing else is said).
COMPONENTS: Mapping[str, tuple[str, str]] = {
    "chunk": ("chunkers", "auto"),
    "embed": ("embedders", "static"),
    "catalog": ("catalogs", "sqlite"),
    "text_index": ("text_indexes", "tantivy"),
    "vector_index": ("vector_indexes", "turbovec"),
    "rerank": ("rerankers", "builtin"),
    "generate": ("generators", "extractive"),
}

COLLECTION = "collection"  # the section of settings that hold for one collection: those of `retrieve`
# Sections of tables, each with a name of the person's own: models that a request may choose, collections.
NAMED_SECTIONS = frozenset({"llm", COLLECTION})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """How documents are taken in."""

    batch_chunks: int = 20_000  # to one flush and one transaction: each makes a segment, and eight of them a merge
    max_file_bytes: int = 256 * 1024 * 1024
    lock_timeout_seconds: float = 60.0
    parse_processes: int = 0  # 0 for one per core
    # Of one document: a manual of 10,000 pages takes a minute, and nothing that goes on for longer ends well.
    parse_wall_seconds: float = 120.0
    parse_cpu_seconds: int = 120
    parse_memory_bytes: int = 2 * 1024**3
    parse_output_chars: int = 50_000_000  # a hundred long novels


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """How text is cut into words."""

    dictionary: tuple[str, ...] = ()  # words to keep whole; `dictionary.txt` in the home adds one a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What is kept of answers."""

    keep: Literal["all", "chat", "none"] = "chat"  # for `replay`: of every question, of conversations, or nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Where results are kept for a question that is asked again; `retrieve.cache_size` says how many."""

    use: Literal["memory", "redis"] = "memory"  # of this process, or of all that use one Redis server
    url: str = "redis://127.0.0.1:6379/0"
    password: str = ""  # env:NAME
    ttl_seconds: float = 300.0  # what stands in the server goes after so long
    timeout_seconds: float = 0.1  # a server that takes longer is left out for a while
    max_bytes: int = 1024 * 1024  # of one result in the server


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """How `headwater serve` behaves."""

    host: str = "127.0.0.1"
    port: int = 8571
    retrieval_threads: int = 0  # 0 for two per core
    readers: int = 4  # processes that search while many do, never more than cores; 0 or 1 for this one alone
    generation_threads: int = 128  # a model's slow stream holds one of these, never one of the others
    waiting: int = 64  # requests that may wait for a thread of either pool; the next is told to come back (429)
    deadline_seconds: float = 30.0  # of a request that does not stream; then 503
    max_body_bytes: int = 512 * 1024 * 1024  # of one request
    max_files: int = 100  # in one upload
    owner_quota_bytes: int = 0  # of all originals that one owner keeps; 0 for no limit
    upload_indexes: bool = True  # an upload is indexed at once; else when it is asked for
    history: bool = True  # past searches are kept for their owner
    log_text: bool = False  # queries may stand in the log
    cors_origins: tuple[str, ...] = ()  # pages of other origins that may call; none by default
    job_attempts: int = 8  # of a job whose store or model failed; the pauses between them double
    otel: bool = False  # spans for OpenTelemetry; needs the extra `otel`
    otel_text: bool = False  # questions and answers may stand in spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """How pages are fetched."""

    allow_private: bool = False  # pages of private networks and of this machine may be fetched
    robots: bool = True  # what a site's robots.txt asks programs to leave alone is left alone
    max_bytes: int = 32 * 1024 * 1024  # of one page
    timeout_seconds: float = 20.0  # for one page, in all
    user_agent: str = ""  # empty for headwater's own
    parallel: int = 8  # pages fetched at a time, at most two of them from one site


# Settings that not every number is good for, with the least and the most; other whole numbers are 0 or more.
RANGES: Mapping[str, tuple[float, float]] = {
    "retrieve.top_n": (1, math.inf),
    "retrieve.candidates": (1, math.inf),
    "retrieve.keyword_weight": (0, math.inf),
    "retrieve.semantic_weight": (0, math.inf),
    "retrieve.chance_coverage": (0, 1),
    "retrieve.related_weight": (0, 1),
    "retrieve.mmr_lambda": (0, 1),
    "retrieve.deadline_seconds": (0.001, math.inf),
    "cache.ttl_seconds": (0.001, math.inf),
    "cache.timeout_seconds": (0.001, math.inf),
    "ingest.lock_timeout_seconds": (0, math.inf),
    "ingest.parse_wall_seconds": (0.001, math.inf),
    "ingest.parse_cpu_seconds": (1, math.inf),
    "server.port": (0, 65535),
    "server.deadline_seconds": (0.001, math.inf),
    "server.job_attempts": (1, math.inf),
    "web.timeout_seconds": (0.001, math.inf),
    "web.parallel": (1, math.inf),
}

PLAIN_SECTIONS: Mapping[str, type] = {
    "answers": Answers,
    "cache": Cache,
    "retrieve": Options,
    "ingest": Ingest,
    "server": Server,
    "tokens": Tokens,
    "web": Web,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One value and where it came from."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting by its full name, `section.key`. Only what differs from a default need be here.

    Values may be plain, as in `Config({"retrieve.top_n": 5})`: they stand over the preset they name, or `balanced`.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)  # each a Setting once it is made
    # What the home's `.env` holds beside settings: keys of services. Not shown, and below the environment.
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if plain := {name: value for name, value in self.settings.items() if not isinstance(value, Setting)}:
            made = {name: value for name, value in self.settings.items() if name not in plain}
            object.__setattr__(self, "settings", {**_over_preset(plain), **made})

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by name: those of the process over those of the home's `.env`."""
        return {**self.variables, **os.environ}

    def options(self) -> Options:
        """How to search and answer."""
        return Options(**self._section("retrieve"))

    def ingest(self) -> Ingest:
        """How documents are taken in."""
        return Ingest(**self._section("ingest"))

    def tokens(self) -> Tokens:
        """How text is cut into words."""
        return Tokens(**self._section("tokens"))

    def answers(self) -> Answers:
        """What is kept of answers."""
        return Answers(**self._section("answers"))

    def cache(self) -> Cache:
        """Where results are kept."""
        return Cache(**{key: self.secret(f"cache.{key}", value) for key, value in self._section("cache").items()})

    def server(self) -> Server:
        """How the server behaves."""
        return Server(**self._section("server"))

    def web(self) -> Web:
        """How pages are fetched."""
        return Web(**self._section("web"))

    def names(self, section: str) -> list[str]:
        """The tables of a section that holds several: `[llm.NAME]`."""
        return list(dict.fromkeys(full.rpartition(".")[0] for full in self._section(section)))

    def table(self, section: str, name: str) -> dict[str, Any]:
        """One of them."""
        found = self._section(f"{section}.{name}")
        return {key: self.secret(f"{section}.{name}.{key}", value) for key, value in found.items()}

    def of_collection(self, name: str) -> dict[str, Any]:
        """The options that a collection has of its own: `[collection.NAME]`."""
        return {key: value for key, value in self._section(f"{COLLECTION}.{name}").items() if "." not in key}

    def component_name(self, section: str) -> str:
        """What a component section uses."""
        chosen = self.settings.get(f"{section}.use")
        return str(chosen.value) if chosen else COMPONENTS[section][1]

    def component(self, section: str) -> tuple[str, str, dict[str, Any]]:
        """The group, the name in use and the keyword arguments of a component section."""
        arguments = self._section(section)
        arguments.pop("use", None)
        group, name = COMPONENTS[section][0], self.component_name(section)
        return group, name, {key: self.secret(f"{section}.{key}", value) for key, value in arguments.items()}

    def written(self, section: str) -> tuple[str, str, tuple[str, ...]]:
        """The group and the name in use of a component section, and which other keys were written for it."""
        keys = tuple(key for key in self._section(section) if key != "use")
        return COMPONENTS[section][0], self.component_name(section), keys

    def secret(self, name: str, value: Any) -> Any:
        """What `env:NAME` stands for; any other value as it is."""
        if not isinstance(value, str) or not value.startswith(SECRET):
            return value
        variable = value.removeprefix(SECRET)
        if variable not in self.environment:
            reason = f"neither the environment nor .env of the home has {variable}"
            raise SettingError(f"{name} is {value!r} and {reason}; set it, or change the setting")
        return self.environment[variable]

    def _section(self, section: str) -> dict[str, Any]:
        prefix = section + "."
        return {
            name.removeprefix(prefix): setting.value
            for name, setting in self.settings.items()
            if name.startswith(prefix)
        }


def load(home: Path, *, preset: str | None = None, flags: Mapping[str, Any] | None = None) -> Config:
    """The settings in force for a home."""
    variables = _dotenv(home / ".env")
    file, dotenv = _from_file(home / FILE_NAME), _from_environment(variables, str(home / ".env"))
    environment = _from_environment(os.environ, "environment")
    named = Setting(DEFAULT_PRESET, "default")
    for layer in (file, dotenv, environment):
        named = layer.pop("preset", named)
    if preset is None:
        merged = {"preset": named, **read_preset(str(named.value)), **file, **dotenv, **environment}
    else:  # instead of the other preset, whose values would show through where this one has none
        merged = {**file, **dotenv, **environment, "preset": Setting(preset, "flag"), **read_preset(preset)}
    for name, value in (flags or {}).items():
        merged[name] = Setting(_checked(name, value, "flag"), "flag")
    others = {name: text for name, text in variables.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    return Config(merged, others)


def _over_preset(plain: Mapping[str, Any]) -> dict[str, Setting]:
    """What a program says, over the preset that it names."""
    origin, name = "Config", str(plain.get("preset", DEFAULT_PRESET))
    said = {name: Setting(_checked(name, value, origin), origin) for name, value in plain.items() if name != "preset"}
    return {"preset": Setting(name, origin), **read_preset(name), **said}


def preset_names() -> list[str]:
    """Every preset that ships."""
    folder = resources.files("headwater") / "presets"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_preset(name: str) -> dict[str, Setting]:
    """The settings of a preset; an unknown name is refused with those that exist."""
    if name not in preset_names():
        raise SettingError(f"no preset is named {name!r}; there are: {', '.join(preset_names())}")
    tree = {section: content for section, content in preset_file(name).items() if section != DESIGN}
    return _flatten(tree, f"preset {name}")


def preset_file(name: str) -> dict[str, Any]:
    """What a preset that ships says, as it is written."""
    return tomllib.loads((resources.files("headwater") / "presets" / f"{name}.toml").read_text(encoding="utf-8"))


def write(home: Path, changes: Mapping[str, Any]) -> Path:
    """Put settings into the home's file, all or none of them; return the file."""
    path = home / FILE_NAME
    text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
    _from_file(path)
    for name, value in changes.items():
        if name == "preset":
            read_preset(str(value))
        text = with_setting(text, name, value if name == "preset" else _checked(name, value, "this change"))
    _flatten(tomllib.loads(text), str(path))
    return _replaced(path, text)


def _replaced(path: Path, text: str) -> Path:
    fresh = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise BackendError(f"{path} cannot be written: {error.strerror or error}; nothing was changed") from error
    return path


def written_in(home: Path) -> dict[str, Any]:
    """What the home's file itself says, by full name."""
    return {name: setting.value for name, setting in _from_file(home / FILE_NAME).items()}


def unset(home: Path, names: Iterable[str]) -> Path:
    """Take settings out of the home's file, so that what is below them holds again; return the file."""
    path = home / FILE_NAME
    text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
    for name in names:
        text = without_setting(text, name)
    return _replaced(path, text) if text or path.exists() else path


def with_options(options: Options, changes: Mapping[str, Any]) -> Options:
    """Options with a request's own values over them; an unknown or wrong one is refused by name."""
    return replace(options, **{k: _checked(f"retrieve.{k}", v, "this call") for k, v in changes.items()})


def defaults() -> dict[str, Setting]:
    """Every plain setting with its default."""
    found = {"preset": Setting(DEFAULT_PRESET, "default")}
    for section, holder in PLAIN_SECTIONS.items():
        found.update({f"{section}.{f.name}": Setting(f.default, "default") for f in fields(holder)})
    for section, (_, name) in COMPONENTS.items():
        found[f"{section}.use"] = Setting(name, "default")
    return found


def _from_file(path: Path) -> dict[str, Setting]:
    try:
        return _flatten(tomllib.loads(path.read_text(encoding="utf-8-sig")), str(path))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is not valid TOML: {error}; mend that line or remove the file") from error
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}; name another folder, or mend this one") from error


def _dotenv(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    from dotenv import dotenv_values  # only where there is such a file: most commands have none

    try:
        return {key: value for key, value in dotenv_values(path, encoding="utf-8-sig").items() if value is not None}
    except UnicodeDecodeError as error:
        raise SettingError(f"{path} is not UTF-8: {error}; save it as UTF-8") from error


def _from_environment(values: Mapping[str, str], origin: str) -> dict[str, Setting]:
    found = {}
    for variable, text in values.items():
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
        if variable == f"{ENVIRONMENT_PREFIX}PRESET":
            found["preset"] = Setting(text, f"{origin}: {variable}")
        elif variable.startswith(ENVIRONMENT_PREFIX) and "." in name:
            found[name] = Setting(_checked(name, from_text(text), f"{origin}: {variable}"), f"{origin}: {variable}")
    return found


def _flatten(tree: Mapping[str, Any], origin: str) -> dict[str, Setting]:
    found = {}
    for section, content in tree.items():
        if section == "preset":
            found["preset"] = Setting(str(content), origin)
        elif isinstance(content, Mapping):
            for key, value in (_tables(section, content, origin) if section in NAMED_SECTIONS else content).items():
                name = f"{section}.{key}"
                found[name] = Setting(_checked(name, value, origin), origin)
        else:
            raise SettingError(f"{origin}: {section!r} stands outside a section; sections are: {_sections()}")
    return found


def _tables(section: str, content: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Every key of every table of a section, as `NAME.key`."""
    for name, table in content.items():
        if not isinstance(table, Mapping):
            raise SettingError(f"{origin}: {section}.{name} must be a section [{section}.{name}], got {table!r}")
    return {f"{name}.{key}": value for name, table in content.items() for key, value in table.items()}


@cache
def _types(section: str) -> dict[str, Any]:
    return typing.get_type_hints(PLAIN_SECTIONS[section])


def _sections() -> str:
    return ", ".join(sorted([*COMPONENTS, *PLAIN_SECTIONS, *NAMED_SECTIONS]))


def _checked(name: str, value: Any, origin: str) -> Any:
    """The value in the type its setting has. Keys of component sections are checked when the class is loaded."""
    section, _, key = name.partition(".")
    if section == COLLECTION:
        return _checked(f"retrieve.{name.rpartition('.')[2]}", value, f"{origin}: {name}")
    if section in COMPONENTS or section in NAMED_SECTIONS:
        return value
    if section not in PLAIN_SECTIONS:
        raise SettingError(f"{origin}: no section is named {section!r}; there are: {_sections()}")
    types = _types(section)
    if key not in types:
        near = difflib.get_close_matches(key, types, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise SettingError(f"{origin}: unknown setting {name!r}; {hint}{section} has: {', '.join(sorted(types))}")
    return _fit(name, value, types[key], origin)


def _fit(name: str, value: Any, wanted: Any, origin: str) -> Any:
    choices = typing.get_args(wanted)
    if typing.get_origin(wanted) is typing.Literal:
        if value in choices:
            return value
        raise SettingError(f"{origin}: {name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    if (
        typing.get_origin(wanted) is tuple
        and isinstance(value, list | tuple)
        and all(isinstance(v, str) for v in value)
    ):
        return tuple(value)
    for kind in choices or (wanted,):
        if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(_within(name, value, origin, whole=False))
        if kind is int and type(value) is int:
            return _within(name, value, origin, whole=True)
        if kind in (str, bool, type(None)) and type(value) is kind:
            return value
    wanted_name = getattr(wanted, "__name__", str(wanted))
    raise SettingError(f"{origin}: {name} must be of type {wanted_name}, got {value!r}")


def _within(name: str, value: Any, origin: str, *, whole: bool) -> Any:
    """The number, if it is one that the setting can be."""
    least, most = RANGES.get(name, (0 if whole else -math.inf, math.inf))
    if math.isfinite(value) and least <= value <= most:
        return value
    if not math.isfinite(value):
        wanted = "must be a number"
    elif math.isfinite(most):
        wanted = f"must be {least} to {most}"
    else:
        wanted = "must not be negative" if least == 0 else f"must be at least {least}"
    raise SettingError(f"{origin}: {name} {wanted}, got {value!r}")
