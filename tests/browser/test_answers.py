"""Answers on the page: how they are shown, where the view stays, that they outlast a visit elsewhere and a reload."""

import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.testing.chat_server import ChatServer

pytestmark = pytest.mark.system

GATE = "# Gate\n\nThe sluice gate opens at seven in the morning. The keeper walks along the dyke at noon.\n"
QUESTION = "When does the sluice gate open?"
SETTINGS = """[llm.tiny]
model = "tiny"
base_url = "{url}"
max_retries = 0
"""
SENTENCE = "The sluice gate opens at seven in the morning [1]. "
MARKED = (
    "## The gate\n\n" + SENTENCE + "It was forged by dwarves under a mountain [1].\n\n"
    "| Who | When |\n|---|---|\n| The keeper walks along the dyke | at noon [1] |\n\nThat is all."
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, serve: Any) -> Iterator[Any]:
    """A server with a document and a model that says what a test wants."""
    home = tmp_path_factory.mktemp("desk") / "home"
    home.mkdir()
    (home.parent / "gate.md").write_text(GATE, encoding="utf-8")
    with ChatServer() as chat:
        (home / "headwater.toml").write_text(SETTINGS.format(url=chat.url), encoding="utf-8")
        command = [sys.executable, "-m", "headwater", "add", str(home.parent / "gate.md"), "--home", str(home)]
        subprocess.run(command, check=True, capture_output=True)
        served = serve(home)
        yield SimpleNamespace(served=served, chat=chat, url=served.url)
        served.stop()


@pytest.fixture
def page(desk: Any, opened: Any) -> Iterator[Any]:
    """A page of it, on which nothing goes wrong."""
    desk.chat.always = ""
    shown = opened(desk.served)
    yield shown
    shown.context.close()
    assert shown.seen["errors"] == []


def says(desk: Any, text: str) -> None:
    """What the model writes, once it has searched."""

    def reply(body: Any) -> Any:
        if body.get("tools") and not any(one["role"] == "tool" for one in body["messages"]):
            return [("search_knowledge", {"question": QUESTION})]
        return text

    desk.chat.replies = deque([reply])


def ask(page: Any, question: str = QUESTION, *, model: str = "tiny") -> None:
    page.get_by_label("Who writes").select_option(model)
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")


def test_what_no_passage_bears_out_is_marked_with_sign_and_word(page: Any, desk: Any) -> None:
    says(desk, MARKED)
    ask(page)
    page.wait_for_selector(".sources")
    for _ in range(2):  # as it came, and as it was kept
        marked = page.locator(".sentence.unsupported").filter(has_text="dwarves")
        assert marked.locator(".uncited").all_inner_texts() == ["○ unsupported"]
        assert page.locator(".sentence.unsupported").filter(has_text="at seven").count() == 0
        assert "[?]" not in page.locator(".turn").inner_text()
        page.reload()
        page.wait_for_selector(".sources")


def test_headings_and_tables_of_a_model_are_shown_as_such(page: Any, desk: Any) -> None:
    says(desk, MARKED)
    ask(page)
    page.wait_for_selector(".sources")
    for _ in range(2):
        text = page.locator(".answer").inner_text()
        assert "#" not in text and "|" not in text and "That is all." in text
        assert page.locator(".answer .heading").inner_text().startswith("The gate")
        assert page.locator(".answer th").first.inner_text().startswith("Who")
        row = page.locator(".answer tbody tr, .answer table > tr").last
        assert "at noon" in row.inner_text() and row.locator("button.cite").count() == 1
        page.reload()
        page.wait_for_selector(".sources")


