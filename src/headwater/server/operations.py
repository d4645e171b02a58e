"""For who runs the server: metrics, health, status, settings, and the documentation of the routes."""

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from headwater import __version__
from headwater.effective import effective_settings
from headwater.server import reach, wire
from headwater.server.auth import Admin, Forbidden, Reader
from headwater.server.state import Shared, State

router = APIRouter(tags=["operations"])
_ERRORS = wire.ERRORS


def gauges(state: State) -> None:
    """Numbers that are read when somebody looks."""
    jobs = state.ledger.jobs

    def opened(*states: str) -> float:
        counts = jobs.counts()
        return float(sum(counts.get(one, 0) for one in states))

    def statistic(name: str) -> float:
        return float(state.kb.catalog.statistics().get(name, 0))

    gauge = state.meters.gauge
    gauge("rag_queue_depth", "Jobs that are not finished.", lambda: opened("pending", "processing", "indexed"))
    gauge("rag_jobs_failed", "Jobs that failed.", lambda: opened("failed"))
    gauge("rag_documents", "Documents in the home.", lambda: statistic("documents"))
    gauge("rag_chunks", "Passages in the home.", lambda: statistic("chunks"))
    gauge("rag_vectors", "Vectors in the home.", lambda: statistic("vectors"))
    gauge("rag_retrieval_pool_taken", "Searches that run or wait.", lambda: float(state.retrieval.taken))
    gauge("rag_generation_pool_taken", "Answers that run or wait.", lambda: float(state.generation.taken))


@router.get("/healthz", response_model=wire.Success, responses=_ERRORS, summary="Is the process alive?")
async def healthz() -> JSONResponse:
    """Always, while it can answer at all."""
    return wire.ok({"status": "ok", "version": __version__})


@router.get("/readyz", response_model=wire.Success, responses=_ERRORS, summary="Can it serve?")
def readyz(state: Shared) -> JSONResponse:
    """Whether the catalog can be read and the server is not about to stop."""
    if state.stopping.is_set():
        raise wire.NotHere("the server is stopping")
    generation = state.kb.catalog.generation()
    return wire.ok({"status": "ready", "generation": generation, "needs_key": state.needs_key()})


@router.get(
    "/metrics",
    response_class=Response,
    responses={**_ERRORS, 200: {"description": "Numbers for Prometheus", "content": {"text/plain": {}}}},
    summary="Metrics",
)
def metrics(request: Request, state: Shared, caller: Reader) -> Response:
    """No text of queries or documents. With keys, a key of an admin is needed."""
    if not caller.may("admin"):
        raise Forbidden("metrics are of the whole server: they need a key with the right to admin")
    return Response(state.meters.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/api/v1/status", response_model=wire.Success, responses=_ERRORS, summary="Counts")
def status(state: Shared, caller: Reader) -> JSONResponse:
    """Your documents, passages and jobs by state."""
    every = {name: counts for (owner, name), counts in state.counts().items() if owner == caller.owner}
    reached = reach.own_collections(state, caller)
    if reached is not None:
        every = {name: counts for name, counts in every.items() if name in reached}
    own = list(every.values())
    space = state.kb.catalog.space()
    return wire.ok(
        {
            "owner": caller.owner,
            "rights": caller.rights,
            "documents": sum(documents for documents, _ in own),
            "chunks": sum(chunks for _, chunks in own),
            "jobs": state.ledger.jobs.counts(caller.owner, collections=reached),
            "bytes": state.ledger.originals.used(caller.owner),
            "quota_bytes": state.settings.owner_quota_bytes,
            "generation": state.kb.catalog.generation(),
            "embedder": space.embedder if space else "",
            "chunker": space.chunker if space else "",
            "version": __version__,
        }
    )


@router.get("/api/v1/settings", response_model=wire.Success, responses=_ERRORS, summary="Settings in force")
def settings(state: Shared, caller: Admin) -> JSONResponse:
    """With where each comes from; no secrets."""
    found = effective_settings(state.kb.home)
    told = {name: {"value": one.value, "origin": one.origin} for name, one in found.items() if not _secret(name)}
    return wire.ok(told)


@router.get("/api/v1/me", response_model=wire.Success, responses=_ERRORS, summary="Who am I?")
def me(state: Shared, caller: Reader) -> JSONResponse:
    """The owner and the rights of the key that was sent: for a page that signs in."""
    told = {"owner": caller.owner, "rights": caller.rights, "collections": list(caller.collections)}
    return wire.ok({**told, "needs_key": state.needs_key()})


@router.get("/docs", include_in_schema=False)
def routes(request: Request) -> HTMLResponse:
    """Every route on one page, made here: nothing is fetched from elsewhere."""
    described: dict[str, Any] = request.app.openapi()
    rows = []
    for path, methods in described["paths"].items():
        for method, told in methods.items():
            says = escape(told.get("description", told.get("summary", "")))
            rows.append(f"<tr><td>{method.upper()}</td><td><code>{escape(path)}</code></td><td>{says}</td></tr>")
    body = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Headwater: routes</title>"
        "<h1>Headwater: routes</h1><p>The machine-readable form is <a href=/openapi.json>/openapi.json</a>.</p>"
        f"<table><thead><tr><th>Method<th>Path<th>Does</thead><tbody>{''.join(rows)}</tbody></table></html>"
    )
    return HTMLResponse(body)


def _secret(name: str) -> bool:
    return name.endswith(("api_key", "secret", "password", "token"))
