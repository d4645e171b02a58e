"""What a home is subscribed to is looked at again by its server, and by a worker of its own."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.server.conftest import Running

from headwater.server.refresher import Refresher
from headwater.storage.subscriptions import Subscription, Subscriptions
from headwater.testing.web_server import Page, Site

ALLOWED = {"HEADWATER_WEB__ALLOW_PRIVATE": "true"}
PERIOD = 3600.0
HTML = {"Content-Type": "text/html"}


def page(text: str, *, tag: str = "") -> Page:
    body = f"<html><body><article><h1>Gauge</h1><p>{text}</p></article></body></html>".encode()
    return Page(body, headers={**HTML, **({"ETag": tag} if tag else {})})


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def make_due(home: Path, url: str, **given: Any) -> None:
    """As if its period were over."""
    Subscriptions(home).add(Subscription(url=url, every_seconds=PERIOD, due=1.0, **given))


def texts(client: httpx2.Client, question: str) -> list[str]:
    found = client.post("/api/v1/retrieval", json={"question": question, "mode": "keyword"}).json()["data"]["chunks"]
    return [one["content"] for one in found]


def until(client: httpx2.Client, question: str, wanted: str) -> None:
    end = time.monotonic() + 60
    while not any(wanted in text for text in texts(client, question)):
        assert time.monotonic() < end, f"{wanted!r} did not come"
        time.sleep(0.2)


def test_a_server_looks_again_at_pages_and_feeds(tmp_path: Path, site: Site) -> None:
    home = tmp_path / "home"
    site.pages["/gauge"] = page("The gauge stood at four metres.")
    site.pages["/feed"] = feed(site, "first")
    site.pages["/first"] = page("The first report of the weir.")
    home.mkdir()
    for path in ("/gauge", "/feed"):
        make_due(home, site.url(path))
    server = Running(home, env=ALLOWED)
    with server.client() as client:
        until(client, "gauge metres", "four metres")
        until(client, "report weir", "first report")
        assert all(one.due > time.time() and not one.error for one in Subscriptions(home).all())
        site.pages["/gauge"] = page("The gauge stood at seven metres.")
        site.pages["/feed"] = feed(site, "first", "second")
        site.pages["/second"] = page("The second report of the weir.")
        for path in ("/gauge", "/feed"):
            make_due(home, site.url(path))
        until(client, "gauge metres", "seven metres")
        until(client, "report weir", "second report")
        assert not any("four metres" in text for text in texts(client, "gauge metres"))
    assert server.stop() == 0


def feed(site: Site, *names: str) -> Page:
    links = [(name, site.url(f"/{name}")) for name in names]
    items = "".join(f"<item><title>{name}</title><link>{url}</link><guid>{url}</guid></item>" for name, url in links)
    body = f'<?xml version="1.0"?><rss version="2.0"><channel><title>Reports</title>{items}</channel></rss>'
    return Page(body.encode(), headers={"Content-Type": "application/rss+xml"})


def test_a_worker_looks_again_too_and_a_page_that_is_gone_keeps_what_it_brought(tmp_path: Path, site: Site) -> None:
    home, url = tmp_path / "home", site.url("/gauge")
    site.pages["/gauge"] = page("The gauge stood at four metres.", tag='"1"')
    server = Running(home, env=ALLOWED, arguments=("--no-worker",))
    command = [sys.executable, "-m", "headwater", "worker", "--once", "--home", str(home)]

    def work() -> None:
        subprocess.run(command, check=True, timeout=120, capture_output=True, env=server.environment)

    with server.client() as client:
        make_due(home, url)
        work()
        assert "four metres" in texts(client, "gauge metres")[0]
        asked = len(site.asked)
        work()  # not due: nobody is asked
        assert len(site.asked) == asked
        site.pages["/gauge"] = Page(b"gone", 503)
        make_due(home, url)
        work()
        (kept,) = Subscriptions(home).all()
        assert "503" in kept.error and kept.failures == 1 and kept.due > time.time() + PERIOD
        assert "four metres" in texts(client, "gauge metres")[0]
    assert server.stop() == 0


def test_one_that_is_told_to_stop_begins_nothing_more(tmp_path: Path, site: Site) -> None:
    import headwater

    with headwater.open(tmp_path / "home") as kb:
        make_due(kb.home, site.url("/gauge"))
        refresher = Refresher(kb)
        refresher.stop(timeout_seconds=0)
        assert refresher.step() == [] and site.asked == []


def test_a_private_page_is_not_fetched_on_a_schedule_either(tmp_path: Path, site: Site) -> None:
    import headwater

    with headwater.open(tmp_path / "home") as kb:
        make_due(kb.home, site.url("/gauge"))
        (done,) = Refresher(kb).step()
        assert "private" in done.error or "this machine" in done.error
        assert site.asked == []
