"""What a person does on the page, through a real server and a real browser."""

import re
from typing import Any

import pytest

pytestmark = pytest.mark.system

LIT = "[...document.querySelectorAll('.source mark.lit')].map((one) => one.textContent).join('')"
CITED = """fetch("/api/v1/conversations/" + new URLSearchParams(location.hash.split("?")[1]).get("c"))
  .then((answer) => answer.json()).then(({ data }) => data.turns.at(-1).citations)"""


def ask(page: Any, question: str) -> None:
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn:last-child .sources")


def cited(page: Any, place: int = 0) -> str:
    """Open a citation of the last answer; return its quote as the server has it."""
    quote = page.evaluate(CITED)[place]["quote"]
    page.locator(".turn").last.locator(".cite").nth(place).click()
    page.wait_for_selector(".source mark.lit", state="attached")  # the first may hold nothing but the bar of a table
    return str(quote)


def test_the_first_visit_offers_a_sample_that_can_be_asked(empty_server: Any, opened: Any) -> None:
    page = opened(empty_server)
    page.get_by_role("button", name="Load the sample").click()
    question = page.get_by_role("button", name="How long is parental leave")
    question.wait_for()
    question.click()
    page.wait_for_selector(".sources")
    assert "20 weeks" in page.locator(".answer").inner_text()
    assert page.seen["errors"] == []
    page.context.close()
    for locale, mark in (("en-GB", "en"), ("zh-CN", "zh")):  # those that the reader can read come first
        page = opened(empty_server, locale=locale)
        offered = page.locator(".try button").evaluate_all("(all) => all.map((one) => one.lang)")
        assert set(offered) == {"en", "zh"} and offered[0] == mark
        assert offered == sorted(offered, key=lambda one: one != mark)
        page.context.close()


def test_every_kind_of_document_is_listed_with_its_state(page: Any) -> None:
    page.goto(page.url.split("#")[0] + "#/library")
    page.wait_for_selector("tbody tr")
    shelf = page.locator("tbody").inner_text()
    for kind in ("Markdown", "HTML", "PDF", "DOCX"):
        assert kind in shelf
    assert shelf.count("Ready") == 4
    assert "访客须知" in shelf and "visitors.html" in shelf  # a title, and the name it came under


def test_an_english_answer_lights_its_passage(page: Any) -> None:
    ask(page, "How many weeks of leave are parents entitled to?")
    quote = cited(page)
    assert page.evaluate(LIT) == quote == "Parents are entitled to **26 weeks** of leave."
    assert page.locator(".source strong").first.inner_text() == "26 weeks"  # rendered, its signs are not shown
    assert page.locator(".cite").first.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    assert page.locator(".source").is_hidden()


def test_a_chinese_answer_lights_its_passage(page: Any) -> None:
    ask(page, "本站什么时候对外开放？")
    quote = cited(page)
    assert page.evaluate(LIT) == quote
    assert "每周三和周六" in quote


def test_a_row_of_a_table_is_lit_in_a_table(page: Any) -> None:
    ask(page, "How many days off for a wedding?")
    quotes = page.locator(".turn").last.locator(".sources .quote").all_text_contents()
    place = next(at for at, quote in enumerate(quotes) if "Wedding" in quote)
    quote = cited(page, place)
    assert page.evaluate(LIT) == quote
    assert page.locator(".source table td mark.lit").count() >= 2
    assert page.locator(".source table").inner_text().split() == "Occasion Days Moving house 2 Wedding 5".split()


def test_signs_of_markdown_are_not_shown(page: Any, server: Any, until: Any) -> None:
    """Not in a list of sources, nor in a web page, whose text has them for its headings and tables, nor in a hit."""
    ask(page, "How many days off for a wedding?")
    assert page.locator(".sources .quote").first.inner_text() == "Wedding · 5"
    page.goto(f"{server.url}/#/search?q=%E5%84%BF%E7%AB%A5%E7%A5%A8%E4%BB%B7")  # 儿童票价
    hit = page.locator(".hit").filter(has_text="访客须知").first
    hit.locator("td", has_text="儿童").wait_for()
    assert "|" not in hit.locator(".said").inner_text()
    hit.locator(".title").click()
    page.wait_for_selector(".source .prose")
    assert page.locator(".source .prose :is(h3, h4)").all_inner_texts() == ["访客须知", "票价"]
    assert "#" in page.locator(".source .prose").text_content()  # they are there all the same: spans count them


