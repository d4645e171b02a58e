"""Archives that would harm whoever unpacks them are refused by what they declare; office files are not."""

import io
import struct
import zipfile

import pytest

from headwater.errors import SourceError
from headwater.parsers._archive import check_archive

MEGABYTE = 1024**2


def zipped(*members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


def test_plain_office_files_pass() -> None:
    check_archive(zipped(("word/document.xml", b"<a>text</a>" * 10_000), ("[Content_Types].xml", b"<x/>")))
    check_archive(zipped(("ppt/embeddings/sheet.xlsx", zipped(("xl/sheet1.xml", b"<a/>" * 1000)))))
    check_archive(b"no archive at all, only text")
    check_archive(b"")


def test_a_bomb_is_told_by_how_much_comes_out_of_how_little() -> None:
    bomb = zipped(("word/document.xml", b"\0" * (64 * MEGABYTE)))
    assert len(bomb) < MEGABYTE
    with pytest.raises(SourceError, match="only a bomb does"):
        check_archive(bomb)


def test_archives_in_archives_count_together() -> None:
    layer = zipped(("a.txt", b"\0" * (16 * MEGABYTE)))
    nested = zipped(*((f"{n}.zip", layer) for n in range(8)))
    with pytest.raises(SourceError, match="only a bomb does"):
        check_archive(nested)


def test_archives_that_go_too_deep_are_refused() -> None:
    data = zipped(("a.txt", b"text"))
    for _ in range(5):
        data = zipped(("inner.zip", data))
    with pytest.raises(SourceError, match="deep"):
        check_archive(data)


def test_a_declared_size_over_the_limit_is_refused_unread() -> None:
    data = zipped(("a.xml", b"x" * 1000))
    with pytest.raises(SourceError, match="100 are the limit"):
        check_archive(data, max_bytes=100)
    with pytest.raises(SourceError, match="unpacks to more than 1,500 bytes"):
        check_archive(zipped(("a", b"x" * 1000), ("b", b"y" * 1000)), max_bytes=1500)


def test_too_many_members_are_refused() -> None:
    with pytest.raises(SourceError, match="and 10 are the limit"):
        check_archive(zipped(*((f"{n}", b"") for n in range(11))), max_members=10)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b", "C:\\x", "..\\x"])
def test_members_that_want_to_go_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(SourceError, match="wants to go to"):
        check_archive(zipped((name, b"x")))


def test_members_that_lie_over_one_another_are_refused() -> None:
    """All entries of the directory lead to the same compressed bytes: the bomb that needs no nesting."""
    data = zipped(("a", bytes(range(256)) * 40), compression=zipfile.ZIP_STORED)
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entry = data[start:end]
    directory = entry * 30
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 30, 30, len(directory), start, 0)
    with pytest.raises(SourceError, match="lie over one another"):
        check_archive(data[:start] + directory + tail)


def test_a_password_is_said() -> None:
    data = bytearray(zipped(("a", b"x")))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(SourceError, match="password"):
        check_archive(bytes(data))


def test_damage_at_any_byte_is_an_error_or_nothing() -> None:
    whole = zipped(("word/document.xml", b"<a>text</a>" * 300), ("b.zip", zipped(("c", b"d" * 50))))
    refused = 0
    for cut in range(4, len(whole), 7):
        for damaged in (whole[:cut], whole[:cut] + b"\xff" + whole[cut + 1 :]):
            try:
                check_archive(damaged)
            except SourceError:
                refused += 1
    assert refused > 20
