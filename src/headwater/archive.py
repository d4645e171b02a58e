"""A home, live -> one file that holds all of it; such a file -> a home.

The catalog is copied as of one moment by SQLite itself, while others write on. The indexes are taken along where nobody
writes to them, and are made again from the catalog where somebody does: the vectors are in the catalog, so that costs
no embedding. Every file in the pack stands in its manifest with size and hash, and nothing is opened before they fit.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any, Final

from headwater.build import KnowledgeBase, open_home
from headwater.config import FILE_NAME as SETTINGS_FILE
from headwater.config import MODELS_FOLDER, SECRET
from headwater.errors import BackendError, HomeDamaged, HomeLocked, HomeTooNew, NotFound, UsageError
from headwater.side import FOLDERS
from headwater.stores import CATALOG_FILE, refuse_served

# Grows when an older headwater could not read what this one writes.
FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
LEDGER_FILE: Final = "ledger.sqlite"
MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
PIECE_BYTES: Final = 1 << 20
# SQLite's own companions, locks, drafts, what holds secrets, and the name that shared results of this home are under.
_LEFT_OUT: Final = re.compile(r".*(?:-wal|-shm|-journal|\.lock|\.new)|\.env|results\.cache")
_INDEX: Final = re.compile(rf"(?:{'|'.join(FOLDERS.values())})-\d+")
# A line of settings that holds a secret: it is only named where it says env:NAME. An address may hold a password.
_SECRET_LINE: Final = re.compile(
    rf"""^\s*"?[\w.-]*(?:key|secret|password|token)"?\s*=\s*["'](?!{SECRET}).+["']\s*(?:\#.*)?$"""
    r"""|^\s*"?[\w.-]*ur[li]"?\s*=\s*["'].*(?:://[^/"']*:[^/"']*@|password\s*=).*["']\s*(?:\#.*)?$""",
    re.IGNORECASE | re.MULTILINE,
)
# Of the ledger: what lets others in, or signs for us.
_KEYS: Final = ("key", "webhook", "outbox")
# Numbers of a zip file that mean a link, of all the things a file can be.
_LINK: Final = 0o120000
_KIND: Final = 0o170000


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What is in a pack."""

    file: str
    bytes: int
    files: int
    documents: int
    chunks: int
    generation: int
    indexes: bool  # taken along; else they are made again
    created: str = ""
    written_by: str = ""


def pack(kb: KnowledgeBase, file: Path, *, models: bool = True, keys: bool = False) -> Packed:
    """Write the home into one file, in the place of an earlier one only when it is complete.

    `models` takes along what was downloaded, `keys` API keys (as hashes) and webhooks with their secrets.
    """
    refuse_served(
        kb.config,
        what="a pack",
        instead="copy the database with `pg_dump --schema=SCHEMA` and the folder with it, or go over to a home with "
        "a catalog in a file by `headwater copy`",
    )
    target = Path(file).absolute()
    if target.is_relative_to(kb.home.absolute()):
        raise UsageError(f"a pack cannot lie in the home it is made of, got {str(file)!r}; name another folder")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        with _folder_beside(target) as work, zipfile.ZipFile(draft, "x", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
            packed = _Writing(kb, out, work).write(models=models, keys=keys)
        _settle(draft)
        os.replace(draft, target)
    except OSError as error:
        raise BackendError(f"{str(file)!r} cannot be written: {error}; name another place or make room") from error
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    return Packed(**{**packed, "file": str(target), "bytes": target.stat().st_size})


def unpack(file: Path, home: Path) -> Packed:
    """Make a home of a pack, where there is none yet; nothing is there before all of it was checked."""
    target = Path(home).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{str(home)!r} is not empty; name a new folder with --home, or move it away")
    with _opened(file) as pack_file:
        manifest = _manifest(pack_file, file)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
        try:
            draft.mkdir()
            for told in manifest["files"]:
                _extract(pack_file, told, draft)
            with open_home(draft, create=False) as kb:
                kb.check(mend=True)  # makes what the pack does not hold
                problems = kb.check()
            if problems:
                raise HomeDamaged(f"{str(file)!r} makes no good home: {'; '.join(problems)}; take another pack")
            if target.exists():
                target.rmdir()
            os.replace(draft, target)
        except OSError as error:
            raise BackendError(f"{str(home)!r} cannot be written: {error}; name another place or make room") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return _told(manifest, file)


def verify(file: Path) -> Packed:
    """What a pack says of itself, after every hash was compared."""
    with _opened(file) as pack_file:
        manifest = _manifest(pack_file, file)
        for told in manifest["files"]:
            with pack_file.open(told["name"]) as data:
                _compare(data, told, lambda _: None)
    return _told(manifest, file)


# ---------------------------------------------------------------------------------------------- writing


class _Writing:
    """One pack being written. `work` is an empty folder."""

    def __init__(self, kb: KnowledgeBase, out: zipfile.ZipFile, work: Path) -> None:
        self.kb, self.home, self.out, self.work = kb, kb.home.absolute(), out, work
        self.files: list[dict[str, Any]] = []

    def write(self, *, models: bool, keys: bool) -> dict[str, Any]:
        with ExitStack() as quiet:
            indexes = True
            try:
                # While the lock is held nobody writes to the indexes: they fit the catalog as it is.
                quiet.enter_context(self.kb.writing())
            except HomeLocked:
                indexes = False
            # Jobs before documents: one that ends in between is open in the pack and is done again there. The other way
            # round it would be called done without its document.
            if (self.home / LEDGER_FILE).exists():
                self._database(self.home / LEDGER_FILE, LEDGER_FILE, () if keys else _KEYS)
            counts = self._database(self.home / CATALOG_FILE, CATALOG_FILE)
            if indexes:
                for path in self._found(lambda first: bool(_INDEX.fullmatch(first))):
                    self._copy(path, path.relative_to(self.home).as_posix())
        for path in self._found(lambda first: not _INDEX.fullmatch(first) and (models or first != MODELS_FOLDER)):
            name = path.relative_to(self.home).as_posix()
            if name in (CATALOG_FILE, LEDGER_FILE):
                continue
            if path.suffix == ".sqlite":
                self._database(path, name)
            elif name == SETTINGS_FILE:
                self._add(name, _without_secrets(path.read_text(encoding="utf-8")).encode("utf-8"))
            else:
                self._copy(path, name)
        told = {
            "format": FORMAT,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "written_by": _own_version(),
            **counts,
            "indexes": indexes,
            "files": self.files,
        }
        self.out.writestr(MANIFEST, json.dumps(told, ensure_ascii=False, indent=1))
        return _plain(told)

    def _found(self, wanted: Callable[[str], bool]) -> Iterator[Path]:
        for path in sorted(self.home.rglob("*")):
            first = path.relative_to(self.home).parts[0]
            if wanted(first) and path.is_file() and not path.is_symlink() and not _LEFT_OUT.fullmatch(path.name):
                yield path

    def _database(self, path: Path, name: str, emptied: tuple[str, ...] = ()) -> dict[str, int]:
        """A copy as of one moment, with some tables empty; SQLite makes it while others write."""
        copy = self.work / f"{len(self.files)}.sqlite"
        try:
            with (
                closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=60)) as source,
                closing(sqlite3.connect(copy, isolation_level=None)) as target,
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
        self._copy(copy, name)
        copy.unlink()
        return counts

    def _copy(self, path: Path, name: str) -> None:
        digest, size = blake2b(digest_size=32), 0
        try:
            source = open(path, "rb")  # noqa: SIM115 - closed below, after a file that went away was passed over
        except FileNotFoundError:
            return  # an original that was removed meanwhile
        with source, self.out.open(_entry(name), "w", force_zip64=True) as entry:
            while piece := source.read(PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
                entry.write(piece)
        self.files.append({"name": name, "bytes": size, "blake2b": digest.hexdigest()})

    def _add(self, name: str, data: bytes) -> None:
        self.out.writestr(_entry(name), data)
        self.files.append({"name": name, "bytes": len(data), "blake2b": blake2b(data, digest_size=32).hexdigest()})


def _entry(name: str) -> zipfile.ZipInfo:
    """Without dates: the same home makes the same pack."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return entry


