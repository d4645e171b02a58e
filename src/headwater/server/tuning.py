"""Tuning over HTTP: ways to search tried on a test set or on what people said, and the best of them made the setting.

What is applied is written into the home's settings file like `headwater config set` does, for the home or for one
collection, holds at once, and can be taken back.
"""

import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater import config as settings
from headwater.errors import HeadwaterError, NotFound, UsageError
from headwater.evaluate.dataset import read_set
from headwater.evaluate.run import document_names, indexed, make_embedder
from headwater.evaluate.tune import Search, tune, variants
from headwater.filters import Compare, conjoin
from headwater.server import reach, trials, wire
from headwater.server.auth import Admin, Caller
from headwater.server.state import Shared, State
from headwater.types import attributes

router = APIRouter(prefix="/api/v1", tags=["page"], responses=wire.ERRORS)

FOLDER: Final = "tunings"  # among the runs: a file a tuning
APPLIED: Final = "applied.json"  # beside them: what was made a setting, the latest last
KEPT: Final = 50
MAX_WAYS: Final = 60  # a table that a person still reads
MAX_SAID: Final = 1000  # of what people said, the latest
FEEDBACK: Final = "feedback"


class NewTuning(wire.Body):
    """What to vary, and on which questions. What is not varied is as the settings say."""

    model_config = wire.examples({"set": "station", "keyword_weight": [0.3, 0.7], "rerank": ["", "builtin"]})
    set: str = Field(default=FEEDBACK, min_length=1, max_length=200)  # a test set, or `feedback`
    collection: str = Field(default="", max_length=200)  # with `feedback`: only documents of this one
    mode: list[Literal["hybrid", "keyword", "semantic"]] = Field(default_factory=list, max_length=3)
    keyword_weight: list[Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=list, max_length=11)
    rerank: list[Annotated[str, Field(max_length=100)]] = Field(default_factory=list, max_length=5)
    top_n: list[Annotated[int, Field(ge=1, le=100)]] = Field(default_factory=list, max_length=10)


class Chosen(wire.Body):
    """Which of the ways that were tried, and for what."""

    model_config = wire.examples({"way": 3, "collection": "handbook"})
    way: int = Field(ge=0, le=MAX_WAYS)
    collection: str = Field(default="", max_length=200)  # empty for the whole home


@router.get("/tunings", response_model=wire.Success, summary="What was tried, and what was applied")
def listed(state: Shared, caller: Admin) -> JSONResponse:
    """The latest first; `said` is how many questions people marked with what answers them."""
    runs = sorted(_runs(state.kb.home), key=lambda run: str(run["created"]), reverse=True)
    applied = [_standing(state, one) for one in reversed(_applied(state.kb.home))]
    said = len(_said(state, caller, collection=""))
    return wire.ok({"runs": runs, "applied": applied, "said": said, "now": _now(state, "")})


@router.post("/tunings", response_model=wire.Success, summary="Try ways to search")
def begin(state: Shared, caller: Admin, given: NewTuning) -> JSONResponse:
    """Answered at once; it goes on in the background. The first way is the settings as they are."""
    choices = {name: getattr(given, name) for name in ("mode", "keyword_weight", "rerank", "top_n")}
    collection = _collection(state, caller, given.collection)
    now = _now(state, collection)
    ways = variants(choices, now=now)
    if not 1 < len(ways) <= MAX_WAYS:
        raise UsageError(f"vary something, in at most {MAX_WAYS} combinations; these choices make {len(ways)}")
    if given.set == FEEDBACK and not _said(state, caller, collection=collection):
        raise NotFound("nobody has marked an answer or a passage as right yet; do that first, or choose a test set")
    if given.set != FEEDBACK:
        trials.known_set(state.kb.home, given.set)
    trials.occupy()
    run = {
        "id": secrets.token_hex(6),
        "set": given.set,
        "collection": given.collection if given.set == FEEDBACK else "",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "state": "running",
        "note": "",
        "now": now,
        "ways": [],
    }
    _write(state.kb.home, run)
    arguments = (state, caller, run, ways, collection)
    threading.Thread(target=_work, args=arguments, name="headwater-tuning", daemon=True).start()
    return wire.ok(run)


@router.get("/tunings/{tuning_id}", response_model=wire.Success, summary="What a tuning came to")
def one(state: Shared, caller: Admin, tuning_id: str) -> JSONResponse:
    """Every way with its figures and how it differs from the settings as they were, with the interval."""
    return wire.ok(_run(state.kb.home, tuning_id))


