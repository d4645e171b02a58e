"""A model's name -> its ONNX files in the home, when a person asks for it. Nothing else fetches models.

Every file is checked against the hub's checksum before it gets its name; a download that broke off goes on where it
stopped.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

from headwater.errors import BackendError, DiskFull, NotFound, SettingError
from headwater.models.http import refuse_if_offline, shown
from headwater.models.known import known_model, known_reranker

Precision = Literal["fp32", "int8"]
OnProgress = Callable[[str, int, int], None]  # file, bytes so far, bytes in all

HUB: Final = "https://huggingface.co"
HUB_VARIABLE: Final = "HF_ENDPOINT"  # the name the hub's own tools use
RECEIPT: Final = "pulled.json"
PART: Final = ".part"
TIMEOUT_SECONDS: Final = 30.0
BLOCK_BYTES: Final = 1 << 20
# Files that say how the model is to be used; those that a repository has.
BESIDE: Final = (
    "tokenizer.json",
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    "README.md",
    "LICENSE*",
)
WEIGHTS: Final[Mapping[Precision, Sequence[str]]] = {
    "fp32": ("onnx/model.onnx", "model.onnx"),
    # The ones for one kind of processor come last.
    "int8": (
        *("onnx/model_int8.onnx", "onnx/model_quantized.onnx", "model_int8.onnx", "model_quantized.onnx"),
        *("onnx/model_uint8.onnx", "onnx/model_quint8_avx2.onnx", "onnx/model_q*int8*.onnx"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """One file of a repository. `sha256` is given for large files, `git_sha1` for all."""

    path: str
    size: int
    sha256: str
    git_sha1: str


def pull(
    name: str,
    folder: Path,
    *,
    precision: Precision = "fp32",
    revision: str = "main",
    base_url: str = "",
    on_progress: OnProgress = lambda file, done, total: None,
) -> Path:
    """Fetch a model's files into `folder`/its id, checked; return that folder. What is there already stays."""
    hub_id = hub_id_of(name)
    url = (base_url or os.environ.get(HUB_VARIABLE, "") or HUB).rstrip("/")
    refuse_if_offline(url)
    target = folder / hub_id
    with _reaching(url) as client:
        files = choose(_listing(client, url, hub_id, revision), precision, hub_id)
        for file in files:
            address = f"{url}/{hub_id}/resolve/{quote(revision, safe='')}/{quote(file.path)}"
            _fetch(client, address, file, target / file.path, on_progress)
    checked = {file.path: file.sha256 or f"git:{file.git_sha1}" for file in files}
    receipt = target / RECEIPT
    before = json.loads(receipt.read_text(encoding="utf-8"))["files"] if receipt.exists() else {}
    note = {"id": hub_id, "revision": revision, "from": shown(url), "files": {**before, **checked}}
    receipt.write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
    return target


def pulled(folder: Path) -> list[tuple[str, Path, int]]:
    """Every model in a home's folder: its name, where it is, and its bytes."""
    found = []
    for tokenizer in sorted(folder.glob("**/tokenizer.json")):
        place = tokenizer.parent
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        found.append((place.relative_to(folder).as_posix(), place, size))
    return found


def hub_id_of(name: str) -> str:
    """OWNER/NAME of a model on the hub; a name alone is looked up among the known ones."""
    if name.count("/") == 1 and all(part and not part.startswith(".") for part in name.split("/")):
        return name
    known = known_model(name) if "/" not in name else None
    reranker = known_reranker(name) if "/" not in name else None
    if reranker is not None:
        if not reranker.hub_id:
            raise SettingError(f"{name!r} is served by {reranker.use}: there is nothing to pull, set its key instead")
        return reranker.hub_id
    if known is not None and known.provider:
        raise SettingError(
            f"{name!r} is served by {known.provider}: there is nothing to pull, set embed.use = 'openai'"
        )
    if known is None or not known.hub_id:
        raise SettingError(f"no model to pull is known as {name!r}; give OWNER/NAME of a repository with ONNX files")
    return known.hub_id


