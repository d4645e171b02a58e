"""Does it know when the documents do not answer? Questions with their document, without it, and of another domain.

python bench/refusal.py SETS [--half test] [--each 120] [--write bench/results/refusal.md]

Hard: the documents that answer are withheld, so that what is found is about the same things; a question is left out
where another document that is found holds its answer. Easy: questions of another set in the same language. No network
and no language model. The gate was fitted on the half `build`; `test` shares no document with it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

from questions import ELSEWHERE, SETS, Question, holds, home, questions

LEAST_ANSWER = 3  # characters: shorter ones stand in any text by chance


def measured(sets: Path, name: str, *, half: str, each: int, work: Path) -> dict[str, list[bool]]:
    """For each kind of question, whether it was answered."""
    found: dict[str, list[bool]] = {"answerable": [], "hard": [], "easy": []}
    fresh = {"cache_size": 0}
    with home(sets / name, work) as (kb, _, uris):
        for asked in questions(sets / name, half, limit=each):
            found["answerable"].append(not kb.ask(asked.text, options=fresh).refused)
            without = " and ".join(f'uri != "{uris[id]}"' for id in asked.documents)
            answer = kb.ask(asked.text, where=without, options=fresh)
            if not any(holds(hit.chunk.text, asked.answers, least=LEAST_ANSWER) for hit in answer.hits):
                found["hard"].append(not answer.refused)
        elsewhere: list[Question] = questions(sets / ELSEWHERE[name], half, limit=each // 2)
        found["easy"] = [not kb.ask(asked.text, options=fresh).refused for asked in elsewhere]
    return found


def balanced(found: dict[str, list[bool]], *kinds: str) -> float:
    """The mean of how often it is right to answer and how often it is right to refuse, each kind alike."""
    refused = fmean(1 - fmean(found[kind]) for kind in kinds)
    return (fmean(found["answerable"]) + refused) / 2


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__)
    told.add_argument("sets", type=Path)
    told.add_argument("--half", choices=("build", "test"), default="test")
    told.add_argument("--each", type=int, default=120)
    told.add_argument("--work", type=Path, default=Path(__file__).with_name("data") / "homes")
    told.add_argument("--write", type=Path)
    given = told.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    rows = {name: measured(given.sets, name, half=given.half, each=given.each, work=given.work) for name in SETS}
    rows["all"] = {
        kind: [one for found in rows.values() for one in found[kind]] for kind in ("answerable", "hard", "easy")
    }
    lines = [
        f"# Refusal, half `{given.half}`",
        "",
        "| set | answerable: answered | hard: refused | easy: refused | balanced accuracy, mixed | hard |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in rows.items():
        shares = [f"{fmean(found['answerable']):.3f} of {len(found['answerable'])}"]
        shares += [f"{1 - fmean(found[kind]):.3f} of {len(found[kind])}" for kind in ("hard", "easy")]
        lines.append(
            f"| {name} | {' | '.join(shares)} | {balanced(found, 'hard', 'easy'):.3f} | {balanced(found, 'hard'):.3f} |"
        )
    text = "\n".join(lines) + "\n"
    print(text)
    if given.write:
        given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