@router.post("/tunings/{tuning_id}/apply", response_model=wire.Success, summary="Make a way the setting")
def apply(state: Shared, caller: Admin, tuning_id: str, given: Chosen) -> JSONResponse:
    """Of the home, or of one collection. It holds at once; `DELETE /applied/{id}` takes it back."""
    run = _run(state.kb.home, tuning_id)
    if given.way >= len(run["ways"]):
        raise NotFound(f"that tuning has {len(run['ways'])} ways, counted from 0; got {given.way}")
    collection = _collection(state, caller, given.collection)
    prefix = f"{settings.COLLECTION}.{collection}" if collection else "retrieve"
    # As it was measured, also where other settings were in force then than are now.
    wanted, now = {**_shared(run["now"]), **run["ways"][given.way]["changes"]}, _now(state, collection)
    changes = {f"{prefix}.{name}": value for name, value in wanted.items() if value != now[name]}
    if not changes:
        raise wire.Conflict("that is how it searches already: there is nothing to apply")
    home = state.kb.home
    in_file = settings.written_in(home)
    fixed = [name for name in changes if (found := _in_force(home, name)) and "HEADWATER_" in found.origin]
    if fixed:
        raise wire.Conflict(f"the environment sets {', '.join(fixed)}, which a settings file cannot change")
    settings.write(home, changes)
    _hold(state, changes)
    made = {
        "id": secrets.token_hex(6),
        "tuning": tuning_id,
        "collection": given.collection,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "changes": changes,
        "before": {name: in_file[name] for name in changes if name in in_file},
    }
    _write_applied(home, [*_applied(home), made])
    return wire.ok(_standing(state, made))


@router.delete("/applied/{applied_id}", response_model=wire.Success, summary="Take an applied way back")
def undo(state: Shared, caller: Admin, applied_id: str) -> JSONResponse:
    """Every setting is as it was before, unless somebody changed it since: such a one stays and is named."""
    home = state.kb.home
    done = next((one for one in _applied(home) if one["id"] == applied_id), None)
    if done is None:
        raise NotFound(f"nothing that was applied has the id {applied_id!r}")
    in_file = settings.written_in(home)
    mine = [name for name, value in done["changes"].items() if in_file.get(name) == value]
    back = {name: value for name, value in done["before"].items() if name in mine}
    if back:
        settings.write(home, back)
    settings.unset(home, [name for name in mine if name not in back])
    _write_applied(home, [one for one in _applied(home) if one["id"] != applied_id])
    _hold(state, dict.fromkeys(mine))
    return wire.ok({"id": applied_id, "back": mine, "left": [name for name in done["changes"] if name not in mine]})


# ------------------------------------------------------------------------------------------------ the work


