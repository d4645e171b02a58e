"""Bytes that somebody sent -> an original on disk and a job that will index it. Durable before it is acknowledged."""

import re
import time
import unicodedata
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from headwater.kinds import kind_of
from headwater.server import wire
from headwater.server.state import State
from headwater.storage.ledger import Dataset, Job, Original, now
from headwater.types import document_id

MAX_NAME_CHARS = 200
# Most jobs that a person waits for are done in a few hundredths of a second; who waits longer is told that it goes on.
WAIT_SECONDS = 5.0
POLL_SECONDS = 0.02
# What is asked to stop mostly does within a second.
STOP_SECONDS = 2.0
UPLOAD = "upload:/"  # so that what a client calls a file is never taken for a path of this machine
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\/]')


def safe_name(given: str | None) -> str:
    """A file's name without a path, without signs that mean something to a shell or a file system."""
    name = unicodedata.normalize("NFC", given or "").replace("\\", "/")
    name = _UNSAFE.sub("_", PurePosixPath(name).name).strip(" .")
    name = "".join(char for char in name if char.isprintable())
    if len(name) > MAX_NAME_CHARS:
        stem, dot, suffix = name.rpartition(".")
        name = f"{stem[: MAX_NAME_CHARS - len(suffix) - 1]}{dot}{suffix[:20]}" if dot else name[:MAX_NAME_CHARS]
    return name or "unnamed"


def promise(
    state: State,
    dataset: Dataset,
    *,
    uri: str,
    data: bytes,
    name: str,
    mime: str = "",
    labels: dict[str, Any] | None = None,
    priority: int = 0,
    index: bool = True,
) -> tuple[Original, Job | None]:
    """Keep the bytes and promise to index them; when this returns, a crash loses neither."""
    check_room(state, dataset.owner, len(data))
    check_size(state, name, len(data))
    id = document_id(dataset.owner, dataset.collection, uri)
    original = Original(
        document=id,
        owner=dataset.owner,
        collection=dataset.collection,
        uri=uri,
        hash=state.ledger.originals.write(data),
        name=name,
        mime=mime or kind_of(name, data),
        bytes=len(data),
        created=now(),
    )
    state.ledger.originals.keep(original)
    return original, start(state, original, labels=labels or {}, priority=priority) if index else None


def start(state: State, original: Original, *, labels: dict[str, Any] | None = None, priority: int = 0) -> Job:
    """Promise to index an original that is kept."""
    work = {"hash": original.hash, "mime": original.mime, "modified": original.created, "bytes": original.bytes}
    titled = {"title": "", **(labels or {})}
    job = state.ledger.jobs.add(
        owner=original.owner,
        collection=original.collection,
        document=original.document,
        uri=original.uri,
        kind="put",
        work={**work, "labels": titled},
        priority=priority,
    )
    state.worker.wake()
    return job


def check_size(state: State, name: str, size: int) -> None:
    """Refuse a file that is larger than one may be."""
    most = state.kb.config.ingest().max_file_bytes
    if size > most:
        raise wire.TooLarge(
            f"{name!r} has {size} bytes, and {most} are the limit; cut it in parts or raise ingest.max_file_bytes"
        )


def check_room(state: State, owner: str, more: int) -> None:
    """Refuse what would be more than an owner may keep."""
    quota = state.settings.owner_quota_bytes
    if quota and state.ledger.originals.used(owner) + more > quota:
        raise wire.OverQuota(
            f"{owner!r} may keep {quota} bytes and keeps {state.ledger.originals.used(owner)} already; "
            "delete documents or raise server.owner_quota_bytes"
        )


def followed(state: State, jobs: Sequence[Job], *, within_seconds: float = WAIT_SECONDS) -> list[Job]:
    """The jobs when all of them have ended, or as they are after a while."""
    state.worker.wake()
    end = time.monotonic() + within_seconds
    while True:
        seen = [state.ledger.jobs.get(job.id) or job for job in jobs]
        if time.monotonic() >= end or state.stopping.is_set() or not any(job.is_open for job in seen):
            return seen
        time.sleep(POLL_SECONDS)
