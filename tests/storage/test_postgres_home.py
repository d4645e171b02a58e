"""A home whose catalog is a file and whose indexes are in PostgreSQL, through everything that can happen to one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from headwater.build import KnowledgeBase, open_home


@pytest.fixture
def opened(postgres_url: str, tmp_path: Path) -> Iterator[Callable[[str], KnowledgeBase]]:
    """Opens the home with these lines in its settings; the one opened before is closed."""
    home = tmp_path / "home"
    home.mkdir()
    open_now: list[KnowledgeBase] = []

    def opened_with(lines: str = "") -> KnowledgeBase:
        both = "".join(
            f'[{name}]\nuse = "postgres"\nurl = "{postgres_url}"\n' for name in ("text_index", "vector_index")
        )
        (home / "headwater.toml").write_text(both + lines, "utf-8")
        close()
        open_now.append(open_home(home))
        return open_now[-1]

    def close() -> None:
        while open_now:
            open_now.pop().close()

    yield opened_with
    close()


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("select tablename from pg_tables where schemaname = 'headwater'").fetchall()
    return {name for (name,) in found}


def in_space(number: int) -> set[str]:
    names = ("text_{}_statistics", "text_{}_documents", "text_{}_postings", "vectors_{}")
    return {name.format(number) for name in names}


def best(kb: KnowledgeBase, text: str) -> str:
    return kb.search(text).hits[0].record.uri


def test_from_the_first_document_to_the_last(
    opened: Callable[..., KnowledgeBase], handbook: Path, postgres_url: str
) -> None:
    kb = opened()
    assert kb.search("heron").hits == ()
    assert tables(postgres_url) == set(), "looking makes nothing"
    kb.add(str(handbook))
    assert tables(postgres_url) == in_space(1) and not list(kb.home.glob("text-*")) and not list(kb.home.glob("vec*"))
    assert best(kb, "PPR-9087").endswith("pump.md") and best(kb, "年假要提前多久申请").endswith("年假.md")
    assert kb.ask("How many weeks of parental leave are there?").citations[0].quote.startswith("Parents are entitled")
    hits = kb.search("leave", where='tag = "hr"').hits
    assert hits and all(hit.record.uri.endswith("leave.md") for hit in hits)
    assert kb.check() == []
    # Damage is found and mended from the catalog.
    with psycopg.connect(postgres_url) as connection:
        connection.execute("drop table headwater.text_1_postings")
        connection.execute("delete from headwater.vectors_1")
    assert len(kb.check()) == 2
    kb.check(mend=True)
    assert kb.check() == [] and best(kb, "PPR-9087").endswith("pump.md")
    # Another chunker: a space beside, then only that one.
    kb = opened("[chunk]\nsize = 100\n")
    kb.reindex()
    assert tables(postgres_url) == in_space(1) | in_space(2)
    assert best(kb, "PPR-9087").endswith("pump.md") and kb.check() == []
    assert kb.confirm() == 1
    assert tables(postgres_url) == in_space(2)
    kb.forget(*(record.id for record in kb.documents()))
    assert kb.search("PPR-9087").hits == () and kb.check() == []
