"""Evaluations over HTTP: test sets of the home, runs of them in the background, and what came out, to compare.

A set is a folder `eval/NAME` of the home in the layout of `headwater eval`; one more is made of the sample's questions.
"""

import json
import secrets
import threading
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater import config as settings
from headwater import sample
from headwater.errors import HeadwaterError, NotFound
from headwater.evaluate.dataset import CORPUS, QRELS, QUERIES, find_sets, read_set
from headwater.evaluate.metrics import interval
from headwater.evaluate.run import MODES, Measurement, indexed, make_embedder, measure
from headwater.server import wire
from headwater.server.auth import Admin
from headwater.server.state import Shared, State

router = APIRouter(prefix="/api/v1", tags=["page"], responses=wire.ERRORS)

SETS: Final = "eval"  # in the home: a folder a test set
RUNS: Final = "trials"  # in the home: a file a run
INDEXES: Final = "indexes"  # among the runs: what the sets were indexed to, for the next run
SAMPLE_SET: Final = "station"
KEPT_RUNS: Final = 100
# Upper bounds of the bars of the latency plot, in milliseconds.
LATENCY_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
WORST: Final = 10  # queries that are shown as failed
HEADLINE: Final = "ndcg@10"

_running = threading.Lock()


class NewTrial(wire.Body):
    """What to measure."""

    model_config = wire.examples({"set": "station", "preset": "balanced"})
    set: str = Field(min_length=1, max_length=200)
    preset: str = Field(default="", max_length=100)


@router.get("/trials", response_model=wire.Success, summary="Test sets and what was measured")
def listed(state: Shared, caller: Admin) -> JSONResponse:
    """The sets of this home, and the runs of them, the latest first."""
    runs = sorted(_runs(state.kb.home), key=lambda one: str(one["created"]), reverse=True)
    short = [{key: value for key, value in run.items() if key != "queries"} for run in runs]
    return wire.ok({"sets": _sets(state.kb.home), "runs": short, "folder": f"{state.kb.home.name}/{SETS}/"})


@router.post("/trials", response_model=wire.Success, summary="Measure a test set")
def begin(state: Shared, caller: Admin, given: NewTrial) -> JSONResponse:
    """Answered at once; the run goes on in the background, one at a time."""
    known_set(state.kb.home, given.set)
    config = settings.load(state.kb.home, preset=given.preset or None)
    occupy()
    run = {
        "id": secrets.token_hex(6),
        "set": given.set,
        "preset": str(config.settings["preset"].value),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "state": "running",
        "note": "",
        "modes": {},
    }
    _write(state.kb.home, run)
    threading.Thread(target=_work, args=(state, run, config), name="headwater-trial", daemon=True).start()
    return wire.ok(run)


@router.get("/trials/{trial_id}", response_model=wire.Success, summary="What a run came to")
def one(state: Shared, caller: Admin, trial_id: str, against: str = "") -> JSONResponse:
    """Its figures by mode, its latency, the queries it does worst; with `against`, how it differs from another run."""
    run = _run(state.kb.home, trial_id)
    shown = {key: value for key, value in run.items() if key != "queries"}
    if against:
        shown["compared"] = _compared(_run(state.kb.home, against), run)
    return wire.ok(shown)


@router.delete("/trials/{trial_id}", response_model=wire.Success, summary="Forget a run")
def delete(state: Shared, caller: Admin, trial_id: str) -> JSONResponse:
    """Its figures; the set stays."""
    _run(state.kb.home, trial_id)
    (state.kb.home / RUNS / f"{trial_id}.json").unlink(missing_ok=True)
    return wire.ok({"id": trial_id})


# ------------------------------------------------------------------------------------------------ the work


def occupy() -> None:
    """Take the one place for measuring; two at a time would spoil each other's times."""
    if not _running.acquire(blocking=False):
        raise wire.Conflict("something is being measured; wait until it is done")


def leave() -> None:
    """Let the next measure."""
    _running.release()


def occupied() -> bool:
    """Whether something is being measured."""
    return _running.locked()


def known_set(home: Path, name: str) -> Path:
    """The folder of a test set of this home."""
    if name not in [one["name"] for one in _sets(home)]:
        raise NotFound(f"there is no test set {name!r} in {SETS!r} of the home; list them to see those that exist")
    return _sample_set(home) if name == SAMPLE_SET else home / SETS / name


