"""Obsidian vaults: notes with their place in the vault, a link that opens them, and nothing of Obsidian's own."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import headwater
from headwater.protocols import Source
from headwater.sources.files import FileSource
from headwater.sources.vault import VaultSource, vault_of
from headwater.types import Labels


def make_vault(root: Path) -> Path:
    vault = root / "My vault"
    notes = {
        ".obsidian/app.json": json.dumps({"userIgnoreFilters": ["Templates/", "/^draft-/"]}),
        ".trash/old.md": "deleted",
        "Home.md": "# Home\n\nSee [[River & sea|the river]] and #water/level.",
        "Rivers/River & sea.md": "---\naliases: [stream]\n---\n# River\n\nThe river reached 7.42 metres.",
        "Rivers/水位.md": "# 水位\n\n警戒水位为七米。",
        "Rivers/attached.csv": "station,level,date\nA,7.1,2025-01-01\nB,7.2,2025-01-02\n",
        "Templates/daily.md": "# {{date}}",
        "draft-1.md": "# not yet",
        "Board.canvas": "{}",
    }
    for name, text in notes.items():
        path = vault / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return vault


def test_a_vault_is_told_from_a_folder(tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    assert vault_of(vault) == vault_of(vault / "Rivers") == vault_of(vault / "Home.md") == vault.resolve()
    assert vault_of(tmp_path) is None


def test_notes_know_their_place(tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    source = VaultSource(vault, files=FileSource(vault))
    assert isinstance(source, Source)
    found = {change.labels.meta["path"]: change for change in source.scan()}
    assert sorted(found) == ["Home.md", "Rivers/River & sea.md", "Rivers/attached.csv", "Rivers/水位.md"]
    river = found["Rivers/River & sea.md"]
    assert river.labels.folder == "Rivers" and river.labels.meta["vault"] == "My vault"
    link = urlsplit(str(river.labels.meta["link"]))
    assert (link.scheme, link.netloc) == ("obsidian", "open")
    assert parse_qs(link.query) == {"vault": ["My vault"], "file": ["Rivers/River & sea"]}
    assert str(found["Rivers/attached.csv"].labels.meta["link"]).endswith("Rivers%2Fattached.csv")
    assert source.read(river.uri).data.endswith(b"7.42 metres.")


def test_a_part_of_a_vault_is_filed_as_in_the_whole(tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    whole = {c.uri: c for c in VaultSource(vault, files=FileSource(vault)).scan()}
    part = list(VaultSource(vault, files=FileSource(vault / "Rivers")).scan())
    assert len(part) == 3 and all(change == whole[change.uri] for change in part)
    labelled = VaultSource(vault, files=FileSource(vault, labels=Labels(folder="mine")), labels=Labels(folder="mine/"))
    assert {c.labels.folder for c in labelled.scan()} == {"mine", "mine/Rivers"}


def test_settings_that_cannot_be_read_leave_nothing_out(tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    for text in ("not json", "[]", '{"userIgnoreFilters": [7]}', '{"userIgnoreFilters": ["/(/"]}'):
        (vault / ".obsidian" / "app.json").write_text(text, encoding="utf-8")
        assert len(list(VaultSource(vault, files=FileSource(vault)).scan())) == 6, text


def test_a_vault_is_added_and_kept_in_step(tmp_path: Path) -> None:
    vault = make_vault(tmp_path)
    with headwater.open(tmp_path / "kb") as kb:
        assert kb.add(vault).added == 4
        record = kb.record(str(vault / "Rivers" / "水位.md"))
        assert record.folder == "Rivers" and str(record.meta["link"]).startswith(
            "obsidian://open?vault=My%20vault&file="
        )
        assert [hit.uri for hit in kb.search("警戒水位", where='folder = "Rivers"', top_n=1)] == [record.uri]
        assert kb.add(vault / "Rivers").unchanged == 3
        (vault / "Home.md").unlink()
        assert kb.add(vault, prune=True).removed == 1
        assert kb.add(vault / "Rivers" / "水位.md").unchanged == 1
