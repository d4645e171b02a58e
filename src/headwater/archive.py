"""A home, live -> one file that holds all of it; such a file -> a home.

A catalog in the home's folder is copied as of one moment by SQLite itself, while others write on. The indexes are taken
along where nobody writes to them, and are made again from the catalog where somebody does: the vectors are in the
catalog, so that costs no embedding. What is in a server is copied into a home for the while, with every store in its
folder: so a pack is always one of such a home, and needs no server. Into servers that the settings of a folder choose,
a pack is copied the same way.
"""

from __future__ import annotations

import glob
import json
import os
import re
import secrets
import shutil
import sqlite3
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from headwater import config as settings
from headwater.build import KnowledgeBase, open_home
from headwater.config import FILE_NAME as SETTINGS_FILE
from headwater.config import MODELS_FOLDER, SECRET, Config
from headwater.copying import OnCopied, bytes_in_folder, copy, copy_into_folder, fit
from headwater.errors import BackendError, HomeDamaged, HomeLocked, SettingError, UsageError
from headwater.pack_file import Packed, Reading, Writing, check_room, packed_of, read_pack
from headwater.settings_file import with_setting, without_setting
from headwater.side import FOLDERS
from headwater.storage.ledger import FILE_NAME as LEDGER_FILE
from headwater.stores import CATALOG_FILE, embedded, in_servers, is_served

# In a folder that a pack is being put into: of which pack, so that a second run goes on.
MARK: Final = "unpacking.json"
# SQLite's own companions, locks, drafts, what holds secrets, and the name that shared results of this home are under.
_LEFT_OUT: Final = re.compile(rf".*(?:-wal|-shm|-journal|\.lock|\.new)|\.env|results\.cache|{re.escape(MARK)}")
_INDEX: Final = re.compile(rf"(?:{'|'.join(FOLDERS.values())})-\d+")
# A folder that holds no more than this has settings and no documents.
_SETTINGS: Final = re.compile(rf"{re.escape(SETTINGS_FILE)}|\.env|.*\.lock|.*\.new|results\.cache")
# A line of settings that holds a secret: it is only named where it says env:NAME. An address may hold a password.
_SECRET_LINE: Final = re.compile(
    rf"""^\s*"?[\w.-]*(?:key|secret|password|token)"?\s*=\s*["'](?!{SECRET}).+["']\s*(?:\#.*)?$"""
    r"""|^\s*"?[\w.-]*ur[li]"?\s*=\s*["'].*(?:://[^/"']*:[^/"']*@|password\s*=).*["']\s*(?:\#.*)?$""",
    re.IGNORECASE | re.MULTILINE,
)
# Of the ledger: what lets others in, or signs for us.
_KEYS: Final = ("key", "webhook", "outbox")


def pack(
    kb: KnowledgeBase, file: Path, *, models: bool = True, keys: bool = False, on_copied: OnCopied | None = None
) -> Packed:
    """Write the home into one file, in the place of an earlier one only when it is complete.

    `models` takes along what was downloaded, `keys` API keys (as hashes) and webhooks with their secrets. `on_copied`
    is told how many of how many documents were read from a server.
    """
    target = Path(file).absolute()
    if target.is_relative_to(kb.home.absolute()):
        raise UsageError(f"a pack cannot lie in the home it is made of, got {str(file)!r}; name another folder")
    if target.exists() and not target.is_file():  # a file put in the place of a device would take the device away
        raise UsageError(f"a pack is a file, and {str(file)!r} is a folder, a pipe or a device; name a file")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        with (
            folder_beside(target) as work,
            zipfile.ZipFile(draft, "x", zipfile.ZIP_DEFLATED, compresslevel=1) as out,
        ):
            told = _Packing(kb, Writing(out), work, on_copied).write(models=models, keys=keys)
        _settle(draft)
        os.replace(draft, target)
    except OSError as error:
        raise BackendError(f"{str(file)!r} cannot be written: {error}; name another place or make room") from error
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    return packed_of(told, target)