def _work(state: State, run: dict[str, Any], config: settings.Config) -> None:
    home = state.kb.home
    try:
        judged = read_set(known_set(home, str(run["set"])))
        embedder = make_embedder(config, home=home)
        run["queries"] = {}
        with indexed(judged, config, work=home / RUNS / INDEXES, embedder=embedder) as kb:
            for mode in MODES:
                report = partial(_note, home, run, mode)
                found = measure(kb, judged, mode, on_progress=report)
                run["modes"][mode] = _figures(found, judged.queries)
                run["queries"][mode] = dict(zip(judged.queries, found.values(HEADLINE), strict=True))
        run |= {"state": "done", "note": ""}
    except (HeadwaterError, OSError) as error:
        run |= {"state": "failed", "note": str(error)}
    finally:
        if run["state"] == "running":
            run |= {"state": "failed", "note": "it ended before its time; the log says more"}
        _write(home, run)
        leave()


def _note(home: Path, run: dict[str, Any], mode: str, done: int, total: int) -> None:
    """Say how far it is, ten times in a run."""
    if done % max(1, total // 10) == 0:
        _write(home, {**run, "note": f"{mode}: {done}/{total}"})


def _figures(found: Measurement, queries: Any) -> dict[str, Any]:
    worst = sorted(found.rows, key=lambda row: (row.metrics[HEADLINE], row.query_id))[:WORST]
    bars = Counter(next((bound for bound in LATENCY_MS if row.milliseconds <= bound), 0) for row in found.rows)
    return {
        "summary": found.summary,
        "latency": [[bound, bars.get(bound, 0)] for bound in (*LATENCY_MS, 0)],
        "worst": [
            {"query": queries[row.query_id], HEADLINE: row.metrics[HEADLINE]}
            for row in worst
            if row.metrics[HEADLINE] < 1
        ],
        "degraded": list(found.degraded),
    }


def _compared(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Query by query, with the interval that chance explains."""
    found = {}
    for mode, values in after.get("queries", {}).items():
        earlier = before.get("queries", {}).get(mode, {})
        both = [query for query in values if query in earlier]
        if both:
            found[mode] = asdict(interval([values[query] - earlier[query] for query in both])) | {"queries": len(both)}
    return found


# ------------------------------------------------------------------------------------------------- on disk


def _sets(home: Path) -> list[dict[str, Any]]:
    found = [{"name": SAMPLE_SET, "folder": "", "sample": True}]
    folder = home / SETS
    if folder.is_dir():
        names = sorted({one.name for one in _found(folder)} - {SAMPLE_SET})
        found += [{"name": name, "folder": f"{SETS}/{name}", "sample": False} for name in names]
    return found


def _found(folder: Path) -> list[Path]:
    try:
        return [one for one in find_sets(folder) if one.parent == folder]
    except HeadwaterError:  # no set among its folders
        return []


def _sample_set(home: Path) -> Path:
    """The sample's documents and questions in the layout of a test set."""
    folder = home / SETS / SAMPLE_SET
    (folder / QRELS).parent.mkdir(parents=True, exist_ok=True)
    station = Path(sample.__file__).parent / "station"
    asked = [one for one in sample.questions() if one.get("file")]
    texts = [
        {"_id": path.relative_to(station).as_posix(), "title": "", "text": path.read_text(encoding="utf-8")}
        for path in sorted(station.rglob("*"))
        if path.is_file()
    ]
    queries = [{"_id": f"q{number}", "text": one["text"]} for number, one in enumerate(asked, start=1)]
    grades = [f"q{number}\t{one['file']}\t1" for number, one in enumerate(asked, start=1)]
    (folder / CORPUS).write_text(_lines(texts), encoding="utf-8")
    (folder / QUERIES).write_text(_lines(queries), encoding="utf-8")
    (folder / QRELS).write_text("query-id\tcorpus-id\tscore\n" + "\n".join(grades) + "\n", encoding="utf-8")
    return folder


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _runs(home: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted((home / RUNS).glob("*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        if run["state"] == "running" and not _running.locked():
            run |= {"state": "failed", "note": "the server ended while it ran"}
        found.append(run)
    return found


def _run(home: Path, id: str) -> dict[str, Any]:
    found = next((run for run in _runs(home) if run["id"] == id), None)
    if found is None:
        raise NotFound(f"no run has the id {id!r}; list them to see those that exist")
    return found


def _write(home: Path, run: dict[str, Any]) -> None:
    folder = home / RUNS
    folder.mkdir(exist_ok=True)
    replace_json(folder / f"{run['id']}.json", run)
    kept = sorted(folder.glob("*.json"), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in kept[KEPT_RUNS:]:
        old.unlink(missing_ok=True)


def replace_json(path: Path, value: Any) -> None:
    """Write a file whole, or not at all."""
    written = path.with_suffix(".new")
    written.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    written.replace(path)
