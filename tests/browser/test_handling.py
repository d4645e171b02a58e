"""Documents come in, change and go through the page; answers are stopped, tried again, and grow stale."""

import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from headwater.storage.ledger import Ledger
from headwater.testing.chat_server import ChatServer
from headwater.testing.openai_server import OpenAIServer
from headwater.testing.web_server import Site

pytestmark = pytest.mark.system

WRITTEN = (
    "The sluice gate opens at seven in the morning [1]. " + "After that the keeper walks on along the dyke [2]. " * 3
)
FREE = "Sluices have been built for a very long time, and nobody needs a document to know it."
SETTINGS = """[web]
allow_private = true
robots = false

[llm.tiny]
model = "tiny"
base_url = "{url}"
max_retries = 0
"""
EMBEDDER = """[embed]
use = "openai"
base_url = "{url}"
model = "m"
dimensions = {dim}
"""
READY = "document.querySelectorAll('[data-state=completed]').length"
KEEPER = "# Keeper\n\nThe keeper walks along the dyke at dawn.\n"
GATE = "# Gate\n\nThe sluice gate opens at {hour} in the morning.\n"
HERONS = "<title>Herons</title><h1>Herons</h1><p>Herons nest by the old weir.</p>"
OTTERS = "<title>Otters</title><h1>Otters</h1><p>Otters sleep under the bridge.</p>"
DONE_SECONDS = 120.0
_READERS = itertools.count(1)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, serve: Any) -> Iterator[Any]:
    """A server that may fetch pages of this machine and has a model to choose; a site; and the model's server."""
    home = tmp_path_factory.mktemp("workshop") / "home"
    home.mkdir()

    def reply(body: Any) -> Any:
        if not body.get("tools"):
            return WRITTEN if any(one["role"] == "tool" for one in body["messages"]) else FREE
        if any(one["role"] == "tool" for one in body["messages"]):
            return WRITTEN
        return [("search_knowledge", {"question": "When does the sluice gate open?"})]

    site = Site()
    with ChatServer(reply) as chat:
        (home / "headwater.toml").write_text(SETTINGS.format(url=chat.url), encoding="utf-8")
        served = serve(home)
        yield SimpleNamespace(served=served, site=site, chat=chat, url=served.url)
        served.stop()
    site.close()


class Reader:
    """An owner with nothing on the shelf, and a way past the page to put something there."""

    def __init__(self, workshop: Any) -> None:
        self._site = workshop.site
        ledger = Ledger(workshop.served.home)
        self.key = ledger.keys.create(f"reader-{next(_READERS)}", rights="admin")[1]
        ledger.close()
        headers = {"Authorization": f"Bearer {self.key}"}
        self._client = httpx2.Client(base_url=workshop.url, headers=headers, timeout=60.0, verify=False)

    def has(self, page: Any, *, files: dict[str, str] | None = None, pages: dict[str, str] | None = None) -> None:
        """Files with these texts and pages of the site with this HTML, all of them read; the page knows of them."""
        dataset = self._sent("/api/v1/datasets", json={"name": "default"})["id"]
        for name, text in (files or {}).items():
            self._sent(f"/api/v1/datasets/{dataset}/documents", files={"file": (name, text.encode(), "text/markdown")})
        for path, html in (pages or {}).items():
            url = self._site.html(path, html)
            self._sent("/api/v1/ingest/url", json={"dataset_id": dataset, "url": url})
        end = time.monotonic() + DONE_SECONDS
        while {job["state"] for job in self._jobs()} != {"completed"}:
            assert time.monotonic() < end, self._jobs()
            time.sleep(0.05)
        page.reload()

    def _sent(self, path: str, **given: Any) -> Any:
        told = self._client.post(path, **given)
        assert told.is_success, told.text
        return told.json()["data"]

    def _jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get("/api/v1/jobs").json()["data"]["jobs"]
        return found

    def close(self) -> None:
        """The way past the page."""
        self._client.close()


@pytest.fixture
def reader(workshop: Any) -> Iterator[Reader]:
    """No test finds what another has left."""
    made = Reader(workshop)
    yield made
    made.close()


@pytest.fixture
def page(workshop: Any, reader: Reader, opened: Any) -> Iterator[Any]:
    """A page of it, on which nothing goes wrong and which asks nobody else."""
    shown = opened(workshop.served, key=reader.key)
    yield shown
    shown.context.close()
    assert shown.seen["errors"] == []
    assert [url for url in shown.seen["requests"] if not url.startswith((workshop.url, "blob:" + workshop.url))] == []


