"""Spans for OpenTelemetry: what they hold, what they do not, and that they arrive where OTLP is told to send them."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.server.conftest import Running

import headwater
from headwater import llm
from headwater.server.app import create_app
from headwater.server.tracing import Tracing
from headwater.testing._loopback import Loopback
from headwater.testing.chat_server import USAGE, ChatServer

LEAVE = "Parents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full."
GOOD = "Parents are entitled to 26 weeks of leave [1]."
QUESTION = "How many weeks of leave do parents get?"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("tracing") / "home"
    with ChatServer(GOOD) as model:
        llm.install(made, {"use": "openai", "model": "tiny", "base_url": model.url, "max_retries": 0}, name="tiny")
        with headwater.open(made) as kb:
            kb.add_text(LEAVE, uri="leave")
        yield made


def spans_of(home: Path, path: str, body: dict[str, Any], *, text: bool = False) -> list[ReadableSpan]:
    """The spans of one request, in the order in which they ended."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    app = create_app(home, work=False)

    async def main() -> None:
        async with app.router.lifespan_context(app):
            app.state.headwater.tracing = tracing = Tracing(provider.get_tracer("test"), text=text)
            app.state.headwater.kb.on_usage = tracing.used
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                answer = await client.post(path, json=body, headers={"traceparent": PARENT})
                assert answer.status_code == 200, answer.text

    asyncio.run(main())
    return list(kept.get_finished_spans())


def by_name(spans: list[ReadableSpan]) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans}


def parent_of(span: ReadableSpan, spans: list[ReadableSpan]) -> str:
    assert span.parent is not None
    return next(one.name for one in spans if one.context and span.parent and one.context.span_id == span.parent.span_id)


def texts(spans: list[ReadableSpan]) -> str:
    return " ".join(f"{span.name} {dict(span.attributes or {})}" for span in spans)


def test_a_search_and_its_stages(home: Path) -> None:
    spans = spans_of(home, "/api/v1/retrieval", {"question": QUESTION})
    named = by_name(spans)
    request = named["POST /api/v1/retrieval"]
    told = dict(request.attributes or {})
    assert told["http.route"] == "/api/v1/retrieval" and told["http.response.status_code"] == 200
    # Below the span that the caller named.
    assert request.context and f"{request.context.trace_id:032x}" == PARENT.split("-")[1]
    assert request.parent and f"{request.parent.span_id:016x}" == PARENT.split("-")[2]
    search = named["retrieve"]
    assert parent_of(search, spans) == "POST /api/v1/retrieval"
    told = dict(search.attributes or {})
    assert told["headwater.hits"] == 1 and told["gen_ai.operation.name"] == "retrieval"
    (document,) = json.loads(str(told["gen_ai.retrieval.documents"]))
    assert document["id"].count(":") == 1 and document["score"] > 0
    stages = [span for span in spans if span.name.startswith("retrieve ")]
    assert {"retrieve keyword", "retrieve semantic"} <= {span.name for span in stages}
    assert {parent_of(span, spans) for span in stages} == {"retrieve"}
    assert all(span.end_time and span.start_time and span.end_time >= span.start_time for span in spans)
    assert "weeks" not in texts(spans)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/ask", {"question": QUESTION, "llm": "tiny"}),
        ("/api/v1/ask", {"question": QUESTION, "llm": "tiny", "stream": True}),
        ("/v1/chat/completions", {"model": "tiny", "messages": [{"role": "user", "content": QUESTION}]}),
    ],
)
def test_what_a_model_wrote(home: Path, path: str, body: dict[str, Any]) -> None:
    spans = spans_of(home, path, body)
    named = by_name(spans)
    told = dict(named["chat tiny"].attributes or {})
    assert told["gen_ai.operation.name"] == "chat" and told["gen_ai.request.model"] == "tiny"
    replies, rest = divmod(int(str(told["gen_ai.usage.input_tokens"])), USAGE["prompt_tokens"])
    assert replies >= 1 and rest == 0
    assert told["gen_ai.usage.output_tokens"] == replies * USAGE["completion_tokens"]
    assert parent_of(named["chat tiny"], spans) == "answer"
    if path == "/api/v1/ask":
        assert replies == 1 and {"retrieve", "assemble", "reflect"} <= set(named)
    assert parent_of(named["answer"], spans) == f"POST {path}"
    assert "weeks" not in texts(spans) and "gen_ai.input.messages" not in texts(spans)


def test_texts_stand_there_only_where_asked(home: Path) -> None:
    spans = spans_of(home, "/api/v1/ask", {"question": QUESTION, "llm": "tiny"}, text=True)
    told = dict(by_name(spans)["chat tiny"].attributes or {})
    assert QUESTION in str(told["gen_ai.input.messages"]) and "26 weeks" in str(told["gen_ai.output.messages"])


class Collector(Loopback):
    """Takes spans as OTLP sends them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.services: set[str] = set()
        lock, collector = threading.Lock(), self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                told = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    for group in told.resource_spans:
                        named = {one.key: one.value.string_value for one in group.resource.attributes}
                        collector.services.add(named.get("service.name", ""))
                        collector.names += [span.name for scope in group.scope_spans for span in scope.spans]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        super().__init__(Answering)


def test_a_server_sends_its_spans(tmp_path: Path) -> None:
    with Collector() as collector:
        endpoint = collector.url.removesuffix("/v1")
        env = {"HEADWATER_SERVER__OTEL": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        server = Running(tmp_path / "home", env={**env, "OTEL_EXPORTER_OTLP_COMPRESSION": "none"})
        with server.client() as client:
            client.post("/api/v1/retrieval", json={"question": "water"})
            client.get("/healthz")
        assert server.stop() == 0
        end = time.monotonic() + 10
        while "retrieve" not in collector.names and time.monotonic() < end:
            time.sleep(0.05)
    assert {"POST /api/v1/retrieval", "retrieve"} <= set(collector.names)
    assert collector.services == {"headwater"}


def test_without_the_setting_nothing_of_it_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from headwater.server.app import create_app; from headwater.server.tracing import tracing_of; "
        "from headwater.config import Server; tracing_of(Server()); "
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"
