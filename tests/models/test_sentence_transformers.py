"""The thin adapter to sentence-transformers: what it asks of the library, which is too large to be installed here."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from headwater.errors import BackendError, SettingError
from headwater.models.sentence_transformers import SentenceTransformersEmbedder
from headwater.protocols import Embedder


class Library(ModuleType):
    """Stands for the package: keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__("sentence_transformers")
        self.asked: list[Any] = []
        library = self

        class SentenceTransformer:
            max_seq_length = 512

            def __init__(self, name: str, **options: Any) -> None:
                if name == "missing":
                    raise OSError("not in the cache")
                library.asked.append((name, options))

            def encode(self, texts: list[str], **options: Any) -> Any:
                library.asked.append((texts, options, self.max_seq_length))
                return np.eye(len(texts), 4, dtype=np.float64)

        self.SentenceTransformer = SentenceTransformer


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setitem(sys.modules, "sentence_transformers", made)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return made


def test_it_asks_for_unit_vectors_with_the_prefix_on_queries_only(library: Library) -> None:
    embedder = SentenceTransformersEmbedder(model="BAAI/bge-large-zh-v1.5", device="cuda", batch_size=8, max_tokens=99)
    assert isinstance(embedder, Embedder)
    assert (embedder.dim, embedder.fingerprint) == (1024, "sentence-transformers:BAAI/bge-large-zh-v1.5:99")
    assert not library.asked, "nothing is loaded before the first text"
    embedder.embed(["年假"], "query")
    rows = embedder.embed(["", "甲", "乙"], "passage")
    assert rows.dtype == np.float32 and rows.tolist() == [[0] * 4, [1, 0, 0, 0], [0, 1, 0, 0]]
    (name, loading), (query, options, length), (passages, _, _) = library.asked
    assert name == "BAAI/bge-large-zh-v1.5" and loading["device"] == "cuda" and loading["local_files_only"]
    assert query == ["为这个句子生成表示以用于检索相关文章：年假"] and passages == ["甲", "乙"]
    assert options["normalize_embeddings"] and options["batch_size"] == 8 and length == 99


def test_an_unknown_model_tells_its_dimension(library: Library) -> None:
    assert SentenceTransformersEmbedder(model="someone/else").dim == 4


def test_nothing_is_fetched_unless_allowed(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match=r"embed\.download = true lets it fetch"):
        SentenceTransformersEmbedder(model="missing").embed(["a"], "query")
    SentenceTransformersEmbedder(model="someone/else", download=True).embed(["a"], "query")
    assert library.asked[0][1]["local_files_only"] is False
    monkeypatch.setenv("HEADWATER_OFFLINE", "true")
    with pytest.raises(BackendError, match="HEADWATER_OFFLINE"):
        SentenceTransformersEmbedder(model="someone/else", download=True).embed(["a"], "query")


def test_what_is_missing_or_wrong_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BackendError, match=r"pip install 'headwater\[sentence-transformers\]'"):
        SentenceTransformersEmbedder(model=str(tmp_path)).embed(["a"], "query")
    with pytest.raises(SettingError, match=r"embed\.model is empty"):
        SentenceTransformersEmbedder()
    with pytest.raises(SettingError, match=r"embed\.device"):
        SentenceTransformersEmbedder(model="a", device="tpu")
