"""Pages that come in: exports of bookmarks as jobs, pages that an extension sends, and one page by two ways."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Running
from tests.server.test_refresher import ALLOWED, page

from headwater.storage.ledger import Ledger
from headwater.testing.web_server import Page, Site

EXTENSIONS = ("chrome-extension://abcdefghijklmnop", "moz-extension://0e0f-11", "safari-web-extension://A-B")


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def netscape(site: Site) -> str:
    return f"""<!DOCTYPE NETSCAPE-Bookmark-file-1>
<TITLE>Bookmarks</TITLE><H1>Bookmarks</H1><DL><p>
<DT><H3>Water</H3><DL><p>
<DT><A HREF="{site.url("/weir")}" ADD_DATE="1700000000" TAGS="river,gauge">The weir</A><DD>Read before the flood.
<DT><A HREF="{site.url("/gone")}" ADD_DATE="1700000001" TAGS="river">The lost quokka page</A>
</DL><p>
<DT><A HREF="javascript:alert(1)">No page</A>
</DL>"""


def test_pages_of_an_export_are_jobs_and_keep_what_it_says(tmp_path: Path, site: Site, settled: Any) -> None:
    site.pages["/weir"] = page("The weir stands at four metres.")
    site.pages["/gone"] = Page(b"gone", 404)
    server = Running(tmp_path / "home", env=ALLOWED)
    with server.client() as client:
        asked = {"export": netscape(site), "collection": "bookmarks", "tags": ["mine"], "folder": "import"}
        made = client.post("/api/v1/ingest/bookmarks", json=asked).json()["data"]
        assert made["pages"] == 2
        ended = [settled(client, id) for id in made["job_ids"]]
        assert [one["state"] for one in ended] == ["completed", "completed"], ended
        found = client.post("/api/v1/retrieval", json={"question": "weir metres", "mode": "keyword"}).json()["data"]
        told = found["chunks"][0]
        assert told["title"] == "The weir" and set(told["meta"]["tags"]) == {"mine", "river", "gauge"}
        assert told["meta"]["bookmarked"].startswith("2023-11-14") and told["meta"]["listed_in"] == "bookmarks"
        document = client.get(f"/api/v1/documents/{told['document_id']}").json()["data"]
        assert document["folder"] == "import/Water" and "flood" in document["description"]
        # One whose page is gone is found by what its bookmark says.
        (dead,) = client.post("/api/v1/retrieval", json={"question": "quokka", "mode": "keyword"}).json()["data"][
            "chunks"
        ]
        assert dead["uri"] == site.url("/gone") and "404" in dead["meta"]["dead_link"]
        wrong = client.post("/api/v1/ingest/bookmarks", json={"export": "<p>no export</p>"})
        assert wrong.status_code == 422 and "Netscape" in wrong.json()["message"]
    assert server.stop() == 0


def test_a_page_has_one_document_by_either_way(server: Running, settled: Any) -> None:
    with server.client() as client:
        ids = set()
        for url in ("https://Example.org/leave?utm_source=x#top", "https://example.org/leave"):
            told = {"url": url, "html": "<h1>Leave</h1><p>Parental leave is 26 weeks.</p>", "client_source": "web"}
            job = client.post("/api/v1/ingest/html", json=told).json()["data"]
            assert settled(client, job["id"])["state"] == "completed"
            ids.add(job["document_id"])
        assert len(ids) == 1


@pytest.mark.parametrize("origin", EXTENSIONS)
def test_an_extension_sends_pages_without_a_key_and_does_nothing_else(server: Running, origin: str) -> None:
    headers = {"Origin": origin}
    body = {"url": "https://example.org/x", "html": "<p>A page that a browser has.</p>", "client_source": "extension"}
    with server.client() as client:
        sent = client.post("/api/v1/ingest/html", json=body, headers=headers)
        assert sent.status_code == 200 and sent.headers["access-control-allow-origin"] == origin
        asked = {**headers, "Access-Control-Request-Method": "POST"}
        assert client.options("/api/v1/ingest/html", headers=asked).status_code == 204
        for path, other in (("/api/v1/retrieval", {"question": "x"}), ("/api/v1/datasets", {"name": "x"})):
            refused = client.post(path, json=other, headers=headers)
            assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers
        assert (
            client.post("/api/v1/ingest/html", json=body, headers={"Origin": "https://evil.example"}).status_code == 403
        )


def test_an_event_is_new_until_it_was_applied(tmp_path: Path) -> None:
    """Who dies between noting an event and applying it has not answered: it is sent again, and must not be nothing."""
    ledger = Ledger(tmp_path)
    told = {"document": "d", "time": "2026-01-01T10:00:00"}
    assert [ledger.journal.event("anna", "e1", **told) for _ in range(2)] == ["new", "new"]
    ledger.journal.applied("anna", "e1")
    assert ledger.journal.event("anna", "e1", **told) == "seen"
    assert ledger.journal.event("ben", "e1", document="other", time="2026-01-01T09:00:00") == "new"
    late = {"document": "d", "time": "2026-01-01T09:00:00"}
    assert [ledger.journal.event("anna", "e0", **late) for _ in range(2)] == ["late", "seen"]
    ledger.close()


def test_a_page_that_does_not_fit_is_refused_when_it_is_here(tmp_path: Path, site: Site, settled: Any) -> None:
    site.pages["/weir"] = page("The weir stands at four metres. " * 100)
    server = Running(tmp_path / "home", env={**ALLOWED, "HEADWATER_SERVER__OWNER_QUOTA_BYTES": "1000"})
    with server.client() as client:
        job = client.post("/api/v1/ingest/url", json={"url": site.url("/weir")}).json()["data"]
        ended = settled(client, job["id"])
        assert ended["state"] == "failed" and "1000" in ended["reason"]
    assert server.stop() == 0
