"""Plain text in every encoding people still have, and what is no text at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import EmptyDocument, SourceError
from headwater.parsers._seen import as_seen
from headwater.parsers.text import TextParser
from headwater.types import Blob, Document

SIMPLIFIED = "您好，这是公司的请假制度。员工每年可以休十五天年假，病假需要提供医院的证明。\n"
TRADITIONAL = "您好，這是公司的請假制度。員工每年可以休十五天年假，病假需要提供醫院的證明。\n"
JAPANESE = "これは会社の休暇制度です。社員は毎年十五日の休みを取ることができます。\n"
KOREAN = "이것은 회사의 휴가 제도입니다. 직원은 매년 십오 일의 휴가를 사용할 수 있습니다.\n"
FRENCH = "Le congé d'été est payé à 100 % ; voilà ce que prévoit la règle, où qu'on soit.\n"
GERMAN = "Die Kündigungsfrist beträgt vier Wochen; für ältere Beschäftigte gelten größere Fristen.\n"
RUSSIAN = "Сотрудники имеют право на ежегодный оплачиваемый отпуск продолжительностью пятнадцать дней.\n"


def parse(data: bytes, uri: str = "notes/leave.txt") -> Document:
    return TextParser().parse(Blob(uri=uri, data=data, mime="text/plain", modified="2025-01-02T03:04:05+00:00"))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((SIMPLIFIED, name) for name in ("utf-8", "utf-8-sig", "gb18030", "gbk", "utf-16", "utf-16-le", "utf-16-be")),
        *((TRADITIONAL, name) for name in ("utf-8", "big5", "gb18030", "utf-16-le", "utf-16-be", "utf-32")),
        *((JAPANESE, name) for name in ("shift_jis", "euc_jp", "utf-16-le", "utf-8")),
        *((KOREAN, name) for name in ("euc_kr", "utf-16-le", "utf-8")),
        *((FRENCH, name) for name in ("latin-1", "utf-16-le", "utf-32-le", "utf-8")),
        (GERMAN, "cp1252"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "utf-16-be"),
    ],
)
@pytest.mark.parametrize("times", [1, 30])
def test_every_encoding_is_read_right(text: str, encoding: str, times: int) -> None:
    assert parse((text * times).encode(encoding)).text == text * times


@pytest.mark.parametrize(
    "text", ["您好", "请假", "你好，世界。", "今天天气很好", "这是一个短文件。", "版本 2.0 已发布"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "utf-16-le", "utf-16-be", "utf-16"])
def test_short_chinese_is_read_right(text: str, encoding: str) -> None:
    # Some words, such as 你好, are the same bytes in UTF-16 as four signs of ASCII: no reader can tell these.
    assert parse(text.encode(encoding)).text == text


def test_a_program_with_a_chinese_comment_is_read_right() -> None:
    source = "def area(r):\n    return 3.14 * r * r\n" * 2000 + "# 计算圆的面积\n" + "print(area(2))\n" * 100
    assert parse(source.encode("gbk")).text == source


def test_a_guess_is_said_and_what_is_known_is_not() -> None:
    assert parse(SIMPLIFIED.encode()).problems == ()
    assert parse(SIMPLIFIED.encode("utf-16")).problems == ()
    [problem] = parse(SIMPLIFIED.encode("gbk")).problems
    assert problem.startswith("decoded as gb18030 by guess")


def test_broken_bytes_are_counted_and_shown() -> None:
    data = (SIMPLIFIED * 3).encode()
    document = parse(data[:-3])
    assert document.text.startswith(SIMPLIFIED) and document.text.endswith("\ufffd")
    assert "1 characters" in document.problems[0] and "utf-8" in document.problems[0]
    spoiled = parse(data[:40] + b"\xff" + data[40:])
    assert "are not valid utf-8" in spoiled.problems[0]
    kept = parse("already \ufffd there, and 中文".encode())
    assert kept.problems == ()


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7\n" + bytes(range(256)) * 20,
        bytes(5000),
        b"\x7fELF\x02\x01\x01" + b"\0" * 500 + bytes(range(200)),
        b"\x89PNG\r\n\x1a\n" + bytes((n * 37 + 11) % 256 for n in range(4000)),
    ],
)
def test_what_is_no_text_is_refused_with_the_reason(data: bytes) -> None:
    with pytest.raises(SourceError, match=r"not text: notes/leave\.txt looks like a binary file"):
        parse(data)


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", "\ufeff".encode(), "\u200b\u3000\n".encode(), b"\f\f"])
def test_what_holds_no_text_is_empty(data: bytes) -> None:
    with pytest.raises(EmptyDocument, match="holds no text"):
        parse(data)


def test_newlines_become_plain_and_form_feeds_are_pages() -> None:
    assert parse(b"one\r\ntwo\rthree\n").text == "one\ntwo\nthree\n"
    document = parse(b"page one\fpage two\f\npage three\n\f")
    assert [document.text[start:][:8] for start in document.page_starts] == ["page one", "page two", "\npage th"]
    assert parse(b"no pages").page_starts == ()


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("请假制度\n\n员工每年可以休假。\n", "请假制度"),
        ("Leave policy\n============\n\nText.\n", "Leave policy"),
        ("# Leave policy\nText.\n", "Leave policy"),
        ("This is a sentence.\n\nAnd another.\n", "leave"),
        ("a line\nof a paragraph\n", "leave"),
        ("one line only", "leave"),
        ("x" * 100 + "\n\ntext", "leave"),
    ],
)
def test_the_title_is_a_heading_or_the_name(text: str, title: str) -> None:
    assert parse(text.encode()).title == title


def test_what_is_known_of_the_file_goes_along() -> None:
    document = parse(b"some text")
    assert (document.uri, document.mime, document.content_type) == ("notes/leave.txt", "text/plain", "text")
    assert document.updated == "2025-01-02T03:04:05+00:00"


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("Zu\u0308rich, cre\u0300me bru\u0302le\u0301e", "Zürich, crème brûlée"),
        ("Tie\u0302\u0301ng Vie\u0323\u0302t", "Tiếng Việt"),
        ("\u30cf\u309a\u30f3 \u1112\u1161\u11ab\u1100\u1173\u11af", "パン 한글"),
        ("a co\xadoper\xada\xadtion of zero\u200bwidth\ufeff words", "a cooperation of zerowidth words"),
        ("the o\ufb03ce of \ufb01nance", "the office of finance"),
        # What is seen otherwise, or is another character to some reader, stays.
        ("👩\u200d💻 می\u200cخواهم \u200fשלום x\u0308 \u212b 豈", "👩\u200d💻 می\u200cخواهم \u200fשלום ẍ \u212b 豈"),
    ],
)
def test_text_is_what_a_reader_sees_of_it(written: str, seen: str) -> None:
    assert parse(written.encode()).text == seen


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_utf8_is_never_guessed_away(text: str) -> None:
    try:
        assert parse(text.encode()).text == as_seen(text)
    except EmptyDocument:
        assert not text.strip("\ufeff\u200b").strip() or not any(map(str.isprintable, text.replace(" ", "")))


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        document = parse(data)
    except SourceError:
        return
    assert "\r" not in document.text and "\0" not in document.text


WESTERN = [
    "don’t worry, it’s fine",
    "We’re sure they’ve said “no”.",
    "Passt März?",
    "Über uns",
    "Vi ses på måndag.",
    "¿Dónde está el baño?",
    "Temperature: 20 °C",
    "It costs £5 or €6 – “cheap”",
    "§ 5 BGB: für größere Räume",
]


@pytest.mark.parametrize("text", WESTERN)
def test_an_accent_among_plain_letters_is_no_half_of_a_character_of_east_asia(text: str) -> None:
    assert parse(text.encode("cp1252")).text == text
    assert parse(f"{text}\n{'Plain words.' * 40}\n{text}".encode("cp1252")).text.startswith(text)


@pytest.mark.parametrize("text", [SIMPLIFIED[:3], "A栋 5 层", "ID 編號 7", "ソフト", "地図", "第5回", "서울 A"])
def test_short_words_of_east_asia_stay_what_they_are(text: str) -> None:
    encodings = {"栋": "gbk", "編": "big5", "ソ": "shift_jis", "地": "shift_jis", "回": "euc_jp", "서": "euc_kr"}
    encoding = next((name for sign, name in encodings.items() if sign in text), "gbk")
    assert parse(text.encode(encoding)).text == text


def test_the_colours_of_a_terminal_are_no_text() -> None:
    log = parse(
        b"\x1b[1;31mERROR\x1b[0m pump \x1b[38;5;10m7\x1b[m stopped\n\x1b]0;title\x07ok \x1b[2Kdone\n", "build.log"
    )
    assert log.text == "ERROR pump 7 stopped\nok done\n" and log.problems == ()
