"""Does it know when the documents do not answer? Questions with their document, without it, and of another domain.

python bench/refusal.py SETS [--half test] [--each 120] [--write bench/results/refusal.md]

Hard: the documents that answer are withheld, so that what is found is about the same things; a question is left out
where another document that is found holds its answer. Easy: questions of another set in the same language. No network
and no language model. The gate was fitted on the half `build`; `test` shares no document with it.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from questions import ELSEWHERE, SETS, Question, holds, home, questions, show, told

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
    given = told(__doc__, each=120)
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
    show(lines, given.write)


if __name__ == "__main__":
    main()
