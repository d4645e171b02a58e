"""The README's figures are those of the committed run: `python tests/docs/test_figures.py` writes them."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README, RESULT = ROOT / "README.md", ROOT / "bench/results/scale-100000.json"
STORES = ("headwater", "txtai", "lance_flat", "lance")
ROWS = (
    ("put in, passages a second", "ingest_per_second", "{:,.0f}"),
    ("hybrid search, half take at most, ms", "hybrid_p50_ms", "{:.1f}"),
    ("the same filtered to 1 %, ms", "filtered_p50_ms", "{:.1f}"),
    ("nearest vectors that are found", "recall", "{:.3f}"),
    ("the same filtered to 1 %", "filtered_recall", "{:.3f}"),
    ("one document added and found, ms", "added_ms", "{:.1f}"),
    ("memory after opening, MB", "rss_mb", "{:,.0f}"),
    ("disk, MB", "disk_mb", "{:,.0f}"),
)
TABLE = re.compile(r"(<!-- figures: .*? -->\n\|.*?\n\|.*?\n)((?:\|.*\n)+)")


def measured() -> str:
    figures = json.loads(RESULT.read_text(encoding="utf-8"))["figures"]
    rows = ([name, *(shown.format(figures[store][key]) for store in STORES)] for name, key, shown in ROWS)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_figures_are_those_of_the_committed_run() -> None:
    found = TABLE.search(README.read_text(encoding="utf-8"))
    assert found, "the README has no table of figures"
    assert found[2] == measured()


if __name__ == "__main__":
    README.write_text(TABLE.sub(lambda found: found[1] + measured(), README.read_text("utf-8")), encoding="utf-8")
