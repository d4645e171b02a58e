"""Laws of folding, lanes, counts and sentences over any text."""

import re
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.tokens import Cutter, count_tokens, fold, is_cjk, sentences, token_spans

CUTTER = Cutter()
PIECES = st.sampled_from(
    [
        *(
            "北京",
            "清华大学",
            "關於",
            "茶",
            "カナ",
            "한국어",
            "𠮷",
            "㐀",
            "々",
            "C++",
            ".NET",
            "a_b.c",
            "PPR-9087",
            "3.14",
        ),
        *("Running", "don't", "’", "É", "ß", "İ", "ﬁ", "Ａ１", "🙂", "हि", "\0", "\ud83d", " ", "\n", "\u3000", "\x1f"),
        *(".", "-", "_", "@", "&", "+", "#", "。", "！", "”", '"', "e.g.", "U.S.", "The", "1."),
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=25).map("".join), st.text(max_size=60))


@given(TEXTS)
def test_folding_keeps_places_and_is_done_once(text: str) -> None:
    folded = fold(text)
    assert len(folded) == len(text)
    assert fold(folded) == folded
    assert folded == "".join(map(fold, text))


@given(TEXTS)
def test_case_and_folding_change_no_term(text: str) -> None:
    assert CUTTER.cut(fold(text)) == CUTTER.cut(text)


@given(TEXTS)
def test_pairs_are_those_of_every_cjk_run(text: str) -> None:
    runs = re.findall(r"\S+", "".join(char if is_cjk(char) else " " for char in fold(text)))
    expected = [pair for run in runs for pair in (map("".join, pairwise(run)) if len(run) > 1 else run)]
    assert CUTTER.cut(text).grams == expected


@given(TEXTS)
def test_words_in_finds_what_cut_cuts(text: str) -> None:
    lanes = CUTTER.cut(text)
    found = CUTTER.words_in(text)
    assert Counter(term.term for term in found) == Counter(lanes.words + lanes.codes)
    assert found == sorted(found)
    assert all(0 <= start < end <= len(text) for start, end, _ in found)


@given(TEXTS)
def test_cjk_words_and_codes_are_slices_of_the_folded_text(text: str) -> None:
    codes, folded = set(CUTTER.cut(text).codes), fold(text)
    for start, end, term in CUTTER.words_in(text):
        if term in codes or is_cjk(term[0]):
            assert folded[start:end] == term
        else:
            assert not any(map(is_cjk, folded[start:end]))


@given(TEXTS)
def test_no_letter_or_digit_is_lost(text: str) -> None:
    covered = {place for start, end, _ in CUTTER.words_in(text) for place in range(start, end)}
    assert {place for place, char in enumerate(fold(text)) if char.isalnum() or is_cjk(char)} <= covered


@given(st.lists(TEXTS, max_size=6))
def test_together_is_as_each_alone(texts: list[str]) -> None:
    together = [tuple(lane.split() for lane in lanes) for lanes in CUTTER.cut_many(texts)]
    assert together == [tuple(CUTTER.cut(text)) for text in texts]


@given(st.lists(st.sampled_from(["涌现性", "韧性水", "GPT-4", "lake", "水"]), min_size=1), TEXTS, TEXTS)
def test_a_dictionary_never_changes_the_lanes(words: list[str], before: str, after: str) -> None:
    text = f"{before} {words[0]} {after}"
    query = Cutter(dictionary=words).query(text)
    assert query[:3] == CUTTER.cut(text)
    terms = {*query.words, *query.grams, *query.codes}
    assert all(phrase and terms.issuperset(phrase) for phrase in query.phrases)
    assert query.phrases or words[0] == "水"


@given(TEXTS)
def test_tokens_cover_the_text_in_order(text: str) -> None:
    spans = list(token_spans(text))
    assert len(spans) == count_tokens(text)
    assert "".join(text[start:end] for start, end in spans) == "".join(text.split())
    assert all(left[1] <= right[0] for left, right in pairwise(spans))


@given(TEXTS, TEXTS)
def test_counts_of_parts_add_up(left: str, right: str) -> None:
    assert count_tokens(f"{left} {right}") == count_tokens(left) + count_tokens(right)


@given(TEXTS)
def test_sentences_cover_the_text_in_order(text: str) -> None:
    spans = sentences(text)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(left[1] <= right[0] for left, right in pairwise(spans))
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
