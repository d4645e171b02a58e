"""What is compiled against what stands in for it: the same terms, the same pieces, the same vectors."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import scanning
from headwater.models import _pieces
from headwater.scanning import NumpyScanner, Pairs, Scanner, scanner
from headwater.tokens import Cutter

NEEDS = "it was installed without a compiler: apt-get install gcc python3-dev, then pip install headwater again"

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
]
texts_of_all_kinds = st.one_of(
    st.sampled_from(TEXTS),
    st.text(alphabet=st.sampled_from(ODD), max_size=60),
    st.text(alphabet=st.characters(codec=None), max_size=60),
)


def stem(word: str) -> str:
    return word.removesuffix("s").removesuffix("ing")


@pytest.fixture(scope="module", params=[False, True], ids=["folded", "accents"])
def both(request: pytest.FixtureRequest) -> tuple[Scanner, Scanner]:
    assert scanning.native is not None, NEEDS
    return scanner(stem=stem, accents=request.param), NumpyScanner(stem=stem, accents=request.param)


def cut_by_threes(han: str) -> list[str]:
    """Something like a dictionary's cut: words of one to three characters, the marks left where they are."""
    return [word for part in han.split(" ") for word in [part[:3], part[1:3], part[3:5], part[5:]] if word]


class TestLanes:
    @given(texts=st.lists(texts_of_all_kinds, max_size=5), pairs=st.sampled_from(Pairs))
    def test_are_the_same(self, both: tuple[Scanner, Scanner], texts: list[str], pairs: Pairs) -> None:
        found = []
        for one in both:
            seen = one.scan(texts)
            lanes = seen.lanes(cut_by_threes(seen.han), pairs=pairs)
            found.append([tuple(lane.split() for lane in of_text) for of_text in lanes])
            assert len(lanes) == len(texts)
        assert found[0] == found[1]

    @given(text=texts_of_all_kinds)
    def test_terms_and_runs_stand_in_the_same_places(self, both: tuple[Scanner, Scanner], text: str) -> None:
        native, other = (one.scan([text]) for one in both)
        assert native.terms() == other.terms()
        assert native.han_runs() == other.han_runs()
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
            (lanes,) = native.scan([" ".join(words)]).lanes(())
            assert lanes[0].split() == [word.upper() for word in words]
        assert 100_002 < len(asked) <= 200_004

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda one: one.fold(b"x"), "fold wants a str"),
            (lambda one: one.scan([1]), "scan wants texts"),
            (lambda one: one.scan(3), "sequence of texts"),
            (lambda one: one.scan(["汉"]).lanes([1]), "lanes wants words"),
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
            scanner(stem=broken).scan(["word"]).lanes(())


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