def library(page: Any, workshop: Any, query: str = "") -> None:
    page.goto(f"{workshop.url}/#/library{query}")
    page.get_by_role("heading", name="Library").wait_for()


def choose(page: Any, button: str, *files: Any) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name=button).first.click()
    chooser.value.set_files(list(files))


def ask(page: Any, workshop: Any, question: str) -> None:
    page.goto(f"{workshop.url}/#/ask")
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")


def drop(page: Any, *paths: Path) -> None:
    """As a file manager does it."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 400, "y": 400, "data": data})
        if kind == "dragOver":
            page.wait_for_selector("body.dropping")  # it says that letting go adds
    session.detach()


def test_files_and_folders_are_dropped(page: Any, workshop: Any, until: Any, tmp_path: Path) -> None:
    folder = tmp_path / "dyke"
    (folder / "deeper").mkdir(parents=True)
    (folder / "keeper.md").write_text(KEEPER, encoding="utf-8")
    (folder / "deeper" / "堤坝.md").write_text("# 堤坝\n\n堤坝每年春天检查一次。\n", encoding="utf-8")
    (folder / "deeper" / "keeper.md").write_text(
        "# Second keeper\n\nThe other keeper walks at dusk.\n", encoding="utf-8"
    )
    (folder / ".hidden").write_text("nobody should see this", encoding="utf-8")
    gate = tmp_path / "gate.md"
    gate.write_text(GATE.format(hour="six"), encoding="utf-8")
    library(page, workshop)
    page.get_by_role("heading", name="The shelf is empty").wait_for()
    drop(page, folder, gate)
    until(page, f"{READY} === 4")
    titles = sorted(page.locator("td.name a").all_inner_texts())
    assert titles == ["Gate", "Keeper", "Second keeper", "堤坝"]  # of two files of one name, none is lost
    assert page.locator("body.dropping").count() == 0


def test_an_address_is_typed_or_pasted(page: Any, workshop: Any, until: Any) -> None:
    first, second = workshop.site.html("/herons", HERONS), workshop.site.html("/otters", OTTERS)
    library(page, workshop)
    page.get_by_label("Add a web page").fill(first)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Herons").wait_for()
    page.evaluate(
        "(url) => { const data = new DataTransfer(); data.setData('text/plain', url);"
        "document.body.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true})); }",
        second,
    )
    page.get_by_role("link", name="Otters").wait_for()
    until(page, f"{READY} === 2")
    assert {"/herons", "/otters"} <= set(workshop.site.paths())


def test_a_page_that_is_not_there_fails_with_its_reason(page: Any, workshop: Any) -> None:
    library(page, workshop)
    page.get_by_label("Add a web page").fill(workshop.site.url("/nowhere"))
    page.keyboard.press("Enter")
    page.get_by_text("1 could not be read").wait_for()  # it is not said that all is well
    page.goto(f"{workshop.url}/#/system")
    failed = page.locator(".timeline li").filter(has_text="/nowhere")
    failed.get_by_text("404").wait_for()
    failed.get_by_text("Failed", exact=True).wait_for()
    assert failed.get_by_role("button", name="Try again").is_visible()
    library(page, workshop, "?q=nowhere")
    row = page.locator("tbody tr").filter(has_text="/nowhere")
    row.get_by_text("Failed", exact=True).wait_for()
    assert row.get_by_role("link").count() == 0  # there is nothing to open
    row.get_by_role("button", name="Actions").click()
    assert page.get_by_role("button", name="Archive").locator("visible=true").count() == 0
    with page.expect_response(re.compile("/retry$")) as told:
        page.get_by_role("button", name=re.compile("^Read .*nowhere again")).click()
    assert told.value.ok


def test_bookmarks_are_imported(page: Any, workshop: Any, reader: Reader, until: Any) -> None:
    reader.has(page, files={"keeper.md": KEEPER})
    toads = workshop.site.html("/toads", "<h1>Toads</h1><p>Toads cross the road in March.</p>")
    newts = workshop.site.html("/newts", "<h1>Newts</h1><p>Newts live in the third pond.</p>")
    exported = (
        "<!DOCTYPE NETSCAPE-Bookmark-file-1><H1>Bookmarks</H1><DL><p><DT><H3>Animals</H3><DL><p>"
        f'<DT><A HREF="{toads}" TAGS="pond,spring">All about toads</A><DT><A HREF="{newts}">Newts at home</A>'
        f'<DT><A HREF="{toads}">Twice</A><DT><A HREF="javascript:window.pwned=1">No</A></DL><p></DL><p>'
    )
    library(page, workshop)
    until(page, f"{READY} === 1")
    choose(page, "Import bookmarks", {"name": "b.html", "mimeType": "text/html", "buffer": exported.encode()})
    until(page, f"{READY} === 3")
    page.get_by_role("link", name="Newts at home").wait_for()
    page.get_by_role("link", name="All about toads").click()
    page.get_by_text("About this document").click()
    page.get_by_text("pond, spring").wait_for()
    frogs = workshop.site.html("/frogs", "<h1>Frogs</h1><p>Frogs sing in the fourth pond.</p>")
    table = (
        f'id,title,note,excerpt,url,folder,tags,created\n1,"Frogs, all of them",,,{frogs},Unsorted,"wet, green",2025\n'
    )
    library(page, workshop)
    choose(page, "Import bookmarks", {"name": "b.csv", "mimeType": "text/csv", "buffer": table.encode()})
    page.get_by_role("link", name="Frogs, all of them").click()  # a link when there is something to open
    page.get_by_text("About this document").click()
    page.get_by_text("wet, green").wait_for()
    choose_nothing = {"name": "n.html", "mimeType": "text/html", "buffer": b"<p>nothing</p>"}
    library(page, workshop)
    choose(page, "Import bookmarks", choose_nothing)
    page.get_by_text("No addresses were found").wait_for()


def test_a_document_is_read_again_archived_and_deleted_for_good(
    page: Any, workshop: Any, reader: Reader, until: Any
) -> None:
    reader.has(page, files={"keeper.md": KEEPER}, pages={"/otters": OTTERS})
    library(page, workshop, "?q=Otters")
    until(page, "document.querySelectorAll('tbody tr').length === 1")
    row = page.locator("tbody tr").first

    def act(name: str) -> None:
        page.get_by_label("Actions: Otters").click()
        page.get_by_role("button", name=name).click()

    with page.expect_response(re.compile("/reindex$")) as told:
        act("Read Otters again")
    assert told.value.ok
    page.get_by_text("Otters is being read again").wait_for()
    page.get_by_text("Everything is read and can be asked").wait_for()  # that it is over is said
    row.get_by_text("Ready").wait_for()

    act("Archive Otters")
    row.get_by_text("Archived", exact=True).wait_for()
    page.goto(f"{workshop.url}/#/search?q=otters%20bridge")
    page.wait_for_selector(".hit, .note")
    assert "Otters" not in page.locator(".hit .title").all_inner_texts()
    library(page, workshop, "?q=Otters")
    act("Bring Otters back")
    row.get_by_text("Ready").wait_for()
    page.goto(f"{workshop.url}/#/search?q=otters%20bridge")
    page.get_by_role("button", name="Otters", exact=True).wait_for()

    library(page, workshop, "?q=Otters")
    with page.expect_request(lambda request: request.method == "DELETE", timeout=30_000):  # when nobody takes it back
        act("Delete Otters")
        page.get_by_text("No document here").wait_for()
    page.reload()
    page.get_by_text("No document here").wait_for()


def test_what_is_open_chosen_or_selected_outlasts_a_change_of_the_list(
    page: Any, workshop: Any, reader: Reader, until: Any, opened: Any
) -> None:
    """While others add and documents come to another state, a menu, the focus, a tick and selected words stay."""
    reader.has(page, files={"keeper.md": KEEPER, "gate.md": GATE.format(hour="six")}, pages={"/herons": HERONS})
    library(page, workshop)
    page.get_by_role("link", name="Herons").wait_for()
    rows = page.evaluate("document.querySelectorAll('tbody tr').length")
    page.get_by_label("Select Keeper", exact=True).check()
    page.get_by_label("Actions: Herons").click()
    archive = page.get_by_role("button", name="Archive Herons")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Read Herons again"
    page.keyboard.press("ArrowDown")
    page.evaluate(
        "getSelection().selectAllChildren([...document.querySelectorAll('td.name a')]"
        ".find((one) => one.textContent === 'Keeper'))"
    )
    page.evaluate("window.row = document.querySelector('tbody tr:last-child')")
    other = opened(workshop.served, key=reader.key)
    library(other, workshop)
    choose(other, "Add files", {"name": "new.md", "mimeType": "text/markdown", "buffer": b"# New\n\nA new one.\n"})
    other.get_by_text("Everything is read and can be asked").wait_for()
    other.context.close()
    page.evaluate("import('./adding.js').then((adding) => adding.changed())")
    until(page, f"document.querySelectorAll('tbody tr').length === {rows} + 1")
    assert archive.is_visible()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Archive Herons"
    assert page.evaluate("window.row.isConnected")  # the very same one
    assert page.get_by_label("Select Keeper", exact=True).is_checked()
    assert page.evaluate("getSelection().toString()") == "Keeper"
    page.keyboard.press("Escape")
    assert archive.is_hidden()
    until(page, "document.activeElement.getAttribute('aria-label') === 'Actions: Herons'")
    # The row itself is drawn anew under the menu: the focus finds its new button.
    page.keyboard.press("Enter")
    archive.wait_for()
    with page.expect_response(re.compile("/reindex$")):
        page.get_by_role("button", name="Read Herons again").press("Enter")
    until(page, "document.activeElement.getAttribute('aria-label') === 'Actions: Herons'")
    page.get_by_text("Herons is being read again").wait_for()
    page.wait_for_timeout(1500)  # longer than it takes to look at the jobs again
    page.get_by_label("Actions: Herons").locator("xpath=ancestor::tr").get_by_text("Ready").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Actions: Herons"
    page.locator("h1").click()
    page.get_by_label("Actions: Keeper", exact=True).click()
    page.locator("h1").click()  # elsewhere
    assert page.locator(".menu").is_hidden()


def test_who_leaves_takes_nothing_back_any_more(
    page: Any, workshop: Any, reader: Reader, until: Any, opened: Any
) -> None:
    reader.has(page, files={"keeper.md": KEEPER, "new.md": "# New\n\nA new one.\n"})
    library(page, workshop, "?q=new.md")
    page.get_by_label("Actions: New").click()
    page.get_by_role("button", name="Delete New").click()
    page.get_by_text("No document here").wait_for()
    page.goto("about:blank")  # at once
    other = opened(workshop.served, key=reader.key)
    library(other, workshop, "?q=new.md")
    until(
        other,
        "import('./adding.js').then((adding) => adding.changed())"
        ".then(() => document.body.innerText.includes('No document here'))",
    )
    other.context.close()


def test_an_answer_grows_stale_and_is_asked_again(page: Any, workshop: Any, reader: Reader, until: Any) -> None:
    reader.has(page, files={"keeper.md": KEEPER, "gate.md": GATE.format(hour="six")})
    ask(page, workshop, "When does the sluice gate open?")
    page.wait_for_selector(".sources")
    assert "six in the morning" in page.locator(".answer").inner_text()
    talk = page.url
    library(page, workshop, "?q=gate")
    until(page, "document.querySelectorAll('tbody tr').length === 1")
    changed = GATE.format(hour="seven").encode()
    choose(page, "Add files", {"name": "gate.md", "mimeType": "text/markdown", "buffer": changed})
    page.get_by_text("Everything is read and can be asked").wait_for()
    page.goto(talk)
    page.reload()
    page.get_by_text("Sources changed since this was answered: Gate").wait_for()
    page.get_by_role("button", name="Ask again").click()
    until(page, "document.querySelector('.answer')?.innerText.includes('seven in the morning')")


def test_a_model_is_chosen_stopped_and_tried_again(page: Any, workshop: Any, reader: Reader) -> None:
    reader.has(page, files={"keeper.md": KEEPER, "gate.md": GATE.format(hour="seven")})
    page.get_by_label("Who writes").select_option("tiny")
    workshop.chat.always = "slow"
    ask(page, workshop, "When does the sluice gate open in the morning?")
    stop = page.get_by_role("button", name="Stop", exact=True)
    stop.wait_for()
    box = stop.bounding_box()
    page.locator(".answer .sentence").first.wait_for()  # while the rest is still being written
    page.evaluate("window.first = document.querySelector('.answer .sentence')")
    # What is going on is said under the text, which grows downward; it says how long, too.
    assert page.evaluate(
        "document.querySelector('.answer').compareDocumentPosition(document.querySelector('.steps')) === 4"
    )
    page.locator(".steps").get_by_text(re.compile(r"· \d+ s")).wait_for()
    stop.click()
    page.get_by_text("Stopped.").wait_for()
    assert page.evaluate("window.first.isConnected")  # what was read, selected or reached is still the same
    send = page.get_by_role("button", name="Ask", exact=True)
    assert abs(send.bounding_box()["x"] - box["x"]) < 40  # the stop button was where send is
    workshop.chat.always = ""
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("Written by: tiny").wait_for()
    assert "at seven in the morning" in page.locator(".answer").inner_text()
    page.locator(".cite").first.click()
    page.wait_for_selector(".source mark.lit")


def test_the_documents_can_be_left_out(page: Any, workshop: Any, reader: Reader) -> None:
    reader.has(page, files={"keeper.md": KEEPER, "gate.md": GATE.format(hour="seven")})
    page.get_by_label("Who writes").select_option("tiny")
    page.get_by_label("Use my documents").uncheck()
    ask(page, workshop, "Tell me about sluices.")
    page.get_by_text(FREE).wait_for()
    assert page.locator(".cite, .sources").count() == 0
    page.get_by_label("Use my documents").check()
    page.get_by_role("button", name="New", exact=True).click()
    ask(page, workshop, "When does the sluice gate open in the morning, please?")
    page.wait_for_selector(".sources")


def test_a_collection_is_made_asked_and_deleted_with_undo(page: Any, workshop: Any, reader: Reader, until: Any) -> None:
    reader.has(page, files={"gate.md": GATE.format(hour="six")})
    library(page, workshop)
    page.get_by_role("button", name="New collection").click()
    page.get_by_label("Name of the collection").fill("ponds")
    page.get_by_role("button", name="Make it").click()
    page.get_by_text("No document here").wait_for()
    frog = b"# Frogs\n\nFrogs sing until the eleventh of May.\n"
    choose(page, "Add files", {"name": "frogs.md", "mimeType": "text/markdown", "buffer": frog})
    until(page, f"{READY} === 1")
    page.goto(f"{workshop.url}/#/ask")
    page.get_by_label("Collection").select_option("ponds")
    ask(page, workshop, "When does the sluice gate open?")
    page.wait_for_selector(".turn .row")
    assert "Gate" not in page.locator(".sources .title").all_inner_texts()
    page.get_by_label("Collection").select_option("")
    library(page, workshop, "?collection=ponds")
    page.get_by_role("button", name=re.compile(r"^ponds\s*1$")).wait_for()
    page.get_by_role("button", name="Delete collection").click()
    page.get_by_text("ponds with 1 document is being deleted").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("link", name="Frogs").wait_for()


def test_what_is_being_read_is_stopped(tmp_path: Path, serve: Any, opened: Any) -> None:
    home, paper = tmp_path / "home", tmp_path / "pump.md"
    home.mkdir()
    with OpenAIServer(script=["wait"] * 100) as slow:
        (home / "headwater.toml").write_text(EMBEDDER.format(url=slow.url, dim=slow.dim), encoding="utf-8")
        served = serve(home)
        page = opened(served)

        def add(text: str) -> Any:
            paper.write_text(text, encoding="utf-8")
            page.goto(f"{served.url}/#/library")
            with page.expect_file_chooser() as chooser:
                page.get_by_role("button", name="Add files").first.click()
            chooser.value.set_files([str(paper)])
            assert slow.waiting.wait(60)
            return page.locator("tbody tr").filter(has_text="pump.md")

        row = add("# Pump\n\nThe pump moves water.")
        row.get_by_text("Found by words").wait_for()
        row.get_by_role("button", name="Actions").click()
        page.locator(".menu").get_by_role("button", name="Stop reading").click()
        page.goto(f"{served.url}/#/system")
        job = page.locator(".timeline li").filter(has_text="pump.md")
        job.get_by_text("Stopping", exact=True).wait_for()
        slow.released.set()
        job.get_by_text("Cancelled", exact=True).wait_for()
        assert "stopped as asked" in job.inner_text()
        job.get_by_role("button", name="Try again").click()
        job.get_by_text("Ready", exact=True).wait_for()

        slow.released.clear()
        slow.waiting.clear()
        row = add("# Pump\n\nThe pump moves oil.")
        row.get_by_role("button", name="Stop reading").click()  # beside how far it is
        row.get_by_text("Stopping").wait_for(timeout=40_000)
        slow.released.set()
        row.get_by_text("Ready", exact=True).wait_for()
        row.get_by_role("link").click()
        page.get_by_text("The pump moves water.").first.wait_for()  # as it was before
        page.context.close()
        served.stop()


def test_a_server_that_is_gone_is_said_so_everywhere(tmp_path: Path, serve: Any, opened: Any) -> None:
    served = serve(tmp_path / "home")
    page = opened(served)
    page.get_by_role("heading", name="Ask your documents").wait_for()
    for place in ("search", "library", "quality", "system"):  # what is on the screen stays there
        page.goto(f"{served.url}/#/{place}")
        page.wait_for_selector("main h1")
    page.goto(f"{served.url}/#/ask")
    served.stop()
    page.locator("#question").fill("Is anybody there?")
    page.keyboard.press("Enter")
    page.get_by_text("The server does not answer").first.wait_for()
    assert page.get_by_role("button", name="Try again").is_visible()
    for place in ("search?q=anybody", "quality", "system"):
        page.goto(f"{served.url}/#/{place}")
        page.locator("main [role=alert]").first.wait_for()
        assert "The server does not answer" in page.locator("main").inner_text()
    page.context.close()
