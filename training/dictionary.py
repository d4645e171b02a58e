"""jieba's dictionary and model of unknown words -> the tables in src/headwater/dictionary that `native/words.c` reads.

    pip install jieba==0.42.1 --target FOLDER
    python training/dictionary.py FOLDER/jieba

The tables are read in place, so they are what the look-up needs: a trie whose branches stand in one table of hashes.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np

OUT = Path(__file__).resolve().parent.parent / "src/headwater/dictionary"

# As in words.c.
FIRST_CHAR, LAST_CHAR = 0x3400, 0x9FFF
CHAR_BITS, RANK_BITS, CHILD_BITS = 14, 13, 18
MIXER = 0x9E3779B1
LOAD = 0.65  # of the table of hashes
STATES = "BEMS"  # begins, ends, is in the middle of, is alone a word
NEVER = -3.14e100


def frequencies(path: Path) -> tuple[dict[str, int], int]:
    """The words of Chinese characters alone and how often each was seen; and how often any word was."""
    # One stands there twice; counted so, ways to cut a long run that are equally likely would come out otherwise.
    lines = (line.split(" ") for line in path.read_text("utf-8").splitlines())
    found = {word: int(count) for word, count, _ in lines}
    chinese = {word: n for word, n in found.items() if all(FIRST_CHAR <= ord(char) <= LAST_CHAR for char in word)}
    return chinese, sum(found.values())


def probabilities(folder: Path, name: str) -> dict[str, dict[str, float]]:
    """One of the tables of the model of unknown words."""
    return runpy.run_path(str(folder / f"prob_{name}.py"))["P"]


def main() -> None:
    """Write the tables."""
    source = Path(sys.argv[1])
    words, total = frequencies(source / "dict.txt")
    emit = probabilities(source / "finalseg", "emit")
    held = {char for char in {*"".join(words)}.union(*emit.values()) if FIRST_CHAR <= ord(char) <= LAST_CHAR}
    numbers = {char: number for number, char in enumerate(sorted(held), 1)}
    counts = sorted(set(words.values()))
    ranks = {count: rank for rank, count in enumerate(counts, 1)}
    prefixes = sorted({word[:size] for word in words for size in range(1, len(word) + 1)})
    children = {prefix: n for n, prefix in enumerate(sorted({p[:-1] for p in prefixes} - {""}), 1)}
    assert len(numbers) < 1 << CHAR_BITS and len(ranks) < 1 << RANK_BITS and len(children) < 1 << CHILD_BITS

    def value(prefix: str) -> int:
        return children.get(prefix, 0) << RANK_BITS | (ranks[words[prefix]] if prefix in words else 0)

    chars = np.zeros(LAST_CHAR - FIRST_CHAR + 1, dtype="<u2")
    firsts = np.zeros(len(numbers) + 1, dtype="<u4")
    emissions = np.full((len(numbers) + 1, len(STATES)), NEVER, dtype="<f8")
    for char, number in numbers.items():
        chars[ord(char) - FIRST_CHAR] = number
        firsts[number] = value(char)
        # jieba in C++ and Rust has six digits of what jieba in Python has more of, and rjieba is what we stand beside.
        emissions[number] = [round(emit[state].get(char, NEVER), 6) for state in STATES]
    longer = [prefix for prefix in prefixes if len(prefix) > 1]
    slots = np.zeros(int(len(longer) / LOAD), dtype="<u8")
    for prefix in longer:
        key = children[prefix[:-1]] << CHAR_BITS | numbers[prefix[-1]]
        slot = (key * MIXER & 0xFFFFFFFF) * len(slots) >> 32
        while slots[slot]:
            slot = (slot + 1) % len(slots)
        slots[slot] = key << 32 | value(prefix)
    start, trans = probabilities(source / "finalseg", "start"), probabilities(source / "finalseg", "trans")
    steps = [[start[state] for state in STATES]]
    steps += [[trans[before].get(state, NEVER) for state in STATES] for before in STATES]

    OUT.mkdir(exist_ok=True)
    for name, table in {
        "chars": chars,
        "firsts": firsts,
        "slots": slots,
        "counts": np.array([total, *counts], dtype="<f8"),
        "emissions": emissions,
        "steps": np.array(steps, dtype="<f8"),
    }.items():
        np.save(OUT / f"{name}.npy", table)
        print(f"{name}: {table.shape} {table.nbytes:,} bytes")
    print(f"{len(words):,} words, {len(longer) + len(firsts):,} prefixes")


if __name__ == "__main__":
    main()
