"""What happens -> spans of OpenTelemetry: requests, searches with their stages, answers with what their model used.

Off unless `server.otel`; nothing of OpenTelemetry is imported before. Texts stand in them only with `server.otel_text`.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from headwater import __version__
from headwater.config import Server
from headwater.errors import SettingError
from headwater.messages import Usage
from headwater.types import Answer, Results

SERVICE: Final = "headwater"
# What the models used for the request that is being answered: the same list in every thread that works for it.
_used: ContextVar[list[tuple[str, Usage]] | None] = ContextVar("headwater_used", default=None)


class Tracing:
    """Spans of one server; without a tracer, none."""

    def __init__(self, tracer: Any = None, *, text: bool = False, provider: Any = None) -> None:
        self._tracer, self._text, self._provider = tracer, text, provider

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str]) -> Iterator[Any]:
        """A span around a request, below the one that its caller names; None without a tracer."""
        if self._tracer is None:
            yield None
            return
        from opentelemetry import propagate, trace

        kept = _used.set([])
        try:
            with self._tracer.start_as_current_span(
                method, context=propagate.extract(headers), kind=trace.SpanKind.SERVER
            ) as span:
                span.set_attribute("http.request.method", method)
                yield span
        finally:
            _used.reset(kept)

    def ended(self, span: Any, *, route: str, status: int, id: str) -> None:
        """What is known of a request when it has been answered."""
        if span is None:
            return
        from opentelemetry import trace

        span.update_name(f"{span.attributes['http.request.method']} {route}")
        told = {"http.route": route, "http.response.status_code": status, "headwater.request_id": id}
        span.set_attributes(told)
        if status >= 500:
            span.set_status(trace.StatusCode.ERROR)

    def used(self, model: str, usage: Usage) -> None:
        """A reply of a model ended: it belongs to the answer that is being written."""
        if (told := _used.get()) is not None:
            told.append((model, usage))

    def searched(self, results: Results, *, seconds: float) -> None:
        """A search that has just ended. Its stages last as long as they did; the legs among them ran side by side."""
        if self._tracer is None:
            return
        end = time.time_ns()
        start = end - round(seconds * 1e9)
        told: dict[str, Any] = {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.request.top_k": results.query.options.top_n,
            "gen_ai.retrieval.documents": _found(results),
            "headwater.mode": results.mode_used,
            "headwater.hits": len(results),
            "headwater.total": results.total,
            "headwater.degraded": list(results.degraded),
            "headwater.generation": results.generation,
        }
        if self._text:
            told["headwater.query"] = told["gen_ai.retrieval.query.text"] = results.query.text
        with self._span("retrieve", start=start, end=end, told=told):
            for stage, took in results.timings_ms.items():
                if stage != "total":
                    with self._span(f"retrieve {stage}", start=start, end=start + round(took * 1e6), told={}):
                        pass

    def answered(self, answer: Answer) -> None:
        """An answer that has just ended: a span for each step, that of what wrote it with the GenAI attributes."""
        if self._tracer is None:
            return
        place = time.time_ns() - round(sum(step.milliseconds for step in answer.trace) * 1e6)
        told = {"headwater.refused": answer.refused, "headwater.citations": len(answer.citations)}
        with self._span("answer", start=place, end=time.time_ns(), told=told):
            last = max((n for n, step in enumerate(answer.trace) if step.stage == "generate"), default=-1)
            for number, step in enumerate(answer.trace):
                end = place + round(step.milliseconds * 1e6)
                written = number == last and bool(answer.model)
                name = f"chat {answer.model}" if written else step.stage
                with self._span(name, start=place, end=end, told=self._written(answer) if written else {}):
                    place = end

    def close(self) -> None:
        """Send what has not been sent."""
        if self._provider is not None:
            self._provider.shutdown()

    def _written(self, answer: Answer) -> dict[str, Any]:
        """As OpenTelemetry's conventions for generative models name it."""
        usage = [one for _, one in _used.get() or ()]
        told: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",  # the protocol; whose server answers is not known
            "gen_ai.request.model": answer.model,
            "gen_ai.response.model": answer.model,
            "gen_ai.usage.input_tokens": sum(one.input_tokens for one in usage),
            "gen_ai.usage.output_tokens": sum(one.output_tokens for one in usage),
        }
        if answer.conversation_id:
            told["gen_ai.conversation.id"] = answer.conversation_id
        if self._text:
            told["gen_ai.input.messages"] = _messages("user", answer.query.text)
            told["gen_ai.output.messages"] = _messages("assistant", answer.text)
        return told

    @contextmanager
    def _span(self, name: str, *, start: int, end: int, told: Mapping[str, Any]) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            name, start_time=start, attributes=dict(told), end_on_exit=False
        ) as span:
            yield
        span.end(end)


def tracing_of(settings: Server) -> Tracing:
    """What the settings want. Where nobody has set up OpenTelemetry, spans go out by OTLP, as its variables say."""
    if not settings.otel:
        return Tracing()
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise SettingError(f"server.otel needs the extra `otel`: pip install 'headwater[otel]' ({error})") from error
    provider = None
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        provider = _provider()
        trace.set_tracer_provider(provider)
    return Tracing(trace.get_tracer(SERVICE, __version__), text=settings.otel_text, provider=provider)


def _provider() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SettingError(f"server.otel needs the extra `otel`: pip install 'headwater[otel]' ({error})") from error
    named = Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME", SERVICE)})
    made = TracerProvider(resource=named)
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made


def _found(results: Results) -> str:
    """Which passages with which scores, and none of their words."""
    return json.dumps([{"id": hit.chunk.name, "score": float(hit.score)} for hit in results])


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}], ensure_ascii=False)
