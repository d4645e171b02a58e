"""A real server process, a real browser, and documents to show in it."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parent / ".tools"
AXE = "axe-core@4.10.3"
WIDE = {"width": 1280, "height": 800}
# A machine that many share may take so long.
START_SECONDS = 240
WAIT_SECONDS = 120

LEAVE = """---
tags: [hr, leave]
date: 2025-03-01
---
# Leave

Parents are entitled to **26 weeks** of leave. Of these, 18 weeks are paid in full.

## Special days

| Occasion | Days |
|---|---|
| Moving house | 2 |
| Wedding | 5 |

- Tell the duty desk early.
- Keep the `form-7` slip, see [the rules](https://example.org/rules) and [[duty-roster]].

> A doctor's note is needed from the fourth day on. 🌧 Rain is no illness.
"""
PAGE = """<!doctype html><html lang="zh"><head><title>访客须知</title></head><body><article>
<h1>访客须知</h1><p>本站每周三和周六对外开放，时间为九时至十六时。汛期发布洪水警报期间暂停开放。</p>
<h2>票价</h2><table><tr><th>对象</th><th>票价</th></tr><tr><td>成人</td><td>二十元</td></tr>
<tr><td>儿童</td><td>免费</td></tr></table><p>团体参观须提前三天预约，每团不超过三十人，由站务组安排讲解员。</p>
</article></body></html>"""


def wait_until(page: Any, expression: str, *, seconds: float = WAIT_SECONDS) -> None:
    """Until it is true. The page's own policy forbids what Playwright's `wait_for_function` does."""
    until = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < until, f"never true: {expression}"
        page.wait_for_timeout(50)


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    return wait_until


class Served:
    """A server and its home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        command = [sys.executable, "-m", "headwater", "serve", "--port", "0", "--home", str(home)]
        self.log = (home.parent / f"{home.name}.log").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log)
        self.url = self._address()

    def _address(self) -> str:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            found = re.search(r"(http://\S+:\d+)/", Path(self.log.name).read_text(encoding="utf-8"))
            if found:
                return found[1]
            time.sleep(0.1)
        raise AssertionError(f"the server did not start: {Path(self.log.name).read_text(encoding='utf-8')}")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()


@pytest.fixture(scope="session")
def serve() -> Callable[[Path], Served]:
    return Served


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.fail("the browser tests need Chromium: `apt-get install chromium` (`make test-core` leaves them out)")
    return found


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # A container's root has no user namespaces of its own; everything that is shown is made here.
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, fetched once into a folder that git ignores."""
    script = TOOLS / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if not npm:
            pytest.fail(f"the accessibility tests need npm to fetch {AXE}: `apt-get install npm`")
        command = [npm, "install", "--prefix", str(TOOLS), "--no-audit", "--no-fund", AXE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not script.exists():
            pytest.fail(f"npm could not fetch {AXE}: {done.stderr[-500:]}")
    return script.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A document of each kind that is shown in a way of its own."""
    folder = tmp_path_factory.mktemp("papers")
    (folder / "leave.md").write_text(LEAVE, encoding="utf-8")
    (folder / "visitors.html").write_text(PAGE, encoding="utf-8")
    _pdf(folder / "turbine.pdf")
    _docx(folder / "manual.docx")
    return {path.name: path for path in folder.iterdir()}


def _pdf(path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(595, 842))
    for number, lines in enumerate(
        (
            ["Turbine log", "The first page says nothing about the blades."],
            [
                "Maintenance",
                "The turbine blades are inspected every forty days by two technicians.",
                "They look for cracks, dents and worn edges, and write down what they find.",
                "",
                "A blade with a crack longer than three millimetres is replaced at once.",
                "Spare blades are kept in the dry store behind the workshop.",
            ],
        )
    ):
        canvas.setFont("Helvetica-Bold", 18)
        canvas.drawString(72, 760, lines[0])
        canvas.setFont("Helvetica", 11)
        for line, text in enumerate(lines[1:]):
            canvas.drawString(72, 720 - 16 * line, text)
        canvas.drawString(72, 60, f"{number + 1}")
        canvas.showPage()
    canvas.save()


def _docx(path: Path) -> None:
    from docx import Document

    document = Document()
    document.add_heading("水泵手册", 1)
    document.add_paragraph("错误代码 PPR-9087 表示进水口堵塞。清洗滤网后重新启动水泵。")
    document.add_heading("保养", 2)
    document.add_paragraph("轴承每运行五百小时加注一次润滑脂。")
    table = document.add_table(rows=2, cols=2)
    for row, cells in enumerate((("部件", "周期"), ("滤网", "每周"))):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    document.save(str(path))


@pytest.fixture(scope="session")
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With nothing in it."""
    served = Served(tmp_path_factory.mktemp("served") / "home")
    yield served
    served.stop()


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, papers: dict[str, Path], opened: Callable[..., Any]
) -> Iterator[Served]:
    """With a paper of each kind, added through the page."""
    served = Served(tmp_path_factory.mktemp("served") / "home")
    try:
        page = opened(served)
        page.goto(f"{served.url}/#/library")
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Add files").first.click()
        chooser.value.set_files([str(path) for path in papers.values()])
        page.wait_for_selector("tbody progress")  # how far each is can be watched
        wait_until(page, "document.querySelectorAll('[data-state=completed]').length === 4")
        page.context.close()
        yield served
    finally:
        served.stop()


@pytest.fixture(scope="session")
def opened(browser: Any) -> Callable[..., Any]:
    """Opens a page on a server; what goes wrong in it, and every request, is on `page.seen`."""

    def open_page(served: Served, *, key: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": WIDE, "locale": "en-GB", **options})
        if key:
            # A blank page has no storage.
            context.add_init_script(f"if (origin !== 'null') localStorage.setItem('headwater.key', '{key}')")
        page = context.new_page()
        page.set_default_timeout(WAIT_SECONDS * 1000)
        page.seen = {"errors": [], "requests": [], "dialogs": []}
        page.on("pageerror", lambda error: page.seen["errors"].append(str(error)))
        page.on("console", lambda said: said.type == "error" and page.seen["errors"].append(said.text))
        page.on("request", lambda request: page.seen["requests"].append(request.url))
        page.on("dialog", lambda dialog: (page.seen["dialogs"].append(dialog.message), dialog.dismiss()))
        page.goto(f"{served.url}/")
        page.wait_for_selector("main > *, dialog")
        return page

    return open_page


@pytest.fixture
def page(server: Served, opened: Callable[..., Any]) -> Iterator[Any]:
    """A page on the server; at the end nothing went wrong in it and nothing was asked elsewhere."""
    shown = opened(server)
    yield shown
    shown.context.close()
    assert shown.seen["errors"] == []
    elsewhere = [url for url in shown.seen["requests"] if not url.startswith((server.url, "blob:" + server.url))]
    assert elsewhere == []
