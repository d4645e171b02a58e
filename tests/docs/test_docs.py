"""Every command, option, setting, error and public name is documented, with the defaults that are really in force."""

import ast
import importlib
import inspect
import json
import re
from pathlib import Path

import click
import pytest

import headwater
from headwater import errors
from headwater.cli import cli
from headwater.config import preset_names
from headwater.contents import Contents
from headwater.effective import effective_settings
from headwater.filters import parse, to_text

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """By level-2 heading, what stands under it."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands(group: click.Group, path: str = "headwater") -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        found[f"{path} {name}"] = command
        if isinstance(command, click.Group):
            found |= commands(command, f"{path} {name}")
    return found


COMMANDS = commands(cli)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    described = sections(read("cli.md"))
    assert name in described, f"docs/cli.md has no section '## {name}'"
    for parameter in COMMANDS[name].params:
        for option in parameter.opts if isinstance(parameter, click.Option) else ():
            assert option in described[name], f"docs/cli.md does not mention {option} under '## {name}'"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    text = COMMANDS[name].help or ""
    assert text.strip()
    if not isinstance(COMMANDS[name], click.Group):
        assert re.search(rf"Example:\n\s*{name}", text), text


def test_no_command_or_option_is_documented_that_does_not_exist() -> None:
    described = sections(read("cli.md"))
    assert set(described) == set(COMMANDS)
    for name, text in described.items():
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        # The first cell of a row of the option table names options of this command.
        rows = re.findall(r"^\| (`--.+?) \| ", text, flags=re.MULTILINE)
        assert set(re.findall(r"--[a-z-]+", " ".join(rows))) <= known, name


def documented_settings() -> dict[str, str]:
    rows = re.findall(r"^\| `([a-z_]+(?:\.[a-z_0-9]+)?)` \| (.+?) \|", read("settings.md"), flags=re.MULTILINE)
    return {name: default for name, default in rows if name not in preset_names()}


def test_every_setting_is_documented_with_its_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HEADWATER_PRESET", "HEADWATER_HOME"):
        monkeypatch.delenv(variable, raising=False)
    # Defaults are those of the default preset: what a person gets who sets nothing.
    rows, real = documented_settings(), effective_settings(tmp_path)
    assert set(rows) == set(real)
    for name, setting in real.items():
        written = "none" if setting.value is None else f"`{json.dumps(setting.value, ensure_ascii=False)}`"
        assert rows[name] == written, f"docs/settings.md says {name} is {rows[name]} by default; it is {written}"


def test_every_preset_is_documented() -> None:
    for name in preset_names():
        assert f"| `{name}` |" in sections(read("settings.md"))["Presets"]


def test_every_error_is_documented() -> None:
    classes = [
        node.name for node in ast.parse(Path(errors.__file__).read_text("utf-8")).body if isinstance(node, ast.ClassDef)
    ]
    assert len(classes) > 10
    text = read("errors.md")
    assert re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE) == classes
    for name in classes:
        written = re.search(rf"^\| `{name}` \|.*\| (\d?) ?\|$", text, flags=re.MULTILINE)
        assert written is not None, name
        error = getattr(errors, name)
        code = "" if error is errors.HeadwaterError else "2" if issubclass(error, errors.UsageError) else "1"
        assert written[1] == code, f"docs/errors.md gives {name} another exit code than the command line"


def test_every_public_name_is_documented_and_exists() -> None:
    assert headwater.__all__
    table = sections(read("python.md"))["Values"]
    for name in headwater.__all__:
        assert f"| `{name}` |" in table, f"docs/python.md does not list {name}"
        assert getattr(headwater, name) is not None


def test_every_method_is_documented_and_exists() -> None:
    described = set(re.findall(r"`(\w+)\(", sections(read("python.md"))["KnowledgeBase"]))
    found = {**vars(Contents), **vars(headwater.KnowledgeBase)}.items()
    assert described == {name for name, member in found if inspect.isfunction(member) and not name.startswith("_")}


def filter_examples() -> list[str]:
    blocks = re.findall(r"^```filter\n(.*?)^```$", read("filters.md"), flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_every_filter_example_parses() -> None:
    examples = filter_examples()
    assert len(examples) > 5
    for example in examples:
        where = parse(example)
        assert parse(to_text(where)) == where


def test_every_link_between_pages_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    checked = 0
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?://)([^)#\s]+)", text):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}, which does not exist"
            checked += 1
    assert checked > 5


def test_the_map_names_only_what_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    names = [n for heading in re.findall(r"^## (.+): .+\?$", text, flags=re.MULTILINE) for n in heading.split(", ")]
    assert len(names) > 15
    for name in names:
        assert (ROOT / "src" / "headwater" / name).exists(), f"ARCHITECTURE.md names {name}"
    package = ROOT / "src" / "headwater"
    modules = {path.name for path in package.glob("*.py")} - {"__init__.py", "__main__.py"}
    folders = {f"{path.name}/" for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert modules | folders <= set(names), "ARCHITECTURE.md does not explain every module"


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = sorted(int(path.name[:4]) for path in (DOCS / "decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
    for path in (DOCS / "decisions").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.name[:4]} ")
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Price")), path.name


def test_python_page_uses_real_modules() -> None:
    for module in set(re.findall(r"`(headwater\.[a-z.]+)`", read("python.md"))):
        assert importlib.import_module(module)


def test_every_route_and_metric_is_documented(tmp_path: Path) -> None:
    from headwater.server.app import create_app
    from headwater.server.meters import Meters

    pages = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    text = "\n".join(pages.values())
    described = create_app(tmp_path / "home").openapi()["paths"]
    assert len(described) > 20
    for path, methods in described.items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in text, f"no page of docs/ has `{method.upper()} {path}`"
    for metric in Meters().registry.collect():
        assert metric.name in pages["server.md"], f"docs/server.md does not name {metric.name}"


def test_no_route_is_documented_that_does_not_exist(tmp_path: Path) -> None:
    from headwater.server.app import create_app

    described = create_app(tmp_path / "home").openapi()["paths"]
    known = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    written = set(re.findall(r"`((?:GET|POST|PUT|DELETE) /[^`]*)`", read("server.md")))
    assert written <= known, written - known
