"""Bookmarks, feeds and sitemaps: lists whose pages become documents, and stay findable when a page is dead."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.starter import headwater as command

import headwater
from headwater import config as settings
from headwater.errors import SourceError, UsageError
from headwater.protocols import Source
from headwater.refresh import due, refresh, subscribe, unsubscribe
from headwater.sources import bookmarks, feed
from headwater.sources._stand_in import says_nothing
from headwater.storage.subscriptions import MOST_PATIENCE, Subscriptions
from headwater.testing.web_server import Page, Site
from headwater.types import Blob

PAGE = "<html><head><title>{0}</title></head><body><h1>{0}</h1><p>{1}</p></body></html>"
LONG = "A sentence about the river that is long enough for a page to say something of its own accord."


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[headwater.KnowledgeBase]:
    told = settings.load(tmp_path, flags={"web.allow_private": True, "web.timeout_seconds": 10.0})
    with headwater.open(tmp_path / "kb", config=told) as opened:
        yield opened


def netscape(*rows: str) -> str:
    return (
        "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<!-- This is an automatically generated file. -->\n"
        '<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">\n<TITLE>Bookmarks</TITLE>\n'
        "<H1>Bookmarks</H1>\n<DL><p>\n" + "\n".join(rows) + "\n</DL><p>\n"
    )


# ----------------------------------------------------------------------------------------- formats


def test_netscape_with_folders_tags_notes_and_dates() -> None:
    text = netscape(
        '<DT><H3 ADD_DATE="1700000000" PERSONAL_TOOLBAR_FOLDER="true">Toolbar</H3>',
        "<DL><p>",
        '<DT><A HREF="https://a.example/one" ADD_DATE="1700000001" LAST_MODIFIED="1700000002" TAGS="river,水文" '
        'ICON="data:image/png;base64,AAAA">One &amp; only</A>',
        "<DD>What it is about",
        "on two lines",
        "<DT><H3>Inner/deep</H3>",
        "<DL><p>",
        '<DT><A HREF="https://a.example/two">二</A>',
        "</DL><p>",
        '<DT><A HREF="javascript:void(0)">a program</A>',
        '<DT><A HREF="place:sort=8">a place of the browser</A>',
        "</DL><p>",
        '<DT><A HREF="https://a.example/one?utm_source=x#y" TAGS="again">twice</A>',
        '<DT><A HREF="https://b.example">Three</A>',
    )
    assert bookmarks.recognised(text.encode()) == "netscape"
    one, two, three = bookmarks.read_export(text.encode())
    assert (one.url, one.title, one.folder) == ("https://a.example/one", "One & only", "Toolbar")
    assert one.tags == ("river", "水文", "again") and one.description == "What it is about\non two lines"
    assert one.added == "2023-11-14T22:13:21+00:00" and one.modified == "2023-11-14T22:13:22+00:00"
    assert (two.url, two.title, two.folder) == ("https://a.example/two", "二", "Toolbar/Inner-deep")
    assert (three.url, three.folder) == ("https://b.example/", "")


def test_pocket_html_and_csv() -> None:
    html = (
        "<!DOCTYPE html><html><head><title>Pocket Export</title></head><body><h1>Unread</h1><ul>"
        '<li><a href="https://a.example/1" time_added="1700000000" tags="x,y">First</a></li></ul>'
        "<h1>Read Archive</h1><ul>"
        '<li><a href="https://a.example/2" time_added="1700000001" tags="">Second</a></li></ul>'
    )
    first, second = bookmarks.read_export(html.encode())
    assert (first.title, first.tags, first.added) == ("First", ("x", "y"), "2023-11-14T22:13:20+00:00")
    assert (second.title, second.tags) == ("Second", ())
    assert (first.status, second.status, first.folder) == ("unread", "archive", "")
    table = "title,url,time_added,tags,status\nFirst,https://a.example/1,1700000000,x|y z,unread\n"
    assert bookmarks.recognised(table.encode()) == "pocket"
    [one] = bookmarks.read_export(table.encode())
    assert (one.title, one.tags, one.status) == ("First", ("x", "y z"), "unread")


def test_raindrop_and_instapaper() -> None:
    raindrop = (
        "\ufeffid,title,note,excerpt,url,folder,tags,created,cover,highlights,favorite\n"
        '7,Dam,"my ""own"" note","what\nit says",https://a.example/dam,Work / Water,"dam, 水库",'
        "2024-05-01T10:00:00.000Z,,Highlight:a line,true\n"
        "8,Loose,,,https://a.example/loose,Unsorted,,2024-05-02T10:00:00.000Z,,,false\n"
    )
    dam, loose = bookmarks.read_export(raindrop.encode())
    assert (dam.title, dam.note, dam.description) == ("Dam", 'my "own" note', "what\nit says")
    assert (dam.folder, dam.tags, dam.added) == ("Work/Water", ("dam", "水库"), "2024-05-01T10:00:00+00:00")
    assert dam.meta == {"favorite": True, "highlights": "Highlight:a line"}
    assert (loose.folder, loose.status, loose.meta) == ("", "unsorted", {})
    instapaper = (
        "URL,Title,Selection,Folder,Timestamp,Tags\n"
        'https://a.example/x,X,some words,Archive,1700000000,"[""law""]"\n'
        "https://a.example/y,Y,,Reading list,1700000001,[]\n"
    )
    assert bookmarks.recognised(instapaper.encode()) == "instapaper"
    x, y = bookmarks.read_export(instapaper.encode())
    assert (x.folder, x.status, x.tags, x.description) == ("", "archive", ("law",), "some words")
    assert (y.folder, y.status, y.tags) == ("Reading list", "", ())


@pytest.mark.parametrize(
    "data",
    [b"", b"name,age\nLi,3\n", b"<html><title>Pocket</title>", b"title,url\na,b\n", b"\xff\xfe\x00", b"<p>hello</p>"],
)
def test_other_files_are_no_exports(data: bytes) -> None:
    assert bookmarks.recognised(data) == ""
    with pytest.raises(SourceError, match="no export"):
        bookmarks.read_export(data)


def test_an_export_that_was_cut_is_told() -> None:
    html = netscape("<DT><H3>Inner</H3>", "<DL><p>", '<DT><A HREF="https://a.example/one">One</A>', "</DL><p>")
    pocket = '<html><title>Pocket Export</title><ul><li><a href="https://a.example/one">One</a></li></ul></html>'
    for whole, last in ((html, "</DL>"), (pocket, "</ul>")):
        assert not bookmarks.is_cut(whole.encode())
        for end in range(whole.index("https"), whole.rindex(last) + len(last) - 1):
            assert bookmarks.is_cut(whole[:end].encode()), whole[:end]
            # Half of an address would be another address.
            assert {one.url for one in bookmarks.read_export(whole[:end].encode())} <= {"https://a.example/one"}
    rows = [
        "url,title,selection,folder,timestamp",
        'https://a.example/1,"a ""x"", b",,Unread,1',
        "https://a.example/2,c,,,2",
    ]
    table = "\r\n".join(rows)
    for whole in (table, table + "\r\n", rows[0], "\r\n".join(rows[:2]) + "\r\n"):
        assert not bookmarks.is_cut(whole.encode())
    for row, before in ((rows[1], []), (rows[2], ["https://a.example/1"])):
        start = table.index(row)
        for end in range(start + 1, start + row.rindex(",") + 1):
            assert bookmarks.is_cut(table[:end].encode()), table[:end]
            assert [one.url for one in bookmarks.read_export(table[:end].encode())] == before
    assert not bookmarks.is_cut(b"hello")


@pytest.mark.parametrize("kind", ["html", "csv"])
def test_nothing_is_pruned_for_an_export_that_was_cut(
    kb: headwater.KnowledgeBase, site: Site, tmp_path: Path, kind: str
) -> None:
    urls = [site.html(f"/{name}", PAGE.format(name, LONG)) for name in ("one", "two", "three")]
    if kind == "html":
        whole = netscape(*(f'<DT><A HREF="{url}">{url}</A>' for url in urls))
    else:
        whole = "".join(["url,title,selection,folder,timestamp\n", *(f"{url},t,,Unread,1\n" for url in urls)])
    export = tmp_path / f"export.{kind}"
    export.write_text(whole)
    assert kb.add(export).added == 3
    export.write_text(whole[: whole.index("/three") + 3])
    for dry_run in (True, False):
        report = kb.add(export, prune=True, dry_run=dry_run)
        assert (report.added, report.unchanged, report.removed, report.missing) == (0, 2, 0, ())
        [failure] = report.failed
        assert failure.uri == export.as_posix()
        assert "was cut" in failure.reason and "no page counts as gone" in failure.reason
    assert {record.uri for record in kb.documents()} == set(urls)
    gone = whole.replace(f'<DT><A HREF="{urls[2]}">{urls[2]}</A>', "").replace(f"{urls[2]},t,,Unread,1\n", "")
    export.write_text(gone)
    report = kb.add(export, prune=True)
    assert (report.removed, report.failed) == (1, ())


def test_an_export_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = tmp_path / "export.html"
    export.write_text(netscape('<DT><A HREF="https://a.example/one">One</A>'))
    monkeypatch.setattr(bookmarks, "MAX_BYTES", 100)
    source = bookmarks.BookmarkSource(export, read=lambda uri: Blob(uri=uri, data=b""))
    with pytest.raises(SourceError, match="larger than 100 bytes; export your bookmarks in parts"):
        list(source.scan())


@pytest.mark.parametrize(
    ("html", "nothing"),
    [
        (
            "<html><head><title>App</title></head><body><div id=root></div><script>var x='" + "a" * 500 + "'</script>",
            True,
        ),
        ("<body><noscript>Please enable JavaScript to run this app, it needs it very much indeed</noscript>", True),
        ("<body><!-- " + "words " * 50 + "--><div>Loading…</div>", True),
        ("<body><style>" + "a{} " * 100, True),
        (f"<body><p>{LONG}</p>", False),
        (f"<body><script>x</SCRIPT ><p>{LONG}</p>", False),
        (f"<body><header>{LONG}</header>", False),
        ("<script" * 30_000, True),
        ("<html><body><p>水井深四十米。</p></body></html>", False),
        ("<html><body><p>水井深四十米。</p><script src=a.js></script></body></html>", True),
    ],
)
def test_an_empty_frame_is_told_from_a_page(html: str, nothing: bool) -> None:
    assert says_nothing(Blob(uri="u", data=html.encode(), mime="text/html")) is nothing


# --------------------------------------------------------------------------------------- bookmarks


def test_bookmarks_become_documents_and_dead_ones_stay_findable(
    kb: headwater.KnowledgeBase, site: Site, tmp_path: Path
) -> None:
    site.html("/pump", PAGE.format("Pump manual", f"Error PPR-9087 means a blocked intake. {LONG}"))
    site.html("/app", "<title>App</title><div id=root></div>")
    site.pages["/film"] = Page(b"\x00\x00\x00\x18ftypmp42" + b"\0" * 40)
    export = tmp_path / "bookmarks.html"
    rows = [
        "<DT><H3>Water</H3>\n<DL><p>",
        f'<DT><A HREF="{site.url("/pump")}" ADD_DATE="1700000000" TAGS="ops">My pump</A>\n<DD>the note quillwort',
        f'<DT><A HREF="{site.url("/dead")}" TAGS="old,hydrograph">Zeppelin archive</A>\n<DD>About 飞艇 and rivers',
        "</DL><p>",
        f'<DT><A HREF="{site.url("/app")}">Dashboard of gauges</A>',
        f'<DT><A HREF="{site.url("/film")}">A film of the flood</A>',
    ]
    export.write_text(netscape(*rows), encoding="utf-8")
    before = kb.add(export, dry_run=True)
    assert (before.added, site.asked) == (4, [])
    report = kb.add(export, tags=["mine"])
    assert (report.added, report.failed) == (4, ())
    pump = kb.record(site.url("/pump"))
    assert (pump.title, pump.folder, pump.tags) == ("My pump", "Water", ("mine", "ops"))
    assert pump.meta["bookmarked"] == "2023-11-14T22:13:20+00:00" and "dead_link" not in pump.meta
    assert "PPR-9087" in kb.document(site.url("/pump")).text
    assert next(iter(kb.search("quillwort", mode="keyword"))).uri == site.url("/pump")
    dead = kb.record(site.url("/dead"))
    assert dead.state == "completed" and "404" in str(dead.meta["dead_link"]) and dead.folder == "Water"
    for query in ("Zeppelin", "飞艇", "hydrograph"):
        assert next(iter(kb.search(query, mode="keyword"))).uri == site.url("/dead"), query
    assert kb.record(site.url("/app")).meta["dead_link"] == "the page holds no text"
    assert "no parser" in str(kb.record(site.url("/film")).meta["dead_link"])
    # Again: what is alive is no work and is not even asked for; what is dead is tried again.
    site.asked.clear()
    site.html("/dead", PAGE.format("Back", f"The zeppelin page is back. {LONG}"))
    again = kb.add(export, tags=["mine"])
    assert (again.added, again.updated, again.failed) == (0, 1, ())
    assert "/pump" not in site.paths() and "dead_link" not in kb.record(site.url("/dead")).meta
    assert kb.record(site.url("/dead")).title == "Zeppelin archive"


def test_a_bookmark_of_what_cannot_be_read_stays_findable(
    kb: headwater.KnowledgeBase, site: Site, tmp_path: Path
) -> None:
    site.pages["/scan"] = Page(b"%PDF-1.4\nnot really", headers={"Content-Type": "application/pdf"})
    site.pages["/none"] = Page(b"[]", headers={"Content-Type": "application/json"})
    export = tmp_path / "bookmarks.html"
    rows = [
        f'<DT><A HREF="{site.url("/scan")}">Zeppelin plans</A>',
        f'<DT><A HREF="{site.url("/none")}">List of quillworts</A>',
    ]
    export.write_text(netscape(*rows), encoding="utf-8")
    report = kb.add(export)
    assert (report.added, report.failed) == (2, ())
    assert "not a PDF" in str(kb.record(site.url("/scan")).meta["dead_link"])
    for query, path in (("Zeppelin", "/scan"), ("quillworts", "/none")):
        assert [hit.uri for hit in kb.search(query, mode="keyword")] == [site.url(path)]
    again = kb.add(export)
    assert (again.added, again.updated, again.unchanged, again.failed) == (0, 0, 2, ())


def test_a_bookmark_that_is_gone_from_the_export_goes_only_with_prune(
    kb: headwater.KnowledgeBase, site: Site, tmp_path: Path
) -> None:
    urls = [site.html(f"/{name}", PAGE.format(name, LONG)) for name in ("one", "two")]
    other = tmp_path / "other.md"
    other.write_text("# Other\n\nAnother document.", encoding="utf-8")
    kb.add(other)
    export = tmp_path / "export.csv"
    head = "title,url,time_added,tags,status\n"
    export.write_text(head + "".join(f"T,{url},1700000000,,unread\n" for url in urls), encoding="utf-8")
    assert kb.add(export).added == 2
    export.write_text(head + f"T,{urls[0]},1700000000,,unread\n", encoding="utf-8")
    assert kb.add(export).missing == (urls[1],)
    assert kb.add(export, prune=True).removed == 1
    assert {record.uri for record in kb.documents()} == {urls[0], other.as_posix()}


# ------------------------------------------------------------------------------------- feeds, sitemaps

RSS = """<?xml version="1.0"?><!-- made by hand --><rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel><title>News</title><link>{0}/</link>
<item><title>High &amp;amp; low</title><link>{0}/high</link><pubDate>Wed, 01 Oct 2025 10:00:00 GMT</pubDate>
<description>&lt;p&gt;The level &lt;b&gt;rose&lt;/b&gt;&lt;/p&gt;</description><category>water</category></item>
<item><title>Gone page</title><guid>{0}/gone</guid><description>On the obsolete lock</description></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title><link href="{0}/" />
<entry><title>High</title><link rel="self" href="{0}/self"/><link href="/high"/><updated>2025-10-01T10:00:00Z</updated>
<summary>The level rose</summary><category term="water"/></entry></feed>"""
SITEMAP = """<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{0}</urlset>"""


def test_feeds_of_every_kind() -> None:
    base = "https://a.example"
    listed = feed.read_entries(RSS.format(base).encode(), base)
    high, gone = listed.entries
    assert (listed.sitemaps, listed.fault) == ((), "") and feed.recognised(RSS.encode()) == "rss"
    assert (high.url, high.title, high.summary) == (f"{base}/high", "High & low", "The level rose")
    assert (high.tags, gone.url, gone.updated) == (("water",), f"{base}/gone", "")
    [entry] = feed.read_entries(ATOM.format(base).encode(), base).entries
    assert (entry.url, entry.tags, entry.updated) == (f"{base}/high", ("water",), "2025-10-01T10:00:00Z")
    assert feed.recognised(ATOM.encode()) == "feed"
    assert feed.recognised(b"\xef\xbb\xbf" + SITEMAP.encode()) == "urlset"
    assert feed.recognised(b"<html><body><rss>") == "" and feed.recognised(b"<rsstuff>") == ""
    bomb = b'<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b SYSTEM "file:///etc/passwd">]><rss><item><link>&a;&b;</link></item></rss>'
    assert "root" not in repr(feed.read_entries(bomb, base))
    with pytest.raises(SourceError, match="no feed"):
        feed.read_entries(b"", base)


def test_a_sitemap_may_be_packed(kb: headwater.KnowledgeBase, site: Site) -> None:
    urls = [site.html(f"/{name}", PAGE.format(name, LONG)) for name in ("one", "two")]
    index = '<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>{}</loc></sitemap></sitemapindex>'
    packed = gzip.compress(SITEMAP.format("".join(f"<url><loc>{url}</loc></url>" for url in urls)).encode())
    site.pages["/pages.xml.gz"] = Page(packed, headers={"Content-Type": "application/gzip"})
    site.pages["/sitemap.xml"] = Page(index.format(site.url("/pages.xml.gz")).encode())
    assert kb.add(site.url("/sitemap.xml")).added == 2
    assert kb.add(site.url("/pages.xml.gz"), collection="direct").added == 2
    assert feed.recognised(b"\x1f\x8bnonsense") == ""
    site.pages["/pages.xml.gz"] = Page(packed[:40])
    report = kb.add(site.url("/sitemap.xml"), prune=True)
    [failure] = report.failed
    assert failure.uri == site.url("/pages.xml.gz") and "is no feed" in failure.reason
    assert report.removed == 0 and report.missing == ()
    assert len(kb.documents('collection = "default"')) == 2


def test_a_feed_that_failed_at_first_is_no_document_when_it_is_back(kb: headwater.KnowledgeBase, site: Site) -> None:
    site.html("/high", PAGE.format("High", LONG))
    site.pages["/feed.xml"] = Page(b"away", 503)
    assert len(kb.add(site.url("/feed.xml")).failed) == 1
    site.pages["/feed.xml"] = Page(ATOM.format(site.url("")).encode())
    report = kb.add(site.url("/feed.xml"))
    assert (report.added, report.removed, report.failed) == (1, 0, ())
    assert [record.uri for record in kb.documents()] == [site.url("/high")]


@pytest.mark.parametrize("answer", [Page(b"away", 503), Page(b"gone", 404), Page(b"%PDF-1.4\nbroken")])
def test_a_page_that_cannot_be_had_again_keeps_what_it_said(
    kb: headwater.KnowledgeBase, site: Site, answer: Page
) -> None:
    url = site.html("/rain", PAGE.format("Rain", f"The gauge reached 7.42 metres. {LONG}"))
    site.pages["/sitemap.xml"] = Page(SITEMAP.format(f"<url><loc>{url}</loc></url>").encode())
    assert kb.add(site.url("/sitemap.xml")).added == 1
    alive, site.pages["/rain"] = site.pages["/rain"], answer
    for _ in range(2):  # also where it failed before
        [failure] = kb.add(site.url("/sitemap.xml")).failed
        assert failure.uri == url
        assert "7.42" in kb.document(url).text and len(kb.search("7.42 metres", mode="keyword")) == 1
    site.pages["/rain"] = alive
    assert kb.add(site.url("/sitemap.xml")).failed == () and kb.record(url).state == "completed"


def test_the_pages_of_a_feed_are_added_and_the_feed_itself_is_not(kb: headwater.KnowledgeBase, site: Site) -> None:
    site.html("/high", PAGE.format("High", f"The level reached 7.42 metres. {LONG}"))
    site.pages["/feed.xml"] = Page(RSS.format(site.url("")).encode(), headers={"Content-Type": "application/rss+xml"})
    report = kb.add(site.url("/feed.xml"), tags=["news"])
    assert (report.added, report.failed) == (2, ())
    assert {record.uri for record in kb.documents()} == {site.url("/high"), site.url("/gone")}
    high, gone = kb.record(site.url("/high")), kb.record(site.url("/gone"))
    assert high.tags == ("news", "water") and "7.42" in kb.document(high.id).text
    assert high.meta["listed_in"] == site.url("/feed.xml")
    assert "404" in str(gone.meta["dead_link"]) and len(kb.search("obsolete lock", mode="keyword")) == 1
    site.asked.clear()
    again = kb.add(site.url("/feed.xml"), tags=["news"], prune=True)
    # A feed shows only its latest entries: nothing is gone because it is no longer shown.
    assert (again.added, again.removed) == (0, 0) and "/high" not in site.paths()
    site.pages["/feed.xml"] = Page(ATOM.format(site.url("")).encode())
    assert kb.add(site.url("/feed.xml"), prune=True).removed == 0


def test_a_sitemap_of_sitemaps_and_its_prune(kb: headwater.KnowledgeBase, site: Site) -> None:
    urls = [site.html(f"/{name}", PAGE.format(name, LONG)) for name in ("one", "two")]
    listed = [f"<url><loc>{url}</loc><lastmod>2025-10-01</lastmod></url>" for url in urls]
    site.pages["/part.xml"] = Page(SITEMAP.format("".join(listed)).encode())
    index = f"<sitemapindex><sitemap><loc>{site.url('/part.xml')}</loc></sitemap></sitemapindex>"
    site.pages["/sitemap.xml"] = Page(index.encode())
    assert kb.add(site.url("/sitemap.xml")).added == 2
    site.pages["/part.xml"] = Page(SITEMAP.format(listed[0]).encode())
    assert kb.add(site.url("/sitemap.xml")).missing == (urls[1],)
    report = kb.add(site.url("/sitemap.xml"), prune=True)
    assert (report.removed, report.unchanged) == (1, 1)


def test_an_entry_without_a_good_address_is_passed_over(site: Site) -> None:
    listed = SITEMAP.format("<url><loc>http://[bad/</loc></url><url><loc>/good</loc></url>").encode()
    rss = b"<rss><item><link>http://[bad/</link></item><item><link>/good</link></item></rss>"
    for data in (listed, rss):
        source = feed.FeedSource(site.url("/s.xml"), read=lambda uri, data=data: Blob(uri=uri, data=data))
        assert [change.uri for change in source.scan()] == [site.url("/good")]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Page(b"away", 503), "answered with an error (503"),
        (Page(b""), "is no feed that can be read"),
        (Page(PAGE.format("Not found", LONG).encode()), "it begins with <html>"),
        (Page(b"", 302, {"Location": "http://[bad/"}), "is no address"),
    ],
)
def test_a_broken_sitemap_takes_nothing_from_the_others(
    kb: headwater.KnowledgeBase, site: Site, answer: Page, reason: str
) -> None:
    urls = [site.html(f"/{name}", PAGE.format(name, LONG)) for name in ("one", "two", "three")]
    for url in urls:
        site.pages[url.removeprefix(site.url("")) + ".xml"] = Page(
            SITEMAP.format(f"<url><loc>{url}</loc></url>").encode()
        )
    parts = "".join(f"<sitemap><loc>{url}.xml</loc></sitemap>" for url in urls)
    site.pages["/sitemap.xml"] = Page(f"<sitemapindex>{parts}</sitemapindex>".encode())
    whole, site.pages["/two.xml"] = site.pages["/two.xml"], answer
    for given in ({"dry_run": True}, {}):
        report = kb.add(site.url("/sitemap.xml"), **given)
        assert report.added == 2
        [failure] = report.failed
        assert failure.uri == urls[1] + ".xml" and reason in failure.reason
    assert {record.uri for record in kb.documents()} == {urls[0], urls[2]}
    site.pages["/two.xml"] = whole
    assert kb.add(site.url("/sitemap.xml")).failed == () and len(kb.documents()) == 3
    # Nobody knows what a broken one would have named: nothing is gone.
    site.pages["/two.xml"] = answer
    report = kb.add(site.url("/sitemap.xml"), prune=True)
    assert (report.removed, report.missing, len(report.failed)) == (0, (), 1) and len(kb.documents()) == 3


def test_a_sitemap_is_read_up_to_where_it_was_cut() -> None:
    urls = [f"https://a.example/{name}?a=1&amp;b=2" for name in ("one", "two")]
    entries = "".join(f"<url>\n<loc>{url}</loc><lastmod>2025-10-01</lastmod></url><!-- - -->" for url in urls)
    data = SITEMAP.format(entries).encode()
    plain = [url.replace("&amp;", "&") for url in urls]
    for end in range(data.index(b"<url>"), len(data)):
        listed = feed.read_entries(data[:end], "https://a.example/s.xml")
        # Half of an address would be another address.
        assert [entry.url for entry in listed.entries] == plain[: data[:end].count(b"</url>")], data[:end]
        assert "https://a.example/s.xml was cut (" in listed.fault
    for whole in (data, b"\n" + data, data.decode().replace("UTF-8", "UTF-16").encode("utf-16")):
        listed = feed.read_entries(whole, "https://a.example/s.xml")
        assert ([entry.url for entry in listed.entries], listed.fault) == (plain, "")


@pytest.mark.parametrize("through_an_index", [False, True])
def test_nothing_is_pruned_for_a_sitemap_that_was_cut(
    kb: headwater.KnowledgeBase, site: Site, through_an_index: bool
) -> None:
    urls = [site.html(f"/{name}", PAGE.format(name, LONG)) for name in ("new", "one", "two", "three")]
    rows = [f"<url><loc>{url}</loc></url>" for url in urls]
    given = site.url("/index.xml" if through_an_index else "/sitemap.xml")
    site.pages["/index.xml"] = Page(
        f"<sitemapindex><sitemap><loc>{site.url('/sitemap.xml')}</loc></sitemap></sitemapindex>".encode()
    )
    site.pages["/sitemap.xml"] = Page(SITEMAP.format("".join(rows[1:])).encode())
    assert kb.add(given).added == 3
    whole = SITEMAP.format("".join(rows)).encode()
    site.pages["/sitemap.xml"] = Page(whole[: whole.index(b"/two<") + 3])
    site.asked.clear()
    for dry_run in (True, False):
        report = kb.add(given, prune=True, dry_run=dry_run)
        assert (report.added, report.removed, report.missing) == (1, 0, ())
        [failure] = report.failed
        assert failure.uri == site.url("/sitemap.xml")
        assert "was cut" in failure.reason and "no page counts as gone" in failure.reason
    assert "/new" in site.paths() and "/tw" not in site.paths()
    assert {record.uri for record in kb.documents()} == set(urls)
    site.pages["/sitemap.xml"] = Page(SITEMAP.format("".join(rows[:2])).encode())
    report = kb.add(given, prune=True)
    assert (report.removed, report.failed) == (2, ())


def test_nothing_is_pruned_for_a_list_of_sitemaps_that_was_cut(kb: headwater.KnowledgeBase, site: Site) -> None:
    urls = [site.html(f"/{name}", PAGE.format(name, LONG)) for name in ("one", "two")]
    for url in urls:
        site.pages[url.removeprefix(site.url("")) + ".xml"] = Page(
            SITEMAP.format(f"<url><loc>{url}</loc></url>").encode()
        )
    parts = "".join(f"<sitemap><loc>{url}.xml</loc></sitemap>" for url in urls)
    index = f"<sitemapindex>{parts}</sitemapindex>".encode()
    site.pages["/sitemap.xml"] = Page(index)
    assert kb.add(site.url("/sitemap.xml")).added == 2
    site.pages["/sitemap.xml"] = Page(index[: index.index(b"/two.xml") + 6])
    report = kb.add(site.url("/sitemap.xml"), prune=True)
    assert (report.unchanged, report.removed, report.missing) == (1, 0, ())
    assert [failure.uri for failure in report.failed] == [site.url("/sitemap.xml")]


def test_nothing_is_pruned_for_a_sitemap_that_is_broken_inside(kb: headwater.KnowledgeBase, site: Site) -> None:
    urls = [site.html(f"/{name}", PAGE.format(name, LONG)) for name in ("one", "two", "new")]
    rows = [f"<url><loc>{url}</loc></url>" for url in urls]
    site.pages["/sitemap.xml"] = Page(SITEMAP.format("".join(rows[:2])).encode())
    assert kb.add(site.url("/sitemap.xml")).added == 2
    # An ampersand as people type it: this address cannot be read as it is meant, the next one can.
    wrong = rows[1].replace("/two", "/two?a=1&b=2")
    site.pages["/sitemap.xml"] = Page(SITEMAP.format(wrong + rows[2]).encode())
    report = kb.add(site.url("/sitemap.xml"), prune=True)
    assert (report.removed, report.missing) == (0, ())
    assert set(urls) <= {record.uri for record in kb.documents()}
    assert [failure.uri for failure in report.failed] == [site.url("/sitemap.xml")]
    assert "is broken" in report.failed[0].reason


def test_a_feed_that_was_cut_is_read_and_no_failure(site: Site) -> None:
    data = RSS.format(site.url("")).encode()
    cut = data[: data.index(b"/gone") + 3]
    source = feed.FeedSource(site.url("/f.xml"), read=lambda uri: Blob(uri=uri, data=cut))
    assert [change.uri for change in source.scan()] == [site.url("/high")]
    assert (source.failures, source.is_whole) == ([], False)


def test_a_broken_sitemap_is_told_on_the_command_line(tmp_path: Path, site: Site) -> None:
    url = site.html("/one", PAGE.format("one", LONG))
    site.pages["/one.xml"] = Page(SITEMAP.format(f"<url><loc>{url}</loc></url>").encode())
    parts = "".join(f"<sitemap><loc>{site.url(path)}</loc></sitemap>" for path in ("/gone.xml", "/one.xml"))
    site.pages["/sitemap.xml"] = Page(f"<sitemapindex>{parts}</sitemapindex>".encode())
    private = {"HEADWATER_WEB__ALLOW_PRIVATE": "true"}
    outcome = command("add", site.url("/sitemap.xml"), "--home", str(tmp_path / "kb"), environment=private)
    assert outcome.code == 1 and "added 1" in outcome.output and "failed 1" in outcome.output
    assert f"{site.url('/gone.xml')}: " in outcome.error and "404" in outcome.error


def test_a_sitemap_over_the_limit_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_MOST", {"urlset": 2, "sitemapindex": 2})
    rows = [f"<url><loc>/{number}</loc></url>" for number in range(3)]
    parts = [f"<sitemap><loc>{site.url(f'/{number}.xml')}</loc></sitemap>" for number in range(3)]
    for number in range(3):
        site.pages[f"/{number}.xml"] = Page(SITEMAP.format(f"<url><loc>/{number}</loc></url>").encode())
    for two, three in (
        (SITEMAP.format("".join(rows[:2])), SITEMAP.format("".join(rows))),
        (f"<sitemapindex>{''.join(parts[:2])}</sitemapindex>", f"<sitemapindex>{''.join(parts)}</sitemapindex>"),
    ):
        for data, is_whole in ((two, True), (three, False)):
            source = source_of(site, data)
            assert [change.uri for change in source.scan()] == [site.url("/0"), site.url("/1")]
            assert source.is_whole == is_whole
            reasons = [failure.reason for failure in source.failures]
            assert reasons == [] if is_whole else "names 3 and 2 are the limit" in reasons[0]
    # A feed names what it likes.
    many = source_of(site, "<rss>" + "".join(f"<item><link>/{number}</link></item>" for number in range(3)) + "</rss>")
    assert len(list(many.scan())) == 3 and many.failures == []


def test_sitemaps_that_lie_too_deep_are_told(site: Site) -> None:
    for level in range(4):
        site.pages[f"/{level}.xml"] = Page(
            f"<sitemapindex><sitemap><loc>{site.url(f'/{level + 1}.xml')}</loc></sitemap></sitemapindex>".encode()
        )
    source = source_of(site, site.pages["/0.xml"].body.decode())
    assert list(source.scan()) == [] and not source.is_whole
    [failure] = source.failures
    assert failure.uri == site.url("/3.xml") and "3 levels down" in failure.reason


def source_of(site: Site, data: str) -> feed.FeedSource:
    def read(uri: str) -> Blob:
        return Blob(uri=uri, data=site.pages[uri.removeprefix(site.url(""))].body)

    return feed.FeedSource(site.url("/s.xml"), read=read, blob=Blob(uri=site.url("/s.xml"), data=data.encode()))


def test_a_sitemap_that_names_itself_ends(site: Site) -> None:
    index = f"<sitemapindex><sitemap><loc>{site.url('/s.xml')}</loc></sitemap></sitemapindex>"
    source = feed.FeedSource(site.url("/s.xml"), read=lambda uri: Blob(uri=uri, data=index.encode()))
    assert isinstance(source, Source) and list(source.scan()) == [] and source.failures == []


def test_subscriptions_are_looked_at_when_their_time_has_come(kb: headwater.KnowledgeBase, site: Site) -> None:
    url = site.html("/page", PAGE.format("Page", LONG))
    kb.add(url)
    assert due(kb, 0.0) == [] and refresh(kb) == []
    subscribe(kb, url + "#x", every_seconds=3600, tags=["t"], now=1000.0)
    assert due(kb, 4599.0) == []
    [one] = due(kb, 4600.0)
    assert (one.url, one.labels) == (url, {"tags": ["t"], "folder": ""})
    site.html("/page", PAGE.format("Page", "Now it says 8.15 metres. " + LONG))
    [done] = refresh(kb, now=5000.0)
    assert done.report is not None and done.report.updated == 1 and done.error == ""
    assert "8.15" in kb.document(url).text and kb.record(url).tags == ("t",)
    assert due(kb, 8599.0) == [] and len(due(kb, 8600.0)) == 1
    # A page that is gone keeps what it brought, and is asked ever more rarely.
    del site.pages["/page"]
    now, pauses = 8600.0, []
    for _ in range(6):
        [failed] = refresh(kb, now=now)
        assert "404" in failed.error
        [one] = Subscriptions(kb.home).all()
        pauses.append((one.due - now) / 3600)
        now = one.due
    assert pauses == [2, 4, 8, MOST_PATIENCE, MOST_PATIENCE, MOST_PATIENCE]
    assert "8.15" in kb.document(url).text
    assert unsubscribe(kb, url) == 1 and Subscriptions(kb.home).all() == []


# -------------------------------------------------------------------------------------- command line


def test_the_command_line_takes_addresses_and_subscribes(tmp_path: Path, site: Site) -> None:
    home, url = str(tmp_path / "kb"), site.html("/page", PAGE.format("Page", LONG))
    private = {"HEADWATER_WEB__ALLOW_PRIVATE": "true"}
    refused = command("add", url, "--home", home)
    assert refused.code == 1 and "web.allow_private" in refused.error
    done = command("add", url, "--every", "6h", "--json", "--home", home, environment=private)
    assert done.code == 0 and json.loads(done.output)["added"] == 1
    listed = json.loads(command("refresh", "--list", "--json", "--home", home).output)
    assert [(row["url"], row["every_seconds"]) for row in listed] == [(url, 21600.0)]
    looked = command("refresh", "--all", "--home", home, environment=private)
    assert looked.code == 0 and "unchanged 1" in looked.output
    assert "stopped 1" in command("refresh", "--stop", url, "--home", home).output
    wrong = command("add", str(tmp_path), "--every", "6h", "--home", home)
    assert wrong.code == 2 and "headwater watch" in wrong.error


def test_other_schemes_are_refused(kb: headwater.KnowledgeBase) -> None:
    for given in ("ftp://example.org/a", "file:///etc/passwd", "s3://bucket/key"):
        with pytest.raises(UsageError, match="http"):
            kb.add(given)
