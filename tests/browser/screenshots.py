"""The page as it is, for `docs/images`: every view, light and dark, wide and narrow, from a real server.

Run by `make screenshots`. A folder to write to is the only argument.
"""

import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conftest import Served, _docx, _pdf, wait_until

QUESTION = "How long is parental leave, and how much of it is paid?"
CHINESE = "冰厚多少才允许人员上冰？"
SIZES = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 390, "height": 780}}
COLOURS = 64  # enough for paper and ink; a third of the bytes


def main(folder: Path) -> None:
    """Write every picture."""
    import shutil

    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        sys.exit("screenshots need Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        _sections(Path(work) / "home" / "eval" / "sections")
        served = Served(Path(work) / "home")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            _fill(browser, served, Path(work))
            for size, viewport in SIZES.items():
                for scheme in ("light", "dark"):
                    page = browser.new_page(viewport=viewport, color_scheme=scheme, locale="en-GB")
                    _take(page, served, folder, f"{size}-{scheme}")
                    page.close()
            page = browser.new_page(viewport=SIZES["wide"], locale="zh-CN")
            _ask(page, served, CHINESE)
            _save(page, folder / "ask-chinese.png")
        finally:
            browser.close()
            served.stop()


def _sections(folder: Path) -> None:
    """A test set that is not easy: a section of the sample without its heading, to be found by its heading."""
    from headwater import sample

    (folder / "qrels").mkdir(parents=True)
    texts, queries, grades = [], [], ["query-id\tcorpus-id\tscore"]
    for path in sorted((Path(sample.__file__).parent / "station").rglob("*.md")):
        for heading, body in re.findall(r"^## (.+)\n+((?:(?!## ).*\n?)+)", path.read_text(encoding="utf-8"), re.M):
            id = f"{len(texts)}"
            texts.append({"_id": id, "title": "", "text": body.strip()})
            queries.append({"_id": id, "text": f"{heading} {path.stem.replace('-', ' ')}"})
            grades.append(f"{id}\t{id}\t1")
    for name, rows in (("corpus.jsonl", texts), ("queries.jsonl", queries)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("\n".join(grades) + "\n", encoding="utf-8")


def _fill(browser: Any, served: Served, work: Path) -> None:
    page = browser.new_page(locale="en-GB")
    page.goto(served.url)
    page.get_by_role("button", name="Load the sample").click()
    page.get_by_role("button", name=QUESTION).wait_for(timeout=60_000)
    _pdf(work / "turbine.pdf")
    _docx(work / "manual.docx")
    (work / "scan.txt").write_text("   \n", encoding="utf-8")
    page.goto(f"{served.url}/#/library")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add files").first.click()
    chooser.value.set_files([str(work / name) for name in ("turbine.pdf", "manual.docx", "scan.txt")])
    wait_until(page, "document.querySelectorAll('[data-state=completed]').length >= 22", seconds=60)
    page.goto(f"{served.url}/#/quality")
    for preset in ("fast", "balanced"):
        page.get_by_label("Test set").select_option("sections")
        page.get_by_label("Preset").select_option(preset)
        page.get_by_role("button", name="Measure", exact=True).click()
        page.wait_for_timeout(500)
        wait_until(page, "!document.body.innerText.includes('Measuring')", seconds=120)
    page.get_by_label("Questions").select_option("sections")
    for name in ("Hybrid", "Meaning"):
        page.get_by_role("group", name="Find by").get_by_label(name, exact=True).check()
    page.get_by_role("button", name="Try them").click()
    page.locator(".ways tbody tr").first.wait_for(timeout=120_000)
    page.get_by_role("button", name=re.compile("^Apply: ")).first.click()
    page.get_by_role("heading", name="Applied").wait_for()
    _ask(page, served, "How do I replace a PPR-9087?")
    page.get_by_role("button", name="Helpful", exact=True).click()
    page.close()


def _ask(page: Any, served: Served, question: str) -> None:
    page.goto(f"{served.url}/#/ask")
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn:last-child .sources")
    page.locator(".turn").last.locator(".cite").first.click()
    page.wait_for_selector(".source mark.lit", state="attached")
    page.wait_for_timeout(900)


def _take(page: Any, served: Served, folder: Path, kind: str) -> None:
    _ask(page, served, QUESTION)
    _save(page, folder / f"ask-{kind}.png")
    if kind == "wide-light":
        _ask(page, served, "How often are the turbine blades inspected?")
        page.locator(".cite").last.click()
        page.wait_for_selector(".sheet-page .box")
        page.wait_for_timeout(900)
        _save(page, folder / "ask-pdf.png")
    places = {
        "search": "search?q=parental%20leave",
        "compare": "search?q=parental%20leave&compare=1&preset=fast&preset2=recall",
        "library": "library",
        "quality": "quality",
        "system": "system",
    }
    for name, place in places.items():
        page.goto(f"{served.url}/#/{place}")
        page.wait_for_timeout(1800)
        if name == "quality":
            page.get_by_role("button", name="Show").nth(0).click()
            page.get_by_role("button", name="Compare").nth(0).click()
            page.wait_for_timeout(800)
        _save(page, folder / f"{name}-{kind}.png")
        if name == "quality":
            page.locator(".card").filter(has=page.get_by_role("heading", name="Tune")).evaluate(
                "(one) => one.scrollIntoView()"
            )
            page.wait_for_timeout(300)
            _save(page, folder / f"tune-{kind}.png")
    page.goto(f"{served.url}/#/library")
    page.get_by_role("link", name="Leave").first.click()
    page.wait_for_timeout(1200)
    _save(page, folder / f"document-{kind}.png")


def _save(page: Any, path: Path) -> None:
    from PIL import Image

    page.evaluate("document.querySelectorAll('.toast').forEach((one) => one.remove())")
    time.sleep(0.1)
    page.screenshot(path=str(path))
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
