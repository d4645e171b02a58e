"""What goes wrong around the page: servers that go away, files that are refused, links to what is gone."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

MAX_FILE_BYTES = 2000
KEEPER = "# Keeper {0}\n\nThe keeper {0} walks along the dyke at dawn.\n"
READY = "document.querySelectorAll('[data-state=completed]').length"
AWAY = "The server does not answer"
ARABIC = "# دليل السد\n\nيُفتح الباب في الساعة 7:30 صباحًا!\n"
WIDE_TABLE = "# Codes\n\n| Code | Meaning |\n|---|---|\n| E-11 | " + "y" * 300 + " |\n"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, serve: Any) -> Iterator[Any]:
    """A server that takes small files only."""
    home = tmp_path_factory.mktemp("small") / "home"
    home.mkdir()
    (home / "headwater.toml").write_text(f"[ingest]\nmax_file_bytes = {MAX_FILE_BYTES}\n", encoding="utf-8")
    served = serve(home)
    yield served
    served.stop()


@pytest.fixture
def page(small: Any, opened: Any) -> Iterator[Any]:
    """A page of it, in which no error is thrown. That a request failed is in the console all the same."""
    shown = opened(small)
    shown.thrown = []
    shown.on("pageerror", lambda error: shown.thrown.append(str(error)))
    yield shown
    shown.context.close()
    assert shown.thrown == []


def go(page: Any, place: str) -> None:
    page.evaluate("(place) => (location.hash = `#/${place}`)", place)


def add(page: Any, files: dict[str, str]) -> None:
    go(page, "library")
    page.get_by_role("heading", name="Library").wait_for()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add files").first.click()
    given = [{"name": name, "mimeType": "text/markdown", "buffer": text.encode()} for name, text in files.items()]
    chooser.value.set_files(given)


def has(page: Any, files: dict[str, str], until: Any) -> None:
    """The files are on the shelf and read."""
    add(page, files)
    for name in files:
        page.locator("tbody tr").filter(has_text=name).get_by_text("Ready").wait_for()


def ask(page: Any, question: str) -> None:
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn:last-child .sources")


def refuse(route: Any) -> None:
    route.abort("connectionrefused")


def test_who_makes_the_first_key_sees_it_and_stays_in(tmp_path: Path, serve: Any, opened: Any) -> None:
    served = serve(tmp_path / "home")
    try:
        page = opened(served)
        page.goto(f"{served.url}/#/system")
        page.get_by_text("No key is needed").wait_for()
        page.get_by_text("Make a key").first.click()
        page.get_by_label("Name", exact=True).fill("mine")
        page.get_by_role("button", name="Make a key").click()
        page.get_by_text("Copy this key now").wait_for()
        key = page.locator(".made code").inner_text()
        page.get_by_text("Every caller needs a key.").wait_for()
        assert page.locator(".made code").inner_text() == key  # also when the list is drawn anew
        assert page.locator("dialog").count() == 0
        page.reload()
        page.get_by_text("Signed in as local").wait_for()
        assert page.seen["errors"] == []
        page.get_by_role("button", name="Sign out").click()
        for wrong in ("密钥", "wrong"):  # what no key can be is no server that does not answer
            page.get_by_label("Key", exact=True).fill(wrong)
            with page.expect_response(re.compile("/about$")):
                page.get_by_role("button", name="Sign in").click()
            page.get_by_text("unknown, revoked or expired").wait_for()
        page.get_by_label("Key", exact=True).fill(key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("Signed in as local").wait_for()
        page.context.close()
    finally:
        served.stop()


def test_a_place_that_could_not_be_fetched_is_there_when_the_server_is(page: Any) -> None:
    page.route("**/*", refuse)
    page.get_by_role("link", name="Quality").click()
    page.locator("main").get_by_text(AWAY).wait_for()
    page.get_by_role("button", name="Try again").click()
    page.locator("main").get_by_text(AWAY).wait_for()
    page.unroute("**/*")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("heading", name="Quality").wait_for()


def test_what_is_under_way_is_looked_after_again_when_the_server_is_back(page: Any, until: Any) -> None:
    has(page, {"keeper.md": KEEPER.format(1)}, until)
    row = page.locator("tbody tr").filter(has_text="keeper.md")
    page.get_by_text("Everything is read").wait_for()
    known = row.get_attribute("data-key")
    job = {"id": "1", "state": "processing", "percent": 10, "stage": "parse", "document_id": known, "title": "Keeper"}
    calls: list[str] = []

    def told(route: Any) -> None:
        calls.append(route.request.url)
        if len(calls) == 1:
            body = {"code": 0, "message": "", "data": {"jobs": [job], "counts": {"processing": 1}}}
            route.fulfill(json=body)
        elif len(calls) == 2:
            refuse(route)
        else:
            route.continue_()

    page.route("**/api/v1/jobs*", told)
    page.evaluate("import('./adding.js').then((adding) => void adding.follow())")
    row.locator("progress").wait_for()
    page.locator(".toast").get_by_text(AWAY).wait_for()
    row.locator("progress").wait_for(state="detached")
    page.unroute("**/api/v1/jobs*")


def test_a_server_that_fails_at_first_is_not_taken_for_an_empty_shelf(page: Any, small: Any, until: Any) -> None:
    has(page, {"keeper.md": KEEPER.format(1)}, until)
    page.route("**/about", lambda route: route.fulfill(status=500, json={"message": "out of order"}))
    go(page, "ask")
    page.reload()
    page.locator("main").get_by_text("out of order").wait_for()
    assert page.get_by_role("button", name="Load the sample").count() == 0
    page.get_by_role("link", name="Search").click()
    page.locator("main[aria-label=Search]").get_by_text("out of order").wait_for()
    page.unroute("**/about")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("heading", name="How does it find things?").wait_for()


def test_a_slow_place_does_not_take_the_keys_of_the_one_on_show(page: Any, until: Any) -> None:
    has(page, {"keeper.md": KEEPER.format(1)}, until)
    go(page, "ask")
    ask(page, "When does the keeper 1 walk along the dyke?")
    until(page, "location.hash.includes('c=')")
    page.get_by_role("button", name="New", exact=True).click()
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/datasets/*/documents*", hold)
    page.get_by_role("link", name="Library").click()
    page.get_by_label("Filter by title").wait_for()
    while not held:
        page.wait_for_timeout(50)
    page.get_by_role("link", name="Ask", exact=True).click()
    page.locator("#question").wait_for()
    with page.expect_response(re.compile("/documents")):
        for route in held:
            route.continue_()
    page.unroute("**/datasets/*/documents*")
    page.evaluate("new Promise((done) => setTimeout(done))")
    page.get_by_role("button", name="History").click()
    page.locator("dialog .listed li button").first.click()
    page.get_by_role("heading", name="When does the keeper 1 walk").wait_for()


def test_a_slow_conversation_does_not_come_over_another_place(page: Any, until: Any) -> None:
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/conversations/slow", hold)
    go(page, "system")
    page.get_by_role("heading", name="System").wait_for()
    page.reload()
    page.get_by_role("heading", name="System").wait_for()  # nothing was asked yet
    go(page, "ask?c=slow&source=1:0-1")
    while not held:
        page.wait_for_timeout(50)
    go(page, "library")
    page.get_by_role("heading", name="Library").wait_for()
    with page.expect_response(re.compile("/conversations/slow")):
        held[0].continue_()
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert page.locator(".source").count() == 0
    page.get_by_role("link", name="Ask", exact=True).click()
    page.locator("#question").wait_for()
    assert page.get_by_text("no conversation has the id").count() == 0


def test_a_conversation_that_is_gone_is_said_so_and_one_can_ask_all_the_same(page: Any, until: Any) -> None:
    has(page, {"keeper.md": KEEPER.format(1)}, until)
    go(page, "ask?c=nowhere")
    page.get_by_text("no conversation has the id 'nowhere'").wait_for()
    ask(page, "When does the keeper 1 walk along the dyke?")
    until(page, "!location.hash.includes('nowhere')")
    go(page, "ask?c=elsewhere")  # also from the same place
    page.get_by_text("no conversation has the id 'elsewhere'").wait_for()
    page.reload()
    page.get_by_text("no conversation has the id 'elsewhere'").wait_for()
    page.get_by_role("button", name="New", exact=True).click()
    page.get_by_text("no conversation has the id").wait_for(state="detached")


def test_who_deletes_the_conversation_on_show_goes_on_in_a_new_one(page: Any, until: Any) -> None:
    has(page, {"keeper.md": KEEPER.format(1)}, until)
    go(page, "ask")
    ask(page, "When does the keeper 1 walk along the dyke?")
    until(page, "location.hash.includes('c=')")
    id = page.evaluate("location.hash").split("c=")[1]
    page.get_by_role("button", name="History").click()
    page.locator("dialog .listed li").first.get_by_role("button", name="Delete").click()
    until(page, "!document.querySelector('.turn')")
    page.locator("dialog .toast").get_by_role("button", name="Undo").click()
    until(page, f"location.hash.includes('{id}') && document.querySelector('.turn .sources')")
    page.keyboard.press("Escape")
    # Deleted in another tab: the next question says so, and then begins a new one.
    page.evaluate("(id) => fetch(`/api/v1/conversations/${id}`, {method: 'DELETE'}).then(() => null)", id)
    page.locator("#question").fill("Does the keeper 1 walk at dawn?")
    page.keyboard.press("Enter")
    page.get_by_text(f"no conversation has the id '{id}'").wait_for()
    page.locator(".turn").last.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".turn:last-child .sources")
    until(page, f"!location.hash.includes('{id}')")


def test_of_many_files_one_that_is_refused_keeps_no_other_out(page: Any, until: Any) -> None:
    files = {f"batch-{n}.md": KEEPER.format(f"of batch {n}") for n in range(5)}
    files["batch-large.md"] = "# Large\n\n" + "The keeper sleeps. " * MAX_FILE_BYTES
    add(page, files)
    page.locator(".toast").get_by_text("5 of 6 were added. 'batch-large.md' has").wait_for()
    for name in list(files)[:5]:
        page.locator("tbody tr").filter(has_text=name).get_by_text("Ready").wait_for()


def test_what_is_in_hidden_folders_stays_out(page: Any, until: Any, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / ".git" / "objects").mkdir(parents=True)
    (folder / ".git" / "objects" / "ab12.txt").write_text("an object", encoding="utf-8")
    (folder / "hidden-or-not.md").write_text("# Not hidden\n\nThis may be read.\n", encoding="utf-8")
    (tmp_path / "hollow").mkdir()
    go(page, "library")
    page.get_by_role("heading", name="Library").wait_for()
    for what in (folder, tmp_path / "hollow"):
        session = page.context.new_cdp_session(page)
        data = {"items": [], "files": [str(what)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            session.send("Input.dispatchDragEvent", {"type": kind, "x": 400, "y": 400, "data": data})
        session.detach()
        words = "1 added to default, now being read." if what == folder else "There is no file in it."
        page.locator(".toast").get_by_text(words).wait_for()
    page.locator("tbody tr").filter(has_text="hidden-or-not.md").get_by_text("Ready").wait_for()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add a folder").click()
    sent = page.expect_response(lambda told: told.request.method == "POST" and told.url.endswith("/documents"))
    with sent:
        chooser.value.set_files(str(folder))
    page.locator(".toast").get_by_text("Sending").wait_for(state="detached")
    assert page.locator("tbody tr").filter(has_text="ab12").count() == 0


def test_a_document_is_asked_about_by_its_title_also_where_there_are_many(page: Any, until: Any) -> None:
    """Those that were not among the first that are offered."""
    has(page, {f"keeper-{n}.md": KEEPER.format(n) for n in range(3)}, until)

    def first(route: Any) -> None:
        url = route.request.url
        route.continue_(url=url if "keywords" in url else url.replace("page_size=200", "page_size=1"))

    page.route("**/datasets/*/documents?*", first)
    go(page, "search?q=keeper")
    page.wait_for_selector(".hit")
    for n in range(3):
        page.get_by_label("Title of a document").fill(f"KEEPER {n}")
        page.locator(".card").get_by_role("button", name="Why?").click()
        page.get_by_role("heading", name=f"Why: Keeper {n}").wait_for()
        page.keyboard.press("Escape")
    page.unroute("**/datasets/*/documents?*")


def test_older_conversations_can_be_reached(page: Any) -> None:
    def told(route: Any) -> None:
        size = int(re.findall(r"page_size=(\d+)", route.request.url)[0])
        every = [{"id": f"{n}", "title": f"Question {n}", "updated": "2025-03-01", "count": 2} for n in range(130)]
        route.fulfill(json={"code": 0, "message": "", "data": {"conversations": every[:size]}})

    page.route("**/conversations?*", told)
    page.get_by_role("button", name="History").click()
    page.get_by_text("Question 99", exact=True).wait_for()
    assert page.get_by_text("Question 100", exact=True).count() == 0
    page.get_by_role("button", name="More").click()
    page.get_by_text("Question 129", exact=True).wait_for()
    assert page.get_by_role("button", name="More").count() == 0


def test_a_source_does_not_outlast_the_search_it_belongs_to(page: Any, until: Any) -> None:
    has(page, {"keeper.md": KEEPER.format(1)}, until)
    page.set_viewport_size({"width": 390, "height": 800})
    go(page, "search?q=keeper")
    page.locator(".hit .title").first.click()
    page.wait_for_selector(".source .prose")
    go(page, "search?q=dyke")
    page.locator(".source").wait_for(state="hidden")
    page.locator(".hit").first.get_by_role("button", name="Why?").click()  # nothing lies over it
    page.get_by_role("heading", name="Why: Keeper 1").wait_for()


def test_a_question_that_was_not_sent_waits(page: Any, until: Any) -> None:
    page.locator("#question").fill("A draft")
    page.get_by_role("button", name="切换到中文").click()
    until(page, "document.documentElement.lang === 'zh-CN' && document.querySelector('#question')?.value === 'A draft'")
    page.get_by_role("button", name="Switch to English").click()
    page.get_by_role("link", name="Library").click()
    page.get_by_role("heading", name="Library").wait_for()
    page.get_by_role("link", name="Ask", exact=True).click()
    until(page, "document.querySelector('#question')?.value === 'A draft'")


def test_a_link_that_was_cut_leads_somewhere(page: Any, small: Any) -> None:
    for cut in ("%E4%B8%8", "document/%E4"):
        page.goto("about:blank")
        page.goto(f"{small.url}/#/{cut}")
        page.wait_for_selector("#question, main [role=alert]")


def test_short_words_of_a_table_stay_whole_and_passages_stand_in_line(page: Any, until: Any) -> None:
    has(page, {"codes.md": WIDE_TABLE, "keeper.md": KEEPER.format(1)}, until)
    page.locator("tbody tr").filter(has_text="codes.md").get_by_role("link").click()
    page.wait_for_selector(".prose table")
    for cell in ("thead th", "tbody td"):
        lines = page.locator(f".prose {cell}").first.evaluate(
            "(one) => { const all = document.createRange(); all.selectNodeContents(one);"
            "return new Set([...all.getClientRects()].map((box) => Math.round(box.top))).size; }"
        )
        assert lines == 1, cell
    starts = "[...document.querySelectorAll('.chunks button > span')].map((one) => one.getBoundingClientRect().left)"
    until(page, f"{starts}.length && new Set({starts}).size === 1")


def test_text_that_runs_from_right_to_left_does(page: Any, until: Any) -> None:
    has(page, {"dam.md": ARABIC}, until)
    page.locator("tbody tr").filter(has_text="dam.md").get_by_role("link").click()
    page.wait_for_selector(".prose p")
    # The mark that ends the sentence stands to the left of all of it.
    lefts = page.evaluate(
        """() => {
          const text = document.querySelector(".prose p").firstChild;
          const at = (place) => {
            const range = document.createRange();
            range.setStart(text, place);
            range.setEnd(text, place + 1);
            return range.getBoundingClientRect().left;
          };
          return [at(text.data.indexOf("!")), at(0)];
        }"""
    )
    assert lefts[0] < lefts[1]
