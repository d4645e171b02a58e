"""One word, one thing: the words that say little, and the synonyms, stay out of the code."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "headwater"
EMPTY = ("Manager", "Handler", "Helper", "Service", "Processor", "Base", "Abstract", "Impl", "Wrapper")
FILES = ("util", "utils", "common", "misc", "core", "helpers")
SYNONYMS = ("doc", "docs", "node", "topk", "top_k", "cfg", "ctx", "qst", "emb")
MODULES = sorted(SRC.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_names_say_what_they_are(path: Path) -> None:
    assert path.stem not in FILES
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            if node.name == "KnowledgeBase":  # a base of knowledge, not a base class
                continue
            assert not node.name.endswith(EMPTY) and not node.name.startswith(("Base", "Abstract")), node.name
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            for name in (node.name, *(argument.arg for argument in arguments)):
                assert name not in SYNONYMS, f"{path.name}: {name}"
