"""Pictures of text: what is read, where it stands and in what order; and pictures that cannot be read.

The tests that read need the extra `ocr`, which is part of `test`. All pictures are made from one scanned page.
"""

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headwater.documents import BOX_UNITS
from headwater.errors import BackendError, EmptyDocument, SourceError
from headwater.parsers import _ocr
from headwater.parsers._blanks import with_blanks
from headwater.parsers.image import ImageParser
from headwater.types import Blob, Document

DATA = Path(__file__).parents[1] / "data"
TRUTH = (DATA / "scan-truth.txt").read_text(encoding="utf-8").strip()
LINES = TRUTH.splitlines()
MAX_ERROR = 0.01


@pytest.fixture(scope="module", autouse=True)
def engine() -> None:
    assert _ocr.available(), "these tests need rapidocr and onnxruntime: pip install -e '.[test]'"


@pytest.fixture(scope="module")
def page() -> Image.Image:
    with Image.open(DATA / "scan.png") as picture:
        return picture.convert("RGB").crop((90, 140, 1400, 880))  # the part with the text: less to look at


def saved(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    packed = io.BytesIO()
    picture.save(packed, kind, **options)
    return packed.getvalue()


def parse(data: bytes) -> Document:
    return ImageParser().parse(Blob(uri="/scans/page.png", data=data, mime="image/png", modified="2026-01-01"))


def distance(one: str, two: str) -> int:
    row = list(range(len(two) + 1))
    for number, sign in enumerate(one, 1):
        last = row
        row = [number]
        for place, other in enumerate(two, 1):
            row.append(min(last[place] + 1, row[-1] + 1, last[place - 1] + (sign != other)))
    return row[-1]


def error(text: str, truth: str = TRUTH) -> float:
    one, two = (re.sub(r"\s+", " ", part).strip() for part in (text, truth))
    return distance(one, two) / len(two)


def test_a_scanned_page_is_read_blanks_and_all() -> None:
    document = parse((DATA / "scan.png").read_bytes())
    assert error(document.text) <= MAX_ERROR
    assert len(document.boxes) == len(LINES) == 10
    for box, line in zip(document.boxes, LINES, strict=True):
        assert error(document.text[box.start : box.end], line) < 0.1
        assert box.page == 1 and 0 < box.left < box.right < BOX_UNITS and 0 < box.top < box.bottom < BOX_UNITS
    assert [box.top for box in document.boxes] == sorted(box.top for box in document.boxes)
    assert document.page_starts == (0,) and document.problems == ()
    assert document.coverage == {"pages": 1, "pages_with_text": 1, "ocr": True}
    assert (document.title, document.updated) == ("page", "2026-01-01")


def test_a_photo_on_its_side(page: Image.Image) -> None:
    tags = Image.Exif()
    tags[0x0112] = 6  # to be turned by a quarter
    turned = page.crop((0, 0, 1310, 136)).transpose(Image.Transpose.ROTATE_90)
    assert error(parse(saved(turned, "JPEG", quality=85, exif=tags)).text, "\n".join(LINES[:2])) < 0.06


def test_pages_of_a_tiff_on_a_see_through_ground(page: Image.Image) -> None:
    dark = page.crop((0, 230, 1310, 300)).convert("L")
    see_through = Image.new("RGBA", dark.size, (0, 0, 0, 0))
    see_through.putalpha(dark.point(lambda value: 255 - value))
    blank, second = Image.new("RGBA", (300, 200), "white"), page.crop((0, 370, 1310, 440)).convert("RGBA")
    document = parse(saved(see_through, "TIFF", save_all=True, append_images=[blank, second]))
    starts = document.page_starts
    assert error(document.text[: starts[1]], LINES[3]) < 0.05
    assert error(document.text[starts[2] :], LINES[5]) < 0.05
    assert {box.page for box in document.boxes} == {1, 3}
    assert document.problems == ("1 of 3 pages show no text",)
    for box in document.boxes:
        assert document.text[box.start : box.end].strip() == document.text[box.start : box.end] != ""


def test_a_long_screenshot_is_read_in_pieces(page: Image.Image) -> None:
    small = page.crop((0, 230, 1310, 300)).resize((655, 35), Image.Resampling.LANCZOS)
    tall = Image.new("RGB", (655, 2600), "white")
    for top in range(100, 2600, 500):
        tall.paste(small, (0, top))
    pieces = _ocr._pieces(np.asarray(tall))
    assert len(pieces) > 1 and [start for start, _ in pieces[1:]] == [end for _, end in pieces[:-1]]
    assert pieces[0][0] == 0 and pieces[-1][1] == tall.height
    document = parse(saved(tall))
    assert error(document.text, "\n".join([LINES[3]] * 5)) < 0.05
    assert document.text.count("\n\n") == 4  # far apart


def line(text: str, left: int, top: int, width: int) -> _ocr.Line:
    return text, (left, top, left + width, top + 20)


def test_columns_are_read_one_after_the_other() -> None:
    lines = [line("title", 100, 0, 700), line("foot", 100, 400, 700)]
    lines += [line(f"l{n}", 50, 50 + 30 * n, 380) for n in range(8)]
    lines += [line(f"r{n}", 470, 52 + 30 * n, 380) for n in range(8)]
    names = [text for text, _ in _ocr.in_order(lines[::-1])]
    assert names == ["title", *(f"l{n}" for n in range(8)), *(f"r{n}" for n in range(8)), "foot"]


def test_a_heading_over_both_columns_parts_them() -> None:
    lines = [
        line(f"{side}{n}", left, 30 * n, 380) for side, left in (("l", 50), ("r", 470)) for n in (0, 1, 2, 4, 5, 6)
    ]
    names = [text for text, _ in _ocr.in_order([*lines, line("middle", 100, 90, 700)])]
    assert names == "l0 l1 l2 r0 r1 r2 middle l4 l5 l6 r4 r5 r6".split()


def test_three_columns_and_tables() -> None:
    three = [
        line(f"{side}{n}", left, 30 * n, 200) for side, left in (("a", 0), ("b", 230), ("c", 460)) for n in range(4)
    ]
    assert [text for text, _ in _ocr.in_order(three)] == [f"{side}{n}" for side in "abc" for n in range(4)]
    cells = [
        line(f"{n}{side}", left, 30 * n, 60) for side, left in (("x", 0), ("y", 230), ("z", 460)) for n in range(4)
    ]
    assert [text for text, _ in _ocr.in_order(cells)] == [f"{n}{side}" for n in range(4) for side in "xyz"]
    assert _ocr.in_order([]) == []


def test_blanks_are_told_by_the_gaps_in_the_ink() -> None:
    strip = np.full((40, 400), 255.0)
    centres: list[tuple[str, float]] = []
    place = 0
    for sign, gap in zip("使用水文数据ab和", (0, 3, 3, 3, 3, 3, 14, 3, 3), strict=True):
        place += gap
        strip[2:38, place : place + 30] = 0
        centres.append((sign, place + 15.0))
        place += 30
    assert with_blanks("使用水文数据ab和", centres, strip) == "使用水文数据 ab和"
    assert with_blanks("使用", centres, strip) == "使用"  # the places are of another text
    assert with_blanks("", [], strip) == ""


def test_marks_of_chinese_text_are_wide() -> None:
    assert (
        _ocr._marked("若内存不足8GB,请关闭模型,共12,300元:见a:b 10:30!")
        == "若内存不足8GB，请关闭模型，共12,300元：见a:b 10:30!"
    )


def test_without_the_extra_a_picture_is_empty_and_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ocr, "find_spec", lambda _: None)
    with pytest.raises(EmptyDocument, match=r"is a picture.*pip install 'headwater\[ocr\]'"):
        parse((DATA / "scan.png").read_bytes())
    with pytest.raises(BackendError, match=r"headwater\[ocr\]"):
        _ocr.recognise(np.zeros((10, 10, 3), np.uint8))