def _counts(db: sqlite3.Connection) -> dict[str, int]:
    one = "select (select count(*) from document), (select coalesce(sum(chunks), 0) from document), generation"
    documents, chunks, generation = db.execute(f"{one} from counters").fetchone()
    return {"documents": documents, "chunks": chunks, "generation": generation}


def _without_secrets(text: str) -> str:
    return _SECRET_LINE.sub(lambda line: f"# left out of the pack: {line[0].partition('=')[0].strip()}", text)


@contextmanager
def _folder_beside(target: Path) -> Iterator[Path]:
    """An empty folder beside a file, on the same disk, that is gone afterwards."""
    target.parent.mkdir(parents=True, exist_ok=True)
    work = target.with_name(f".{target.name}.{secrets.token_hex(4)}.work")
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _settle(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _own_version() -> str:
    try:
        return metadata.version("headwater")
    except metadata.PackageNotFoundError:
        return ""


# ---------------------------------------------------------------------------------------------- reading


@contextmanager
def _opened(file: Path) -> Iterator[zipfile.ZipFile]:
    if not Path(file).is_file():
        raise NotFound(f"there is no file {str(file)!r}; check the path")
    try:
        with zipfile.ZipFile(file) as pack_file:
            yield pack_file
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise HomeDamaged(f"{str(file)!r} is no pack, or a torn one: {error}; take another copy") from error


def _manifest(pack_file: zipfile.ZipFile, file: Path) -> dict[str, Any]:
    """What the pack holds, checked against what it says: nothing more, nothing less, nothing that leads elsewhere."""
    entries = pack_file.infolist()
    told = next((entry for entry in entries if entry.filename == MANIFEST), None)
    if told is None or told.file_size > MAX_MANIFEST_BYTES:
        raise HomeDamaged(f"{str(file)!r} has no manifest: it is no pack of headwater's, or a torn one")
    try:
        manifest: dict[str, Any] = json.loads(pack_file.read(MANIFEST))
        version = int(manifest["format"])
        if version > FORMAT:
            raise HomeTooNew(
                f"{str(file)!r} was packed by headwater {manifest.get('written_by', '')} (format {version}) and this "
                f"one knows format {FORMAT}; update headwater to open it"
            )
        listed = [(str(one["name"]), int(one["bytes"])) for one in manifest["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise HomeDamaged(f"the manifest of {str(file)!r} cannot be read: {error!r}; take another copy") from error
    for entry in entries:
        if not _is_safe(entry):
            raise HomeDamaged(f"{str(file)!r} holds the name {entry.filename!r}, which leads out of a home: not opened")
    found = sorted((entry.filename, entry.file_size) for entry in entries if entry is not told)
    if found != sorted(listed):
        differ = {name for name, _ in set(found) ^ set(listed)} or {"a name twice"}
        raise HomeDamaged(f"{str(file)!r} does not hold what its manifest says: {', '.join(sorted(differ)[:5])}")
    return manifest


def _is_safe(entry: zipfile.ZipInfo) -> bool:
    name = entry.filename
    parts = PurePosixPath(name).parts
    plain = name and not name.startswith("/") and "\\" not in name and ":" not in name and "\0" not in name
    kind = entry.external_attr >> 16 & _KIND
    return bool(plain) and not entry.is_dir() and ".." not in parts and "." not in name.split("/") and kind != _LINK


def _extract(pack_file: zipfile.ZipFile, told: dict[str, Any], home: Path) -> None:
    path = home.joinpath(*PurePosixPath(told["name"]).parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pack_file.open(told["name"]) as data, open(path, "xb") as out:
        _compare(data, told, out.write)


def _compare(data: Any, told: dict[str, Any], write: Callable[[bytes], object]) -> None:
    """Read no more than the manifest says, and refuse what differs from it."""
    digest, size = blake2b(digest_size=32), 0
    while piece := data.read(PIECE_BYTES):
        digest.update(piece)
        size += len(piece)
        if size > told["bytes"]:
            break
        write(piece)
    if size != told["bytes"] or digest.hexdigest() != told["blake2b"]:
        raise HomeDamaged(f"{told['name']!r} in the pack is not what was packed; take another copy")


def _told(manifest: dict[str, Any], file: Path) -> Packed:
    return Packed(**{**_plain(manifest), "file": str(Path(file).absolute()), "bytes": Path(file).stat().st_size})


def _plain(manifest: dict[str, Any]) -> dict[str, Any]:
    names = ("documents", "chunks", "generation", "indexes", "created", "written_by")
    return {"file": "", "bytes": 0, "files": len(manifest["files"]), **{name: manifest[name] for name in names}}


def shape(packed: Packed) -> dict[str, Any]:
    """As `--json` prints it."""
    return asdict(packed)
