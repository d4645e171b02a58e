"""What the page asks about the whole: who is asking, what there is, keys, disk and memory, and the sample."""

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater import __version__, sample
from headwater.config import Config, preset_names, read_preset
from headwater.errors import NotFound
from headwater.server import datasets, reach, wire
from headwater.server.auth import Admin, Forbidden, Reader, Writer, may_manage
from headwater.server.promises import promise
from headwater.server.state import Shared, State
from headwater.storage.ledger import Key

router = APIRouter(prefix="/api/v1", tags=["page"], responses=wire.ERRORS)

SAMPLE = "station"
EXTRACTIVE = "extractive"  # the answerer that needs no model
# Options of a preset that are the server's business, or belong to an answer and not to a search.
_NOT_COMPARED = ("cache_size", "deadline_seconds", "llm", "template", "offset", "top_n")
_STARTED = time.time()


class NewKey(wire.Body):
    """A key to make."""

    model_config = wire.examples({"owner": "ann", "name": "phone", "rights": "read", "collections": ["handbook"]})
    owner: str = Field(min_length=1, max_length=200)
    name: str = Field(default="", max_length=200)
    rights: Literal["read", "write", "admin"] = "read"
    collections: list[Annotated[str, Field(max_length=200)]] = Field(default_factory=list, max_length=200)


@router.get("/about", response_model=wire.Success, summary="What there is to ask")
def about(state: Shared, caller: Reader) -> JSONResponse:
    """Who is asking and what they may do, their collections, the models and presets, and questions to begin with."""
    shown = [datasets.shape(state, one) for one in reach.datasets(state, caller)]
    own = [one for one in shown if one["document_count"] or one["chunk_count"]]
    writers = state.kb.writers
    llms = state.kb.config.names("llm")
    default = getattr(writers.default, "name", "")
    models = [{"name": name, "label": name} for name in llms]
    if models or default:
        models.insert(0, {"name": "", "label": default or EXTRACTIVE})
    if default:
        models.append({"name": EXTRACTIVE, "label": EXTRACTIVE})
    return wire.ok(
        {
            "version": __version__,
            "owner": caller.owner,
            "rights": caller.rights,
            "needs_key": state.needs_key(),
            "collections": shown,
            "documents": sum(one["document_count"] for one in own),
            "model": bool(models),
            "models": models,
            "presets": [{"name": name, "options": options} for name, options in _presets().items()],
            "preset": str(state.kb.config.settings["preset"].value) if "preset" in state.kb.config.settings else "",
            "examples": _examples() if any(one["name"] == SAMPLE for one in shown) else [],
        }
    )


@cache
def _presets() -> dict[str, dict[str, Any]]:
    """Every preset with all its options, so that two of them can be compared whatever the settings say."""
    found = {}
    for name in preset_names():
        options = asdict(Config(read_preset(name)).options())
        found[name] = {key: value for key, value in options.items() if key not in _NOT_COMPARED}
    return found


@cache
def _examples() -> list[dict[str, str]]:
    asked = [one for one in sample.questions() if one.get("demo")]
    return [{"text": str(one["text"]), "language": str(one["language"])} for one in asked][:4]


@router.post("/sample", response_model=wire.Success, summary="Load the sample")
def load_sample(state: Shared, caller: Writer) -> JSONResponse:
    """Twenty short documents in Chinese and English, in a collection of their own; answered before they are indexed."""
    dataset = reach.writable_collection(state, caller, SAMPLE)
    jobs = []
    for name, data in _sample_files():
        _, job = promise(state, dataset, uri=f"sample:{name}", data=data, name=name.rpartition("/")[2])
        jobs.append(job.id if job is not None else "")
    return wire.ok({"jobs": jobs, "collection": dataset.name})


def _sample_files() -> Iterator[tuple[str, bytes]]:
    folder = Path(sample.__file__).parent / "station"
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path.read_bytes()


