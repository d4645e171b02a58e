"""Test sets with answers -> an index of each, and its questions in two halves that share no document.

For `refusal.py`, `answers.py` and `gate.py`, with what the command lines of such measurements share. A question is of
the half that its document is of.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from headwater import config as settings
from headwater.build import KnowledgeBase
from headwater.evaluate.dataset import JudgedSet, read_set
from headwater.evaluate.run import document_names, indexed, make_embedder
from headwater.tokens import fold
from headwater.types import Answer

SETS: Final = ("zh_cmrc", "zh_dureader_robust", "en_squad2")
# Questions of another domain in the same language.
ELSEWHERE: Final = {"zh_cmrc": "zh_dureader_robust", "zh_dureader_robust": "zh_cmrc", "en_squad2": "en_pubmedqa"}
SEED: Final = 20261116
DATA: Final = Path(__file__).with_name("data")


def command(about: str, *, each: int, half: bool = True) -> argparse.ArgumentParser:
    """The options that every measurement on the test sets has."""
    told = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("sets", type=Path, help="the folder with the test sets")
    if half:
        told.add_argument("--half", choices=("build", "test"), default="test")
        told.add_argument("--write", type=Path, help="where the figures go beside the terminal")
    told.add_argument("--each", type=int, default=each, help="questions of each set")
    told.add_argument("--work", type=Path, default=DATA / "homes", help="where the homes of the sets are kept")
    return told


def told(about: str, *, each: int) -> argparse.Namespace:
    """What was asked of a measurement; its folder is there."""
    given = command(about, each=each).parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    return given


def show(lines: Sequence[str], file: Path | None) -> None:
    """The figures on the terminal, and in the file where one was named."""
    text = "\n".join(lines) + "\n"
    print(text)
    if file:
        file.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Question:
    text: str
    answers: tuple[str, ...]
    documents: tuple[str, ...]  # that answer it, by their id in the set


def questions(folder: Path, half: str, *, limit: int) -> list[Question]:
    """So many questions of a half, the same ones every time."""
    judged = read_set(folder)
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        rows = {row["_id"]: (row.get("metadata") or {}).get("answers", []) for row in map(json.loads, lines)}
    found = [
        Question(text, tuple(rows[id]), tuple(judged.judgements[id]))
        for id, text in judged.queries.items()
        if _half(next(iter(judged.judgements[id]))) == half
    ]
    random.Random(SEED).shuffle(found)
    return found[:limit]


def _half(document: str) -> str:
    return ("build", "test")[blake2b(document.encode(), digest_size=1).digest()[0] % 2]


@contextmanager
def home(folder: Path, work: Path) -> Iterator[tuple[KnowledgeBase, JudgedSet, dict[str, str]]]:
    """The set in a home with the settings that ship, cut as files are, and the uri of each of its documents."""
    config, judged = settings.load(work), read_set(folder)
    with indexed(judged, config, work=work, embedder=make_embedder(config, home=work), cut=True) as kb:
        names = document_names(kb, judged)
        uris = {name: record.uri for id, name in names.items() if (record := kb.catalog.record(id)) is not None}
        yield kb, judged, uris


def bare(text: str) -> str:
    """Letters and digits only: another comma is no other answer."""
    return re.sub(r"\W+", "", fold(text))


def holds(text: str, answers: tuple[str, ...], *, least: int = 1) -> bool:
    """Whether one of the answers stands in a text."""
    return any(len(bare(answer)) >= least and bare(answer) in bare(text) for answer in answers)


def quotes(answer: Answer) -> str:
    """The words that it cites."""
    return "\n".join(citation.quote for citation in answer.citations)
