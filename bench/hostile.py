"""Files that are made to hang, crash or deceive whoever reads them, each with what must become of it.

`python bench/hostile.py FOLDER` writes them; `python bench/hostile.py` adds them to a home one by one, says what became
of each and how long it took, and exits with 1 when anything went another way than it must.
"""

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import hostile_archives
import hostile_office
import hostile_pdfs
import hostile_texts
from hostile_kinds import LIMIT, Hostile, hostile

KILOBYTE = 1024
BIT_FLIPS = 6
WHOLE = f"document|empty|failed|{LIMIT}"


def whole_files() -> dict[str, bytes]:
    """Sound files of some kilobytes, to be damaged; by kind."""
    chosen = random.Random(11)
    # Words that pack badly, so that the files are long enough to be cut in many places.
    words = [" ".join(f"{chosen.getrandbits(40):x}" for _ in range(60)) for _ in range(24)]
    page = hostile_pdfs.one_page
    shown = b" ".join(b"BT /F1 6 Tf 9 %d Td (%s) Tj ET" % (9 + 25 * n, line.encode()) for n, line in enumerate(words))
    return {
        "docx": hostile_office.letter("".join(map(hostile_office.said, words))),
        "xlsx": hostile_office.workbook(hostile_office.rows(*(f"A{n}={line}" for n, line in enumerate(words, 1)))),
        "pptx": hostile_office.deck("".join(map(hostile_office.shape, words))),
        "epub": hostile_office.book("".join(f"<p>{line}</p>" for line in words)),
        "pdf": page(shown),
        "eml": hostile_texts.attached(
            "letter.docx", hostile_office.letter("".join(map(hostile_office.said, words)))
        ).encode(),
    }


def damaged() -> Iterator[Hostile]:
    """Sound files, cut off at every kilobyte and with bits turned over."""
    for kind, data in whole_files().items():
        for size in range(KILOBYTE, len(data), KILOBYTE):
            yield hostile(
                f"cut-{size:06d}.{kind}", f"{kind} cut off after {size} bytes", lambda d=data, s=size: d[:s], WHOLE
            )
        for seed in range(BIT_FLIPS):
            yield hostile(
                f"flipped-{seed}.{kind}", f"{kind} with bits turned over", lambda d=data, s=seed: flipped(d, s), WHOLE
            )


def flipped(data: bytes, seed: int) -> bytes:
    """One bit of every hundred bytes or so, turned over."""
    chosen, changed = random.Random(seed), bytearray(data)
    for _ in range(max(1, len(data) // 100)):
        changed[chosen.randrange(len(changed))] ^= 1 << chosen.randrange(8)
    return bytes(changed)


def every_file() -> list[Hostile]:
    """All of them; their names are all different."""
    made = [
        *hostile_archives.archives(),
        *hostile_archives.marked_up(),
        *hostile_archives.sheets(),
        *hostile_pdfs.pdfs(),
        *hostile_pdfs.pictures(),
        *hostile_texts.plain(),
        *hostile_texts.markdown(),
        *hostile_texts.pages(),
        *hostile_texts.records(),
        *hostile_texts.mails(),
        *hostile_texts.programs(),
        *hostile_texts.misnamed(),
        *damaged(),
    ]
    assert len({one.name for one in made}) == len(made)
    return made


def main() -> int:
    """Write them, or add them and tell what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="write the files here and do nothing else")
    parser.add_argument("--only", default="", help="a pattern of names")
    given = parser.parse_args()
    chosen = [one for one in every_file() if re.search(given.only, one.name)]
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
        for one in chosen:
            (given.folder / one.name).write_bytes(one.make())
        return 0
    return measured(chosen)


def measured(chosen: list[Hostile]) -> int:
    """Add them one after the other, each timed."""
    import headwater

    wrong = 0
    with tempfile.TemporaryDirectory() as folder, headwater.open(Path(folder) / "kb") as kb:
        for one in chosen:
            path = Path(folder) / one.name
            path.write_bytes(one.make())
            started = time.perf_counter()
            kb.add(path)
            took = time.perf_counter() - started
            record = next(record for record in kb.documents() if record.uri == path.resolve().as_posix())
            outcome = "document" if record.state == "completed" else f"{record.state}: {record.error}"
            right = re.search(one.expect, outcome)
            wrong += not right
            print(f"{'' if right else 'WRONG '}{took:6.2f} s  {one.name}  {outcome}")
            path.unlink()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
