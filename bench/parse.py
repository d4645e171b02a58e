"""PDF files -> how many pages a second one core reads, with what structure; and how well a scan is recognised.

python bench/parse.py [FILE.pdf ...] [--results bench/results/parse.md]

A Chinese manual of 250 pages is made: chapters, sections, tables, running headers. It and the named files are read each
in a process of its own, by the parser alone, without recognition of pages that are pictures; time is that of the
processor. The scan is the one of the tests, compared with what it was printed from.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headwater.parsers import _ocr
from headwater.parsers.image import ImageParser
from headwater.parsers.pdf import PdfParser
from headwater.types import Blob

DATA = Path(__file__).parents[1] / "tests" / "data"
PAGES = 250
SECTIONS = 5  # pages to a chapter, a section each
SENTENCES = (
    "老桥水位站每天早上八点观测一次水位，汛期每小时观测一次，数据经校核后报送水情中心。",
    "闸门启闭前应检查启闭机、钢丝绳和限位开关，发现异常立即停机并报告值班站长。",
    "雨量计的承雨口应保持水平，每月清理一次滤网，每年汛前用标准量杯校验一次。",
)


def manual() -> bytes:
    """A manual as an office prints it."""
    from reportlab.lib.pagesizes import A4
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfgen.canvas import Canvas

    font, made, left = "STSong-Light", io.BytesIO(), 72
    pdfmetrics.registerFont(UnicodeCIDFont(font))
    canvas = Canvas(made, pagesize=A4)
    for page in range(PAGES):
        chapter, section = divmod(page, SECTIONS)
        down = A4[1] - 90

        def say(text: str, size: float, step: float, across: float = left) -> None:
            nonlocal down
            canvas.setFont(font, size)
            canvas.drawString(across, down, text)
            down -= step

        canvas.setFont(font, 9)
        canvas.drawString(left, A4[1] - 50, "水文站运行手册")
        canvas.drawCentredString(A4[0] / 2, 40, str(page + 1))
        if not section:
            say(f"第{chapter + 1}章 站点{chapter + 1}的运行", 18, 34)
        say(f"{chapter + 1}.{section + 1} 设备检查与记录{section + 1}", 13, 24)
        text = "".join(SENTENCES[(page + n) % len(SENTENCES)] for n in range(18))
        for start in range(0, len(text), 42):
            say(text[start : start + 42], 10.5, 16)
        down -= 10
        for row in (("站点", "水位", "流量"), ("老桥", f"{page / 10:.2f}", "35"), ("新桥", "8.10", "41")):
            for column, cell in enumerate(row):
                canvas.setFont(font, 9)
                canvas.drawString(left + 130 * column, down, cell)
            canvas.line(left, down - 4, left + 390, down - 4)
            down -= 16
        canvas.showPage()
    canvas.save()
    return made.getvalue()


def read(path: Path) -> dict[str, float]:
    """In this process: what the parser makes of a file, and what it took."""
    _ocr.available = lambda: False
    began = time.process_time()
    document = PdfParser().parse(Blob(uri=path.name, data=path.read_bytes(), mime="application/pdf"))
    took = time.process_time() - began
    blocks = [block.kind for block in document.blocks]
    return {
        "pages": len(document.page_starts),
        "seconds": took,
        "headings": len(document.structure),
        "tables": blocks.count("table"),
        "captions": blocks.count("caption"),
        "notes": blocks.count("note"),
        "characters": len(document.text),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def scanned() -> tuple[float, float]:
    """The share of wrong characters in the recognised scan, and the seconds it took."""
    truth = (DATA / "scan-truth.txt").read_text(encoding="utf-8")
    began = time.process_time()
    document = ImageParser().parse(Blob(uri="scan.png", data=(DATA / "scan.png").read_bytes(), mime="image/png"))
    took = time.process_time() - began
    one, two = (re.sub(r"\s+", " ", text).strip() for text in (document.text, truth))
    return distance(one, two) / len(two), took


def distance(one: str, two: str) -> int:
    """How many characters have to be changed, put in or left out."""
    row = list(range(len(two) + 1))
    for n, sign in enumerate(one, 1):
        before, row[0] = row[0], n
        for m, other in enumerate(two, 1):
            before, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, before + (sign != other))
    return row[-1]


def main() -> None:
    """Read, and write the results; exit 1 where a file is slower than 50 pages a second or the scan has 1 % errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "parse.md")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        print(json.dumps(read(arguments.read)))
        return
    lines = [
        "# Reading PDF",
        "",
        f"`python bench/parse.py`, {time.strftime('%Y-%m-%d')}, {platform.machine()}, one of {os.cpu_count()} cores, "
        f"load of the machine at the start {os.getloadavg()[0]:.1f}.",
        "",
        "| file | pages | pages a second | headings | tables | captions | notes | characters | peak MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    slow = False
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made manual"
        made.write_bytes(manual())
        for path in (made, *arguments.files):
            command = [sys.executable, __file__, "--read", str(path)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            pace = found["pages"] / found["seconds"]
            slow = slow or pace < 50
            told = (f"{found[name]:,.0f}" for name in ("headings", "tables", "captions", "notes", "characters"))
            lines.append(
                f"| {path.name} | {found['pages']} | {pace:.0f} | {' | '.join(told)} | {found['megabytes']:.0f} |"
            )
    wrong = 0.0
    if _ocr.available():
        wrong, took = scanned()
        lines += ["", f"A scanned page: {wrong:.2%} of its characters wrong, {took:.1f} s, with loading the models."]
    else:
        lines += ["", "The scanned page was not tried: the extra `ocr` is not installed."]
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    arguments.results.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    sys.exit(int(slow or wrong > 0.01))


if __name__ == "__main__":
    main()
