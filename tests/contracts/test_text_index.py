import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tantivy

from headwater.errors import HomeDamaged, HomeLocked, SettingError, UsageError
from headwater.filters import ALL
from headwater.protocols import TextIndex
from headwater.selection import TICKET_BITS
from headwater.storage._fresh import FILE
from headwater.storage._ranking import DOUBTED_AFTER, make_schema
from headwater.storage._text_folder import (
    FORMAT,
    FORMAT_ACCENTS,
    FORMAT_BEFORE,
    FORMAT_FILE,
    FORMAT_OFTEN,
    FORMAT_TWICE,
    META_FILE,
    PARTS,
    TextFolder,
)
from headwater.storage.memory import MemoryTextIndex
from headwater.storage.text import TantivyIndex
from headwater.testing._shelf import Shelf, ids_of, make_visible
from headwater.testing.contracts import TextIndexContract
from headwater.tokens import Cutter


class TestMemory(TextIndexContract):
    persistent = False

    def open_index(self, path: Path, shelf: Shelf) -> TextIndex:
        return MemoryTextIndex(cutter=self.cutter)

    def test_bm25_as_in_the_textbook(self, index: TextIndex, shelf: Shelf) -> None:
        only_words = {"boosts": {"content": 1.0}, "lanes": {"words": 1.0}}
        flat = MemoryTextIndex(cutter=self.cutter, k1=0.0, **only_words)
        self.fill(flat, shelf.put(1, "heron heron river"), shelf.put(2, "heron"), shelf.put(3, "fox"))
        rarity = np.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
        assert [scored.score for scored in flat.search("heron", 10, ALL)] == pytest.approx([rarity, rarity])
        assert ids_of(flat.search("heron", 10, ALL)) == [1 << TICKET_BITS, 2 << TICKET_BITS]
        full = MemoryTextIndex(cutter=self.cutter, k1=1.5, b=1.0, **only_words)
        self.fill(full, shelf.put(1, "heron heron river"), shelf.put(2, "heron"), shelf.put(3, "fox"))
        long = rarity * 2 * 2.5 / (2 + 1.5 * 3 / (5 / 3))
        short = rarity * 1 * 2.5 / (1 + 1.5 * 1 / (5 / 3))
        assert [scored.score for scored in full.search("heron", 10, ALL)] == pytest.approx(sorted([long, short])[::-1])