def unpack(file: Path, home: Path, *, on_copied: OnCopied | None = None) -> Packed:
    """Make a home of a pack, where there is none yet; nothing is there before all of it was checked.

    A folder with settings keeps them, and stores in servers that they choose are filled. Broken off, a second run ends
    it. `on_copied` is told how many of how many documents are there.
    """
    target = Path(home).absolute()
    with read_pack(file) as opened:
        again = _is_begun(target, opened)
        if not again:
            _refuse_other_than_settings(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
        try:
            draft.mkdir()
            opened.extract(draft)
            _check(draft, embedded(settings.load(draft)), file)
            if not _is_chosen(draft, target):
                if target.exists():
                    target.rmdir()
                os.replace(draft, target)
            else:
                _Unpacking(draft, target, again=again).fill(opened, on_copied)
        except OSError as error:
            raise BackendError(f"{str(home)!r} cannot be written: {error}; name another place or make room") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return opened.packed


def portable_settings(home: Path, config: Config) -> str:
    """The settings file of a home as a pack has it: without secrets, and without stores in servers."""
    path = home / SETTINGS_FILE
    text, own = path.read_text(encoding="utf-8-sig"), settings.written_in(home)
    away = {
        *in_servers(config),
        *in_servers(Config({name: settings.Setting(own[name], SETTINGS_FILE) for name in own})),
    }
    gone = [name for name in own if name.partition(".")[0] in away]
    try:
        made = text
        for name in gone:
            made = without_setting(made, name)
        whole = not any(tomllib.loads(made).get(section) for section in away)
    except SettingError:
        whole = False
    if not whole:  # written in a way that only a person can change: the same settings, one to a line
        made = ""
        for name in own:
            if name not in gone:
                made = with_setting(made, name, own[name])
    return _SECRET_LINE.sub(lambda line: f"# left out of the pack: {line[0].partition('=')[0].strip()}", made)


@contextmanager
def folder_beside(target: Path, *, alone: bool = False) -> Iterator[Path]:
    """An empty folder beside a file or a home, on the same disk, that is gone afterwards.

    Who is `alone`, for the home's lock is held, clears away what those left who were killed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.work") if alone else ():
        shutil.rmtree(left)
    work = target.with_name(f".{target.name}.{secrets.token_hex(4)}.work")
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


# ---------------------------------------------------------------------------------------------- packing


class _Packing:
    """One pack being written. `work` is an empty folder."""

    def __init__(self, kb: KnowledgeBase, out: Writing, work: Path, on_copied: OnCopied | None) -> None:
        self.kb, self.home, self.out, self.work = kb, kb.home.absolute(), out, work
        self.on_copied = on_copied

    def write(self, *, models: bool, keys: bool) -> dict[str, Any]:
        # Jobs before documents: one that ends in between is open in the pack and is done again there. The other way
        # round it would be called done without its document.
        if (self.home / LEDGER_FILE).exists():
            self._database(self.home / LEDGER_FILE, LEDGER_FILE, () if keys else _KEYS)
        counts, indexes = self._from_server() if is_served(self.kb.config) else self._from_folder()
        for path in _files(self.home, lambda first: not _INDEX.fullmatch(first) and (models or first != MODELS_FOLDER)):
            name = path.relative_to(self.home).as_posix()
            if name in (CATALOG_FILE, LEDGER_FILE):
                continue
            if path.suffix == ".sqlite":
                self._database(path, name)
            elif name == SETTINGS_FILE:
                self.out.add(name, portable_settings(self.home, self.kb.config).encode("utf-8"))
            else:
                self.out.copy(path, name)
        return self.out.end(counts=counts, indexes=indexes)

    def _from_folder(self) -> tuple[dict[str, int], bool]:
        away = in_servers(self.kb.config)
        with ExitStack() as quiet:
            indexes = True
            try:
                # While the lock is held nobody writes to the indexes: they fit the catalog as it is.
                quiet.enter_context(self.kb.writing())
            except HomeLocked:
                indexes = False
            counts = self._database(self.home / CATALOG_FILE, CATALOG_FILE)
            if indexes:
                self._indexes(self.home, *(FOLDERS[section] for section in FOLDERS if section not in away))
        return counts, indexes and not away

    def _from_server(self) -> tuple[dict[str, int], bool]:
        made = self.work / "home"
        check_room(self.work, bytes_in_folder(self.kb.catalog), what="documents that are in a server")
        copy_into_folder(self.kb, made, on_copied=self.on_copied)
        with closing(sqlite3.connect(made / CATALOG_FILE, isolation_level=None)) as catalog:
            catalog.execute("pragma journal_mode = delete")
            counts = _counts(catalog)
        self.out.copy(made / CATALOG_FILE, CATALOG_FILE)
        self._indexes(made, *FOLDERS.values())
        shutil.rmtree(made)
        return counts, True

    def _indexes(self, home: Path, *kinds: str) -> None:
        for path in _files(home, lambda first: bool(_INDEX.fullmatch(first)) and first.partition("-")[0] in kinds):
            self.out.copy(path, path.relative_to(home).as_posix())

    def _database(self, path: Path, name: str, emptied: tuple[str, ...] = ()) -> dict[str, int]:
        """A copy as of one moment, with some tables empty; SQLite makes it while others write."""
        made = self.work / f"{len(self.out.files)}.sqlite"
        try:
            with (
                closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=60)) as source,
                closing(sqlite3.connect(made, isolation_level=None)) as target,
            ):
                source.backup(target)
                # Without a log of its own, so that one file is all of it; opening it makes one again.
                target.execute("pragma journal_mode = delete")
                known = {row[0] for row in target.execute("select name from sqlite_master where type = 'table'")}
                for table in known.intersection(emptied):  # an older ledger has fewer
                    target.execute(f"delete from {table}")
                if emptied:
                    target.execute("vacuum")
                counts = _counts(target) if name == CATALOG_FILE else {}
        except sqlite3.Error as error:
            raise BackendError(f"{str(path)!r} cannot be copied: {error}; try again") from error
        self.out.copy(made, name)
        made.unlink()
        return counts


def _files(home: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    for path in sorted(home.rglob("*")):
        first = path.relative_to(home).parts[0]
        if wanted(first) and path.is_file() and not path.is_symlink() and not _LEFT_OUT.fullmatch(path.name):
            yield path


def _counts(db: sqlite3.Connection) -> dict[str, int]:
    one = "select (select count(*) from document), (select coalesce(sum(chunks), 0) from document), generation"
    documents, chunks, generation = db.execute(f"{one} from counters").fetchone()
    return {"documents": documents, "chunks": chunks, "generation": generation}


def _settle(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


# -------------------------------------------------------------------------------------------- unpacking


class _Unpacking:
    """A home that was made of a pack, on its way into a folder with settings, and into the stores that they choose.

    What is in the folder already came there by an earlier run, or is its settings: it stays.
    """

    def __init__(self, draft: Path, target: Path, *, again: bool) -> None:
        self.draft, self.target, self.again = draft, target, again
        self.packed_config = embedded(settings.load(draft))

    def fill(self, opened: Reading, on_copied: OnCopied | None) -> None:
        self.target.mkdir(exist_ok=True)
        config = _settings_there(self.draft, self.target)
        if is_served(config):
            self._get_ready(config)
        mark = self.target / MARK
        mark.with_suffix(".new").write_text(_mark(opened), encoding="utf-8")
        os.replace(mark.with_suffix(".new"), mark)
        stores = [path for path in self.draft.iterdir() if path.name == CATALOG_FILE or _INDEX.fullmatch(path.name)]
        for path in sorted(self.draft.iterdir()):
            if path not in stores:
                self._move(path)
        if is_served(config):
            with open_home(self.draft, config=Config()) as source, open_home(self.target, config=config) as kb:
                copy(source, kb, on_copied=on_copied, waiting="take")
        elif not (self.target / CATALOG_FILE).exists():
            for path in sorted(stores, key=lambda path: path.name == CATALOG_FILE):  # it is a home when it has that
                if path.name == CATALOG_FILE or self._fits(path, config):
                    self._move(path)
        _check(self.target, config, opened.file)
        mark.unlink()

    def _get_ready(self, config: Config) -> None:
        """Refuse a catalog in a server that has documents already, or was made with something else."""
        with open_home(self.draft, config=Config()) as source, open_home(self.target, config=config) as kb:
            there = kb.catalog.statistics()["documents"]
            if there and not self.again:
                raise UsageError(
                    f"the catalog that {str(self.target)!r} chooses has {there:,} documents already; "
                    "add the pack to them with --merge, or choose another catalog"
                )
            if (space := source.catalog.space()) is not None:
                fit(kb, space)

    def _move(self, path: Path) -> None:
        if not (self.target / path.name).exists():
            os.replace(path, self.target / path.name)

    def _fits(self, index: Path, config: Config) -> bool:
        """Whether an index was made with what the settings ask for; else it is made again."""
        section = next(section for section, kind in FOLDERS.items() if index.name.startswith(f"{kind}-"))
        asked, had = (
            {name: setting.value for name, setting in of.settings.items() if name.startswith(f"{section}.")}
            for of in (config, self.packed_config)
        )
        return asked == had


def _is_begun(target: Path, opened: Reading) -> bool:
    """Whether an earlier run began to put this very pack there."""
    mark = target / MARK
    if not mark.is_file():
        return False
    if mark.read_text(encoding="utf-8") != _mark(opened):
        raise UsageError(
            f"{str(target)!r} holds part of another pack, whose unpacking was broken off; "
            "unpack that one again, which ends it, or name another folder with --home"
        )
    return True


def _mark(opened: Reading) -> str:
    return json.dumps({"pack": opened.identity})


def _refuse_other_than_settings(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{str(target)!r} is no folder; name a new one with --home")
    served = is_served(settings.load(target))
    other = [
        path.name
        for path in sorted(target.iterdir())
        if not _SETTINGS.fullmatch(path.name) and not (served and _INDEX.fullmatch(path.name))
    ]
    if other:
        raise UsageError(
            f"{str(target)!r} is not empty: it holds {', '.join(other[:3])}; name a new folder with --home, move it "
            "away, or add the pack to a home that is there with --merge"
        )


def _is_chosen(draft: Path, target: Path) -> bool:
    """Whether anything but the pack says how the home is to be."""
    return (target.is_dir() and any(target.iterdir())) or bool(in_servers(settings.load(draft)))


def _settings_there(draft: Path, target: Path) -> Config:
    """The settings that a folder will have: its own, else those of the pack."""
    if (target / SETTINGS_FILE).exists():
        return settings.load(target)
    if (target / ".env").exists():
        shutil.copyfile(target / ".env", draft / ".env")
    return settings.load(draft)


def _check(home: Path, config: Config, file: Path) -> None:
    with open_home(home, config=config) as kb:
        kb.check(mend=True)  # makes what the pack does not hold
        problems = kb.check()
    if problems:
        raise HomeDamaged(f"{str(file)!r} makes no good home: {'; '.join(problems)}; take another pack")