@pytest.mark.parametrize(
    ("told", "raised"), [("Traceback\nRuntimeException: std::bad_alloc", MemoryError), ("no such input", BackendError)]
)
def test_want_of_memory_is_told_from_other_failures_of_the_engine(
    told: str, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError(told)

    monkeypatch.setattr(_ocr, "_engine", lambda: failing)
    with pytest.raises(raised):
        _ocr.recognise(np.zeros((10, 10, 3), np.uint8))


def test_a_picture_without_text_is_empty() -> None:
    with pytest.raises(EmptyDocument, match="none was recognised"):
        parse(saved(Image.new("RGB", (300, 200), "white")))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no picture that can be read"),
        (b"\x89PNG\r\n\x1a\n", "no picture|damaged"),
        ((DATA / "scan.png").read_bytes()[:50_000], "damaged picture"),
        (saved(Image.new("1", (20_000, 20_000))), "too large a picture"),
        (saved(Image.new("1", (10_000, 8_000))), "10000 x 8000 pixels, and 70000000 in all are the limit"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        parse(data)


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "I;16", "I", "F"])
def test_every_kind_of_colour_becomes_red_green_blue(mode: str) -> None:
    from headwater.parsers.image import _on_white

    pixels = _on_white(Image.new(mode, (4, 3)))
    assert pixels.shape == (3, 4, 3) and pixels.dtype == np.uint8
