"""What is compiled against what stands in for it: the same terms, the same pieces, the same vectors."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import rjieba
from hypothesis import given
from hypothesis import strategies as st

from headwater import scanning
from headwater.models import _pieces
from headwater.scanning import NumpyScanner, Pairs, Scanner, scanner
from headwater.tokens import Cutter

pytestmark = pytest.mark.system
NEEDS = (
    "it was installed without a compiler: apt-get install gcc python3-dev, then pip install headwater again, "
    "or leave these tests out with `make test-core`"
)

# Letters of every kind that a lane treats in its own way, and what stands between them.
ODD = (
    "aZé ſßﬁİ０９Ⅳ½-_@&+#.'’‐\0\t\n 。，·々〇㐀\U00020000\U0002a6d6カｶん가각ㄅ"
    "\u0301\u200b\ud800\uffff\U0010ffff漢汉台臺龍羲之王的"
)
TEXTS = [
    "",
    " ",
    "PPR-9087, C++ and C#, .NET 8, v1.2.3, a_b.c, foo@bar.com, AK47, 3.14, ...x, --help, R&D., don't, 'quoted'",
    "漢字與汉字，王羲之的蘭亭序。南京市长江大桥 iPhone15 售价 6,999 元；カタカナとひらがな、한국어 문장",
    "x" * 70 + " " + "y-" * 80 + " Running runners RAN easily",
    "Ｆｕｌｌ　ｗｉｄｔｈ ①②③ Zürich Øresund naïve résumé İzmir I\u0307zmir ΣΑΣ … ½ ﾊﾞ ㎡",
    "中" * 300 + "a1" * 120,
    "小明硕士毕业于中国科学院计算所，后在日本京都大学深造；他来到了网易杭研大厦。中华人民共和国国务院总理",
    "龘龘靐齉爩是生僻字，㐀㐁㐂亦然，\u9fd6\u9fff在表外，⺀⻩⼀⿕是部首，々〇〡〆之类，韩冰是个好人，豈更",
]
# Those that words are made of, those that start few or none, and what jieba takes for a word of its own.
HAN = (
    "的一是不了人我在有他这中大来上国和说们为子时道出而要于就下得可你年生自会那后能对着事其里所去行"
    "过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从"
    "㐀䶵鿕\u9fd6\u9fff龘⺀⼀々〇〆豈\U00020000"
)
texts_of_all_kinds = st.one_of(
    st.sampled_from(TEXTS),
    st.text(alphabet=st.sampled_from(ODD), max_size=60),
    st.text(alphabet=st.characters(codec=None), max_size=60),
    st.text(alphabet=st.sampled_from(HAN), max_size=120),
    st.text(alphabet=st.characters(min_codepoint=0x2E80, max_codepoint=0x9FFF), max_size=60),
)


def stem(word: str) -> str:
    return word.removesuffix("s").removesuffix("ing")


@pytest.fixture(scope="module", params=[False, True], ids=["folded", "accents"])
def both(request: pytest.FixtureRequest) -> tuple[Scanner, Scanner]:
    assert scanning.native is not None, NEEDS
    return scanner(stem=stem, accents=request.param), NumpyScanner(stem=stem, accents=request.param)


class TestLanes:
    @given(texts=st.lists(texts_of_all_kinds, max_size=5), pairs=st.sampled_from(Pairs))
    def test_are_the_same(self, both: tuple[Scanner, Scanner], texts: list[str], pairs: Pairs) -> None:
        found = []
        for one in both:
            lanes = one.scan(texts).lanes(pairs=pairs)
            found.append([tuple(lane.split() for lane in of_text) for of_text in lanes])
            assert len(lanes) == len(texts)
        assert found[0] == found[1]

    @given(text=texts_of_all_kinds)
    def test_terms_stand_in_the_same_places(self, both: tuple[Scanner, Scanner], text: str) -> None:
        native, other = (one.scan([text]) for one in both)
        assert native.terms() == other.terms()
        assert native.folded == other.folded
        assert all(type(term) is scanning.Term for term in native.terms())

    @given(text=texts_of_all_kinds)
    def test_text_is_folded_alike(self, both: tuple[Scanner, Scanner], text: str) -> None:
        native, other = both
        assert native.fold(text) == other.fold(text)
        assert len(native.fold(text)) == len(text)

    @given(text=texts_of_all_kinds)
    def test_a_cutter_is_the_same_with_both(self, text: str) -> None:
        assert scanning.native is not None, NEEDS
        own, other = Cutter(), Cutter()
        other._scanner = NumpyScanner(stem=other._stem)
        assert own.cut(text) == other.cut(text)
        assert own.words_in(text) == other.words_in(text)

    def test_more_words_than_are_remembered(self) -> None:
        assert scanning.native is not None, NEEDS
        asked: list[str] = []

        def counted(word: str) -> str:
            asked.append(word)
            return word.upper()

        native = scanner(stem=counted)
        words = [f"w{number}" for number in range(100_002)]
        for _ in range(2):
            (lanes,) = native.scan([" ".join(words)]).lanes()
            assert lanes[0].split() == [word.upper() for word in words]
        assert 100_002 < len(asked) <= 200_004

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda one: one.fold(b"x"), "fold wants a str"),
            (lambda one: one.scan([1]), "scan wants texts"),
            (lambda one: one.scan(3), "sequence of texts"),
            (lambda one: one.scan(["汉"]).lanes(1), "positional arguments"),
        ],
    )
    def test_what_is_no_text_is_refused(self, call: Callable[[Scanner], object], message: str) -> None:
        assert scanning.native is not None, NEEDS
        with pytest.raises(TypeError, match=message):
            call(scanner(stem=stem))

    def test_an_error_of_the_stemmer_comes_through(self) -> None:
        assert scanning.native is not None, NEEDS

        def broken(word: str) -> str:
            raise LookupError(word)

        with pytest.raises(LookupError, match="word"):
            scanner(stem=broken).scan(["word"]).lanes()


class TestDictionary:
    tables: ClassVar[dict[str, np.ndarray]] = {
        path.stem: np.load(path) for path in Path(scanning.__file__).with_name("dictionary").glob("*.npy")
    }

    @pytest.mark.parametrize(
        "text", ["小明硕士毕业于中国科学院计算所", "他来到了网易杭研大厦", "南京市长江大桥", "韩冰是个好人"]
    )
    def test_words_are_those_of_jieba_in_its_order(self, text: str) -> None:
        assert scanning.native is not None, NEEDS
        (lanes,) = scanner(stem=stem).scan([text]).lanes()
        assert lanes[0].split() == rjieba.cut_for_search(text)
        assert [term for _, _, term in scanner(stem=stem).scan([text]).terms()] == rjieba.cut_for_search(text)

    @pytest.mark.parametrize("char", "哈啊哦谁第罢空沙九喝")
    def test_of_ways_that_are_equally_likely_jieba_s_is_taken(self, char: str) -> None:
        assert scanning.native is not None, NEEDS
        for times in (2, 3, 63, 94, 98, 125, 184, 257):  # the last bit of what is added up decides
            found = scanner(stem=stem).scan([char * times]).terms()
            assert [term for _, _, term in found] == rjieba.cut_for_search(char * times)

    @pytest.mark.parametrize(
        ("name", "table", "message"),
        [
            ("chars", np.zeros(3, dtype="<u2"), "chars has 6 bytes"),
            ("chars", np.full(0x9FFF - 0x3400 + 1, 60_000, dtype="<u2"), "chars has number 60000, but there are"),
            ("firsts", np.zeros(0, dtype="<u4"), "firsts has 0 bytes"),
            ("firsts", np.zeros(2, dtype="<u4"), "emissions has"),
            ("slots", np.zeros(3, dtype="<u1"), "slots has 3 bytes"),
            ("counts", np.ones(9000), "counts and slots are too long"),
            ("steps", np.zeros((4, 4)), "steps has 128 bytes"),
        ],
    )
    def test_tables_that_do_not_fit_are_refused(self, name: str, table: np.ndarray, message: str) -> None:
        assert scanning.native is not None, NEEDS
        with pytest.raises(ValueError, match=message):
            scanning.native.Dictionary(**{**self.tables, name: table})

    def test_is_loaded_at_the_first_chinese_character(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert scanning.native is not None, NEEDS

        def missing() -> None:
            raise FileNotFoundError("no dictionary")

        monkeypatch.setattr(scanning, "_dictionary", missing)
        one = scanner(stem=str)
        assert one.scan(["plain カタカナ"]).lanes()[0][0] == "plain カタカナ"
        with pytest.raises(FileNotFoundError, match="no dictionary"):
            one.scan(["汉字"])

    def test_what_is_none_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert scanning.native is not None, NEEDS
        monkeypatch.setattr(scanning, "_dictionary", dict)
        with pytest.raises(TypeError, match="Dictionary"):
            scanner(stem=str).scan(["汉字"])

    def test_threads_cut_side_by_side(self) -> None:
        assert scanning.native is not None, NEEDS
        one = scanner(stem=stem)
        wanted = one.scan(TEXTS * 20).lanes(pairs=Pairs.ONCE)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: one.scan(TEXTS * 20).lanes(pairs=Pairs.ONCE), range(40)))
        assert all(lanes == wanted for lanes in found)


class TestPieces:
    @given(texts=st.lists(texts_of_all_kinds, max_size=12))
    def test_are_the_same(self, texts: list[str]) -> None:
        assert _pieces.native is not None, NEEDS
        model = _pieces.load()
        assert model._native  # or few texts would be cut without it
        assert [found.tolist() for found in model.cut(texts)] == model.segment(texts)

    @given(texts=st.lists(texts_of_all_kinds, max_size=5), dim=st.sampled_from([128, 256]))
    def test_vectors_are_the_same(self, texts: list[str], dim: int) -> None:
        assert _pieces.native is not None, NEEDS
        model = _pieces.load()
        assert model._native
        own, other = (np.zeros((len(texts), dim), dtype=np.float32) for _ in range(2))
        model.embed(texts, own, damping=0.75)
        for row, pieces in zip(other, model.segment(texts), strict=True):
            model._sum(pieces, row, 0.75)
        np.testing.assert_allclose(own, other, atol=1e-6)

    def test_what_does_not_fit_is_refused(self) -> None:
        assert _pieces.native is not None, NEEDS
        native = _pieces.load()._native
        with pytest.raises(ValueError, match="out has 4 bytes"):
            native.embed(["a"], np.zeros(1, dtype=np.float32), 256, 0.75)
        with pytest.raises(ValueError, match="dim must be 1 to 256"):
            native.embed(["a"], np.zeros(300, dtype=np.float32), 300, 0.75)
        with pytest.raises(TypeError, match="texts are wanted"):
            native.cut([None])  # type: ignore[list-item]
