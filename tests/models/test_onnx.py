"""The ONNX embedder on a tiny real model, against the same sums in numpy."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

import headwater
from headwater.config import Config, Setting
from headwater.errors import BackendError, SettingError
from headwater.models.onnx import OnnxEmbedder
from headwater.protocols import Embedder

TINY = Path(__file__).parent / "tiny"
TEXTS = [
    "the pump",
    "Water of the river and a flood in the station.",
    "年假的天有水",
    "员工年假 is a week of leave",
    "gauge?",
    "the valve and the pump and the water of the river and the gauge of the flood station " * 4,
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TINY, tmp_path / "tiny", ignore=shutil.ignore_patterns("*.py", "*.npz")))


def expected(texts: list[str], *, pooling: str, max_tokens: int = 32) -> np.ndarray[Any, Any]:
    """What the model computes, one text at a time, without padding."""
    tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    weights = np.load(TINY / "weights.npz")
    rows = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        ids = ids if len(ids) <= max_tokens else [*ids[: max_tokens - 1], ids[-1]]
        states = np.tanh(weights["piece"][ids] + weights["place"][: len(ids)])
        row = {"mean": states.mean(axis=0), "cls": states[0], "last": states[-1]}[pooling]
        rows.append(row / np.linalg.norm(row))
    return np.array(rows)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_it_computes_what_the_model_says(pooling: str, batch_size: int) -> None:
    embedder = OnnxEmbedder(model=str(TINY), pooling=pooling, batch_size=batch_size)
    assert isinstance(embedder, Embedder)
    rows = embedder.embed(TEXTS, "passage")
    assert rows.shape == (len(TEXTS), embedder.dim) == (6, 16)
    np.testing.assert_allclose(rows, expected(TEXTS, pooling=pooling), atol=1e-5)


@pytest.mark.parametrize("max_tokens", [4, 9, 32])
def test_a_long_text_is_cut_at_its_end(max_tokens: int) -> None:
    rows = OnnxEmbedder(model=str(TINY), max_tokens=max_tokens, threads=1).embed(TEXTS, "passage")
    np.testing.assert_allclose(rows, expected(TEXTS, pooling="mean", max_tokens=max_tokens), atol=1e-5)


def test_blank_texts_are_zero() -> None:
    embedder = OnnxEmbedder(model=str(TINY))
    rows = embedder.embed(["", "pump", " \n"], "query")
    assert not rows[0].any() and not rows[2].any() and rows[1].any()
    assert embedder.embed([], "query").shape == (0, 16)


def test_half_a_character_does_not_stop_anything() -> None:
    rows = OnnxEmbedder(model=str(TINY)).embed(["pump \ud83d"], "passage")
    np.testing.assert_allclose(rows, expected(["pump ?"], pooling="mean"), atol=1e-5)


@pytest.mark.parametrize(
    ("flag", "pooling"),
    [("pooling_mode_cls_token", "cls"), ("pooling_mode_mean_tokens", "mean"), ("pooling_mode_lasttoken", "last")],
)
def test_the_pooling_and_length_are_read_from_the_folder(folder: Path, flag: str, pooling: str) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({flag: True, "word_embedding_dimension": 16}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9}))
    rows = OnnxEmbedder(model=str(folder)).embed(TEXTS, "passage")
    np.testing.assert_allclose(rows, expected(TEXTS, pooling=pooling, max_tokens=9), atol=1e-5)
    over = OnnxEmbedder(model=str(folder), pooling="mean", max_tokens=12).embed(TEXTS, "passage")
    np.testing.assert_allclose(over, expected(TEXTS, pooling="mean", max_tokens=12), atol=1e-5)


def test_a_known_name_brings_its_pooling_and_prefix(folder: Path) -> None:
    bge = folder.rename(folder.parent / "bge-small-zh-v1.5")
    embedder = OnnxEmbedder(model=str(bge))
    prefix = "为这个句子生成表示以用于检索相关文章："
    np.testing.assert_allclose(embedder.embed(["年假"], "query"), expected([prefix + "年假"], pooling="cls"), atol=1e-5)
    np.testing.assert_allclose(embedder.embed(["年假"], "passage"), expected(["年假"], pooling="cls"), atol=1e-5)


def test_the_dimension_is_learnt_from_the_model_where_no_file_says(folder: Path) -> None:
    (folder / "config.json").unlink()
    assert OnnxEmbedder(model=str(folder), max_tokens=32).dim == 16
    (folder / "config.json").write_text(json.dumps({"hidden_size": 8}))
    with pytest.raises(BackendError, match="gave vectors of 16 numbers; its configuration says 8"):
        OnnxEmbedder(model=str(folder), max_tokens=32).embed(["pump"], "passage")


def test_the_fingerprint_names_what_the_vectors_depend_on(folder: Path) -> None:
    plain = OnnxEmbedder(model=str(folder)).fingerprint
    assert plain == OnnxEmbedder(model=str(folder), batch_size=2, threads=1, query_prefix="q: ").fingerprint
    others = [
        OnnxEmbedder(model=str(folder), **changed).fingerprint  # type: ignore[arg-type]
        for changed in ({"pooling": "cls"}, {"max_tokens": 8}, {"passage_prefix": "p: "})
    ]
    weights = bytearray((folder / "model.onnx").read_bytes())
    weights[len(weights) // 2] ^= 1
    (folder / "model.onnx").write_bytes(weights)
    others.append(OnnxEmbedder(model=str(folder)).fingerprint)
    assert len({plain, *others}) == 5


def test_the_wanted_precision_is_found(folder: Path) -> None:
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model_quantized.onnx")
    assert OnnxEmbedder(model=str(folder)).embed(["pump"], "query").any()
    assert OnnxEmbedder(model=str(folder), precision="int8").embed(["pump"], "query").any()
    with pytest.raises(SettingError, match=r"no ONNX file named like model\.onnx"):
        OnnxEmbedder(model=str(folder), precision="fp32")


def test_what_is_wrong_with_a_folder_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"embed\.model is empty"):
        OnnxEmbedder()
    with pytest.raises(SettingError, match=r"none was pulled into .*headwater models pull BAAI/bge-m3"):
        OnnxEmbedder(model="BAAI/bge-m3", models_folder=tmp_path / "models")
    for name, value in (
        ("pooling", "max"),
        ("device", "tpu"),
        ("precision", "fp8"),
        ("batch_size", 0),
        ("threads", -1),
    ):
        with pytest.raises(SettingError, match=f"embed.{name}"):
            OnnxEmbedder(model=str(folder), **{name: value})  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="no CUDA"):
        OnnxEmbedder(model=str(folder), device="cuda").embed(["pump"], "query")
    (folder / "model.onnx").write_bytes(b"half a file")
    with pytest.raises(BackendError, match="cannot be read"):
        OnnxEmbedder(model=str(folder)).embed(["pump"], "query")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(SettingError, match=r"has no tokenizer\.json"):
        OnnxEmbedder(model=str(folder))


def test_a_missing_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(BackendError, match=r"pip install 'headwater\[onnx\]'"):
        OnnxEmbedder(model=str(folder)).embed(["pump"], "query")


def test_a_pulled_model_serves_a_home(folder: Path, tmp_path: Path, handbook: Path) -> None:
    home = tmp_path / "kb"
    shutil.copytree(folder, home / "models" / "someone" / "tiny")
    settings = {"use": "onnx", "model": "someone/tiny"}
    config = Config({f"embed.{key}": Setting(value, "test") for key, value in settings.items()})
    with headwater.open(home, config=config) as kb:
        assert kb.add(handbook).added == 4
        assert kb.status()["embedder"].startswith("onnx:tiny:")
        assert kb.search("flood", mode="semantic").mode_used == "semantic"
        assert kb.check() == []
