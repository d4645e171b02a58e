"""Sets of one language -> sets with both languages in one collection, some asked in the one and answered in the other.

python bench/mixed.py SETS TARGET

SETS has en_squad2, xx_xquad_en2zh, xx_xquad_zh2en, zh_cmrc and zh_dureader_robust; TARGET gets four sets:
`mixed_en2zh` and `mixed_zh2en`, whose questions are answered in the other language while half of the documents are in
their own, and `mixed_squad` and `mixed_dureader`, whose questions are answered in their own language.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from headwater.evaluate.dataset import Entry, JudgedSet, read_set

SAME_CHARS = 150  # of two paragraphs, spaces and case left out: more than any two of these sets share by chance


def write(folder: Path, entries: Iterable[tuple[str, Entry]], asked: JudgedSet, prefix: str) -> None:
    """Documents of several sets, told apart by a prefix, and the questions of the one that has `prefix`."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    rows = [{"_id": before + one.id, "title": one.title, "text": one.text} for before, one in entries]
    _lines(folder / "corpus.jsonl", rows)
    _lines(folder / "queries.jsonl", [{"_id": id, "text": text} for id, text in asked.queries.items()])
    judged = [
        f"{query}\t{prefix}{document}\t{grade}\n"
        for query, grades in asked.judgements.items()
        for document, grade in grades.items()
    ]
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged), encoding="utf-8")


def _lines(path: Path, rows: Iterable[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def beginning(text: str) -> str:
    return "".join(text.lower().split())[:SAME_CHARS]


def marked(prefix: str, judged_set: JudgedSet) -> list[tuple[str, Entry]]:
    return [(prefix, entry) for entry in judged_set.entries()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    names = ("en_squad2", "xx_xquad_en2zh", "xx_xquad_zh2en", "zh_cmrc", "zh_dureader_robust")
    squad, to_chinese, to_english, cmrc, dureader = (read_set(arguments.sets / name) for name in names)
    # XQuAD is SQuAD translated: what answers a question in its own language as well must not be there.
    right = {document for grades in to_english.judgements.values() for document in grades}
    answering = {beginning(entry.text) for entry in to_english.entries() if entry.id in right}
    others = [one for one in marked("s", squad) if beginning(one[1].text) not in answering]
    chinese = [*marked("c", cmrc), *marked("d", dureader)]
    write(arguments.target / "mixed_en2zh", [*marked("x", to_chinese), *others], to_chinese, "x")
    write(arguments.target / "mixed_zh2en", [*marked("x", to_english), *chinese], to_english, "x")
    write(arguments.target / "mixed_squad", [*marked("s", squad), *chinese], squad, "s")
    write(arguments.target / "mixed_dureader", [*marked("s", squad), *chinese], dureader, "d")


if __name__ == "__main__":
    main()
