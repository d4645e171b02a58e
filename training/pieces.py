"""Turns counted text into the vocabulary of the bundled tokenizer: whole words first, fragments for the rest."""

import collections
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from multiprocessing import Pool

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

UNKNOWN = "[UNK]"
RUNS = r"[a-z]+|[0-9]+|[\u3400-\u9fff]+|[^\W_a-z0-9\u3400-\u9fff]+"
WORD = re.compile(r"[a-z]+|[0-9]+")
CJK_RUN = re.compile(r"[\u3400-\u9fff]+")
FREQUENCY_WEIGHT = 3e7  # a word of frequency 1e-6 counts as 30 sightings in our own text
FRAGMENTS = 6_000
MAX_DIGITS = 4


def fold_table(traditional: dict[str, str]) -> dict[int, str]:
    """Characters that mean the same to the model: traditional to simplified, accented to plain."""
    table = {ord(old): new for old, new in traditional.items()}
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00)):
        plain = unicodedata.normalize("NFKD", chr(code).lower())[0]
        if plain.isascii() and plain.isalpha():
            table[code] = plain
    return table


def normalise(text: str, fold: dict[int, str]) -> str:
    return unicodedata.normalize("NFKC", text).lower().translate(fold)


def count_runs(
    texts: Sequence[str],
) -> tuple[collections.Counter[str], collections.Counter[str], collections.Counter[str]]:
    words: collections.Counter[str] = collections.Counter()
    runs: collections.Counter[str] = collections.Counter()
    characters: collections.Counter[str] = collections.Counter()
    for text in texts:
        words.update(WORD.findall(text))
        runs.update(CJK_RUN.findall(text))
        characters.update(re.findall(r"[^\W_a-z0-9]", text))
    return words, runs, characters


def best_split(word: str, scores: dict[str, float]) -> float:
    """The best score of the word when cut into two or more pieces."""
    best = [0.0] + [-math.inf] * len(word)
    for end in range(1, len(word) + 1):
        for start in range(max(0, end - 20), end):
            if end - start < len(word):
                best[end] = max(best[end], best[start] + scores.get(word[start:end], -math.inf))
    return best[-1]


def unigram(scores: dict[str, float]) -> Tokenizer:
    vocabulary = [(UNKNOWN, -20.0), *sorted(scores.items(), key=lambda item: (-item[1], item[0]))]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(RUNS), "removed", invert=True)
    return tokenizer


def chinese_scores(
    runs: collections.Counter[str], frequencies: dict[str, float], words: Iterable[str], size: int
) -> dict[str, float]:
    """Segments the text with all known words, recounts, and keeps the words that are used."""
    candidates = {w: frequencies.get(w, 1e-8) for w in {*words, *frequencies} if CJK_RUN.fullmatch(w) and len(w) <= 7}
    for run in runs:
        for character in run:
            candidates.setdefault(character, 1e-8)
    for _ in range(2):
        tokenizer = unigram({w: math.log(f) for w, f in candidates.items()})
        ordered = list(runs)
        used: collections.Counter[str] = collections.Counter()
        for run, encoding in zip(ordered, tokenizer.encode_batch(ordered, add_special_tokens=False), strict=True):
            for token in encoding.tokens:
                used[token] += runs[run]
        total = sum(used.values())
        candidates = {w: (used[w] + 0.3 + frequencies.get(w, 0) * FREQUENCY_WEIGHT) / total for w in candidates}
    kept = sorted(candidates, key=lambda w: (-candidates[w] * (50 if len(w) == 1 else 1), w))[:size]
    return {w: math.log(candidates[w]) for w in kept}


def build_tokenizer(
    texts: list[str], dictionary: Iterable[str], frequencies: dict[str, list[list[str]]], sizes: tuple[int, int]
) -> Tokenizer:
    """A Unigram tokenizer with `sizes` = (Latin and other pieces, Chinese pieces)."""
    step = max(1, len(texts) // 64)
    words: collections.Counter[str] = collections.Counter()
    runs: collections.Counter[str] = collections.Counter()
    characters: collections.Counter[str] = collections.Counter()
    with Pool() as pool:
        for part in pool.imap_unordered(count_runs, [texts[i : i + step] for i in range(0, len(texts), step)]):
            for whole, piece in zip((words, runs, characters), part, strict=True):
                whole.update(piece)
    known = {
        language: {w: 10 ** (-i / 100) for i, bin_ in enumerate(bins, 1) for w in bin_}
        for language, bins in frequencies.items()
    }
    counts = {w: c for w, c in words.items() if len(w) <= 20 and (w.isalpha() or len(w) <= MAX_DIGITS)}
    for word, frequency in known["en"].items():
        if WORD.fullmatch(word) and (word.isalpha() or len(word) <= MAX_DIGITS):
            counts[word] = counts.get(word, 0) + frequency * FREQUENCY_WEIGHT
    fragments = Tokenizer(models.Unigram())
    trainer = trainers.UnigramTrainer(vocab_size=FRAGMENTS, max_piece_length=10, show_progress=False)
    fragments.train_from_iterator((w for w, c in counts.items() if c >= 3 and w.isalpha()), trainer)
    total = sum(counts.values())
    others = [c for c, n in characters.most_common(700) if not CJK_RUN.match(c) and n >= 30]
    required = {*"abcdefghijklmnopqrstuvwxyz0123456789", *others, *(f"{n:02d}" for n in range(100))}
    pieces = {p for p in fragments.get_vocab() if WORD.fullmatch(p)} | required
    whole_words = sorted((w for w in counts if w not in pieces), key=lambda w: (-counts[w], w))[
        : sizes[0] - len(pieces)
    ]
    scores = {w: math.log(max(counts.get(w, 0), 1) / total) for w in [*pieces, *whole_words]}
    for word in sorted(scores, key=len):  # a word we know is never cut
        scores[word] = max(scores[word], best_split(word, scores) + 0.1) if len(word) > 1 else scores[word]
    return unigram(scores | chinese_scores(runs, known["zh"], dictionary, sizes[1]))
