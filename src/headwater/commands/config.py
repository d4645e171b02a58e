"""The commands that show and change settings."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from headwater.commands.flags import options
from headwater.errors import SettingError

# What the YAML of the writing platform calls a setting, and what it is here (docs/presets.md has the table).
YAML_ROOT = "rag"
YAML_NAMES: Mapping[str, str] = {
    "vectorization.model": "embed.model",
    "vectorization.batch_size": "embed.batch_size",
    "vectorization.device": "embed.device",
    "chunking.chunk_size": "chunk.size",
    "chunking.chunk_overlap": "chunk.overlap",
    "search.top_k": "retrieve.top_n",
    "search.semantic_weight": "retrieve.semantic_weight",
    "search.keyword_weight": "retrieve.keyword_weight",
    "search.enable_rerank": "retrieve.rerank",
    "milvus.host": "vector_index.uri",
    "milvus.port": "vector_index.uri",
}
# What goes with them there and is a setting of its own here.
WITH_CHUNKING = {"chunk.use": "recursive", "chunk.unit": "chars"}
WITH_MODEL = {"embed.use": "sentence-transformers"}
LEG_DEPTH = 2  # each leg of that design fetches twice as many as come back
MILVUS = "milvus"
# A name of the person's own, quoted as in the file: `collection."年度报告".top_n`.
_QUOTED = re.compile(r"""(llm|collection)\.(["'])(.+)\2\.([^.]+)""")


@click.group()
def config() -> None:
    """Settings, and where they come from.

    \b
    Example:
      headwater config show --origin
    """


@config.command(name="show")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@options("preset", "home", "json")
def config_show(origin: bool, preset: str | None, home: Path | None, as_json: bool) -> None:
    """Show every setting in force, and what the design of a preset has where that differs.

    \b
    Example:
      headwater config show --origin
    """
    from headwater.effective import design_of, effective_settings

    found = effective_settings(home, preset=preset)
    design = design_of(str(found["preset"].value))
    if as_json:
        plain = {name: s.value for name, s in found.items()}
        with_origin: dict[str, Any] = {name: {"value": s.value, "origin": s.origin} for name, s in found.items()}
        for name, note in design.items():
            entry = with_origin.setdefault(name, {"value": None, "origin": "not a setting"})
            entry["design"] = {"value": note.value, "why": note.why}
        _echo_json(with_origin if origin else plain)
        return
    for name, setting in found.items():
        value = json.dumps(setting.value, ensure_ascii=False)
        click.echo(f"{name} = {value}" + (f"    # {setting.origin}" if origin else ""))
    for name, note in design.items():
        inside = json.dumps(found[name].value, ensure_ascii=False) if name in found else "no setting here"
        told = json.dumps(note.value, ensure_ascii=False)
        click.echo(f"# design: {name} = {told}, in effect: {inside}; {note.why}")


@config.command(name="set")
@click.argument("key")
@click.argument("value")
@options("home", "json")
def config_set(key: str, value: str, home: Path | None, as_json: bool) -> None:
    """Write a setting into headwater.toml of the home; what is wrong is refused.

    VALUE is written as in TOML; what is no number, true, false, list or table is text.

    \b
    Example:
      headwater config set retrieve.top_n 5
    """
    from headwater.places import default_home
    from headwater.settings_file import from_text

    where = home or default_home()
    if quoted := _QUOTED.fullmatch(key):
        key = f"{quoted[1]}.{quoted[3]}.{quoted[4]}"
    read = value if key == "preset" else from_text(value)
    path = _write(where, {key: read})
    if as_json:
        _echo_json({"file": str(path), "settings": {key: read}})
        return
    click.echo(f"{key} = {json.dumps(read, ensure_ascii=False)} in {path}")


@config.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@options("home", "json")
def config_import(file: Path, home: Path | None, as_json: bool) -> None:
    """Take the settings of a YAML file with a `rag` section over into headwater.toml of the home.

    \b
    Example:
      headwater config import rag.yaml
    """
    from headwater.places import default_home

    settings, left = from_yaml(file)
    path = _write(home or default_home(), settings)
    if as_json:
        _echo_json({"file": str(path), "settings": settings, "left": left})
        return
    for name, value in settings.items():
        click.echo(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    for name, reason in left.items():
        click.echo(f"left out: {name}: {reason}", err=True)
    click.echo(f"{len(settings)} settings in {path}")


def from_yaml(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings that a file of that layout stands for, and what is left out, each with the reason."""
    import yaml

    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} is not valid YAML: {error}") from error
    if not isinstance(tree, Mapping) or not isinstance(tree.get(YAML_ROOT), Mapping):
        raise SettingError(f"{file} has no section {YAML_ROOT!r}; its settings stand under it")
    given = {
        f"{section}.{key}": value
        for section, content in tree[YAML_ROOT].items()
        for key, value in (content.items() if isinstance(content, Mapping) else ())
    }
    left = {name: "no such setting here" for name in given if name not in YAML_NAMES}
    found = {YAML_NAMES[name]: value for name, value in given.items() if name in YAML_NAMES}
    if "embed.model" in found:
        found |= WITH_MODEL
    if not {"chunk.size", "chunk.overlap"}.isdisjoint(found):
        found |= WITH_CHUNKING
    if "retrieve.top_n" in found:
        found["retrieve.candidates"] = LEG_DEPTH * int(found["retrieve.top_n"])
    if not {"retrieve.semantic_weight", "retrieve.keyword_weight"}.isdisjoint(found):
        found["retrieve.fusion"] = "rrf"
    if "retrieve.rerank" in found:
        found["retrieve.rerank"] = "builtin" if found["retrieve.rerank"] else ""
    _milvus(given, found, left)
    return found, left


def _milvus(given: Mapping[str, Any], found: dict[str, Any], left: dict[str, str]) -> None:
    from headwater.registry import installed

    named = [name for name in given if name.startswith(f"{MILVUS}.")]
    found.pop("vector_index.uri", None)
    if not named:
        return
    if MILVUS not in installed("vector_indexes"):
        left.update(dict.fromkeys(named, "no vector index named 'milvus' is installed; the embedded one is used"))
        return
    host, port = given.get(f"{MILVUS}.host", "localhost"), given.get(f"{MILVUS}.port", 19530)
    found |= {"vector_index.use": MILVUS, "vector_index.uri": f"http://{host}:{port}"}


def _write(home: Path, changes: Mapping[str, Any]) -> Path:
    """Check that the components would take them, and write."""
    from headwater import config as settings
    from headwater.home import GIVEN
    from headwater.registry import accepted, check_settings, load, settable

    chosen = settings.load(home, flags={name: value for name, value in changes.items() if name != "preset"})
    for section in {name.partition(".")[0] for name in changes} & settings.COMPONENTS.keys():
        group, used, keys = chosen.written(section)
        component = load(group, used)
        mine = [name.partition(".")[2] for name in changes if name.startswith(f"{section}.")]
        check_settings(component, dict.fromkeys(keys), section=section, given=GIVEN.get(section, ()))
        usual = settable(component, GIVEN.get(section, ()))
        for key in mine:
            value, default = changes[f"{section}.{key}"], usual.get(key)
            if default is not None and not _is_like(value, default):
                raise SettingError(f"{section}.{key} must be like {default!r}, got {value!r}")
        if section == "chunk":  # made of numbers alone, and refuses those that do not go together
            unused = accepted(component, dict.fromkeys(GIVEN[section], lambda: None))
            component(**unused, **chosen.component(section)[2])
    return settings.write(home, changes)


def _is_like(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return isinstance(value, type(default)) or not isinstance(default, int | str)


def _echo_json(value: Any) -> None:
    from headwater.shapes import to_json

    click.echo(to_json(value))
