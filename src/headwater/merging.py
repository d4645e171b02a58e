"""A pack and a home that has documents -> what they do not share, or one home that has the documents of both."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from headwater import config as settings
from headwater.archive import folder_beside, portable_settings
from headwater.build import KnowledgeBase, open_home
from headwater.comparing import Named, compare
from headwater.config import FILE_NAME as SETTINGS_FILE
from headwater.config import Config
from headwater.copying import OnCopied, copy, fit
from headwater.errors import BackendError, NotFound, SpaceMismatch, UsageError
from headwater.filters import ALL
from headwater.home import DICTIONARY_FILE
from headwater.pack_file import read_pack
from headwater.protocols import Catalog
from headwater.storage.ledger import FILE_NAME as LEDGER_FILE
from headwater.storage.ledger import ORIGINALS_FOLDER, Dataset, Ledger, Taken
from headwater.stores import CATALOG_FILE, without_making
from headwater.types import Space


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a merge did: documents that came, that took another's place, that were the same, and that stayed ours."""

    file: str
    added: int
    replaced: int
    same: int
    kept: tuple[Named, ...]
    chunks: int
    words: int  # that came into the dictionary
    waiting: int  # changes that were not indexed when the pack was made, and that it does not bring


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What a pack and a home do not share. `embedder` and `chunker` are the pack's and the home's where they differ."""

    file: str
    home: str
    only_in_pack: tuple[Named, ...]
    only_in_home: tuple[Named, ...]
    different: tuple[Named, ...]
    same: int
    embedder: tuple[str, str] | None
    chunker: tuple[str, str] | None
    settings: tuple[str, ...]  # names of those that differ, and of files that are settings


def merge(file: Path, home: Path, *, theirs: bool = False, on_copied: OnCopied | None = None) -> Merged:
    """Add what a pack holds to a home; nothing is read, cut or embedded again.

    A document that differs stays as the home has it, or with `theirs` becomes what the pack has. Broken off, a second
    run ends it. `on_copied` is told how many of how many documents are there.
    """
    wanted = (CATALOG_FILE, DICTIONARY_FILE, LEDGER_FILE, ORIGINALS_FOLDER)
    try:
        with (
            open_home(home, create=False) as kb,
            kb.intake.waiting(),
            folder_beside(Path(home).absolute(), alone=True) as work,
            _opened(file, work, wanted) as source,
        ):
            if open_changes := kb.catalog.pending():
                raise UsageError(f"{open_changes} changes of {str(home)!r} wait to be indexed; let them be, then merge")
            _refuse_other_space(source, kb, file)
            if (space := source.catalog.space()) is not None:
                fit(kb, space)
            words = _merge_dictionary(work / DICTIONARY_FILE, kb.home / DICTIONARY_FILE)
            compared = compare(source.catalog, kb.catalog)
            taken = {one.id for one in compared.different if theirs and _was_read(source.catalog, one)}
            kept = tuple(one for one in compared.different if one.id not in taken)
            _merge_ledger(source, kb.home, but={one.id for one in kept}, theirs=theirs)
            done = copy(
                source, kb, on_copied=on_copied, only={one.id for one in compared.first} | taken, waiting="leave"
            )
            if taken:
                kb.indexer.sweep()
            waiting = source.catalog.pending()
    except OSError as error:
        raise BackendError(f"{str(home)!r} cannot be written: {error}; make room and merge again") from error
    return Merged(
        file=str(Path(file).absolute()),
        added=len(compared.first),
        replaced=len(taken),
        same=compared.same,
        kept=kept,
        chunks=done.chunks,
        words=words,
        waiting=waiting,
    )


def diff(file: Path, home: Path) -> Differences:
    """What a pack and a home do not share; nothing is written to either."""
    if not Path(home).is_dir():
        raise NotFound(f"there is no knowledge base in {str(home)!r}; name one with --home")
    wanted = (CATALOG_FILE, DICTIONARY_FILE, SETTINGS_FILE)
    with (
        open_home(home, config=without_making(settings.load(Path(home))), create=False) as kb,
        tempfile.TemporaryDirectory(prefix="headwater-") as work,
        _opened(file, Path(work), wanted) as source,
    ):
        compared = compare(source.catalog, kb.catalog)
        made_with = _made_with(source.catalog.space(), kb.catalog.space())
        names = _settings_that_differ(Path(work), kb)
    return Differences(
        file=str(Path(file).absolute()),
        home=str(Path(home).absolute()),
        only_in_pack=compared.first,
        only_in_home=compared.second,
        different=compared.different,
        same=compared.same,
        embedder=made_with.get("embedder"),
        chunker=made_with.get("chunker"),
        settings=names,
    )


def merged_shape(merged: Merged) -> dict[str, Any]:
    """As `--json` prints it."""
    return {**asdict(merged), "kept": [_shape(one) for one in merged.kept]}


def differences_shape(found: Differences) -> dict[str, Any]:
    """As `--json` prints it."""
    lists = {name: [_shape(one) for one in getattr(found, name)] for name in ("only_in_pack", "only_in_home")}
    pairs = {name: _pair(getattr(found, name)) for name in ("embedder", "chunker")}
    different = [_shape(one) for one in found.different]
    return {**asdict(found), **lists, "different": different, **pairs, "settings": list(found.settings)}


def _pair(pair: tuple[str, str] | None) -> dict[str, str] | None:
    return {"pack": pair[0], "home": pair[1]} if pair else None


def _shape(one: Named) -> dict[str, Any]:
    plain = {"id": one.id, "owner": one.owner, "collection": one.collection, "uri": one.uri}
    return {**plain, "in": list(one.kinds)} if one.kinds else plain


@contextmanager
def _opened(file: Path, folder: Path, wanted: Collection[str]) -> Iterator[KnowledgeBase]:
    """The pack as a home in a folder, with no more of it than is wanted: no index, and no embedder."""
    with read_pack(file) as pack:
        pack.extract(folder, lambda name: name.partition("/")[0] in wanted)
        with open_home(folder, config=Config(), create=False) as kb:
            yield kb


def _was_read(catalog: Catalog, one: Named) -> bool:
    """Whether a catalog has its text; without it, it is no better than what is in the other one."""
    record = catalog.record(one.id)
    return record is not None and record.ticket != 0


def _made_with(one: Space | None, other: Space | None) -> dict[str, tuple[str, str]]:
    """Embedder and chunker of both, where they differ; a home without documents fits every pack."""
    if one is None or other is None:
        return {}
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in ("embedder", "chunker")}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _refuse_other_space(source: KnowledgeBase, kb: KnowledgeBase, file: Path) -> None:
    for what, (theirs, ours) in _made_with(source.catalog.space(), kb.catalog.space()).items():
        raise SpaceMismatch(
            f"{str(file)!r} was made with {what} {theirs!r}, {str(kb.home)!r} with {ours!r}; unpack it into a home of "
            "its own, give that the `embed` and `chunk` settings of this one, run `headwater reindex` there, and merge "
            "a pack of that"
        )


def _settings_that_differ(pack: Path, kb: KnowledgeBase) -> tuple[str, ...]:
    """Names of settings, and of the dictionary. What a pack never holds, such as secrets, is no difference."""
    theirs = settings.written_in(pack)
    with tempfile.TemporaryDirectory(prefix="headwater-") as folder:
        if (kb.home / SETTINGS_FILE).exists():
            portable = portable_settings(kb.home, kb.config)
            (Path(folder) / SETTINGS_FILE).write_text(portable, encoding="utf-8")
        ours = settings.written_in(Path(folder))
    names = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
    dictionaries = [set(_words(home / DICTIONARY_FILE)) for home in (pack, kb.home)]
    return (*names, *([DICTIONARY_FILE] if dictionaries[0] != dictionaries[1] else []))


def _words(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _merge_dictionary(theirs: Path, ours: Path) -> int:
    """Add the words that are missing; return how many."""
    there = _words(ours)
    new = [word for word in dict.fromkeys(_words(theirs)) if word not in set(there)]
    if new:
        draft = ours.with_suffix(".new")
        draft.write_text("".join(f"{word}\n" for word in (*there, *new)), encoding="utf-8")
        os.replace(draft, ours)
    return len(new)


def _merge_ledger(source: KnowledgeBase, home: Path, *, but: Collection[str], theirs: bool) -> None:
    """Bring collections with the names that people gave them, and originals, of all documents but some."""
    if not (source.home / LEDGER_FILE).exists():
        return
    records = [record for record in source.catalog.records(ALL) if record.id not in but]
    with closing(Ledger(source.home)) as pack, closing(Ledger(home)) as own:
        for owner in sorted({record.owner for record in records}):
            for dataset in pack.datasets.of(owner):
                if own.datasets.get(dataset.id) is None:
                    _bring(own, dataset)
        ids = [record.id for record in records]
        there = own.originals.of(ids)
        for id, original in sorted(pack.originals.of(ids).items()):
            if id not in there or (theirs and there[id].hash != original.hash):
                own.originals.write(pack.originals.read(original.hash))
                own.originals.keep(original)
                if changed := pack.originals.changed(id):
                    own.originals.change(id, partial(_instead, changed))


def _instead(changed: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    return changed


def _bring(own: Ledger, dataset: Dataset) -> None:
    """A collection under its name, or where another has that, under one beside it. It is shared with nobody."""
    made = own.datasets.ensure(dataset.owner, dataset.collection)
    told = {"description": dataset.description, "options": dataset.options}
    try:
        own.datasets.update(made.id, {**told, "name": dataset.name})
    except Taken:
        own.datasets.update(made.id, told)
