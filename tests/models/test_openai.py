"""The embedder for OpenAI's protocol, against a real server that enforces limits and fails in every way we know."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwater
from headwater.config import Config, Setting, load
from headwater.errors import BackendError, SettingError
from headwater.models import http
from headwater.models.known import MODELS, known_model
from headwater.models.openai import OpenAIEmbedder
from headwater.protocols import Embedder
from headwater.testing.openai_server import OpenAIServer

KEY = "sk-very-secret-1234567890"
SHORT = 0.8  # seconds: enough for a busy machine to answer in, little to wait for a server that hangs
TEXTS = [f"Regulation {number} concerns pump {number * 7} and its valve." for number in range(23)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the person's reaches the embedder, and waits are short."""
    for variable in list(os.environ):
        if variable.endswith(("_API_KEY", "_BASE_URL", "_proxy", "_PROXY")):
            monkeypatch.delenv(variable)
    monkeypatch.setattr(http, "FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr("headwater.models.openai.FIRST_WAIT_SECONDS", 0.01)


def made(server: OpenAIServer, **settings: Any) -> OpenAIEmbedder:
    given = {"model": "local-model", "api_key": KEY, "batch_size": 5, "concurrency": 1, "timeout_seconds": 20}
    return OpenAIEmbedder(base_url=server.url, **{**given, **settings})


def embedded(server: OpenAIServer, texts: Sequence[str] = TEXTS, **settings: Any) -> np.ndarray[Any, Any]:
    embedder = made(server, **{"dimensions": server.dim, **settings})
    try:
        return embedder.embed(texts, "passage")
    finally:
        embedder.close()


def expected(server: OpenAIServer, texts: Sequence[str] = TEXTS) -> np.ndarray[Any, Any]:
    rows = np.array(server.vectors(texts))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_it_fits_the_protocol_without_asking_anybody() -> None:
    embedder = OpenAIEmbedder()
    assert isinstance(embedder, Embedder)
    assert (embedder.fingerprint, embedder.dim) == ("openai:text-embedding-3-small", 1536)
    assert OpenAIEmbedder(dimensions=256).fingerprint == "openai:text-embedding-3-small:256"
    assert (
        OpenAIEmbedder(model="e5-small-v2").fingerprint
        != OpenAIEmbedder(model="e5-small-v2", passage_prefix="").fingerprint
    )
    assert OpenAIEmbedder(query_prefix="q: ").fingerprint == OpenAIEmbedder().fingerprint


@pytest.mark.parametrize(
    "script",
    [
        [],
        ["shuffle"] * 5,
        ["unnumbered"] * 5,
        ["429", "429", "ok", "429"],
        ["429-bare"],
        ["500", "ok", "503", "ok"],
        ["hang", "ok", "hang"],
        ["cut", "ok", "garbage", "polite"],
        ["half", "half", "ok"],
        ["twice", "ok"],
        # More refusals in a row than a batch is kept whole through.
        ["429"] * 5,
    ],
    ids=lambda script: "-".join(script) or "well",
)
@pytest.mark.parametrize("concurrency", [1, 3])
def test_every_text_gets_its_own_unit_vector_and_is_given_once(script: list[str], concurrency: int) -> None:
    with OpenAIServer(key=KEY, max_batch=5, script=script) as server:
        rows = embedded(server, concurrency=concurrency, timeout_seconds=SHORT if "hang" in script else 20)
        np.testing.assert_allclose(rows, expected(server), atol=1e-5)
        assert server.given == dict.fromkeys(TEXTS, 1)
        assert not server.script
        assert server.most_at_once <= concurrency + script.count("hang")


def test_batches_go_out_in_parallel() -> None:
    with OpenAIServer(script=["hang"] * 3) as server:
        embedded(server, TEXTS[:15], concurrency=3, timeout_seconds=SHORT)
        assert server.most_at_once >= 3


def test_a_batch_that_is_too_large_is_halved_and_the_size_remembered() -> None:
    with OpenAIServer(max_batch=3) as server:
        embedder = made(server, dimensions=server.dim, batch_size=20)
        np.testing.assert_allclose(embedder.embed(TEXTS, "passage"), expected(server), atol=1e-5)
        assert server.given == dict.fromkeys(TEXTS, 1)
        refused = server.statuses.count(400)
        embedder.embed(TEXTS, "passage")
        assert server.statuses.count(400) == refused
        embedder.close()


def test_a_request_with_too_many_tokens_is_halved() -> None:
    with OpenAIServer(max_request_tokens=30) as server:
        np.testing.assert_allclose(embedded(server, batch_size=23), expected(server), atol=1e-5)
        assert server.given == dict.fromkeys(TEXTS, 1)


def test_a_text_that_is_too_long_is_cut_at_its_end() -> None:
    long = "valve " * 500
    with OpenAIServer(max_tokens=200) as server:
        rows = embedded(server, [TEXTS[0], long, TEXTS[1]])
        sent = [text for text in server.given if text.startswith("valve")]
        assert len(sent) == 1 and long.startswith(sent[0]) and len(sent[0]) <= 200 * 4 + 4
        np.testing.assert_allclose(rows, expected(server, [TEXTS[0], sent[0], TEXTS[1]]), atol=1e-5)


def test_blank_texts_are_zero_and_never_sent() -> None:
    with OpenAIServer() as server:
        rows = embedded(server, ["", TEXTS[0], " \n"])
        assert not rows[0].any() and not rows[2].any() and rows[1].any()
        assert list(server.given) == [TEXTS[0]]
        assert embedded(server, []).shape == (0, server.dim)


def test_half_a_character_does_not_stop_anything() -> None:
    with OpenAIServer() as server:
        np.testing.assert_allclose(embedded(server, ["pump \ud83d"]), expected(server, ["pump ?"]), atol=1e-5)


@pytest.mark.parametrize("allowed", [True, False])
def test_base64_is_used_where_it_works(allowed: bool) -> None:
    with OpenAIServer(base64_allowed=allowed) as server:
        np.testing.assert_allclose(embedded(server, encoding_format="base64"), expected(server), atol=1e-5)
        formats = [request["encoding_format"] for request in server.requests]
        assert set(formats) == ({"base64"} if allowed else {"base64", "float"})
        assert formats.count("base64") == (5 if allowed else 1)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (["wrong-dim"], "gave a vector of 32 numbers .* wanted 64"),
        (["nan"], "not finite"),
        (["text"], "not made of numbers"),
        (["quota"], "no quota left"),
        (["polite"] * 3, "upstream is asleep"),
        (["500"] * 3, r"answered 500.*asked 3 times"),
        (["hang"] * 3, r"gave no answer within 0\.8 s"),
        (["half", *["empty"] * 4], "left out 3 of 5 vectors, 4 times"),
        (["twice"] * 4, "left out 5 of 5 vectors"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_what_cannot_be_mended_is_said_without_the_key(script: list[str], said: str) -> None:
    with OpenAIServer(key=KEY, script=script) as server:
        with pytest.raises(BackendError, match=said) as caught:
            embedded(server, TEXTS[:5], max_retries=2, timeout_seconds=SHORT if "hang" in script else 20)
        assert KEY not in str(caught.value) and KEY[:8] not in str(caught.value)
        assert server.url.removesuffix("/v1") in str(caught.value)
        assert len(server.requests) == len(script), "nothing is asked again that cannot succeed"


def test_a_long_wait_is_not_waited() -> None:
    with OpenAIServer(script=["429"], retry_after="3600") as server, pytest.raises(BackendError, match="wait 3600 s"):
        embedded(server)
    later = "Wed, 21 Oct 2099 07:28:00 GMT"
    with OpenAIServer(script=["429"], retry_after=later) as server, pytest.raises(BackendError, match="asks to wait"):
        embedded(server)


def test_retry_after_is_honoured_by_all_threads() -> None:
    with OpenAIServer(script=["429"], retry_after="0.6") as server:
        started = time.monotonic()
        embedded(server, concurrency=1)
        assert time.monotonic() - started >= 0.6


def test_a_wrong_key_is_refused_with_what_to_do() -> None:
    with OpenAIServer(key="another") as server:
        with pytest.raises(BackendError, match=r"refused the key \(401\); set OPENAI_API_KEY") as caught:
            embedded(server)
        assert KEY not in str(caught.value)
        with pytest.raises(BackendError, match="wants a key and none was given"):
            embedded(server, api_key="")
    with pytest.raises(BackendError, match="cannot be reached"):
        embedded(server, max_retries=0)


def test_what_a_failed_call_was_given_is_kept_for_the_next() -> None:
    with OpenAIServer(script=["ok", "ok", *["500"] * 3]) as server:
        embedder = made(server, dimensions=server.dim, max_retries=2)
        with pytest.raises(BackendError, match="10 of 23 texts embedded"):
            embedder.embed(TEXTS, "passage")
        np.testing.assert_allclose(embedder.embed(TEXTS, "passage"), expected(server), atol=1e-5)
        assert server.given == dict.fromkeys(TEXTS, 1)
        embedder.close()


def test_requests_are_spaced() -> None:
    with OpenAIServer() as server:
        started = time.monotonic()
        embedded(server, TEXTS[:15], requests_per_minute=300, concurrency=3)
        assert time.monotonic() - started >= 0.4
        assert len(server.requests) == 3


def test_an_unknown_model_is_asked_for_its_dimension_once() -> None:
    with OpenAIServer(dim=48) as server:
        embedder = made(server)
        assert embedder.fingerprint == "openai:local-model"
        assert not server.requests
        assert (embedder.dim, embedder.dim) == (48, 48)
        assert len(server.requests) == 1 and "dimensions" not in server.requests[0]
        embedder.close()
        assert made(server, known_dims={"openai:local-model": 96}).dim == 96
        assert len(server.requests) == 1, "a home that has such vectors knows"


def test_prefixes_go_before_queries_only_as_the_model_was_trained() -> None:
    with OpenAIServer(dim=1024) as server:
        embedder = made(server, model="BAAI/bge-large-zh-v1.5")
        embedder.embed(["产假有多长"], "query")
        embedder.embed(["产假为一百五十八天"], "passage")
        assert [request["input"] for request in server.requests] == [
            ["为这个句子生成表示以用于检索相关文章：产假有多长"],
            ["产假为一百五十八天"],
        ]
        embedder.close()
        own = made(server, model="BAAI/bge-large-zh-v1.5", query_prefix="", passage_prefix="文：")
        own.embed(["甲"], "query")
        own.embed(["乙"], "passage")
        assert [request["input"] for request in server.requests[2:]] == [["甲"], ["文：乙"]]
        own.close()


@pytest.mark.parametrize(
    ("model", "dim", "prefix"),
    [
        ("text-embedding-ada-002", 1536, ""),
        ("text-embedding-3-large", 3072, ""),
        ("embedding-2", 1024, ""),
        ("embedding-3", 2048, ""),
        ("text-embedding-v4", 1024, ""),
        ("BAAI/bge-m3", 1024, ""),
        ("bge-m3:latest", 1024, ""),
        ("intfloat/multilingual-e5-small", 384, "query: "),
        ("qwen3-embedding:0.6b", 1024, "Instruct: "),
    ],
)
def test_the_models_of_the_designs_are_known(model: str, dim: int, prefix: str) -> None:
    known = known_model(model)
    assert known is not None and known.dim == dim
    assert known.query_prefix.startswith(prefix) and bool(known.query_prefix) == bool(prefix)
    assert OpenAIEmbedder(model=model).dim == dim
    assert len({one.name for one in MODELS}) == len(MODELS)


@pytest.mark.parametrize(
    ("model", "url", "variable", "batch"),
    [
        ("text-embedding-3-small", "https://api.openai.com/v1", "OPENAI_API_KEY", 100),
        ("text-embedding-v4", "https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY", 10),
        ("embedding-3", "https://open.bigmodel.cn/api/paas/v4", "ZHIPUAI_API_KEY", 64),
    ],
)
def test_a_known_model_brings_its_address_key_and_batch(
    model: str, url: str, variable: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, KEY)
    embedder = OpenAIEmbedder(model=model)
    assert embedder._endpoint.base_url == url
    assert embedder._endpoint._api_key == KEY
    assert embedder._batch_size == batch
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway/v1/")
    gateway = OpenAIEmbedder(model=model)
    assert gateway._endpoint.base_url == "http://gateway/v1"
    assert gateway._endpoint._api_key == (KEY if variable == "OPENAI_API_KEY" else ""), "no key goes to another service"


def test_offline_means_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_OFFLINE", "1")
    with pytest.raises(BackendError, match="HEADWATER_OFFLINE is set"):
        OpenAIEmbedder().embed(["text"], "query")
    with OpenAIServer() as server:  # a server on this machine is not the network
        assert embedded(server, TEXTS[:1]).shape == (1, 64)


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 0},
        {"concurrency": "4"},
        {"dimensions": -1},
        {"timeout_seconds": 0},
        {"max_retries": -1},
        {"requests_per_minute": True},
        {"encoding_format": "hex"},
        {"api_key": "sk-“quoted”"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=f"embed.{next(iter(settings))}"):
        OpenAIEmbedder(**settings)


# --------------------------------------------------------------------------------------- the whole way


def config_for(server: OpenAIServer, **settings: Any) -> Config:
    given = {
        "use": "openai",
        "model": "local-model",
        "base_url": server.url,
        "api_key": "env:SOME_KEY",
        "batch_size": 8,
        "timeout_seconds": SHORT,
    }
    return Config({f"embed.{key}": Setting(value, "test") for key, value in {**given, **settings}.items()})


def corpus(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        line = f"The gauge at station {number} read {number * 13} centimetres in flood {number % 5}."
        text = f"# Station {number}\n\n{line}\n"
        (folder / f"station-{number}.md").write_text(text, encoding="utf-8")
    return folder


def test_an_ingest_goes_through_refusals_and_nothing_is_embedded_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    monkeypatch.setattr(OpenAIEmbedder, "commit_texts", 25)
    script = ["ok", *["ok", "429", "500", "hang", "half", "shuffle", "cut", "429", "429", "garbage", "429-bare"] * 2]
    folder = corpus(tmp_path / "papers", 90)
    with OpenAIServer(key=KEY, max_batch=5, script=script) as server:
        with headwater.open(tmp_path / "kb", config=config_for(server)) as kb:
            report = kb.add(folder)
            assert (report.added, len(report.failed)) == (90, 0)
            assert not server.script, "every fault was met"
            server.given.pop("dimension")  # the question for the vectors' length
            assert len(server.given) == 90 and set(server.given.values()) == {1}
            assert kb.status()["vectors"] == 90
            assert kb.check() == []
            before = len(server.requests)
            kb.add(folder)
            assert len(server.requests) == before, "what is unchanged is not embedded again"
            hits = kb.search("gauge at station 37", mode="semantic", top_n=3)
            assert hits.mode_used == "semantic" and hits[0].title == "Station 37"
        with headwater.open(tmp_path / "kb", config=config_for(server, concurrency=1)) as again:
            results = again.search("The gauge at station 12 read 156 centimetres in flood 2.", top_n=1)
            assert results[0].title == "Station 12" and results.mode_used == "hybrid" and not results.degraded


def test_a_wrong_dimension_stops_the_ingest_and_is_never_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    monkeypatch.setattr(OpenAIEmbedder, "commit_texts", 10)
    folder = corpus(tmp_path / "papers", 40)
    server = OpenAIServer(script=["ok", "ok", "ok", "wrong-dim"])
    with server, headwater.open(tmp_path / "kb", config=config_for(server, concurrency=1)) as kb:
        with pytest.raises(BackendError, match="gave a vector of 32 numbers"):
            kb.add(folder)
        assert kb.check() == []
        kb.add(folder)
        assert (kb.status()["documents"], kb.status()["vectors"]) == (40, 40)
        ids = [chunk.id for record in kb.documents() for chunk in kb.chunks(record.id)]
        assert kb.catalog.vectors(ids)[1].shape == (40, 64)
        server.given.pop("dimension")
        assert set(server.given.values()) == {1}


def test_an_ingest_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    monkeypatch.setattr(OpenAIEmbedder, "commit_texts", 10)
    folder = corpus(tmp_path / "papers", 40)
    with OpenAIServer(script=[*["ok"] * 6, *["500"] * 3]) as server:
        config = config_for(server, concurrency=1, batch_size=5, max_retries=2, dimensions=64)
        with headwater.open(tmp_path / "kb", config=config) as kb, pytest.raises(BackendError, match="answered 500"):
            kb.add(folder)
        with headwater.open(tmp_path / "kb", config=config) as again:  # as another process would
            assert again.status()["vectors"] == 30
            again.add(folder)
            assert again.status()["vectors"] == 40 and again.check() == []
        assert server.given.total() == 40 and set(server.given.values()) == {1}


def test_another_model_at_the_same_address_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    folder = corpus(tmp_path / "papers", 3)
    with OpenAIServer(dim=64) as server, headwater.open(tmp_path / "kb", config=config_for(server)) as kb:
        kb.add(folder)
    with OpenAIServer(dim=32) as server, headwater.open(tmp_path / "kb", config=config_for(server)) as kb:
        (folder / "station-0.md").write_text("# Station 0\n\nSomething new.\n", encoding="utf-8")
        with pytest.raises(headwater.HeadwaterError):
            kb.add(folder)
        assert kb.search("station 1", mode="keyword")[0].title == "Station 1"


def test_a_server_that_is_down_leaves_search_by_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    with OpenAIServer() as server, headwater.open(tmp_path / "kb", config=config_for(server)) as kb:
        kb.add(corpus(tmp_path / "papers", 5))
    with headwater.open(tmp_path / "kb", config=config_for(server)) as kb:
        results = kb.search("station 3")
        assert results[0].title == "Station 3"
        assert results.mode_used == "keyword" and "cannot be reached" in " ".join(results.degraded)
        assert KEY not in " ".join(results.degraded)


def test_a_key_written_out_is_not_shown(tmp_path: Path) -> None:
    from headwater.effective import effective_settings

    (tmp_path / "headwater.toml").write_text(f'[embed]\nuse = "openai"\napi_key = "{KEY}"\n', encoding="utf-8")
    assert load(tmp_path).component("embed")[2]["api_key"] == KEY
    assert KEY not in repr(effective_settings(tmp_path))
    (tmp_path / "headwater.toml").write_text('[embed]\nuse = "openai"\napi_key = "env:MINE"\n', encoding="utf-8")
    assert effective_settings(tmp_path)["embed.api_key"].value == "env:MINE"
