"""A date or a number is asked for as the other language and notation write it, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.forms import MAX_FORMS, forms
from headwater.tokens import fold


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20世纪70年代", "1970s 70s"),
        ("20 世纪 70 年代的电影", "1970s 70s"),
        ("20世纪七十年代", "1970s 70s 70"),
        ("二十世纪七十年代", "1970s 70s 20 70"),
        ("２０世紀７０年代", "1970s 70s"),
        ("上世纪80年代", "1980s 80s"),
        ("上个世纪八十年代", "1980s 80s 80"),
        ("70年代", "1970s 70s"),
        ("1970年代", "1970s"),
        ("一九七〇年代", "1970s 1970"),
        ("19世纪60年代", "1860s 60s"),
        ("二十一世纪20年代", "2020s 20s 21"),
        ("本世纪10年代", "2010s"),
        ("五六十年代", "1950s 50s 1960s 60s"),
        ("10年代", ""),  # of either century
        ("70年", ""),
        ("这个年代", ""),
        ("70世纪20年代", ""),
    ],
)
def test_chinese_decades(text: str, expected: str) -> None:
    assert forms(fold(text)) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("18世纪", "18th eighteenth"),
        ("十八世纪", "18th eighteenth 18"),
        ("1世纪", "1st first"),
        ("二世纪", "2nd second"),
        ("公元前3世纪", "3rd third"),
        ("4世纪", "4th fourth"),
        ("11世纪", "11th eleventh"),
        ("12世纪", "12th twelfth"),
        ("13世纪", "13th thirteenth"),
        ("20世纪", "20th twentieth"),
        ("21世纪", "21st"),
        ("二十二世纪", "22nd 22"),
        ("半个世纪", ""),
        ("两个世纪", ""),
        ("99世纪", ""),
    ],
)
def test_chinese_centuries(text: str, expected: str) -> None:
    assert forms(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8月", "august aug"),
        ("八月", "august aug"),
        ("08月", "august aug"),
        ("十月革命", "october oct"),
        ("十二月", "december dec 12"),
        ("2009年8月", "august aug"),
        ("2009年8月5日", "august aug"),
        ("2009 年 9 月", "september sep"),
        ("五月", "may"),
        ("学期八月开始", "august aug"),
        ("1月和2月", "january jan february feb"),
        ("13月", ""),
        ("0月", ""),
        ("3个月", ""),
        ("三个月", ""),
        ("两月", ""),
        ("近三月", ""),
        ("上一月", ""),
        ("月亮", ""),
        ("五月饼", ""),
        ("岁月", ""),
    ],
)
def test_chinese_months(text: str, expected: str) -> None:
    assert forms(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("第33届", "33rd xxxiii"),
        ("第三十三届超级碗", "33rd xxxiii 33"),
        ("第五十届", "50th 50"),
        ("第一届", "1st"),
        ("第2届", "2nd ii"),
        ("第 44 届", "44th xliv"),
        ("第120届", "120th"),
        ("第33次会议", "33rd"),
        ("第十一章", "11th 11"),
        ("第112条", "112th"),
        ("第21号", "21st"),
        ("第0页", ""),
        ("亨利三世", "iii"),
        ("亨利三世的儿子", "iii"),
        ("路易十六世", "xvi 16"),
        ("亨利·八世", "viii"),
        ("查理五世", ""),  # one letter
        ("路易十四", "14"),
        ("三世纪", "3rd third"),
        ("世界第三世界", ""),
        ("1998世界杯", ""),
        ("家里四世同堂", ""),
        ("三生三世", ""),
    ],
)
def test_chinese_ordinals_and_rulers(text: str, expected: str) -> None:
    assert forms(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6600万", "66 million"),
        ("6,600 万", "66 million"),
        ("5.05亿元", "505 million"),
        ("30亿", "3 billion"),
        ("1.2万亿", "trillion"),  # 1.2 stands in it
        ("一点二万亿", "1.2 trillion"),
        ("三百万", "3 million 300"),
        ("三百多万", "3 million 300"),
        ("100余万人", "1 million"),
        ("两亿", "200 million"),
        ("5千万", "50 million"),
        ("一亿三千万", "130 million"),
        ("一万二千亿", "1.2 trillion"),
        ("0.5亿", "50 million"),
        ("123456.789万", ""),  # 1.23456789 billion is not how anybody writes it
        ("50万", ""),
        ("99.9万", ""),
        ("三十五万", "35"),
        ("百万富翁", ""),
        ("千万不要", ""),
        ("数十亿", ""),
        ("万一", ""),
        ("99999999万亿", ""),
    ],
)
def test_chinese_amounts(text: str, expected: str) -> None:
    assert forms(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("三十三", "33"),
        ("十五", "15"),
        ("一百二十", "120"),
        ("一百零五", "105"),
        ("一百十五", "115"),
        ("一千零一夜", "1001"),
        ("两千三百米", "2300"),
        ("一万二千三百", "12300"),
        ("二〇一九年", "2019"),
        ("二零一九年", "2019"),
        ("一九四九", "1949"),
        ("九一一", "911"),
        ("三", ""),
        ("十", ""),
        ("百分之百", ""),
        ("三四个人", ""),
        ("七七八八", ""),
        ("一五一十", ""),
        ("三三两两", ""),
        ("十全十美", ""),
        ("一百五", ""),
        ("两万五", ""),
        ("几十年", ""),
        ("周五十二点", ""),
        ("星期五十二点", ""),
        ("一" * 40, ""),
    ],
)
def test_chinese_numerals(text: str, expected: str) -> None:
    assert forms(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("films of the 1970s", "70 年代 1970"),
        ("the 1970's", "70 年代 1970"),
        ("the 1970’s", "70 年代 1970"),
        ("the 70s", "70 年代"),
        ("the '70s", "70 年代"),
        ("the 2000s", "年代 2000"),
        ("10s", ""),
        ("1975s", ""),
        ("b70s", ""),
        ("18th century", "18 世纪"),
        ("18th-century art", "18 世纪"),
        ("the eighteenth century", "18 世纪"),
        ("the twenty-first century", "21 世纪"),
        ("18th and 19th centuries", "18 19 世纪"),
        ("the thirty-first century", ""),
        ("half a century", ""),
        ("the eighteenth", ""),
        ("33rd", "33"),
        ("the 2nd world war", "2"),
        ("a33rd", ""),
    ],
)
def test_english_decades_centuries_and_ordinals(text: str, expected: str) -> None:
    assert forms(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("august 2009", "8 月"),
        ("2009 august", "8 月"),
        ("aug 5", "8 月"),
        ("aug. 5", "8 月"),
        ("5 august", "8 月"),
        ("august 5, 2009", "8 月"),
        ("5th of august", "8 月 5"),
        ("august 5th", "8 月 5"),
        ("sept 1939", "9 月"),
        ("december 25", "12 月"),
        ("may 2009", "5 月"),
        ("5 may 2009", "月"),  # 5 stands in it
        ("on 7 may", "5 月"),
        ("august", ""),
        ("march on washington", ""),
        ("may i ask", ""),
        ("covid 19 may cause", ""),
        ("august 99", ""),
        ("marching 5", ""),
        ("b12 may", ""),
    ],
)
def test_english_months(text: str, expected: str) -> None:
    assert forms(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("66 million", "6600 万"),
        ("66-million", "6600 万"),
        ("$66 million", "6600 万"),
        ("1.5 million", "150 万"),
        ("505 million", "5.05 亿"),
        ("100 million", "1 亿"),
        ("3 billion", "30 亿"),
        ("1,200 million", "12 亿"),
        ("2 trillion", "万亿"),  # 2 stands in it
        ("2000 billion", "2 万亿"),
        ("millions", ""),
        ("1/2 million", ""),
        ("66 millionaires", ""),
        ("66 thousand", ""),
    ],
)
def test_english_amounts(text: str, expected: str) -> None:
    assert forms(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("super bowl xxxiii", "33"),
        ("henry iii", "3"),
        ("louis xiv of france", "14"),
        ("elizabeth ii", "2"),
        ("part iv", "4"),
        ("最终幻想xii", "12"),
        ("super bowl xlix", "49"),
        ("super bowl lvii", "57"),
        ("xiv", ""),  # after no word
        ("12 iii", ""),
        ("henry iiii", ""),
        ("henry v", ""),
        ("the vi editor", ""),
        ("chairman xi", ""),
        ("size xl", ""),
        ("bruce li", ""),
        ("500 ml", ""),
        ("a mix", ""),
        ("i will fill it", ""),
        ("某公司xx", ""),
    ],
)
def test_roman_numerals(text: str, expected: str) -> None:
    assert forms(text) == expected.split()


@pytest.mark.parametrize(
    "text",
    ["", " ", "how do i reset the pump", "泵断电后如何重新启动", "may i march in august?", "第几届", "年代", "世纪"],
)
def test_a_text_without_numbers_has_none(text: str) -> None:
    assert forms(text) == []


def test_what_the_text_has_itself_is_left_out() -> None:
    assert forms("20世纪70年代 (1970s)") == ["70s", "1970"]
    assert forms("1970s 年代") == ["70", "1970"]
    assert forms("august 2009 8月") == ["aug"]
    assert forms("august 2009, august 2010") == ["8", "月"]


def test_forms_come_in_the_order_of_the_text() -> None:
    assert forms("66 million in the 1970s，第33届") == ["6600", "万", "70", "年代", "1970", "33rd", "xxxiii"]


def test_a_long_text_has_a_limited_number() -> None:
    assert len(forms(" ".join(f"第{number}届" for number in range(1, 2000)))) == MAX_FORMS


PIECES = (
    *"0 1 2 5 19 70 2009 . , ' - /".split(),
    *"零 〇 一 两 三 九 十 百 千 万 亿 点 多 第 届 世 世纪 上世纪 年代 年 月 个 数 之".split(),
    *("s", "th", "rd", "st", "may", "aug", "march", "of", "million", "billion", "trillion", "century", "first"),
    *("x", "i", "v", "l", "ii", "xiv", "henry", " ", "  ", "\n", "²", "٣", "Ⅳ", "İ", "\ud800"),
)


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)))
def test_any_text_has_few_and_whole_forms(text: str) -> None:
    found = forms(text)
    assert len(found) <= MAX_FORMS
    assert len(set(found)) == len(found)
    assert all(form and form == form.lower() and form.split() == [form] for form in found)
    assert found == forms(text)


@pytest.mark.parametrize("piece", ["1", "一", "十 ", "1,000", "第一", "20世纪", "a i", "may ", "一百点", " "])
def test_long_texts_are_read_once(piece: str) -> None:
    """Work that grows with the square of the length would take minutes here."""
    assert len(forms(piece * 30_000 + " 66 million")) <= MAX_FORMS
