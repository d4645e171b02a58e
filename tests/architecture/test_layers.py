"""Who may import whom. One table; the test reads the imports with ast, so it cannot be fooled at run time."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "headwater"

# A module may import from layers strictly below its own.
LAYERS: list[set[str]] = [
    {"errors", "_native_lanes", "_native_pieces"},
    {"characters", "cores", "forms", "garbage", "places", "relay", "wanted"},
    {"scanning"},
    {"filters", "tokens", "selection", "clean", "kinds", "mend", "settings_file", "spellings"},
    {"asked", "highlight", "likeness", "statements", "wording", "facts", "markers", "swaps"},
    {"documents", "messages", "typos"},
    {"types"},
    {"protocols", "turns"},
    {"write"},
    {"causes", "fuse", "stages", "evidence"},
    {
        *(
            "attach",
            "chunkers",
            "strategies",
            "doctor",
            "enhance",
            "listing",
            "retrieve",
            "assemble",
            "cite",
            "reflect",
            "rewrite",
            "shapes",
        ),
        *("models", "storage", "sources", "parsers", "sample"),
    },
    {"sandbox", "prepare"},
    {"engine", "indexer", "inside", "repair", "why"},
    {"config", "registry", "intake", "reindex", "converse"},
    {"parsing", "origins", "side", "chats", "writers", "rerankers", "llm", "stores"},
    {"spaces"},
    {"home"},
    {"effective", "views"},
    {"forget"},
    {"contents"},
    {"build"},
    {"comparing", "copying", "pack_file"},
    {"archive"},
    {"merging", "refresh", "evaluate", "testing", "adapters"},
    {"server"},
    {"commands"},
    {"cli"},
    {"__init__", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
ADAPTERS = {"models", "storage", "sources", "parsers"}
MAY_USE_THIRD_PARTIES = {*ADAPTERS, "adapters", "testing", "commands", "cli", "server"}
# The exceptions: the cutter and the stemmer, the reader of .env files.
ALLOWED = {
    "scanning": {"rjieba"},
    "tokens": {"Stemmer"},
    "facts": {"rjieba"},
    "config": {"dotenv"},
    "places": {"platformdirs"},
}
MODULES = sorted(SRC.rglob("*.py"))
# `from headwater import __version__` at the edge is the one look upwards.
VERSION = {("cli", "headwater")}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: absolute imports only"
            assert node.module is not None
            if node.module == "headwater":
                yield from (f"headwater.{alias.name}" for alias in node.names if alias.name != "__version__")
            else:
                yield node.module


def name_of(path: Path) -> str:
    return str(path.relative_to(SRC))


def test_the_table_names_every_module() -> None:
    tops = {path.relative_to(SRC).parts[0].removesuffix(".py") for path in MODULES}
    assert tops <= set(LEVEL)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    top = path.relative_to(SRC).parts[0].removesuffix(".py")
    for name in imports(path):
        root, _, rest = name.partition(".")
        if root == "headwater":
            target = rest.split(".")[0]
            inside = target == top and path.parent != SRC
            assert inside or LEVEL[target] < LEVEL[top], f"{top} may not import {name}"
        elif top not in MAY_USE_THIRD_PARTIES:
            allowed = ALLOWED.get(top, set()) | {"numpy"}
            assert root in sys.stdlib_module_names or root in allowed, f"{top} may not import {name}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    longest = 480  # about 400: a docstring that explains a language may stand above the code
    assert text.count("\n") <= longest
    assert ast.get_docstring(ast.parse(text)), "every module opens with what it is"


def test_catching_everything_stands_in_three_places_only() -> None:
    """To undo something and raise again is fine anywhere; to go on after whatever went wrong is not."""
    found = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                caught = node.type.id if isinstance(node.type, ast.Name) else None
                goes_on = not isinstance(node.body[-1], ast.Raise)
                if goes_on and (node.type is None or caught in ("Exception", "BaseException")):
                    found.add(name_of(path))
    # The loop over documents is in two processes: where they are prepared, and where they are parsed.
    assert found <= {"cli.py", "prepare.py", "sandbox/worker.py", "server/app.py"}
