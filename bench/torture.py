"""Kill a real ingest many times and write what was seen: `make torture`."""

import argparse
import tempfile
import time
from pathlib import Path

from headwater.testing.torture import Torture


def main() -> None:
    """Run and report; exit 1 when anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--documents", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="the Markdown page to write the figures to")
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        figures = Torture(Path(folder), documents=given.documents, paragraphs=8, seed=given.seed).run(given.kills)
    lines = [
        "# Reliability",
        "",
        "`make torture` starts a real `headwater add` over and over, kills it with SIGKILL at a random moment, and",
        "then looks at the home with a reader: every document must hold one whole version, never older than what a",
        "finished run acknowledged; searches must find exactly that version; `check --repair` must leave nothing to",
        "find. `make test` does the same 25 times. In process, `tests/faults/test_crash.py` stops",
        "the indexer before and after every single call to the catalog and both indexes.",
        "",
        "| what | figure |",
        "| --- | --- |",
        f"| documents, half of them changed before every run | {figures.documents} |",
        f"| runs killed in the middle | {figures.kills} |",
        f"| runs that finished before the kill | {figures.finished_before_the_kill} |",
        f"| searches for a document's live version | {figures.searches} |",
        f"| homes where `check` found something, all mended by `--repair` | {figures.checks_with_something_to_mend} |",
        f"| documents lost, mixed or older than acknowledged; searches that were wrong | {len(figures.faults)} |",
        f"| seed | {given.seed} |",
        f"| minutes | {(time.monotonic() - started) / 60:.1f} |",
    ]
    page = "\n".join(lines) + "\n"
    print(page)
    for fault in figures.faults:
        print("FAULT:", fault)
    if given.write:
        # What stands below is of other tests.
        before = given.write.read_text(encoding="utf-8") if given.write.exists() else ""
        _, mark, others = before.partition("\n## ")
        given.write.write_text(page.rstrip("\n") + "\n" + mark + others, encoding="utf-8")
    raise SystemExit(bool(figures.faults))


if __name__ == "__main__":
    main()
