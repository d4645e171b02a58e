"""Bytes of unknown encoding -> text with plain newlines, and what was guessed on the way.

In order: a byte-order mark, UTF-8, UTF-16 without a mark, whichever East Asian encoding gives the most everyday
characters, Western, then charset-normalizer for everything else. Short Chinese text is why the East Asian ones are
weighed here: a statistical detector has too little to go by in twenty bytes, a list of everyday characters has not.
"""

from __future__ import annotations

import codecs
import io
import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from headwater.errors import SourceError
from headwater.parsers._seen import as_seen

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"\x84\x31\x95\x33", "gb18030"),
)
_EAST_ASIAN: Final = ("gb18030", "big5hkscs", "cp932", "cp949", "euc_jp")
# What the codecs of Python are called where a reader sees it.
_NAMES: Final = {"big5hkscs": "big5", "cp932": "shift_jis", "cp949": "euc-kr", "euc_jp": "euc-jp", "cp1252": "latin-1"}

_LARGER: Final = {
    **dict.fromkeys(("gb2312", "gbk", "hz"), "gb18030"),
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859-1": "cp1252",
}

# Enough lines to tell an encoding, few enough that a large file costs nothing.
_SAMPLE_BYTES: Final = 16_384
_HEAD_BYTES: Final = 8_192
# A text file has no control characters to speak of; one in fifty is already a picture or a program.
_MAX_CONTROL_SHARE: Final = 0.02
# UTF-8 with a torn end or some broken bytes is still UTF-8: by accident so many sequences are never right.
_MIN_RIGHT_PER_BROKEN: Final = 4
# Real text weighs 0.6 and more in its own encoding (tests/parsers/test_text.py).
_MIN_EVERYDAY: Final = 0.5
# More characters than this that cannot be read mean another encoding.
_MAX_BROKEN_SHARE: Final = 0.02
# Where UTF-16 has zero bytes they stand on one side: those of Latin letters and spaces.
_MIN_ZERO_SHARE: Final = 0.02
_MIN_PLAUSIBLE_SHARE: Final = 0.95
# Western text is Latin letters with an accent here and there; other alphabets fill whole words with high bytes.
_MAX_ACCENT_SHARE: Final = 0.3
_MIN_WESTERN_SHARE: Final = 0.95

_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_HIGH: Final = re.compile(rb"[\x80-\xff]")
_ALONE: Final = re.compile(rb"(?<![\x80-\xff])[\x80-\xff](?![\x80-\xff])")
# So many high bytes of Western text stand alone; in "größer" two do not.
_MIN_ALONE_SHARE: Final = 0.7
# Signs that no letter follows at once, and signs that no Western word ends with: these are halves of characters.
_MISPLACED: Final = re.compile("[£¥§©®±²³·º»½×™€”…ª](?=[A-Za-z])|[^\x00-\x7f](?=[@\\[\\\\^_`{|}~])|\ufffd")
_NEWLINE: Final = re.compile("\r\n?")
# What text in UTF-16 is made of: Latin, Greek, Cyrillic, Arabic, punctuation, signs, kana, Han, Hangul, full width.
_PLAUSIBLE: Final = re.compile(
    "[\t\n\f\r\x1b -~\xa0-\u024f\u0370-\u06ff\u2010-\u2027\u202f-\u203e\u20a0-\u266f\u3000-\u30ff\u4e00-\u9fff"
    "\uac00-\ud7a3\uff00-\uffef\U0001f300-\U0001faff\U00020000-\U0003ffff]"
)
_WESTERN: Final = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØŒÙÚÛÜÝŸßàáâãäåæçèéêëìíîïñòóôõöøœùúûüýÿ“”‘’„‚«»–—…€£¥§©®°·•¿¡ªº²³µ½±×™\xa0"
)

