"""What may be trained on: packages that `sources.tsv` lists, whose own files still state the licence it gives."""

import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from texts import read_text, squeeze

# Licences whose text may teach weights that are offered under CC BY-SA 4.0.
ALLOWED = {
    "Apache-2.0",
    "BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "Biopython",
    "CC-BY-2.0",
    "CC-BY-3.0",
    "CC-BY-4.0",
    "CC-BY-SA-3.0",
    "CC-BY-SA-4.0",
    "CC0-1.0",
    "MIT",
    "PSF-2.0",
    "PostgreSQL",
    "Unicode",
    "WordNet-3.0",
    "public domain",
}


@dataclass(frozen=True)
class Source:
    """A package we may read: its licence, and the words in its own files that say so."""

    kind: str
    licence: str
    evidence: str

    def confirm(self, name: str, statement: str) -> None:
        if self.licence not in ALLOWED:
            raise SystemExit(f"{name}: {self.licence!r} is not a licence we train on")
        if squeeze(self.evidence).lower() not in squeeze(statement).lower():
            raise SystemExit(f"{name}: its licence file does not say {self.evidence!r}: check it again")


def read_sources(path: Path) -> dict[str, Source]:
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return {name.split("==")[0]: Source(kind, licence, evidence) for kind, name, licence, evidence in rows}


def confirmed_packages(roots: Iterable[Path], sources: dict[str, Source]) -> list[Path]:
    """Unpacked Debian packages, each checked against its own copyright file."""
    packages = sorted(p for root in roots for p in root.iterdir() if p.is_dir())
    for package in packages:
        found = sorted(package.glob("usr/share/doc/*/copyright"))
        if package.name not in sources or not found:
            raise SystemExit(f"{package.name}: not in sources.tsv, or without a copyright file")
        sources[package.name].confirm(package.name, read_text(found[0]))
    return packages


def confirmed_archives(folder: Path, sources: dict[str, Source]) -> dict[str, Path]:
    """Downloaded wheels and source archives by name, each checked against its own metadata."""
    archives = {}
    for path in sorted(folder.iterdir()):
        name = path.name.split("-")[0].replace("_", "-").lower()
        if name not in sources:
            raise SystemExit(f"{path.name}: not in sources.tsv")
        if path.suffix == ".whl":
            wheel = zipfile.ZipFile(path)
            statement = wheel.read(next(n for n in wheel.namelist() if n.count("/") == 1 and n.endswith("/METADATA")))
        else:
            with tarfile.open(path) as tar:
                member = next(m for m in tar if m.name.count("/") == 1 and m.name.endswith("/PKG-INFO"))
                stream = tar.extractfile(member)
                assert stream is not None
                statement = stream.read()
        sources[name].confirm(path.name, statement.decode("utf-8"))
        archives[name] = path
    return archives
