"""The extension in a real browser, without a key, against a real server: a click, and the page can be found."""

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.testing.web_server import Page, Site

EXTENSION = Path(__file__).parents[2] / "extension"
HTML = """<!doctype html><html lang="en"><head><title>Rules of the weir</title></head><body><article>
<h1>Rules of the weir</h1>
<p>The quokka gate is closed on the third day of every month, for the cleaning of the screens.</p>
</article></body></html>"""
# As the browser does when the button is clicked; it gives no other way to click it.
CLICK = """async () => {
  const [tab] = await chrome.tabs.query({ active: true });
  chrome.action.onClicked.dispatch(tab);
}"""
BADGE = "async () => chrome.action.getBadgeText({ tabId: (await chrome.tabs.query({ active: true }))[0].id })"


def until(holds: Callable[[], Any], *, seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def search(base: str, question: str) -> list[dict[str, Any]]:
    body = json.dumps({"question": question, "mode": "keyword"}).encode()
    asked = urllib.request.Request(f"{base}/api/v1/retrieval", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        return list(json.load(answer)["data"]["chunks"])


@pytest.mark.system
def test_a_click_sends_the_page_to_a_server_without_keys(
    tmp_path: Path, serve: Callable[[Path], Any], chromium: str, browser: Any
) -> None:
    (tmp_path / "home").mkdir()
    served, site = serve(tmp_path / "home"), Site()
    site.pages["/weir"] = Page(HTML.encode(), headers={"Content-Type": "text/html; charset=utf-8"})
    context = browser.browser_type.launch_persistent_context(
        str(tmp_path / "profile"),
        executable_path=chromium,
        headless=False,
        args=[
            *("--headless=new", "--no-sandbox", "--disable-gpu"),
            f"--disable-extensions-except={EXTENSION}",
            f"--load-extension={EXTENSION}",
        ],
    )
    try:
        worker = context.service_workers[0] if context.service_workers else context.wait_for_event("serviceworker")
        worker.evaluate("(server) => chrome.storage.local.set({ server })", served.url)
        page = context.pages[0]
        page.goto(site.url("/weir"))
        page.bring_to_front()
        worker.evaluate(CLICK)
        assert until(lambda: worker.evaluate(BADGE) in ("✓", "!") and worker.evaluate(BADGE)) == "✓"
        (found,) = until(lambda: search(served.url, "quokka gate"))
        assert found["title"] == "Rules of the weir" and found["meta"]["client_source"] == "extension"
        assert found["uri"] == site.url("/weir")
    finally:
        context.close()
        site.close()
        served.stop()