# The most frequent characters in simplified and in traditional spelling, with the words of letters and notices.
_EVERYDAY_HAN: Final = frozenset(
    "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用"
    "发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从知使所动理体长工现力民问点"
    "高实被加开件因文本市场部业全内第最新关系些等工作电话号请您年月日明区位度量平水化四五六七八九百千万向意间物程数据库"
    "这為來個們說國時會後對著過發當與學進種將還見沒從動體長現問點實開場業內關係電話號請區間數據庫裡東車門馬書語長風頭"
    "信名世界短例如简单檔案编码碼測試试中文字符使用系统統網网络路页頁章节節表示章程规規则則版权權目录錄安装裝包配置设設"
    "是否可以已经每第两兩次更应應该該让讓把给給再但或因此所以如果虽雖然并並且由其它他她它什麼怎样樣哪谁誰今昨天早晚上午"
)
_EVERYDAY_SIGNS: Final = frozenset("，。、；：？！“”‘’（）《》【】「」『』…—～·　％＋－０１２３４５６７８９")
_EVERYDAY_HANGUL: Final = frozenset(
    "이다는을를에의가은고도하지한로서사기어인리자대시나아스정부전일수장상해보제그주원들여만면과으공있없것등및니습까요년월"
    "적동신우구조성국세오라마분화비소게할합된되관업회개용연방물계경학생무안내문트드선치유모도와때더러저위글중통단간식"
)
_KANA: Final = ("\u3041", "\u30fe")
_HAN: Final = ("\u4e00", "\u9fff")


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text with `\\n` at the end of every line, the encoding it was in and what the reader should know."""

    text: str
    encoding: str
    problems: tuple[str, ...] = ()


def decode(data: bytes, uri: str, *, declared: str = "") -> Decoded:
    """The text of a file. Raises SourceError for what is not text.

    An encoding that the file or its sender names is believed where the bytes can be that.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _read(data[len(mark) :], encoding, guessed=False)
    if encoding := _believable(declared, data):
        return _read(data, encoding, guessed=False)
    zeros = b"\0" in data[:_SAMPLE_BYTES]
    utf8 = not zeros and _is_utf8(data)
    if not utf8 and (encoding := _wide(data[:_SAMPLE_BYTES], zeros=zeros)):
        return _read(data, encoding, guessed=True)
    _refuse_binary(data[:_HEAD_BYTES], uri)
    if utf8 or data.isascii():
        return _read(data, "utf-8", guessed=False)
    sample = _telling_lines(data)
    if _is_plainly_western(sample):
        return _read(data, "cp1252", guessed=True)
    best, weight = _best_east_asian(sample)
    if weight < _MIN_EVERYDAY:
        best = "cp1252" if _is_western(sample) else _by_statistics(sample)
    return _read(data, best, guessed=True)


def _believable(declared: str, data: bytes) -> str:
    """The codec of a declared encoding, or nothing where there is none or the bytes are something else."""
    if not declared:
        return ""
    try:
        encoding = codecs.lookup(declared.strip()).name
        # What browsers take them for: pages in these hold characters of the larger sets.
        encoding = _LARGER.get(encoding, encoding)
        text = data[:_SAMPLE_BYTES].decode(encoding, "replace")
    except (LookupError, ValueError):
        return ""
    if not data.isascii() and (
        # Saved anew by a program that left the old name in place, or named by one that names everything so.
        (encoding != "utf-8" and _is_utf8(data))
        or encoding == "ascii"
        or (encoding == "cp1252" and _is_rather_east_asian(_telling_lines(data)))
    ):
        return ""
    return encoding if text.count("\ufffd") - 1 <= _MAX_BROKEN_SHARE * len(text) and "\0" not in text else ""


def _read(data: bytes, encoding: str, *, guessed: bool) -> Decoded:
    text = data.decode(encoding, "replace")
    name = _NAMES.get(encoding, encoding)
    problems = []
    if guessed:
        problems.append(f"decoded as {name} by guess; if it reads wrong, save the file as UTF-8")
    # A file may hold U+FFFD of its own, from an earlier accident; only what was lost now counts.
    own = data.count("\ufffd".encode(encoding)) if "\ufffd" in text and encoding.startswith(("utf", "gb")) else 0
    broken = text.count("\ufffd") - own
    if broken > 0:
        problems.append(f"{broken} characters ({100 * broken / len(text):.2g} %) are not valid {name}, shown as \ufffd")
    if "\0" in text:
        problems.append(f"{text.count(chr(0))} zero characters are shown as \ufffd")
        text = text.replace("\0", "\ufffd")
    return Decoded(as_seen(_NEWLINE.sub("\n", text) if "\r" in text else text), name, tuple(problems))


def _wide(head: bytes, *, zeros: bool) -> str:
    """UTF-32 or UTF-16 without a mark, told by its zero bytes or by plain Han text, or nothing."""
    if zeros and len(head) % 4 == 0:
        for encoding, high in (("utf-32-le", (2, 3)), ("utf-32-be", (0, 1))):
            # Planes above the second are empty: half of the bytes are zero.
            if all(head[place::4].count(0) > 0.9 * len(head) / 4 for place in high) and _plausible(head, encoding):
                return encoding
    even, odd = head[::2].count(0), head[1::2].count(0)
    for encoding, empty, full in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if zeros and empty > full and empty >= _MIN_ZERO_SHARE * len(head) and _plausible(head, encoding):
            return encoding
        if len(head) % 2 == 0 and _plausible(head, encoding) and _weigh(head, encoding) >= _MIN_EVERYDAY:
            return encoding
    return ""


def _plausible(head: bytes, encoding: str) -> bool:
    text = head.decode(encoding, "replace")
    return len(_PLAUSIBLE.findall(text)) >= _MIN_PLAUSIBLE_SHARE * len(text)


