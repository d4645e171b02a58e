"""A home -> a server for it: opens everything, puts the routes together, and closes everything again."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from headwater import __version__
from headwater.build import open_home
from headwater.config import Config
from headwater.config import load as load_settings
from headwater.cores import cores
from headwater.errors import HeadwaterError
from headwater.messages import Usage
from headwater.server import (
    answers,
    bookmarks,
    chats,
    chunks,
    completions,
    datasets,
    documents,
    events,
    ingest,
    jobs,
    logs,
    operations,
    page,
    retrieval,
    sessions,
    subscriptions,
    webhooks,
    wire,
)
from headwater.server.announcer import Announcer
from headwater.server.gate import Gate
from headwater.server.meters import Meters
from headwater.server.pools import Busy, Pool
from headwater.server.readers import Readers
from headwater.server.state import State
from headwater.server.tracing import tracing_of
from headwater.server.worker import Worker
from headwater.storage.ledger import Job, Ledger

ROUTERS = (
    *(datasets, documents, chunks, retrieval, answers, chats, sessions, completions),
    *(ingest, bookmarks, jobs, subscriptions, events, webhooks, operations),
)
# Other protocols over the same state: each, where it is installed, is a module here with a `router`, or with
# `install(app)` where it needs more than routes.
PROTOCOLS = (
    *("views", "openai", "files", "vector_stores", "vector_files", "vector_search"),
    *("vercel", "dify", "mcp"),
)
RETRIEVAL_THREADS_PER_CORE = 2
SHUTDOWN_SECONDS = 20.0

_STATUS_NAMES: dict[int, wire.ErrorName] = {404: "DATA_ERROR", 401: "AUTHENTICATION_ERROR", 403: "AUTHENTICATION_ERROR"}


def create_app(
    home: Path,
    *,
    config: Config | None = None,
    open_access: bool = True,
    allowed_hosts: tuple[str, ...] = ("*",),
    work: bool = True,
) -> FastAPI:
    """The application. `open_access` lets callers in without a key while there are none; `work` indexes here too."""
    home.mkdir(parents=True, exist_ok=True)
    chosen = config or load_settings(home)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state = opened(home, chosen, open_access=open_access)
        app.state.headwater = state
        state.announcer.start()
        if work:
            state.worker.start()
        logs.tell("Server started", home=str(home), version=__version__)
        try:
            async with AsyncExitStack() as running:
                for enter in app.state.lifespans:
                    await running.enter_async_context(enter())
                yield
        finally:
            closed(state)

    app = FastAPI(
        title="Headwater",
        version=__version__,
        description="Ask your documents. Every answer cites the exact passage it came from, or says that it has none.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.state.lifespans = []  # of protocols that have something to run beside the routes
    for module in ROUTERS:
        app.include_router(module.router)
    for name in PROTOCOLS:
        _include(app, name)
    app.include_router(page.router)  # the last: it answers for every path that nobody else has
    _answer_errors(app)
    app.add_middleware(Gate, settings=chosen.server(), open_access=open_access, allowed_hosts=allowed_hosts)
    return app


def _include(app: FastAPI, name: str) -> None:
    full = f"headwater.server.{name}"
    if find_spec(full) is None:
        return
    module = import_module(full)
    if hasattr(module, "router"):
        app.include_router(module.router)
    if hasattr(module, "install"):
        module.install(app)


def opened(home: Path, config: Config, *, open_access: bool) -> State:
    """Everything that one server shares, open; the worker is not started."""
    settings = config.server()
    kb, ledger, meters = open_home(home, config=config), Ledger(home), Meters()
    tracing = tracing_of(settings)

    def on_usage(model: str, usage: Usage) -> None:
        meters.used(model, usage)
        tracing.used(model, usage)

    kb.on_usage = on_usage
    announcer = Announcer(ledger, web=lambda: kb.web)

    def on_done(job: Job) -> None:
        meters.documents.labels(job.state).inc()
        logs.tell("Job ended", job=job.id, state=job.state, attempts=job.attempts, document=job.document)
        announcer.wake()  # the ledger has the message already

    def on_pass(seconds: float, well: bool) -> None:
        meters.index_seconds.labels("ok" if well else "error").observe(seconds)

    worker = Worker(
        kb,
        ledger,
        attempts=settings.job_attempts,
        on_done=on_done,
        on_pass=on_pass,
    )
    threads = settings.retrieval_threads or RETRIEVAL_THREADS_PER_CORE * cores()
    state = State(
        kb=kb,
        ledger=ledger,
        settings=settings,
        worker=worker,
        retrieval=Pool("retrieval", threads=threads, waiting=settings.waiting),
        generation=Pool("generation", threads=settings.generation_threads, waiting=settings.waiting),
        meters=meters,
        open_access=open_access,
        announcer=announcer,
        tracing=tracing,
        readers=Readers(kb, count=min(settings.readers, cores()), in_flight=lambda: state.retrieval.taken),
    )
    worker.in_flight = lambda: state.retrieval.taken + state.generation.taken
    kb.elsewhere = state.readers.search
    operations.gauges(state)
    return state


def closed(state: State) -> None:
    """What runs ends, what waits is told to come back, and no job is lost."""
    state.stopping.set()
    began = time.monotonic()
    state.worker.stop(timeout_seconds=SHUTDOWN_SECONDS)
    state.retrieval.close()
    state.readers.close()
    state.generation.close()
    state.announcer.close()
    state.ledger.close()
    if not state.worker.is_working:
        state.kb.close()
    state.tracing.close()
    left = {"left": "a request to a model, whose job is done at the next start"} if state.worker.is_working else {}
    logs.tell("Server stopped", took_ms=round((time.monotonic() - began) * 1000), **left)


def _answer_errors(app: FastAPI) -> None:
    @app.exception_handler(HeadwaterError)
    async def known(request: Request, error: HeadwaterError) -> JSONResponse:
        fault = wire.fault_of(error)
        _count(request, fault.name)
        if isinstance(error, Busy):
            state: State = request.app.state.headwater
            state.meters.refused.labels(error.pool).inc()
        if fault.status >= 500:
            logs.warn("Request failed", error=error, reason=str(error), path=request.url.path)
        return wire.failed(fault, str(error), path=request.url.path)

    @app.exception_handler(RequestValidationError)
    async def misshapen(request: Request, error: RequestValidationError) -> JSONResponse:
        told = [_told(one) for one in error.errors()[:5]]
        kind = request.headers.get("content-type", "")
        if isinstance(error.body, bytes) and error.body and "json" not in kind:
            told = [f"the body is read as JSON only with `Content-Type: application/json`, got {kind!r}"]
        _count(request, "ARGUMENT_ERROR")
        return wire.failed(wire.Fault(422, "ARGUMENT_ERROR"), "; ".join(told), path=request.url.path)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        name = _STATUS_NAMES.get(error.status_code, "ARGUMENT_ERROR")
        _count(request, name)
        told = _unread(error.__cause__) if error.status_code == 400 else ""
        answer = wire.failed(wire.Fault(error.status_code, name), told or str(error.detail), path=request.url.path)
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        id = _request_id(request.scope)
        logs.warn("A defect", error=error, path=request.url.path, request_id=id)
        _count(request, "SERVER_ERROR")
        message = f"something went wrong that nobody foresaw; the log says more under the request id {id}"
        return wire.failed(wire.Fault(500, "SERVER_ERROR"), message, path=request.url.path)


def _unread(cause: BaseException | None) -> str:
    """Why a body could not be read at all; nothing where that was not it."""
    if isinstance(cause, UnicodeDecodeError):
        wrong = cause.object[cause.start]
        return f"the body is JSON in UTF-8, got the byte 0x{wrong:02x} at {cause.start}; send it in UTF-8"
    if isinstance(cause, RecursionError):
        return "the body is JSON that is nested too deep; make it flatter"
    return f"the body is no JSON that can be read: {cause}" if isinstance(cause, ValueError) else ""


def _told(one: dict[str, Any]) -> str:
    if one["type"] == "json_invalid":
        return f"the body is no JSON: {one.get('ctx', {}).get('error', one['msg'])} at character {one['loc'][-1]}"
    return f"{'.'.join(map(str, one['loc']))}: {one['msg']}"


def _count(request: Request, name: wire.ErrorName) -> None:
    state: State = request.app.state.headwater
    state.meters.errors.labels(name).inc()


def _request_id(scope: Any) -> str:
    return str(scope.get("headwater.request_id", ""))
