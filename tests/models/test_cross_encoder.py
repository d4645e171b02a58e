"""Cross-encoders in ONNX format: a small one that was trained for these tests (training/cross_encoder) runs here."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headwater import config as settings
from headwater.build import KnowledgeBase
from headwater.errors import BackendError, SettingError
from headwater.evaluate.dataset import JudgedSet, read_set
from headwater.evaluate.metrics import judged
from headwater.evaluate.run import document_names, indexed, make_embedder, ranked_documents
from headwater.models.cross_encoder import OnnxReranker, _Model
from headwater.protocols import Reranker
from headwater.rerankers import Rerankers
from headwater.testing.reranker_contract import ANSWERED, GENEROUS_SECONDS, RerankerContract, hits_of

FOLDER = Path(__file__).parents[1] / "data" / "cross-encoder"
GOLDEN = Path(__file__).parents[1] / "quality" / "golden"
# Every fourth question of the golden set that has an answer: 78 of them, in half a minute of one core.
EVERY = 4
DEPTH = 20
# The model is small: beside the fused score it counts half. training/cross_encoder/README.md
SHARE = 0.5
# Measured: see docs/rerankers.md. It has seen neither the questions nor the documents.
NDCG_GAIN = 0.02
MRR_GAIN = 0.02


@pytest.fixture(scope="module")
def trained() -> OnnxReranker:
    return OnnxReranker(model=str(FOLDER), threads=2)


class TestOnnxReranker(RerankerContract):
    @pytest.fixture
    def reranker(self, trained: OnnxReranker) -> Reranker:
        return trained


# ------------------------------------------------------------------------------------------------ how good


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KnowledgeBase, JudgedSet]]:
    home = tmp_path_factory.mktemp("golden")
    flags = {"rerank.use": "onnx", "rerank.model": str(FOLDER), "rerank.share": SHARE, "rerank.threads": 2}
    config = settings.load(home, preset="balanced", flags=flags)
    judged_set = read_set(GOLDEN)
    with indexed(judged_set, config, work=home, embedder=make_embedder(config, home=home)) as kb:
        yield kb, judged_set


def test_it_beats_the_fused_order_on_questions_it_never_saw(golden: tuple[KnowledgeBase, JudgedSet]) -> None:
    kb, judged_set = golden
    names = document_names(kb, judged_set)
    answered = [id for id, grades in judged_set.judgements.items() if id in judged_set.queries and any(grades.values())]
    figures: dict[str, dict[str, list[float]]] = {name: {"ndcg@10": [], "mrr@10": []} for name in ("", "onnx")}
    for query_id in answered[::EVERY]:
        for name, found in figures.items():
            options = {"rerank": name, "rerank_depth": DEPTH, "deadline_seconds": 60.0, "cache_size": 0}
            results = kb.search(judged_set.queries[query_id], options=options)
            assert results.degraded == ()
            ranking = [names[document] for document in ranked_documents(results)]
            metrics = judged(ranking, judged_set.judgements[query_id])
            for metric in found:
                found[metric].append(metrics[metric])
    assert len(figures[""]["ndcg@10"]) > 70
    assert mean(figures["onnx"]["ndcg@10"]) > mean(figures[""]["ndcg@10"]) + NDCG_GAIN
    assert mean(figures["onnx"]["mrr@10"]) > mean(figures[""]["mrr@10"]) + MRR_GAIN


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("How high is the dam?", "The dam is 221 metres high.", "The dam belongs to the state."),
        ("大坝有多高？", "大坝高二百二十一米。", "大坝属于国家。"),
        ("大壩有多高？", "大壩高二百二十一公尺。", "火車上午九點出發。"),
        ("大坝有多高？", "The height of the dam is 221 metres.", "Lunch is served at noon."),
        ("How many days of annual leave do employees get?", "员工每年有十五天带薪年假。", "火车上午九点出发。"),
    ],
    ids=["en", "zh", "zh-traditional", "zh-en", "en-zh"],
)
def test_it_knows_an_answer_when_it_sees_one(trained: OnnxReranker, question: str, answer: str, other: str) -> None:
    right, wrong = trained.score(question, hits_of([answer, other]), deadline_seconds=GENEROUS_SECONDS)
    assert right > wrong


# ------------------------------------------------------------------------------------------------ how it is run


def test_what_is_too_long_is_cut_at_the_end_of_the_passage(trained: OnnxReranker) -> None:
    question, answer, _ = ANSWERED[0]
    filler = " The canteen serves lunch from noon." * 200
    short = OnnxReranker(model=str(FOLDER), max_tokens=64)
    (front,) = short.score(question, hits_of([answer + filler]), deadline_seconds=GENEROUS_SECONDS)
    (back,) = short.score(question, hits_of([filler + answer]), deadline_seconds=GENEROUS_SECONDS)
    assert front > back
    pairs = short._model.pairs("word " * 500, ["passage " * 500, "short"], limit=64)
    assert [len(tokens) for tokens, _ in pairs] == [
        64,
        32 + 3 + len(short._model.pairs("", ["short"], limit=64)[0][0]) - 3,
    ]
    # Half of the tokens are the question's, however long it is.
    assert sum(side == 0 for side in pairs[0][1]) == 32 + 2


def test_batches_change_nothing() -> None:
    question, answer, others = ANSWERED[1]
    hits = hits_of([answer, *others, answer * 7, others[0] * 30])
    alone, together = (
        OnnxReranker(model=str(FOLDER), batch_size=size).score(question, hits, deadline_seconds=GENEROUS_SECONDS)
        for size in (1, 16)
    )
    assert alone == pytest.approx(together, abs=1e-3)


def test_the_title_is_read_too(trained: OnnxReranker) -> None:
    hits = hits_of(["It is three months.", "It is three months."])
    named = replace(hits[0], record=replace(hits[0].record, title="Probation period of new employees"))
    with_title, without = trained.score("probation period", [named, hits[1]], deadline_seconds=GENEROUS_SECONDS)
    assert with_title > without
    plain = OnnxReranker(model=str(FOLDER), title=False)
    one, other = plain.score("probation period", [named, hits[1]], deadline_seconds=GENEROUS_SECONDS)
    assert one == pytest.approx(other, abs=1e-4)


def test_the_time_is_looked_at_between_batches() -> None:
    reranker = OnnxReranker(model=str(FOLDER), batch_size=1)
    hits = hits_of(["The probation period for a new employee is three months. " * 30] * 60)
    began = perf_counter()
    whole = reranker.score("probation", hits[:4], deadline_seconds=GENEROUS_SECONDS)
    took = perf_counter() - began
    assert len(whole) == 4
    began = perf_counter()
    with pytest.raises(BackendError, match=r"60 passages.*rerank_depth"):
        reranker.score("probation", hits, deadline_seconds=took)
    assert perf_counter() - began < 3 * took + 1.0


def test_a_search_without_the_time_keeps_the_fused_order(golden: tuple[KnowledgeBase, JudgedSet]) -> None:
    kb, judged_set = golden
    kb.search("observatory", options={"rerank": "onnx", "deadline_seconds": 60.0})  # loads the model
    text = next(iter(judged_set.queries.values()))
    fused = kb.search(text, options={"rerank": "", "cache_size": 0})
    hurried = kb.search(text, options={"rerank": "onnx", "deadline_seconds": 0.02, "cache_size": 0})
    assert [hit.chunk.id for hit in hurried] == [hit.chunk.id for hit in fused]
    assert any("rerank skipped" in note for note in hurried.degraded)


def test_the_model_is_read_when_it_is_first_needed() -> None:
    reranker = OnnxReranker(model=str(FOLDER))
    assert "_loaded" not in vars(reranker)
    reranker.score("a", hits_of(["a"]), deadline_seconds=GENEROUS_SECONDS)
    assert "_loaded" in vars(reranker)


# ------------------------------------------------------------------------------------------------ which file


def test_int8_files_are_found_by_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "quantised"
    (folder / "onnx").mkdir(parents=True)
    shutil.copy(FOLDER / "tokenizer.json", folder)
    shutil.copy(FOLDER / "model.onnx", folder / "onnx" / "model_int8.onnx")
    reranker = OnnxReranker(model=str(folder), precision="int8")
    assert len(reranker.score("a", hits_of(["a"]), deadline_seconds=GENEROUS_SECONDS)) == 1
    with pytest.raises(SettingError, match=r"rerank\.precision"):
        OnnxReranker(model=str(folder), precision="fp32")


def test_the_fingerprint_tells_models_and_their_use_apart(tmp_path: Path, trained: OnnxReranker) -> None:
    assert trained.fingerprint == OnnxReranker(model=str(FOLDER), batch_size=3).fingerprint
    assert trained.fingerprint != OnnxReranker(model=str(FOLDER), max_tokens=100).fingerprint
    other = tmp_path / FOLDER.name
    shutil.copytree(FOLDER, other)
    weights = bytearray((other / "model.onnx").read_bytes())
    weights[len(weights) // 2] ^= 1
    (other / "model.onnx").write_bytes(weights)
    assert trained.fingerprint != OnnxReranker(model=str(other)).fingerprint


def test_a_known_name_finds_what_was_pulled(tmp_path: Path) -> None:
    models = tmp_path / "models"
    shutil.copytree(FOLDER, models / "Xenova" / "bge-reranker-base")
    config = settings.load(tmp_path, preset="balanced")
    made = Rerankers(config, given={"models_folder": models}).named("bge-reranker-base")
    question, answer, others = ANSWERED[0]
    right, *wrong = made.score(question, hits_of([answer, *others]), deadline_seconds=GENEROUS_SECONDS)
    assert right > max(wrong)
    with pytest.raises(SettingError, match="headwater models pull bge-reranker-large"):
        Rerankers(config, given={"models_folder": models}).named("bge-reranker-large")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"model": ""}, r"rerank\.model is empty"),
        ({"share": 0}, r"rerank\.share"),
        ({"precision": "int4"}, r"rerank\.precision"),
        ({"threads": -1}, r"rerank\.threads"),
        ({"device": "tpu"}, r"rerank\.device"),
        ({"max_tokens": 1}, r"rerank\.max_tokens"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        OnnxReranker(**{"model": str(FOLDER), **wrong})


def test_a_damaged_file_is_a_backend_that_fails(tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(FOLDER, folder)
    (folder / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(BackendError, match="cannot be read"):
        OnnxReranker(model=str(folder)).score("a", hits_of(["a"]), deadline_seconds=GENEROUS_SECONDS)


class TwoLabels:
    """A session as a classifier with two labels has it, without token types."""

    def __init__(self, *rows: tuple[float, ...]) -> None:
        self.rows = rows

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name="input_ids"), SimpleNamespace(name="attention_mask")]

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name="logits")]

    def run(self, names: list[str], inputs: dict[str, Any]) -> list[Any]:
        assert set(inputs) == {"input_ids", "attention_mask"}
        assert inputs["input_ids"].tolist() == [[5, 6], [7, 9]]  # padded with what the model pads with
        return [np.array(self.rows, dtype=np.float16)]


def test_of_two_labels_the_second_counts_against_the_first() -> None:
    model = _Model(session=TwoLabels((1.0, 3.0), (2.0, 0.5)), tokenizer=None, folder=FOLDER)
    assert model.run([([5, 6], [0, 1]), ([7], [0])], 9).tolist() == [2.0, -1.5]
    with pytest.raises(SettingError, match="3 numbers for a pair"):
        _Model(session=TwoLabels((1, 2, 3), (1, 2, 3)), tokenizer=None, folder=FOLDER).run(
            [([5, 6], [0, 1]), ([7], [0])], 9
        )