class TestTantivy(TextIndexContract):
    def open_index(self, path: Path, shelf: Shelf) -> TextIndex:
        return TantivyIndex(path, select=shelf.select, cutter=self.cutter, heap_mb=15)

    def test_a_reader_may_not_write(self, tmp_path: Path, shelf: Shelf) -> None:
        reader = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=self.cutter, writable=False)
        assert reader.search("heron", 10, ALL) == []
        for write in (lambda: reader.add(shelf.put(1, "heron")), lambda: reader.remove([1]), reader.clear):
            with pytest.raises(UsageError, match="writable"):
                write()
        assert not (tmp_path / "index").exists()

    def test_one_writer_at_a_time(self, index: TextIndex, shelf: Shelf, tmp_path: Path) -> None:
        self.fill(index, shelf.put(1, "heron"))
        other = self.open_index(tmp_path / "index", shelf)
        with pytest.raises(HomeLocked, match="another process"):
            other.add(shelf.put(2, "heron"))
        index.release()
        self.fill(other, shelf.put(2, "heron"))
        index.refresh()
        assert index.tickets() == {1: 1, 2: 1}

    @pytest.mark.parametrize("setting", [{"k1": 1.5}, {"b": 0.5}, {"heap_mb": 1}, {"boosts": {"titel": 2.0}}])
    def test_settings_that_cannot_be(self, tmp_path: Path, setting: dict[str, object]) -> None:
        with pytest.raises(SettingError, match=next(iter(setting))):
            TantivyIndex(tmp_path, select=Shelf().select, cutter=self.cutter, **setting)

    def test_boosts_are_settings(self, tmp_path: Path, shelf: Shelf) -> None:
        reversed_boosts = {"title": 1.0, "content": 9.0, "tags": 0.0}
        index = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=self.cutter, boosts=reversed_boosts)
        self.fill(
            index,
            shelf.put(1, "fox", title="heron"),
            shelf.put(2, "heron"),
            shelf.put(3, "fox", tags=("heron",)),
        )
        assert self.found(index, "heron") == [2, 1]

    def test_many_small_additions_leave_few_segments(self, tmp_path: Path, shelf: Shelf) -> None:
        for ticket in range(1, 41):
            index = self.open_index(tmp_path / "index", shelf)
            index.add(shelf.put(ticket, "heron"))
            index.flush()
            index.close()
        assert len(json.loads((tmp_path / "index" / "meta.json").read_text("utf-8"))["segments"]) <= 16
        assert len(self.found(self.open_index(tmp_path / "index", shelf), "heron", 100)) == 40

    # -- damage

    @pytest.fixture
    def folder(self, tmp_path: Path, shelf: Shelf) -> Path:
        index = self.open_index(tmp_path / "index", shelf)
        self.fill(index, shelf.put(1, "heron one", "heron two"), shelf.put(2, "heron three"))
        index.close()
        return tmp_path / "index"

    def damage_is_told_and_mended(self, folder: Path, shelf: Shelf) -> None:
        index = self.open_index(folder, shelf)
        with pytest.raises(HomeDamaged, match="check --repair"):
            index.refresh()
            index.search("heron", 10, ALL)
        index.clear()
        assert index.tickets() == {}
        self.fill(index, shelf.put(3, "heron again"))
        assert self.found(index, "heron") == [3]
        assert self.found(self.open_index(folder, shelf), "heron") == [3]

    @pytest.mark.parametrize("kind", ["meta.json", ".managed.json", ".idx", ".term", ".fast", ".fieldnorm", ".store"])
    @pytest.mark.parametrize("harm", ["gone", "cut", "empty"])
    def test_a_damaged_file(self, folder: Path, shelf: Shelf, kind: str, harm: str) -> None:
        victims = [path for path in folder.iterdir() if path.name.endswith(kind)]
        assert victims
        for path in victims:
            content = path.read_bytes()
            if harm == "gone":
                path.unlink()
            else:
                path.write_bytes(content[: len(content) // 2] if harm == "cut" else b"")
        if (kind, harm) == (".managed.json", "gone"):
            assert self.found(self.open_index(folder, shelf), "heron") != []
        else:
            self.damage_is_told_and_mended(folder, shelf)

    @pytest.mark.parametrize("kind", [*PARTS, "del"])
    @pytest.mark.parametrize("harm", ["gone", "first", "middle", "footer"])
    def test_harm_that_no_search_need_meet_is_told_to_who_checks(
        self, tmp_path: Path, shelf: Shelf, kind: str, harm: str
    ) -> None:
        folder = tmp_path / "index"
        index = self.open_index(folder, shelf)
        self.fill(index, shelf.put(1, "heron one", "heron two"), shelf.put(2, "heron three"))
        index.remove([2])
        index.flush()
        index.close()
        assert self.open_index(folder, shelf).tickets() == {1: 2}
        (victim,) = (path for path in folder.iterdir() if path.name.endswith(f".{kind}"))
        content = bytearray(victim.read_bytes())
        place = {"first": 0, "middle": max(0, len(content) - 120) // 2, "footer": len(content) - 12, "gone": 0}[harm]
        content[place] ^= 1
        victim.unlink()  # not written over: somebody may have it mapped still, and would read beyond its end
        if harm != "gone":
            victim.write_bytes(content)
        index = self.open_index(folder, shelf)
        with pytest.raises(HomeDamaged, match="check --repair"):
            index.tickets()
        index.clear()
        self.fill(index, shelf.put(3, "heron again"))
        again = self.open_index(folder, shelf)
        assert again.tickets() == {3: 1} and self.found(again, "heron") == [3]

    def test_a_merge_while_it_is_checked_is_no_harm(self, folder: Path, shelf: Shelf) -> None:
        index = self.open_index(folder, shelf)
        index.refresh()
        told = json.loads((folder / META_FILE).read_text("utf-8"))
        gone = next(path for path in folder.iterdir() if path.name.endswith(".store"))

        class Merged(TextFolder):
            """Another process replaces the segments after the list of them was read."""

            def verify(self) -> None:
                read, self.reads = Path.read_bytes, 0

                def seen(path: Path) -> bytes:
                    content = read(path)
                    if path.name == META_FILE and not self.reads:
                        self.reads += 1
                        gone.unlink()
                        path.write_text(json.dumps({**told, "segments": []}), "utf-8")
                    return content

                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(Path, "read_bytes", seen)
                    super().verify()

        merged = Merged(folder)
        merged.verify()
        assert merged.reads == 1 and not gone.exists()

    @pytest.mark.parametrize("content", [None, b"", b"headwater text index 0\n", b"\xff\xfe"])
    def test_another_format_must_be_rebuilt(self, folder: Path, shelf: Shelf, content: bytes | None) -> None:
        if content is None:
            (folder / FORMAT_FILE).unlink()
        else:
            (folder / FORMAT_FILE).write_bytes(content)
        self.damage_is_told_and_mended(folder, shelf)

    def test_a_folder_that_is_gone_or_never_finished_is_empty(self, folder: Path, shelf: Shelf) -> None:
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "meta.json").write_text("{", "utf-8")  # killed while it was made
        index = self.open_index(folder, shelf)
        assert index.search("heron", 10, ALL) == []
        self.fill(index, shelf.put(1, "heron"))
        assert self.found(index, "heron") == [1]


def made_by_an_earlier_release(path: Path, format: str = FORMAT_TWICE) -> Path:
    """An empty index, by default one in which a pair that is a word stands among the pairs as well."""
    path.mkdir()
    tantivy.Index(make_schema(pairs_once=False), path=str(path))
    (path / FORMAT_FILE).write_text(format, "utf-8", newline="\n")
    return path


class TestTantivyOfAnEarlierRelease(TextIndexContract):
    def open_index(self, path: Path, shelf: Shelf) -> TextIndex:
        if not path.exists():
            made_by_an_earlier_release(path)
        return TantivyIndex(path, select=shelf.select, cutter=self.cutter, heap_mb=15)

    def test_it_stays_as_it_is_until_it_is_made_anew(self, index: TextIndex, shelf: Shelf, tmp_path: Path) -> None:
        mark = tmp_path / "index" / FORMAT_FILE
        self.fill(index, shelf.put(1, "发展中国家的河流 heron"))
        reader = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=self.cutter, writable=False)
        assert mark.read_text("utf-8") == FORMAT_TWICE
        assert self.found(reader, "中国") == self.found(reader, "展中") == self.found(reader, "heron") == [1]
        index.clear()
        self.fill(index, shelf.put(2, "河流 heron"))
        assert mark.read_text("utf-8") == FORMAT
        assert self.found(index, "河流") == self.found(index, "heron") == [2]
        # Who had the other one open sees this one, with its other fields.
        reader.refresh()
        assert self.found(reader, "河流") == self.found(reader, "heron") == [2] and self.found(reader, "中国") == []


def test_pairs_are_counted_in_an_index_that_counts_them(tmp_path: Path) -> None:
    shelf = Shelf()
    made_by_an_earlier_release(tmp_path / "counted", FORMAT_OFTEN)
    scores = []
    for name in ("counted", "made"):
        index = TantivyIndex(tmp_path / name, select=shelf.select, cutter=Cutter(), heap_mb=15)
        index.add(shelf.put(1, "羲之，羲之，羲之") + shelf.put(2, "羲之") + shelf.put(3, "河流"))
        make_visible(index)
        scores.append({one.chunk_id >> TICKET_BITS: one.score for one in index.search("羲之", 10, ALL)})
        index.close()
    counted, made = scores
    assert counted.keys() == made.keys() == {1, 2}
    # Words are counted in either.
    assert counted[1] / counted[2] > made[1] / made[2] > 1


@pytest.mark.parametrize("format", [FORMAT_ACCENTS, FORMAT_TWICE])
def test_letters_keep_their_accents_in_an_index_that_has_them(tmp_path: Path, format: str) -> None:
    shelf = Shelf()
    made_by_an_earlier_release(tmp_path / "index", format)
    index = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=Cutter(), heap_mb=15)
    many = [f"Zürich {number}" for number in range(1_500)]  # enough for a second thread to cut its share
    for ticket, texts in ((1, ["the café in Zürich"]), (2, ["a cafe"]), (3, many)):
        index.add(shelf.put(ticket, *texts))
    make_visible(index)
    assert ids_of(index.search("café", 10, ALL)) == [1 << TICKET_BITS]
    assert ids_of(index.search("cafe", 10, ALL)) == [2 << TICKET_BITS]
    assert ids_of(index.search("a", 10, ALL, all_of="café")) == []
    assert len(index.search("ZÜRICH", 2_000, ALL)) == 1 + len(many)
    index.clear()
    index.add(shelf.put(4, "the café in Zürich"))
    make_visible(index)
    assert ids_of(index.search("cafe", 10, ALL)) == ids_of(index.search("Zurich", 10, ALL)) == [4 << TICKET_BITS]
    index.close()