@router.get("/keys", response_model=wire.Success, summary="List keys")
def list_keys(state: Shared, caller: Admin) -> JSONResponse:
    """Those that the caller may manage, without their secrets: of its own owner, and for the owner `local` all."""
    found = [key for key in state.ledger.keys.listed() if may_manage(caller, owner=key.owner, of=key.collections)]
    return wire.ok({"keys": [_key_shape(key) for key in found], "needs_key": state.needs_key()})


@router.post("/keys", response_model=wire.Success, summary="Make a key")
def create_key(state: Shared, caller: Admin, given: NewKey) -> JSONResponse:
    """Its secret is in this answer and nowhere else. A key makes none that reaches further than itself."""
    if not may_manage(caller, owner=given.owner, of=given.collections):
        raise Forbidden(f"your key makes keys of {caller.owner!r} that reach no further than itself")
    key, secret = state.ledger.keys.create(
        given.owner, name=given.name, collections=given.collections, rights=given.rights
    )
    return wire.ok({**_key_shape(key), "key": secret})


@router.delete("/keys/{key_id}", response_model=wire.Success, summary="Revoke a key")
def revoke_key(state: Shared, caller: Admin, key_id: str) -> JSONResponse:
    """It allows nothing from now on."""
    known = {key.id for key in state.ledger.keys.listed() if may_manage(caller, owner=key.owner, of=key.collections)}
    if key_id not in known:
        raise NotFound(f"no key has the id {key_id!r}; list the keys to see those that exist")
    state.ledger.keys.revoke(key_id)
    return wire.ok({"id": key_id})


def _key_shape(key: Key) -> dict[str, Any]:
    return {**asdict(key), "collections": list(key.collections)}


@router.get("/system", response_model=wire.Success, summary="Disk, memory and what is under way")
def system(state: Shared, caller: Admin) -> JSONResponse:
    """The home by its parts, the disk it lies on, this process, and how searches went since it started."""
    home = state.kb.home
    disk = shutil.disk_usage(home)
    return wire.ok(
        {
            "version": __version__,
            "uptime_seconds": round(time.time() - _STARTED),
            "counts": state.kb.catalog.statistics(),
            "jobs": state.ledger.jobs.counts(),
            "disk": {"total": disk.total, "free": disk.free, "parts": _parts(home)},
            "memory": {"resident": _resident_bytes(), "total": _memory_bytes()},
            "pools": {pool.name: {"taken": pool.taken, "threads": pool.threads} for pool in _pools(state)},
            "searches": _searches(state),
        }
    )


def _pools(state: State) -> tuple[Any, ...]:
    return state.retrieval, state.generation


def _parts(home: Path) -> dict[str, int]:
    """Bytes of everything that lies directly in the home, the largest first."""
    sizes: dict[str, int] = {}
    for path in home.rglob("*"):
        if path.is_file():
            top = path.relative_to(home).parts[0]
            # The files that SQLite writes beside a database belong to it.
            sizes[top.removesuffix("-wal").removesuffix("-shm")] = (
                sizes.get(top.removesuffix("-wal").removesuffix("-shm"), 0) + path.stat().st_size
            )
    return dict(sorted(sizes.items(), key=lambda one: -one[1]))


def _searches(state: State) -> dict[str, Any]:
    """How many there were, and the middle and the late ones' time, as far as the buckets tell."""
    counts: dict[float, float] = {}
    total = 0.0
    for metric in state.meters.search_seconds.collect():
        for one in metric.samples:
            if one.name.endswith("_bucket"):
                bound = float(one.labels["le"])
                counts[bound] = counts.get(bound, 0.0) + one.value
            elif one.name.endswith("_count"):
                total += one.value
    return {"count": int(total), "p50_ms": _quantile(counts, total, 0.5), "p95_ms": _quantile(counts, total, 0.95)}


def _quantile(counts: dict[float, float], total: float, share: float) -> float | None:
    """The upper bound of the bucket that it lies in, in milliseconds."""
    if not total:
        return None
    within = [bound for bound, count in sorted(counts.items()) if count >= share * total and bound != float("inf")]
    return within[0] * 1000 if within else None


def _resident_bytes() -> int:
    """What this process holds in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return 0
