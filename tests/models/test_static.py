import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from headwater.errors import SettingError
from headwater.models.static import FOLDER, StaticEmbedder

TRAINING = Path(__file__).parents[2] / "training"
MAX_BYTES = 25_000_000  # of all files of the model, so that the wheel stays small

TRANSLATIONS = [
    ("How long is parental leave?", "育儿假有多长时间？"),
    ("The database was restored from a backup.", "数据库已从备份中恢复。"),
    ("The doctor prescribed antibiotics for the infection.", "医生开了抗生素治疗感染。"),
    ("Wind turbines produce electricity.", "风力发电机发电。"),
    ("The company's profit fell this quarter.", "公司本季度利润下降。"),
    ("Install the printer driver", "安装打印机驱动程序"),
    ("The earthquake destroyed many houses.", "地震摧毁了许多房屋。"),
    ("Students must hand in their homework on Friday.", "学生必须在星期五交作业。"),
    ("The satellite was launched into orbit.", "卫星被发射进入轨道。"),
    ("Rice is the main crop of this province.", "水稻是这个省的主要农作物。"),
    ("How do I reset my password?", "如何重置密码？"),
    ("The bridge across the river was closed for repairs.", "跨河大桥因维修而关闭。"),
    ("The court rejected the appeal.", "法院驳回了上诉。"),
    ("Heart disease is a common cause of death.", "心脏病是常见的死亡原因。"),
    ("The train leaves the station at noon.", "火车中午离开车站。"),
    ("She plays the violin in an orchestra.", "她在管弦乐队拉小提琴。"),
    ("The glacier is melting because of climate change.", "由于气候变化，冰川正在融化。"),
    ("Export the spreadsheet as a PDF file.", "将电子表格导出为PDF文件。"),
    ("The emperor built a palace in the capital.", "皇帝在首都建造了宫殿。"),
    ("Whales are mammals that live in the sea.", "鲸鱼是生活在海里的哺乳动物。"),
]


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


def test_rows_have_length_one(embedder: StaticEmbedder) -> None:
    vectors = embedder.embed([text for pair in TRANSLATIONS for text in pair], "passage")
    assert vectors.dtype == np.float32
    assert vectors.shape == (40, 256)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("text", ["", " \n\t", "!?。，…", "\ufffd", "\U0001f600"])
def test_a_text_without_known_pieces_gives_zeros(embedder: StaticEmbedder, text: str) -> None:
    assert not embedder.embed([text], "query").any()


def test_no_texts_give_no_rows(embedder: StaticEmbedder) -> None:
    assert embedder.embed([], "passage").shape == (0, 256)


def test_a_batch_gives_what_single_calls_give(embedder: StaticEmbedder) -> None:
    texts = [text for pair in TRANSLATIONS for text in pair] * 60
    batch = embedder.embed(texts, "passage")
    singles = np.concatenate([embedder.embed([text], "passage") for text in texts[:40]])
    np.testing.assert_array_equal(batch[:40], singles)
    np.testing.assert_array_equal(batch[-40:], singles)


def test_another_instance_gives_the_same(embedder: StaticEmbedder) -> None:
    texts = [english for english, _ in TRANSLATIONS]
    np.testing.assert_array_equal(embedder.embed(texts, "query"), StaticEmbedder().embed(texts, "query"))


def test_threads_get_the_same() -> None:
    fresh = StaticEmbedder()
    texts = [chinese for _, chinese in TRANSLATIONS]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: fresh.embed(texts, "query"), range(16)))
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_a_translation_is_nearer_than_any_other_sentence(embedder: StaticEmbedder) -> None:
    english = embedder.embed([pair[0] for pair in TRANSLATIONS], "query")
    chinese = embedder.embed([pair[1] for pair in TRANSLATIONS], "passage")
    similarities = english @ chinese.T
    right = np.arange(len(TRANSLATIONS))
    assert (similarities.argmax(axis=1) == right).sum() >= 19
    assert (similarities.argmax(axis=0) == right).sum() >= 19
    others = similarities[~np.eye(len(right), dtype=bool)]
    assert np.diag(similarities).mean() > others.mean() + 0.3


def test_a_question_finds_its_paragraph(embedder: StaticEmbedder) -> None:
    passages = [
        "Employees may take up to 26 weeks off after the birth of a child; 18 of them are paid in full.",
        "The canteen opens at noon. Vegetarian dishes are marked with a leaf.",
        "报销差旅费时，请在三十天内提交发票。",
        "服务器每天凌晨两点自动备份，备份保留九十天。",
    ]
    questions = ["How long is parental leave?", "When can I eat lunch?", "出差的费用怎么报销？", "备份保存多久？"]
    similarities = embedder.embed(questions, "query") @ embedder.embed(passages, "passage").T
    assert similarities.argmax(axis=1).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("one", "other"),
    [("數據庫備份與恢復", "数据库备份与恢复"), ("CAFÉ Münster", "cafe munster"), ("ＡＢＣ１２３", "abc123")],
)
def test_spellings_that_mean_the_same_are_the_same(embedder: StaticEmbedder, one: str, other: str) -> None:
    first, second = embedder.embed([one, other], "passage")
    np.testing.assert_array_equal(first, second)


def test_a_short_vector_is_the_beginning_of_the_long_one(embedder: StaticEmbedder) -> None:
    short = StaticEmbedder(dim=128)
    texts = [english for english, _ in TRANSLATIONS]
    head = embedder.embed(texts, "passage")[:, :128]
    head /= np.linalg.norm(head, axis=1, keepdims=True)
    np.testing.assert_allclose(short.embed(texts, "passage"), head, atol=1e-5)
    assert short.fingerprint != embedder.fingerprint


def test_another_size_is_refused() -> None:
    with pytest.raises(SettingError, match="64"):
        StaticEmbedder(dim=64)


def test_the_fingerprint_names_the_weights(embedder: StaticEmbedder) -> None:
    card = json.loads((FOLDER / "model.json").read_text(encoding="utf-8"))
    assert embedder.name == card["name"]
    assert card["sha256"][:16] in embedder.fingerprint


def test_the_model_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= MAX_BYTES


def test_the_weights_carry_their_licence() -> None:
    notice = (FOLDER / "NOTICE.txt").read_text(encoding="utf-8")
    assert "offered under CC BY-SA 4.0" in notice
    for source in ("Wikipedia", "CC-CEDICT", "wordfreq", "GNOME", "Debian Administrator's Handbook", "cppreference"):
        assert source in notice


def test_the_text_it_was_trained_on_is_permissive_or_sharealike() -> None:
    lines = (TRAINING / "sources.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert len(rows) > 100
    permissive = {"Apache-2.0", "Biopython", "MIT", "PSF-2.0", "PostgreSQL", "WordNet-3.0", "public domain"}
    for _, name, licence, evidence in rows:
        assert licence in permissive or licence.startswith(("BSD", "CC-BY-SA-")), name
        assert evidence, name


def test_importing_loads_nothing() -> None:
    code = "import sys, headwater.models.static as m; m.StaticEmbedder(); sys.exit('tokenizers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
