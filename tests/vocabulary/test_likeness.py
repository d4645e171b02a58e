"""Texts that say nearly the same are of a family; texts that do not are not. In Chinese as in English."""

import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.likeness import ALIKE, DRAWERS, bands, families, likeness, packed, sketch, unpacked

ENGLISH = (
    "The gauge at the old bridge is read every morning at eight. In the flood season it is read every hour, and the "
    "keeper reports the level to the office in town. When the level is above seven metres the sluice must be opened, "
    "and the pump house is told by telephone. A note of every reading is kept in the blue book beside the door."
)
CHINESE = (
    "老桥水位站每天早上八点观测一次水位。汛期每小时观测一次，值班员须将水位上报县水文局。水位超过七米时必须开启泄洪闸，"
    "并电话通知泵站。每次观测结果都应记入门边的蓝色登记簿，由站长每周核对签字，年底装订成册归档保存。"
)
OTHER = {
    ENGLISH: "Parents are entitled to twenty-six weeks of leave, eighteen of them paid in full. It may be taken in "
    "two parts within the first year. The request is made in writing four weeks before, and the head of the department "
    "answers within ten days; a refusal must say why, and may be taken to the council.",
    CHINESE: "员工每年享有十五天带薪年假，入职不满一年的按月折算。年假须提前两周在系统中提出申请，"
    "由部门主管批准后方可休假。当年未休完的年假可结转至次年三月，逾期作废。因工作需要不能安排休假的，按照日工资的三倍支付报酬。",
}


def share(one: str, other: str) -> float:
    return float(likeness(sketch(one), sketch(other)[np.newaxis])[0])


@pytest.mark.parametrize("text", [ENGLISH, CHINESE])
def test_small_edits_leave_a_text_alike_and_other_texts_are_not(text: str) -> None:
    assert share(text, text) == 1.0
    middle = len(text) // 2
    edited = text[:middle] + text[middle + 3 :]
    assert share(text, edited) > 0.85
    assert share(text, text.replace("八", "九").replace("eight", "nine")) > 0.85
    assert share(text, OTHER[text]) < 0.25
    halves = share(text, text[: len(text) // 3] + OTHER[text][: len(text)])
    assert halves < ALIKE


def test_case_blanks_and_punctuation_do_not_count() -> None:
    assert share(ENGLISH, ENGLISH.upper().replace(" ", "\n").replace(".", " ! ")) == 1.0
    assert share(CHINESE, CHINESE.replace("，", ", ").replace("。", "\n")) == 1.0


def test_families_are_named_after_their_first_member() -> None:
    later = ENGLISH.replace("morning", "evening")
    texts = [ENGLISH, CHINESE, later, OTHER[CHINESE], CHINESE + "（修订）", ENGLISH]
    assert families(texts) == [0, 1, 0, 3, 1, 0]
    assert families([]) == [] and families(["", "", "a"]) == [0, 0, 2]


def test_short_texts_are_alike_only_when_they_are_equal() -> None:
    assert families(["Level: 7.42 m", "Level: 7.43 m", "level 7.42 M", "水位七米", "水位八米"]) == [0, 1, 0, 3, 4]


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_share_is_a_share_whatever_the_text(one: str, other: str) -> None:
    assert sketch(one).shape == (DRAWERS,)
    assert 0.0 <= share(one, other) <= 1.0
    assert share(one, other) == share(other, one)
    assert share(one, one) in (0.0, 1.0)
    assert (unpacked([packed(sketch(one))])[0] & 0xFFFF == sketch(one) & 0xFFFF).all()


def test_stored_sketches_of_alike_texts_meet_in_a_band() -> None:
    chosen = random.Random(1)
    letters = sorted(set(CHINESE) - set("，。"))
    met = alone = 0
    for _ in range(60):
        text = "".join(chosen.choices(letters, k=2_000))
        edited = list(text)
        for place in chosen.sample(range(len(text)), 40):  # two in a hundred: a likeness of about 0.85
            edited[place] = chosen.choice(letters)
        keys = set(bands(packed(sketch(text)), "ann"))
        met += bool(keys & set(bands(packed(sketch("".join(edited))), "ann")))
        alone += bool(keys & set(bands(packed(sketch("".join(chosen.choices(letters, k=2_000)))), "ann")))
        assert not keys & set(bands(packed(sketch(text)), "bob")), "what is somebody else's is never alike"
    assert met >= 55 and alone <= 5


@given(st.text(st.sampled_from("ab,。 水位早晨Q7𠮷\n"), max_size=200), st.integers(1, 9))
def test_a_text_in_pieces_has_the_sketch_of_the_whole(text: str, size: int) -> None:
    whole = sketch(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwater.likeness.PIECE_CHARS", size)
        assert np.array_equal(sketch(text), whole)


def test_a_long_text_takes_little_memory_beside_itself() -> None:
    text = ENGLISH * 20_000
    tracemalloc.start()
    sketch(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(text) > 6_000_000 and peak < 8 * len(text), "40 bytes a character at once would be 240 MB"
