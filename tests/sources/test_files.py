"""Files on a disk: which are given, in what order, and what is said when one cannot be read."""

import os
import time
from pathlib import Path

import pytest

from headwater.errors import NotFound, SourceError
from headwater.protocols import Source
from headwater.sources.files import FileSource
from headwater.types import Labels


def write(path: Path, content: bytes = b"text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def names(source: FileSource) -> list[str]:
    return [Path(change.uri).relative_to(source.root).as_posix() for change in source.scan()]


def test_every_file_in_a_stable_order_with_its_folder(tmp_path: Path) -> None:
    for name in ("b.md", "a.txt", "hr/policies/leave.md", "hr/z.txt", "空 格/笔记.md"):
        write(tmp_path / name)
    source = FileSource(tmp_path, owner="li", collection="kb", labels=Labels(tags=("x",)))
    assert isinstance(source, Source)
    assert names(source) == ["a.txt", "b.md", "hr/policies/leave.md", "hr/z.txt", "空 格/笔记.md"]
    changes = list(source.scan())
    assert [change.labels.folder for change in changes] == ["", "", "hr/policies", "hr", "空 格"]
    assert {(c.kind, c.owner, c.collection, c.labels.tags) for c in changes} == {("put", "li", "kb", ("x",))}
    assert changes == list(source.scan())
    assert Path(changes[0].uri).is_absolute() and changes[0].uri == (tmp_path / "a.txt").resolve().as_posix()


def test_a_folder_of_the_persons_own_goes_in_front(tmp_path: Path) -> None:
    write(tmp_path / "sub" / "a.md")
    write(tmp_path / "b.md")
    folders = [change.labels.folder for change in FileSource(tmp_path, labels=Labels(folder="work/")).scan()]
    assert folders == ["work", "work/sub"]


def test_one_file_alone(tmp_path: Path) -> None:
    path = write(tmp_path / ".hidden" / "note.md", b"# Hi")
    [change] = FileSource(path).scan()
    assert change.uri == path.resolve().as_posix() and change.labels.folder == ""
    assert FileSource(path).read(change.uri).data == b"# Hi"


def test_what_is_no_document_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "kept.md")
    for name in (".git/config", ".obsidian/app.json", ".trash/old.md", "node_modules/x/readme.md", "__pycache__/a.pyc"):
        write(tmp_path / name)
    for name in ("kept.md~", ".kept.md.swp", "a.swp", ".#kept.md", "#kept.md#", "~$report.docx", ".DS_Store"):
        write(tmp_path / name)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe.txt")
    assert names(FileSource(tmp_path)) == ["kept.md"]


def test_more_can_be_ignored(tmp_path: Path) -> None:
    for name in ("a.md", "a.log", "drafts/b.md", "drafts/c.txt", "old/d.md"):
        write(tmp_path / name)
    assert names(FileSource(tmp_path, ignore=["*.log", "drafts/*.md", "old"])) == ["a.md", "drafts/c.txt"]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    write(tmp_path / "a" / "one.md")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c.md").symlink_to(tmp_path / "a" / "one.md")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert names(FileSource(tmp_path)) == ["a/one.md", "c.md"]


def test_deep_folders_are_walked(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(300):
        folder = folder / "d"
    write(folder / "deep.md")
    assert len(names(FileSource(tmp_path))) == 1


def test_the_stamp_changes_with_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.md", b"one")
    os.utime(path, ns=(10**18, 10**18))
    [before] = FileSource(path).scan()
    assert before.stamp == f"3:{10**18}"
    path.write_bytes(b"four")
    [after] = FileSource(path).scan()
    assert after.stamp != before.stamp


def test_reading_gives_bytes_type_and_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.md", "# 标题".encode())
    os.utime(path, (1735787045, 1735787045))
    blob = FileSource(tmp_path).read(path.as_posix())
    assert (blob.data, blob.mime, blob.modified) == ("# 标题".encode(), "text/markdown", "2025-01-02T03:04:05+00:00")


def test_what_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FileSource(tmp_path, max_bytes=10)
    with pytest.raises(SourceError, match="there is no such file"):
        source.read(str(tmp_path / "missing.md"))
    with pytest.raises(SourceError, match="it is a folder"):
        source.read(str(tmp_path))
    with pytest.raises(SourceError, match=r"11 bytes, and 10 are the limit; .*max_file_bytes"):
        source.read(str(write(tmp_path / "big.txt", b"x" * 11)))
    os.mkfifo(tmp_path / "pipe")
    started = time.monotonic()
    with pytest.raises(SourceError, match="no regular file"):
        source.read(str(tmp_path / "pipe"))
    assert time.monotonic() - started < 5
    with pytest.raises(SourceError, match="null byte"):
        source.read("a\0b")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Root may read everything, so the refusal is made here.
    path = write(tmp_path / "secret.md")
    with monkeypatch.context() as patch, pytest.raises(SourceError, match="permission denied; make it readable"):
        patch.setattr("builtins.open", refuse)
        source.read(str(path))


def test_a_folder_that_cannot_be_listed_is_not_passed_over_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.md")
    write(tmp_path / "locked" / "b.md")
    listing = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return listing(path)

    monkeypatch.setattr("os.scandir", scandir)
    source = FileSource(tmp_path)
    assert names(source) == ["a.md", "locked"]
    with pytest.raises(SourceError, match="a folder that may not be listed"):
        source.read(str(tmp_path / "locked"))


def test_a_root_that_is_not_there_is_an_error_and_not_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file or folder"):
        FileSource(tmp_path / "missing").scan()


def test_a_name_that_is_not_utf8_does_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a.md")
    with open(os.fsencode(tmp_path) + b"/\xff\xfe.md", "wb") as file:
        file.write(b"x")
    uris = [change.uri for change in FileSource(tmp_path).scan()]
    assert len(uris) == 2
    for uri in uris:
        uri.encode("utf-8")
    with pytest.raises(SourceError, match="its name is not UTF-8; rename it"):
        FileSource(tmp_path).read(next(uri for uri in uris if "a.md" not in uri))
