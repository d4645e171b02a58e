"""A home that was made before links were kept has them after it was opened once."""

import sqlite3
from pathlib import Path

from headwater.storage.sqlite import SqliteCatalog
from headwater.testing.versions import SPACE, made, named, put
from headwater.types import Link, Span


def test_links_of_earlier_documents_are_found_after_the_migration(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    catalog = SqliteCatalog(path)
    catalog.open_space(SPACE)
    links = tuple(Link(kind="wikilink", target=t, span=Span(0, 1)) for t in ("The Weir#Gate", "#here", "gate.md"))
    weir, gate, hub = catalog.draw([put("notes/weir.md"), put("notes/gate.md"), put("hub.md")])
    catalog.commit(
        [made(weir, "weir", title="The weir"), made(gate, "gate", title="Gate"), made(hub, "hub", links=links)]
    )
    expected = catalog.links([named(hub)])
    assert expected == sorted([(named(hub), named(weir)), (named(hub), named(gate))])
    catalog.close_store()
    db = sqlite3.connect(path)
    for statement in ("drop table link", "drop index document_title", "drop index document_file"):
        db.execute(statement)
    db.execute("pragma user_version = 3")
    db.commit()
    db.close()
    again = SqliteCatalog(path)
    assert again.links([named(hub)]) == expected == again.links([named(weir), named(gate)])
    assert again.check() == []
    again.close_store()
