"""The file of a pack: entries, and a manifest with the size and hash of each, compared before anything is used."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from headwater.errors import DiskFull, HomeDamaged, HomeTooNew, NotFound

# Grows when an older headwater could not read what this one writes.
FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
PIECE_BYTES: Final = 1 << 20
# Numbers of a zip file that mean a link, of all the things a file can be.
_LINK: Final = 0o120000
_KIND: Final = 0o170000
_TOLD: Final = ("documents", "chunks", "generation", "indexes", "created", "written_by")


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


def shape(packed: Packed) -> dict[str, Any]:
    """As `--json` prints it."""
    return asdict(packed)


class Writing:
    """A pack that is being written."""

    def __init__(self, out: zipfile.ZipFile) -> None:
        self.out = out
        self.files: list[dict[str, Any]] = []

    def copy(self, path: Path, name: str) -> None:
        """Take a file along, or pass it over where it went away meanwhile."""
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

    def add(self, name: str, data: bytes) -> None:
        """Take bytes along under a name."""
        self.out.writestr(_entry(name), data)
        self.files.append({"name": name, "bytes": len(data), "blake2b": blake2b(data, digest_size=32).hexdigest()})

    def end(self, *, counts: dict[str, int], indexes: bool) -> dict[str, Any]:
        """Write the manifest, which is all that is missing; return it."""
        told = {
            "format": FORMAT,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "written_by": _own_version(),
            **counts,
            "indexes": indexes,
            "files": self.files,
        }
        self.out.writestr(MANIFEST, json.dumps(told, ensure_ascii=False, indent=1))
        return told


class Reading:
    """A pack whose manifest fits what it holds."""

    def __init__(self, file: Path, opened: zipfile.ZipFile) -> None:
        self.file, self._opened = Path(file), opened
        self.manifest = _manifest(opened, file)

    @property
    def packed(self) -> Packed:
        """What it says of itself."""
        return packed_of(self.manifest, self.file)

    @property
    def identity(self) -> str:
        """What tells this pack from every other one."""
        return blake2b(self._opened.read(MANIFEST), digest_size=16).hexdigest()

    def verify(self) -> None:
        """Compare every hash; HomeDamaged where one differs."""
        for told in self.manifest["files"]:
            with self._opened.open(told["name"]) as data:
                _compare(data, told, lambda _: None)

    def extract(self, folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> None:
        """Put its files into a folder, or those that are wanted, where there is room for them."""
        chosen = [told for told in self.manifest["files"] if wanted(told["name"])]
        check_room(folder, sum(told["bytes"] for told in chosen), what=f"the files of {str(self.file)!r}")
        for told in chosen:
            path = folder.joinpath(*PurePosixPath(told["name"]).parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._opened.open(told["name"]) as data, open(path, "xb") as out:
                _compare(data, told, out.write)


@contextmanager
def read_pack(file: Path) -> Iterator[Reading]:
    """A pack, open; refused where it is torn, changed, of a newer format, or leads out of a home."""
    if not Path(file).is_file():
        raise NotFound(f"there is no file {str(file)!r}; check the path")
    try:
        with zipfile.ZipFile(file) as opened:
            yield Reading(file, opened)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise HomeDamaged(f"{str(file)!r} is no pack, or a torn one: {error}; take another copy") from error


def verify(file: Path) -> Packed:
    """What a pack says of itself, after every hash was compared."""
    with read_pack(file) as pack:
        pack.verify()
        return pack.packed


def packed_of(manifest: dict[str, Any], file: Path) -> Packed:
    """What a manifest says of a file."""
    told = {name: manifest[name] for name in _TOLD}
    size = Path(file).stat().st_size
    return Packed(file=str(Path(file).absolute()), bytes=size, files=len(manifest["files"]), **told)


def check_room(folder: Path, needed: int, *, what: str) -> None:
    """Raise DiskFull where a folder's disk has less room than that."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFull(
            f"{what} need about {needed:,} bytes for a while, and {str(folder.parent)!r} has {free:,} left; "
            "make room or name another place; nothing was changed"
        )


def _entry(name: str) -> zipfile.ZipInfo:
    """Without dates: the same home makes the same pack."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return entry


def _own_version() -> str:
    try:
        return metadata.version("headwater")
    except metadata.PackageNotFoundError:
        return ""


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


def _compare(data: IO[bytes], told: dict[str, Any], write: Callable[[bytes], object]) -> None:
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