def test_code_of_a_model_is_shown_and_copied_as_code(page: Any, desk: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    code = "import gate\n\ngate.open(hour=7)  # at seven. Not later.\nprint(times[1])"
    says(desk, f"{SENTENCE}\n\n```python\n{code}\n```\n\n{SENTENCE}\n\n```\nls -l\n```\nThat is all.")
    ask(page)
    page.wait_for_selector(".sources")
    for _ in range(2):  # as it came, and as it was kept
        assert page.locator(".answer pre").all_text_contents() == [code, "ls -l"]
        assert "`" not in page.locator(".answer").inner_text()
        assert page.locator(".answer button.cite").count() == 2
        page.get_by_role("button", name="Copy as Markdown").click()
        page.get_by_text("Copied.").first.wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert f"```python\n{code}\n```" in copied and "[^1]" in copied
        page.reload()
        page.wait_for_selector(".sources")


def test_what_is_selected_and_copied_is_the_sentence_without_its_number(page: Any, desk: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    says(desk, MARKED)
    ask(page)
    page.wait_for_selector(".sources")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.answer'))")
    page.keyboard.press("Control+c")
    copied = " ".join(page.evaluate("navigator.clipboard.readText()").split())
    assert "opens at seven in the morning. It was forged" in copied and copied.endswith("at noon That is all.")


def test_a_long_answer_is_read_from_its_beginning(page: Any, desk: Any, until: Any) -> None:
    says(desk, SENTENCE * 60)
    for turn in range(2):
        ask(page)
        page.wait_for_selector(f".turn:nth-child({turn + 1}) .sources")
        top = page.locator(".turn").last.bounding_box()["y"] - page.locator(".turns").bounding_box()["y"]
        assert 0 <= top <= 32  # the question is at the top; neither the text nor the sources carried it away
    page.reload()
    page.wait_for_selector(".sources")
    assert page.locator(".question").last.is_visible()


def test_who_is_at_the_end_goes_along_with_the_text(page: Any, desk: Any, until: Any) -> None:
    desk.chat.always = "slow"
    says(desk, SENTENCE * 60)
    page.set_viewport_size({"width": 360, "height": 460})  # where a few sentences are more than there is room for
    ask(page)
    box = "document.querySelector('.turns')"
    until(page, f"{box}.scrollHeight > {box}.clientHeight + 60", seconds=60)
    page.evaluate(f"{box}.scrollTop = {box}.scrollHeight")
    before = page.evaluate(f"{box}.scrollTop")
    until(page, f"{box}.scrollTop > {before} + 20", seconds=60)
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_text("Stopped.").wait_for()


def test_an_answer_goes_on_while_one_is_elsewhere(page: Any, desk: Any, until: Any) -> None:
    desk.chat.always = "slow"
    says(desk, SENTENCE * 3)
    ask(page)
    page.locator(".sentence").first.wait_for()
    page.get_by_role("link", name="Library").click()
    page.get_by_role("heading", name="Library").wait_for()
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_role("button", name="Stop", exact=True).wait_for()
    page.wait_for_selector(".sources", timeout=60_000)
    assert page.locator(".sentence").count() == 3
    until(page, "location.hash.includes('c=')")
    page.reload()
    page.wait_for_selector(".sources")


def test_the_address_keeps_the_conversation_when_one_comes_back(page: Any, desk: Any, until: Any) -> None:
    ask(page, model="")
    page.wait_for_selector(".sources")
    page.get_by_role("link", name="Search").click()
    page.wait_for_selector("[role=search]")
    page.get_by_role("link", name="Ask", exact=True).click()
    page.wait_for_selector(".sources")
    until(page, "location.hash.includes('c=')")
    page.reload()
    page.wait_for_selector(".sources")


def test_what_was_tried_again_is_there_once(page: Any, desk: Any, until: Any) -> None:
    ask(page, model="")
    page.wait_for_selector(".sources")
    page.evaluate("document.querySelector('.sources').dataset.first = 'yes'")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".sources:not([data-first])")
    ask(page, "When does the keeper walk along the dyke?", model="")
    page.wait_for_selector(".turn:nth-child(2) .sources")
    page.reload()
    page.wait_for_selector(".sources")
    assert page.locator(".question").all_inner_texts() == [QUESTION, "When does the keeper walk along the dyke?"]
    page.get_by_role("button", name="Try again").first.click()  # not the last: it is asked anew, at the end
    page.wait_for_selector(".turn:nth-child(3) .sources")
    assert page.locator(".question").last.inner_text() == QUESTION


def test_a_refusal_keeps_its_passages_and_a_failure_its_note(page: Any, desk: Any) -> None:
    ask(page, "What is the boiling point of tungsten hexafluoride?", model="")
    page.get_by_text("The nearest passages, none of which").wait_for()
    page.reload()
    page.get_by_text("The nearest passages, none of which").wait_for()
    page.locator(".sources button").first.click()
    page.wait_for_selector(".source mark.lit", state="attached")
    page.get_by_role("button", name="New", exact=True).click()
    desk.chat.always = "500"
    ask(page)
    page.locator(".note", has_text="the model failed").wait_for()
    page.reload()
    page.locator(".note", has_text="the model failed").wait_for()


def test_a_question_whose_answer_did_not_come_is_in_the_box_after_a_reload(page: Any, desk: Any) -> None:
    desk.chat.always = "slow"
    says(desk, SENTENCE * 30)
    ask(page)
    page.locator(".sentence").first.wait_for()
    page.reload()
    page.wait_for_selector(".turns > *")
    assert page.locator("#question").input_value() == QUESTION


def test_enter_that_ends_the_typing_of_chinese_does_not_send(page: Any, desk: Any) -> None:
    page.locator("#question").fill("水闸几点开")
    page.evaluate(
        "document.querySelector('#question').dispatchEvent("
        "new KeyboardEvent('keydown', { key: 'Enter', keyCode: 229, bubbles: true, cancelable: true }))"
    )
    assert page.locator(".turn").count() == 0
    assert page.locator("#question").input_value() == "水闸几点开"


def test_a_server_that_goes_in_the_middle_is_said_so(tmp_path: Path, serve: Any, opened: Any, desk: Any) -> None:
    """In an answer, and in a document that is open: what is there stays, and no error is thrown."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "gate.md").write_text(GATE, encoding="utf-8")
    (home / "headwater.toml").write_text(SETTINGS.format(url=desk.chat.url), encoding="utf-8")
    command = [sys.executable, "-m", "headwater", "add", str(tmp_path / "gate.md"), "--home", str(home)]
    subprocess.run(command, check=True, capture_output=True)
    served = serve(home)
    page = opened(served)
    thrown: list[str] = []
    page.on("pageerror", lambda error: thrown.append(str(error)))
    reader = page.context.new_page()
    reader.on("pageerror", lambda error: thrown.append(str(error)))
    reader.goto(f"{served.url}/#/library")
    reader.get_by_role("link", name="Gate").click()
    reader.wait_for_selector(".chunks button")
    desk.chat.always = "slow"
    says(desk, SENTENCE * 30)
    ask(page)
    page.locator(".sentence").first.wait_for()
    served.process.kill()
    page.locator(".turn [role=alert]").get_by_text("The server does not answer").wait_for()
    reader.locator(".chunks button").first.click()
    reader.locator(".toast").get_by_text("The server does not answer").wait_for()
    assert "seven in the morning" in reader.locator(".body").inner_text()
    assert thrown == []
    page.context.close()
    served.stop()