def test_dates_and_numbers_are_found_as_the_other_language_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, cutter = Shelf(), Cutter()
    stores: list[TextIndex] = [
        MemoryTextIndex(cutter=cutter),
        TantivyIndex(tmp_path / "index", select=shelf.select, cutter=cutter, heap_mb=15),
    ]
    rows = [
        shelf.put(1, "In the 1970s the weir was rebuilt."),
        shelf.put(2, "The weir was rebuilt in August, for 66 million."),
        shelf.put(3, "上世纪70年代重建了水坝。"),
        shelf.put(4, "The weir was never rebuilt."),
        shelf.put(5, "18世纪的水坝。"),
        shelf.put(6, "Regatta XXXIII was cancelled."),
    ]
    for index in stores:
        index.add([pair for row in rows for pair in row])
        make_visible(index)
        best = index.best_score("20世纪70年代")
        told = [("20世纪70年代", 1), ("8月", 2), ("6600万", 2), ("1970s", 3), ("18th century", 5), ("第33届", 6)]
        for asked, ticket in told:
            assert ticket << TICKET_BITS in ids_of(index.search(asked, 10, ALL)), asked
            assert 4 << TICKET_BITS not in ids_of(index.search(asked, 10, ALL)), asked
        # What it is called elsewhere is no more to ask for: nothing is missing where it is missing.
        with monkeypatch.context() as without:
            without.setattr("headwater.forms.forms", lambda text: [])
            assert index.best_score("20世纪70年代 ") == best > 0