def choose(files: Sequence[RemoteFile], precision: Precision, hub_id: str) -> list[RemoteFile]:
    """The files to fetch: the weights in the wanted precision, with what stands beside them."""
    by_path = {file.path: file for file in files}
    matches = [p for pattern in WEIGHTS[precision] for p in sorted(by_path) if fnmatch.fnmatchcase(p, pattern)]
    if not matches or "tokenizer.json" not in by_path:
        there = ", ".join(path for path in sorted(by_path) if path.endswith(".onnx")) or "none"
        raise NotFound(
            f"{hub_id} has no {precision} ONNX weights with a tokenizer.json (ONNX files: {there}); "
            f"try --precision {'fp32' if precision == 'int8' else 'int8'}, or a repository that has them"
        )
    weights = [
        path for path in by_path if path == matches[0] or path.startswith((f"{matches[0]}_data", f"{matches[0]}.data"))
    ]
    beside = [path for pattern in BESIDE for path in sorted(by_path) if fnmatch.fnmatchcase(path, pattern)]
    return [by_path[path] for path in (*beside, *weights)]


# ------------------------------------------------------------------------------------------------ the wire


@contextmanager
def _reaching(url: str) -> Iterator[Any]:
    import httpx2

    try:
        with httpx2.Client(timeout=TIMEOUT_SECONDS, follow_redirects=True) as client:
            yield client
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise BackendError(
            f"{shown(url)} cannot be reached ({error}); name a mirror with --from, or copy the model's folder "
            f"from another machine into the home's folder models"
        ) from error
    except httpx2.HTTPError as error:
        raise BackendError(f"the download broke off ({error}); pull again, it goes on where it stopped") from error


def _listing(client: Any, url: str, hub_id: str, revision: str) -> list[RemoteFile]:
    answer = client.get(f"{url}/api/models/{hub_id}/tree/{quote(revision, safe='')}", params={"recursive": "true"})
    if answer.status_code in (401, 403, 404):
        raise NotFound(f"{shown(url)} has no model {hub_id!r} at {revision!r} that anybody may fetch")
    if answer.status_code != 200:
        raise BackendError(f"{shown(url)} answered {answer.status_code} for the list of files; try again later")
    try:
        return [
            RemoteFile(
                path=str(entry["path"]),
                size=int(entry["size"]),
                sha256=str((entry.get("lfs") or {}).get("oid", "")),
                git_sha1=str(entry.get("oid", "")),
            )
            for entry in answer.json()
            if entry.get("type") == "file" and _harmless(str(entry["path"]))
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackendError(f"{shown(url)} gave a list of files that cannot be read ({error})") from error


def _harmless(path: str) -> bool:
    """A path that stays inside the model's folder."""
    return (
        not path.startswith("/") and not any(part in ("", ".", "..") for part in path.split("/")) and "\\" not in path
    )


def _fetch(client: Any, address: str, file: RemoteFile, target: Path, on_progress: OnProgress) -> None:
    if target.exists() and target.stat().st_size == file.size and _matches(target, file):
        on_progress(file.path, file.size, file.size)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + PART)
    done = part.stat().st_size if part.exists() else 0
    if done > file.size:
        part.unlink()
        done = 0
    try:
        if done < file.size or not file.size:
            _download(client, address, file, part, on_progress)
    except OSError as error:
        raise DiskFull(f"{part} cannot be written ({error}); make room and pull again") from error
    if not _matches(part, file):
        part.unlink()
        raise BackendError(f"{file.path} is not what {shown(address)} announced: its checksum differs; pull again")
    os.replace(part, target)


def _download(client: Any, address: str, file: RemoteFile, part: Path, on_progress: OnProgress) -> None:
    """Append what is missing; a server that cannot go on in the middle starts over."""
    done = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={done}-"} if done else {})}
    with client.stream("GET", address, headers=headers) as answer:
        if answer.status_code not in (200, 206):
            raise BackendError(f"{shown(address)} answered {answer.status_code}; pull again later")
        if answer.status_code == 200:
            done = 0
        with part.open("ab" if done else "wb") as out:
            for block in answer.iter_raw():  # as it arrives: what came before a break is kept
                out.write(block)
                done += len(block)
                on_progress(file.path, done, file.size)
    if done < file.size:
        raise BackendError(f"{file.path} broke off after {done:,} of {file.size:,} bytes; pull again, it goes on there")


def _matches(path: Path, file: RemoteFile) -> bool:
    """Whether the bytes are those that the hub has: by SHA-256, or as git names them."""
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(usedforsecurity=False)
    if not file.sha256:
        digest.update(b"blob %d\x00" % path.stat().st_size)
    with path.open("rb") as content:
        while block := content.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest() == (file.sha256 or file.git_sha1)