def _work(state: State, caller: Caller, run: dict[str, Any], ways: list[dict[str, Any]], collection: str) -> None:
    home = state.kb.home

    def report(done: int, total: int) -> None:
        if done % max(1, total // 20) == 0:
            _write(home, {**run, "note": f"{done}/{total}"})

    try:
        if run["set"] == FEEDBACK:
            questions = _said(state, caller, collection=collection)
            tried = tune(_own(state, caller, collection), questions, ways, on_progress=report)
        else:
            judged_set = read_set(trials.known_set(home, str(run["set"])))
            embedder = make_embedder(state.kb.config, home=home)
            work = home / trials.RUNS / trials.INDEXES
            with indexed(judged_set, state.kb.config, work=work, embedder=embedder) as kb:
                ids = {name: id for id, name in document_names(kb, judged_set).items()}
                questions = {
                    text: {ids[name]: grade for name, grade in judged_set.judgements[query].items() if name in ids}
                    for query, text in judged_set.queries.items()
                }

                def search(text: str, changes: Mapping[str, Any]) -> Any:
                    return kb.search(text, options={**_shared(run["now"]), **changes, "cache_size": 0})

                tried = tune(search, questions, ways, on_progress=report)
        run |= {"ways": [asdict(way) for way in tried], "questions": len(questions), "state": "done", "note": ""}
    except (HeadwaterError, OSError) as error:
        run |= {"state": "failed", "note": str(error)}
    finally:
        if run["state"] == "running":
            run |= {"state": "failed", "note": "it ended before its time; the log says more"}
        _write(home, run)
        trials.leave()


def _shared(now: Mapping[str, Any]) -> dict[str, Any]:
    """The settings now, for an index that has none of its own."""
    return {name: now[name] for name in ("mode", "keyword_weight", "semantic_weight", "rerank", "top_n")}


def _own(state: State, caller: Caller, collection: str) -> Search:
    """Searches the caller's own documents, as the page does."""
    seen = reach.view(state, caller)
    where = conjoin(*([Compare("collection", "=", collection)] if collection else []))
    return lambda text, changes: seen.search(text, where=where, options={**changes, "cache_size": 0})


def _said(state: State, caller: Caller, *, collection: str) -> dict[str, dict[str, int]]:
    """Questions of the inbox with the documents that answer them: cited in an answer that helped, or marked as right.

    What was said last about a question and a document holds; documents that are gone count no more.
    """
    seen = reach.view(state, caller)
    rows, _ = state.ledger.journal.feedback(caller.owner, limit=MAX_SAID)
    found: dict[str, dict[str, int]] = {}
    for row in reversed(rows):
        documents = [str(row["document"])] if row["document"] else []
        if row["answer"] and not documents:
            try:
                documents = [citation.document_id for citation in seen.replay(str(row["answer"])).citations]
            except NotFound:  # not kept, or erased since
                continue
        for document in documents:
            if row["query"]:
                found.setdefault(str(row["query"]), {})[document] = int(row["value"] > 0)
    alive: dict[str, dict[str, int]] = {}
    for query, grades in found.items():
        kept = {id: grade for id, grade in grades.items() if _searched(seen, id, collection)}
        if any(kept.values()):
            alive[query] = kept
    return alive


def _searched(seen: Any, id: str, collection: str) -> bool:
    record = seen.catalog.record(id)
    if record is None or record.archived or not seen.scope.matches(attributes(record)):
        return False
    return not collection or record.collection == collection


# ------------------------------------------------------------------------------------------------ settings


def _collection(state: State, caller: Caller, name: str) -> str:
    """The collection as settings name it; a dataset may have another name for people."""
    if not name:
        return ""
    found = next((one for one in reach.datasets(state, caller) if name in (one.name, one.collection)), None)
    if found is None:
        raise NotFound(f"no collection is named {name!r}; list the datasets to see those that exist")
    return found.collection


def _now(state: State, collection: str) -> dict[str, Any]:
    """What can be varied, as it is in force."""
    options = settings.with_options(state.kb.options, state.kb.config.of_collection(collection) if collection else {})
    names = ("mode", "fusion", "keyword_weight", "semantic_weight", "rerank", "top_n")
    return {name: getattr(options, name) for name in names}


def _in_force(home: Path, name: str) -> settings.Setting | None:
    return settings.load(home).settings.get(name)


def _hold(state: State, changes: Mapping[str, Any]) -> None:
    """Let the open home go by the file's new values; what its start was told besides stays."""
    fresh = settings.load(state.kb.home).settings
    kept = {name: one for name, one in state.kb.config.settings.items() if name not in changes}
    now = {**kept, **{name: fresh[name] for name in changes if name in fresh}}
    state.kb.config = replace(state.kb.config, settings=now)


def _standing(state: State, applied: dict[str, Any]) -> dict[str, Any]:
    """An applied way, and whether all of it still stands in the file."""
    in_file = settings.written_in(state.kb.home)
    return {**applied, "stands": all(in_file.get(name) == value for name, value in applied["changes"].items())}


# ------------------------------------------------------------------------------------------------- on disk


def _folder(home: Path) -> Path:
    folder = home / trials.RUNS / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _runs(home: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(_folder(home).glob("*.json"))]
    runs: list[dict[str, Any]] = [run for run in found if isinstance(run, dict)]
    for run in runs:
        if run["state"] == "running" and not trials.occupied():
            run |= {"state": "failed", "note": "the server ended while it ran"}
    return runs


def _run(home: Path, id: str) -> dict[str, Any]:
    found = next((run for run in _runs(home) if run["id"] == id), None)
    if found is None:
        raise NotFound(f"no tuning has the id {id!r}; list them to see those that exist")
    return found


def _write(home: Path, run: dict[str, Any]) -> None:
    trials.replace_json(_folder(home) / f"{run['id']}.json", run)
    named = [path for path in _folder(home).glob("*.json") if path.name != APPLIED]
    for old in sorted(named, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
        old.unlink(missing_ok=True)


def _applied(home: Path) -> list[dict[str, Any]]:
    path = _folder(home) / APPLIED
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def _write_applied(home: Path, applied: list[dict[str, Any]]) -> None:
    trials.replace_json(_folder(home) / APPLIED, applied[-KEPT:])