def test_what_is_cut_off_can_be_unfolded_also_when_there_is_less_room(page: Any, server: Any, until: Any) -> None:
    cut = "[...document.querySelectorAll('.hit .said')].map((one) => one.scrollHeight > one.clientHeight + 1)"
    offered = "[...document.querySelectorAll('.hit .unfold')].map((one) => !one.hidden)"
    page.goto(f"{server.url}/#/search?q=turbine%20blades")
    page.wait_for_selector(".hit")
    before = page.evaluate(cut)
    page.evaluate("document.querySelector('.results').style.width = '120px'")  # as beside a source
    until(page, f"String({cut}) === String({offered})")
    assert sum(page.evaluate(cut)) > sum(before)
    page.get_by_role("button", name="More").first.click()
    page.evaluate("document.querySelector('.results').style.width = ''")
    page.wait_for_timeout(100)
    assert page.get_by_role("button", name="Less").is_visible()


def test_a_passage_of_a_pdf_is_marked_on_its_page(page: Any) -> None:
    ask(page, "How often are the turbine blades inspected?")
    quotes = page.locator(".turn").last.locator(".sources .quote").all_text_contents()
    quote = cited(page, next(at for at, quote in enumerate(quotes) if "forty days" in quote))
    assert page.evaluate(LIT) == quote
    page.wait_for_selector(".sheet-page .box")
    assert page.locator(".sheet-page").get_attribute("data-page") == "2"
    picture, box = page.locator(".sheet-page img").bounding_box(), page.locator(".sheet-page .box").first.bounding_box()
    # The line stands 122 points below the top of a page of 842, where its baseline was drawn.
    assert 0.12 < (box["y"] - picture["y"]) / picture["height"] < 0.16
    assert 0.1 < (box["x"] - picture["x"]) / picture["width"] < 0.14
    page.get_by_role("button", name="Text", exact=True).click()
    page.wait_for_selector(".source .prose mark.lit")
    assert page.evaluate(LIT) == quote


def test_the_address_holds_the_conversation_and_the_source(page: Any, server: Any, opened: Any) -> None:
    ask(page, "错误代码 PPR-9087 表示什么？")
    quote = cited(page)
    assert "c=" in page.url and "source=" in page.url
    other = opened(server)
    other.goto(page.url)
    other.reload()
    other.wait_for_selector(".source mark.lit")
    assert other.evaluate(LIT) == quote
    assert "PPR-9087" in other.locator(".question").inner_text()
    assert other.locator(".cite").count() == page.locator(".cite").count()
    other.context.close()


def test_a_refusal_shows_the_nearest_passages(page: Any) -> None:
    page.locator("#question").fill("Who painted the ceiling of the opera house in Vienna?")
    page.keyboard.press("Enter")
    page.get_by_text("The nearest passages, none of which answers it").wait_for()
    assert page.locator(".turn .sources li").count() >= 1
    assert page.locator(".turn .cite").count() == 0


def test_copy_gives_the_answer_with_its_sources(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page, "How many weeks of leave are parents entitled to?")
    page.get_by_role("button", name="Copy with sources").click()
    page.get_by_text("Copied.").first.wait_for()
    plain = page.evaluate("navigator.clipboard.readText()")
    assert plain.startswith("How many weeks of leave") and "\n[1] Leave" in plain
    page.get_by_role("button", name="Copy as Markdown").click()
    page.wait_for_timeout(300)
    assert "[^1]: **Leave**" in page.evaluate("navigator.clipboard.readText()")