WRITER = """
import sys
from pathlib import Path
from headwater.storage.text import TantivyIndex
from headwater.testing._shelf import Shelf
from headwater.tokens import Cutter
shelf = Shelf()
index = TantivyIndex(Path(sys.argv[1]), select=shelf.select, cutter=Cutter(), heap_mb=15)
for ticket in range(int(sys.argv[2]), 10**6):
    index.add(shelf.put(ticket, *["heron at the river"] * 20))
    if ticket % 3 == 0:
        index.remove([ticket - 2])
    index.flush()
    print(ticket, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_killed_at_any_moment_nothing_flushed_is_lost(tmp_path: Path) -> None:
    shelf, random, first = Shelf(), np.random.default_rng(0), 1
    index = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=Cutter(), writable=False)
    for _ in range(5):
        command = [sys.executable, "-c", WRITER, str(tmp_path / "index"), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            said = [int(writer.stdout.readline())]
            time.sleep(float(random.uniform(0, 0.15)))
            writer.send_signal(signal.SIGKILL)
            said += [int(line) for line in writer.stdout]
        index.refresh()
        held = dict(index.tickets())
        expected = {ticket: 20 for ticket in range(1, said[-1] + 1) if ticket % 3 != 1 or ticket + 2 > said[-1]}
        # The one after the last that was told may have been flushed too, with its removal.
        after = {**expected, said[-1] + 1: 20}
        if (said[-1] + 1) % 3 == 0:
            del after[said[-1] - 1]
        assert held in (expected, after)
        first = max(held) + 1
        make_visible(index)


class TestTantivyWithTheLastChangesBesideIt(TextIndexContract):
    def open_index(self, path: Path, shelf: Shelf) -> TextIndex:
        return TantivyIndex(path, select=shelf.select, cutter=self.cutter, heap_mb=15, fresh_share=100.0)

    def test_a_small_change_leaves_the_index_on_disk_alone(
        self, index: TextIndex, shelf: Shelf, tmp_path: Path
    ) -> None:
        self.fill(index, shelf.put(1, "heron"))
        before = (tmp_path / "index" / "meta.json").read_bytes()
        self.fill(index, shelf.put(2, "heron"))
        index.remove([1])
        make_visible(index)
        assert (tmp_path / "index" / "meta.json").read_bytes() == before
        assert self.found(index, "heron") == [2]
        again = self.open_index(tmp_path / "index", shelf)
        assert self.found(again, "heron") == [2]

    def test_many_small_changes_go_into_the_index_together(self, shelf: Shelf, tmp_path: Path) -> None:
        index = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=self.cutter, heap_mb=15, fresh_share=0.1)
        self.fill(index, *(shelf.put(ticket, f"heron {ticket}") for ticket in range(1, 101)))
        sizes = []
        for ticket in range(101, 131):
            self.fill(index, shelf.put(ticket, f"heron number{ticket}"))
            sizes.append((tmp_path / "index" / FILE).stat().st_size)
            assert self.found(index, f"number{ticket}") == [ticket]
            assert index.tickets() == dict.fromkeys(range(1, ticket + 1), 1)
        assert sizes.count(0) == 2  # after ten each, and one that found no room
        assert len(index.search("heron", 1_000, ALL)) == 130

    def test_scores_are_those_of_the_index(self, shelf: Shelf, tmp_path: Path) -> None:
        beside = TantivyIndex(tmp_path / "a", select=shelf.select, cutter=self.cutter, heap_mb=15, fresh_share=100.0)
        inside = TantivyIndex(tmp_path / "b", select=shelf.select, cutter=self.cutter, heap_mb=15, fresh_share=0.0)
        # All as long as each other, so that the average is the same with and without the last.
        texts = [
            "heron river " + "reed " * 98,
            "heron heron " + "fox " * 98,
            "otter " + "river 北京大学 " * 1 + "mud " * 96,
        ]
        for ticket, text in enumerate(texts, start=1):
            rows = shelf.put(ticket, text)
            self.fill(beside, rows)
            self.fill(inside, rows)
        for query in ("heron", "river otter", "北京大学", '"heron river"'):
            wanted, got = inside.search(query, 10, ALL), beside.search(query, 10, ALL)
            assert ids_of(got) == ids_of(wanted)
            assert [one.score for one in got] == pytest.approx([one.score for one in wanted], rel=0.02)
            assert beside.best_score(query) == pytest.approx(inside.best_score(query))

    def test_a_torn_end_is_as_if_it_had_not_been_written(self, index: TextIndex, shelf: Shelf, tmp_path: Path) -> None:
        self.fill(index, shelf.put(1, "heron"))
        self.fill(index, shelf.put(2, "heron"))
        journal = tmp_path / "index" / FILE
        whole = journal.stat().st_size
        self.fill(index, shelf.put(3, "heron 北京大学"))
        index.close()
        data = journal.read_bytes()
        for length in range(whole, len(data)):
            journal.write_bytes(data[:length])
            assert self.found(self.open_index(tmp_path / "index", shelf), "heron") == [1, 2]
            journal.write_bytes(data[:length] + b"\0" * (len(data) - length))
            assert self.found(self.open_index(tmp_path / "index", shelf), "heron") == [1, 2]
        again = self.open_index(tmp_path / "index", shelf)
        self.fill(again, shelf.put(4, "heron"))
        assert self.found(self.open_index(tmp_path / "index", shelf), "heron") == [1, 2, 4]

    def test_readers_miss_nothing_while_it_goes_into_the_index(self, shelf: Shelf, tmp_path: Path) -> None:
        writer = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=self.cutter, heap_mb=15, fresh_share=0.05)
        reader = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=self.cutter, writable=False)
        self.fill(writer, *(shelf.put(ticket, "heron") for ticket in range(1, 101)))
        rows = {ticket: shelf.put(ticket, "heron") for ticket in range(101, 161)}
        flushed, failures, ended = [100], [], threading.Event()

        def read(index: TextIndex, *, refresh: bool) -> None:
            while not ended.is_set():
                least = flushed[0]
                if refresh:
                    index.refresh()
                found = len(index.search("heron", 1_000, ALL))
                if found < least:
                    failures.append((found, least))

        others = [
            threading.Thread(target=read, args=(reader,), kwargs={"refresh": True}),
            threading.Thread(target=read, args=(writer,), kwargs={"refresh": False}),
        ]
        for other in others:
            other.start()
        for ticket, chunks in rows.items():
            self.fill(writer, chunks)
            flushed[0] = ticket
        ended.set()
        for other in others:
            other.join()
        assert not failures

    def test_an_index_of_the_first_format_is_taken_over(self, shelf: Shelf, tmp_path: Path) -> None:
        mark = made_by_an_earlier_release(tmp_path / "index") / FORMAT_FILE
        mark.write_text(FORMAT_BEFORE, "utf-8")
        index = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=self.cutter, heap_mb=15)
        self.fill(index, shelf.put(1, "heron"))
        index.close()
        assert mark.read_text("utf-8") == FORMAT_BEFORE
        again = self.open_index(tmp_path / "index", shelf)
        assert self.found(again, "heron") == [1]
        self.fill(again, shelf.put(2, "heron"))
        assert mark.read_text("utf-8") == FORMAT_TWICE  # an older release must not read it without what is beside it
        assert self.found(again, "heron") == [1, 2]


def test_a_field_that_nothing_is_in_is_asked_no_more_until_something_is(tmp_path: Path) -> None:
    shelf = Shelf()
    index = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=Cutter(), heap_mb=15, fresh_share=0)
    index.add(shelf.put(1, "the weir at the mill"))
    make_visible(index)
    for number in range(2 * DOUBTED_AFTER):
        assert index.search(f"word{number}", 10, ALL) == []
    learned = index._learned
    assert learned is not None and "title" in learned._empty and not learned._empty & {"words", "grams", "codes"}
    index.add(shelf.put(2, "a mill", title="heron"))
    make_visible(index)
    assert ids_of(index.search("heron", 10, ALL)) == [2 << TICKET_BITS]
    index.close()