def _refuse_binary(head: bytes, uri: str) -> None:
    control = len(_CONTROL.findall(head))
    if control > _MAX_CONTROL_SHARE * len(head):
        raise SourceError(
            f"not text: {uri} looks like a binary file: {control} of its first {len(head)} bytes are control codes "
            f"(it begins with {head[:8]!r}); add the text it was made from, or convert it to a format that can be read"
        )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
        return True
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        right = sum(map(len, re.findall("[^\x00-\x7f\ufffd]+", text)))
        return right >= _MIN_RIGHT_PER_BROKEN * text.count("\ufffd")


def _telling_lines(data: bytes) -> bytes:
    """The first lines that are not plain ASCII; no encoding weighed from here on has a newline inside a character."""
    sample = bytearray()
    for line in io.BytesIO(data):
        if not line.isascii():
            sample += line
            if len(sample) >= _SAMPLE_BYTES:
                break
    return bytes(sample[:_SAMPLE_BYTES])


def _best_east_asian(sample: bytes) -> tuple[str, float]:
    """The East Asian encoding that gives the most everyday characters, and how everyday they are."""
    weights = {encoding: _weigh(sample, encoding) for encoding in _EAST_ASIAN}
    best = max(weights, key=weights.__getitem__)
    return best, weights[best]


def _weigh(sample: bytes, encoding: str) -> float:
    """How everyday the characters beyond ASCII would be, from 0 to 1, were it this encoding."""
    text = sample.decode(encoding, "replace")
    signs = [sign for sign in text if sign > "\x7f"]
    # The last character may be cut in two, in a sample or in a file that was.
    if not signs or text.count("\ufffd") - 1 > _MAX_BROKEN_SHARE * len(signs):
        return 0.0
    if encoding == "cp949":
        return sum(map(_weight_korean, signs)) / len(signs)
    kana = 1.0 if encoding in ("cp932", "euc_jp") else 0.3
    return sum(kana if _KANA[0] <= sign <= _KANA[1] else _weight_han(sign) for sign in signs) / len(signs)


def _weight_han(sign: str) -> float:
    if sign in _EVERYDAY_HAN or sign in _EVERYDAY_SIGNS:
        return 1.0
    if sign in _first_level():
        return 0.6
    # The rest of the block: real text has a few of these, a wrong reading has almost nothing else.
    return 0.1 if _HAN[0] <= sign <= _HAN[1] else 0.0


def _weight_korean(sign: str) -> float:
    if sign in _EVERYDAY_HANGUL or sign in _EVERYDAY_SIGNS:
        return 1.0
    # Below the first level of Chinese, whose bytes are these too: in doubt a file is Chinese.
    return 0.5 if sign in _syllables() else 0.0


@cache
def _first_level() -> frozenset[str]:
    """The first, frequent half of the Chinese standards: rows 16 to 55 of GB 2312, A440 to C67E of Big5."""
    simplified = bytes(byte for lead in range(0xB0, 0xD8) for trail in range(0xA1, 0xFF) for byte in (lead, trail))
    trails = [*range(0x40, 0x7F), *range(0xA1, 0xFF)]
    traditional = bytes(byte for lead in range(0xA4, 0xC7) for trail in trails for byte in (lead, trail))
    return frozenset(simplified.decode("gb2312", "ignore") + traditional.decode("big5", "ignore"))


@cache
def _syllables() -> frozenset[str]:
    """The Hangul syllables in use, rows 16 to 40 of KS X 1001."""
    used = bytes(byte for lead in range(0xB0, 0xC9) for trail in range(0xA1, 0xFF) for byte in (lead, trail))
    return frozenset(used.decode("euc_kr", "ignore"))


def _is_rather_east_asian(sample: bytes) -> bool:
    """Whether what calls itself Western is in an encoding of East Asia."""
    return not _is_plainly_western(sample) and _best_east_asian(sample)[1] >= _MIN_EVERYDAY


def _is_plainly_western(sample: bytes) -> bool:
    """Whether its high bytes stand alone among plain letters, as accents and curly apostrophes do.

    Those of East Asia come in runs. One of them and the letter behind it are a Chinese character in three encodings,
    so that `don’t` would read `don稚`: a list of everyday characters cannot tell that.
    """
    high = len(_HIGH.findall(sample))
    if not high or len(_ALONE.findall(sample)) < _MIN_ALONE_SHARE * high or _CONTROL.search(sample):
        return False
    return not _MISPLACED.search(sample.decode("cp1252", "replace")) and _is_western(sample)


def _is_western(sample: bytes) -> bool:
    text = sample.decode("cp1252", "replace")
    letters = sum(sign.isalpha() for sign in text)
    high = [sign for sign in text if sign > "\x7f"]
    western = sum(sign in _WESTERN for sign in high)
    accents = sum(sign.isalpha() for sign in high)
    return accents <= _MAX_ACCENT_SHARE * max(1, letters) and western >= _MIN_WESTERN_SHARE * len(high)


def _by_statistics(sample: bytes) -> str:
    from charset_normalizer import from_bytes  # only here: most files are UTF-8 and need no detector

    best = from_bytes(sample).best()
    return best.encoding if best is not None else "cp1252"