def test_history_is_searched_exported_and_deleted_with_undo(page: Any, until: Any) -> None:
    ask(page, "How often are the turbine blades inspected, I wonder?")
    page.get_by_role("button", name="History").click()
    page.get_by_label("Search conversations").fill("I wonder")
    until(page, "document.querySelectorAll('dialog .listed li').length === 1")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
    assert "forty days" in saved.value.path().read_text(encoding="utf-8")
    page.locator("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("No conversation holds these words.").wait_for()
    page.evaluate("document.querySelector('.toast button').click()")  # undo: the dialog is above the toast
    until(page, "document.querySelectorAll('dialog .listed li button').length > 0")


def test_thumbs_land_in_the_inbox(page: Any) -> None:
    ask(page, "How many days off for moving house?")
    page.get_by_role("button", name="Not helpful").click()
    page.get_by_text("It is kept under Quality").wait_for()
    page.goto(page.url.split("#")[0] + "#/quality")
    page.get_by_role("cell", name="How many days off for moving house?").first.wait_for()


def test_two_presets_are_compared_side_by_side(page: Any, until: Any) -> None:
    page.goto(page.url.split("#")[0] + "#/search?q=turbine%20blades&compare=1&preset=fast&preset2=recall")
    page.wait_for_selector(".pair")
    page.wait_for_selector(".ties line", state="attached")
    first = page.locator('.hit[data-side="A"]').first
    assert "Turbine" in first.inner_text() or "turbine" in first.inner_text()
    tags = page.locator(".hit .tag").all_inner_texts()
    assert tags and all(re.fullmatch("[AB]: \\d|Only here", tag) for tag in tags) and "A: 1" in tags
    assert page.locator(".ties line").count() >= 1
    assert page.locator(".hit .meter").count() % 4 == 0
    page.get_by_label("Compare two settings").uncheck()
    until(page, "!document.querySelector('.pair')")
    assert "compare" not in page.url


def test_filters_by_form_become_a_filter(page: Any, until: Any) -> None:
    page.goto(page.url.split("#")[0] + "#/search?q=days")
    page.wait_for_selector(".hit")
    page.get_by_label("Tag", exact=True).fill("leave")
    page.keyboard.press("Enter")
    page.get_by_text('tag = "leave"').wait_for()
    until(page, "new Set([...document.querySelectorAll('.hit .title')].map((one) => one.textContent)).size === 1")
    assert page.locator(".hit .title").first.inner_text() == "Leave"
    assert "tag=leave" in page.url


def test_why_says_why_and_why_not(page: Any) -> None:
    page.goto(page.url.split("#")[0] + "#/search?q=turbine%20blades&top=5&tag=leave")
    page.wait_for_selector(".hit")
    page.locator(".hit").first.get_by_role("button", name="Why?").click()
    page.get_by_text("It is hit 1.").wait_for()
    page.get_by_role("button", name="Close").click()
    page.get_by_label("Title of a document").fill("Turbine log")
    page.locator(".card").get_by_role("button", name="Why?").click()
    page.get_by_text("It is not among the hits.").wait_for()
    said = page.locator("dialog").inner_text()
    assert 'tag = "leave"' in said and "does not fit" in said
    assert "blades" in said  # the words it has


def test_the_keyboard_is_enough(page: Any) -> None:
    page.locator("body").click()
    page.keyboard.press("/")
    page.keyboard.type("How many weeks of leave are parents entitled to?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".sources")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.className") == "cite"
    page.keyboard.press("Enter")
    page.wait_for_selector(".source mark.lit")
    page.keyboard.press("Escape")
    assert page.locator(".source").is_hidden()
    assert page.evaluate("document.activeElement.className") == "cite"  # back where one was
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keyboard").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


def test_the_keyboard_is_enough_in_every_place(page: Any, server: Any, until: Any) -> None:
    here = "document.activeElement"
    label = f"{here}.getAttribute('aria-label') || {here}.textContent"
    press = page.keyboard.press
    page.goto(f"{server.url}/#/system")
    page.reload()
    page.wait_for_selector("main h1")
    press("Tab")
    assert page.evaluate(label) == "Skip to the content"
    assert page.locator(".skip").bounding_box()["x"] >= 0  # it can be seen
    press("Enter")
    assert page.evaluate(f"{here}.localName") == "main"
    page.get_by_role("link", name="Library").focus()
    press("Enter")
    page.wait_for_selector("tbody tr")
    assert page.evaluate(label) == "Library"  # one is not thrown back to the top
    press("j")
    first = page.evaluate(label)
    press("j")
    assert page.evaluate(label) != first
    press("Enter")
    page.wait_for_selector(".reader .prose")
    assert page.evaluate(f"document.querySelector('main').contains({here})")
    press("Escape")
    page.wait_for_selector("tbody tr")
    # A document is deleted and taken back.
    page.get_by_label("Actions: Leave").focus()
    press("Enter")
    press("End")
    assert page.evaluate(label) == "Delete Leave"
    press("Enter")
    until(page, "document.querySelectorAll('tbody tr').length === 3")
    assert page.evaluate(f"!!{here}.closest('tbody')")  # on with the next
    press("u")
    until(page, "document.querySelectorAll('tbody tr').length === 4")
    # The sections are one stop, and the arrows walk among them.
    page.get_by_role("link", name="Leave").focus()
    press("Enter")
    page.get_by_role("treeitem").first.focus()
    press("ArrowDown")
    assert page.evaluate(label) == "Special days"
    assert page.locator("[role=treeitem][tabindex='0']").count() == 1
    press("Enter")
    until(page, "[...document.querySelectorAll('mark.lit')].some((one) => one.textContent.includes('Special days'))")
    press("Escape")
    page.wait_for_selector("tbody tr")
    # Search: the question, what is set, what was found; a source and back.
    page.get_by_role("link", name="Search").focus()
    press("Enter")
    until(page, f"{here}.type === 'search'")
    page.keyboard.type("turbine blades")
    press("Enter")
    page.wait_for_selector(".hit")
    press("Tab")
    press("Tab")
    assert page.evaluate(f"{here}.type") == "checkbox"  # the settings come next
    page.get_by_role("button", name="Words", exact=True).focus()
    press("Enter")
    page.get_by_text("· Words").first.wait_for()
    assert page.evaluate(f"[{label}, {here}.getAttribute('aria-pressed')]") == ["Words", "true"]
    press("j")
    assert page.evaluate(f"{here}.className") == "hit"
    press("Enter")
    page.wait_for_selector(".source .prose, .source .quoted")
    assert page.evaluate(f"!!{here}.closest('.source')")
    press("Escape")
    assert page.evaluate(f"{here}.className") == "hit" and page.locator(".source").is_hidden()
    page.get_by_role("button", name="Why?").first.focus()
    press("Enter")
    page.get_by_text("It is hit 1.").wait_for()
    press("Escape")
    until(page, f"({label}) === 'Why?'")
    # Who types by voice, or by accident, can switch the keys off.
    press("?")
    page.get_by_label("Use these keys").uncheck()
    press("Escape")
    page.wait_for_selector("dialog", state="detached")
    press("/")
    press("?")
    assert page.evaluate(f"{here}.type") != "search" and page.locator("dialog").count() == 0


SEEN = """(() => {
  const node = document.activeElement;
  if (node === document.body) return null;
  const style = getComputedStyle(node);
  const around = node.closest(".box") ? getComputedStyle(node.closest(".box")).outlineStyle : "none";
  const box = node.getBoundingClientRect();
  const middle = (low, high, most) => (Math.max(0, low) + Math.min(most, high)) / 2;
  const [across, down] = [middle(box.left, box.right, innerWidth), middle(box.top, box.bottom, innerHeight)];
  const over = document.elementFromPoint(across, down);
  window.steps = (window.steps || 0) + 1;
  node.dataset.step ??= window.steps;
  return {
    which: node.dataset.step,
    name: (node.getAttribute("aria-label") || node.textContent || node.localName).trim().slice(0, 40),
    ring: style.outlineStyle !== "none" || around !== "none" || node.type === "date", // it rings the part of it
    covered: Boolean(over) && !node.contains(over) && !over.contains(node) && !over.closest("label")?.contains(node),
    inside: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
})()"""
REACHABLE = (
    "[...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter((one) => "
    "one.tabIndex >= 0 && !one.disabled && one.checkVisibility({visibilityProperty: true}) && !one.dataset.step)"
    ".map((one) => one.outerHTML.slice(0, 120))"
)


@pytest.mark.parametrize("place", ["ask", "search?q=leave&compare=1", "library", "quality", "system", "document"])
def test_every_thing_that_can_be_pressed_is_reached_and_seen_by_tab(page: Any, server: Any, place: str) -> None:
    if place == "document":
        page.goto(f"{server.url}/#/library")
        page.get_by_role("link", name="Leave").click()
        page.wait_for_selector(".reader .prose")
    else:
        page.goto(f"{server.url}/#/{place}")
        page.wait_for_selector("main h1, main h2")
        page.wait_for_timeout(800)
    page.keyboard.press("Tab")  # from here on by keyboard: what has the focus is shown
    page.evaluate("document.querySelector('.skip').focus()")
    passed = []
    for _ in range(400):
        seen = page.evaluate(SEEN)
        if seen is None:
            break
        passed.append(seen)
        page.keyboard.press("Tab")
    assert len(passed) > 10
    assert [one["name"] for one in passed if not one["ring"]] == []
    assert [one["name"] for one in passed if not one["inside"] or one["covered"]] == []
    assert page.evaluate(REACHABLE) == []


def test_a_document_has_sections_and_passages(page: Any, until: Any) -> None:
    page.goto(page.url.split("#")[0] + "#/library")
    page.get_by_role("link", name="水泵手册").click()
    page.get_by_role("treeitem", name="保养").click()
    page.wait_for_selector("mark.lit")
    assert page.evaluate("document.querySelector('mark.lit').textContent") == "保养"
    page.locator(".chunks button").first.click()
    until(page, "document.querySelectorAll('mark.lit').length > 1")
    assert "at=" in page.url


def test_deleting_can_be_undone_and_archiving_too(page: Any, until: Any) -> None:
    page.goto(page.url.split("#")[0] + "#/library")
    until(page, "document.querySelectorAll('tbody tr').length === 4")
    page.get_by_label("Select Turbine").check()
    page.get_by_role("button", name="Delete", exact=True).first.click()
    until(page, "document.querySelectorAll('tbody tr').length === 3")
    page.get_by_role("button", name="Undo").click()
    until(page, "document.querySelectorAll('tbody tr').length === 4")
    page.get_by_label("Select Turbine").check()
    page.get_by_role("button", name="Archive", exact=True).first.click()
    page.get_by_text("Archived", exact=True).wait_for()
    page.get_by_role("button", name="Undo").click()
    until(page, "!document.body.innerText.includes('Archived')")


def test_a_set_is_measured_and_two_runs_are_compared(page: Any, until: Any) -> None:
    page.goto(page.url.split("#")[0] + "#/quality")
    for runs in (1, 2):
        page.get_by_role("button", name="Measure", exact=True).click()
        ready = "[...document.querySelectorAll('tbody tr')].filter((one) => one.innerText.includes('Ready')).length"
        until(page, f"{ready} >= {runs}", seconds=120)
    page.get_by_role("button", name=re.compile("^Show station")).first.click()
    page.get_by_role("button", name=re.compile("^Compare with station")).first.click()
    page.get_by_text("no clear difference").first.wait_for()
    assert page.locator(".plot rect").count() > 6


def test_a_way_to_search_is_found_applied_and_taken_back(page: Any, server: Any, until: Any) -> None:
    ask(page, "How many weeks of leave are parents entitled to?")
    page.get_by_role("button", name="Helpful", exact=True).click()
    page.get_by_text("It is kept under Quality").wait_for()
    page.goto(f"{server.url}/#/search?q=turbine%20blades")
    page.get_by_role("button", name="The right one").first.click()
    until(page, "document.querySelector('.hit [aria-pressed=true]')")
    page.goto(f"{server.url}/#/quality")
    page.get_by_label("Questions").select_option(label="What people marked (2)")
    for name in ("Hybrid", "Words"):
        page.get_by_role("group", name="Find by").get_by_label(name, exact=True).check()
    for name in ("30 %", "50 %", "70 %"):
        page.get_by_label(name).uncheck()
    page.get_by_text("Up to 4 ways").wait_for()
    page.get_by_role("button", name="Try them").click()
    page.locator(".ways tbody tr").first.wait_for()
    ways = page.locator(".ways tbody th").all_inner_texts()
    assert sorted(ways) == ["As it was set", "Not looked at again", "Words", "Words, not looked at again"]
    # Every difference has its interval.
    assert (
        len(re.findall(r"[+−±]0\.\d{3} \([+−±]\d\.\d{3} … [+−±]\d\.\d{3}\)", page.locator(".ways").inner_text())) == 3
    )
    page.get_by_role("button", name="Apply: Words", exact=True).click()
    page.get_by_text("All collections now searches like this: Words.").wait_for()
    assert 'mode = "keyword"' in (server.home / "headwater.toml").read_text(encoding="utf-8")
    page.goto(f"{server.url}/#/search?q=turbine%20blades&top=5")
    page.get_by_text("· Words").first.wait_for()
    page.goto(f"{server.url}/#/quality")
    page.get_by_role("button", name=re.compile("^Undo: All collections")).click()
    page.get_by_text("Undone: it searches as before.").wait_for()
    assert "keyword" not in (server.home / "headwater.toml").read_text(encoding="utf-8")
    page.goto(f"{server.url}/#/search?q=turbine%20blades&top=20")
    page.get_by_text("· Hybrid").first.wait_for()


def test_the_system_says_where_settings_come_from(page: Any) -> None:
    page.goto(page.url.split("#")[0] + "#/system")
    page.get_by_role("cell", name="preset balanced").first.wait_for()
    page.get_by_text("free of").first.wait_for()  # each part of the view comes with an answer of its own
    page.get_by_text("turbine.pdf").first.wait_for()
    text = page.locator("main").inner_text()
    assert "turbine.pdf" in text and "free of" in text
    assert "upload:" not in text
