"""A folder of text, or none -> chunks, vectors, queries and exact answers that every store of the benchmark shares.

    chunks.txt          one chunk a line, as a reader would see it
    cut.txt             the same, Chinese cut into words by spaces: what the peers index
    vectors.npy         one unit row per chunk
    queries.jsonl       known-item queries: text, cut, and the chunk each was made from
    query_vectors.npy   one unit row per query
    exact.npy           for each query of the first set the ten nearest chunks, by brute force
    exact_rare.npy      the same among the chunks of documents tagged "rare"
    fresh.jsonl         documents that are in nobody's index yet, for timing one addition
    fresh_vectors.npy   their vectors

Everything is a function of the folder, the size and the seed. Only the Python standard library and numpy are needed
to read a prepared corpus; making one also needs rjieba.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

VERSION = 8  # of this file's output: a prepared corpus of another version is made again
SEED = 20261116
DIM = 384  # the size of MiniLM's vectors
MAX_CHARS = 400  # with the tails that are kept, the mean is about 340
MIN_CHARS = 220  # a shorter tail of a text is left out
QUERIES = 200  # in a set; each round of each kind has a set of its own, so that no cache has seen a query before
QUERY_SETS = 10
MIN_QUERY_CHARS = 4
FRESH_DOCUMENTS = 24
NEIGHBOURS = 10
NEAR = 1e-4  # of a cosine
RARE_EVERY, RARE_AT = 100, 7  # one document in a hundred is tagged "rare"
TEXT_SUFFIXES = {".txt", ".md", ".rst", ".text"}

SENTENCE_END = re.compile(r"(?<=[。！？；])|(?<=[.!?;]) ")
CJK = re.compile(r"[\u3400-\u9fff]")


@dataclass(frozen=True)
class Query:
    """A question made from one chunk. Its vector is a row of `Corpus.query_vectors`."""

    number: int
    text: str
    cut: str
    chunk: int


@dataclass(frozen=True)
class Fresh:
    """A document that is not indexed yet. `word` occurs in it and nowhere else."""

    number: int
    word: str
    chunks: list[str]
    cut: list[str]


class Corpus:
    """A prepared folder, read lazily so that a process holds only what it asks for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about: dict[str, Any] = json.loads((folder / "about.json").read_text("utf-8"))
        self.size: int = self.about["size"]
        self.per_document: int = self.about["chunks_per_document"]

    def chunks(self) -> Iterator[str]:
        """Every chunk as written, in order."""
        return _lines(self.folder / "chunks.txt")

    def cut(self) -> Iterator[str]:
        """Every chunk with Chinese cut by spaces, in order."""
        return _lines(self.folder / "cut.txt")

    def vectors(self) -> np.ndarray:
        """One unit row per chunk, mapped from disk."""
        return np.load(self.folder / "vectors.npy", mmap_mode="r")

    def queries(self) -> list[Query]:
        """The questions, one set after the other."""
        return [Query(**json.loads(line)) for line in _lines(self.folder / "queries.jsonl")]

    def questions(self, count: int) -> list[str]:
        """More of the same kind, all different, as text alone; fewer than that many where the corpus is small."""
        made = _queries(list(self.chunks()), list(self.cut()), count=count, seed="questions")
        return [query.text for query in made]

    def query_vectors(self) -> np.ndarray:
        """One unit row per query."""
        return np.load(self.folder / "query_vectors.npy")

    def exact(self, *, rare: bool) -> np.ndarray:
        """For each query of the first set its nearest chunks, best first."""
        return np.load(self.folder / ("exact_rare.npy" if rare else "exact.npy"))

    def fresh(self) -> list[Fresh]:
        """Documents to add one at a time."""
        return [Fresh(**json.loads(line)) for line in _lines(self.folder / "fresh.jsonl")]

    def fresh_vectors(self) -> np.ndarray:
        """One unit row per fresh chunk, documents one after the other."""
        return np.load(self.folder / "fresh_vectors.npy")

    def is_rare(self, chunk: int) -> bool:
        """Whether the chunk's document carries the tag."""
        return (chunk // self.per_document) % RARE_EVERY == RARE_AT


def prepare(size: int, *, source: Path | None, data: Path, per_document: int = 10) -> Corpus:
    """Make the corpus, or find it made."""
    name = source.resolve().name if source else "made"
    folder = data / f"{name}-{size}-{per_document}"
    about = {"version": VERSION, "seed": SEED, "size": size, "chunks_per_document": per_document, "source": name}
    made = folder / "about.json"
    if made.exists() and about.items() <= json.loads(made.read_text("utf-8")).items():
        return Corpus(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made.unlink(missing_ok=True)

    total = size + FRESH_DOCUMENTS * per_document
    texts = _interleaved(source, total, per_document)
    chunks, spare = texts[:size], texts[size:]
    cut = [cut_words(text) for text in chunks]
    fresh = _fresh(spare, per_document)
    _write_lines(folder / "chunks.txt", chunks)
    _write_lines(folder / "cut.txt", cut)
    _write_lines(folder / "fresh.jsonl", (json.dumps(vars(one), ensure_ascii=False) for one in fresh))

    everything = [*cut, *(line for one in fresh for line in one.cut)]
    rows = _vectors(everything)
    np.save(folder / "vectors.npy", rows[:size])
    np.save(folder / "fresh_vectors.npy", rows[size:])

    queries = _queries(chunks, cut)
    _write_lines(folder / "queries.jsonl", (json.dumps(vars(one), ensure_ascii=False) for one in queries))
    asked = _query_vectors(rows, queries)
    np.save(folder / "query_vectors.npy", asked)
    rare = np.array([number for number in range(size) if (number // per_document) % RARE_EVERY == RARE_AT])
    asked = asked[:QUERIES]  # recall is measured on the first set
    np.save(folder / "exact.npy", _nearest(asked, rows[:size], np.arange(size)))
    np.save(folder / "exact_rare.npy", _nearest(asked, rows[:size], rare))

    about["chinese_share"] = round(sum(bool(CJK.search(text)) for text in chunks) / size, 3)
    about["mean_chars"] = round(sum(map(len, chunks)) / size, 1)
    about["text_megabytes"] = round(sum(len(text.encode()) for text in chunks) / 1e6, 1)
    made.write_text(json.dumps(about, indent=1), "utf-8")
    return Corpus(folder)


# ---------------------------------------------------------------------------------------------- text


def _interleaved(source: Path | None, total: int, per_document: int) -> list[str]:
    """Distinct chunks, documents of Chinese and of English in turn."""
    half = (total // per_document + 1) // 2 * per_document + per_document
    pools = _read_pools(source) if source else {"zh": [], "en": []}
    makers = {"zh": _made_chinese, "en": _made_english}
    mixed: dict[str, list[str]] = {}
    for language, pool in pools.items():
        shuffled = sorted(set(pool))
        random.Random(f"{SEED} {language}").shuffle(shuffled)
        if len(shuffled) < half:
            seen = set(shuffled)
            more = _recombined(shuffled, language) if shuffled else makers[language]()
            while len(shuffled) < half:
                text = next(more)
                if text not in seen:
                    seen.add(text)
                    shuffled.append(text)
        mixed[language] = shuffled[:half]
    texts: list[str] = []
    for start in range(0, half, per_document):
        texts += mixed["zh"][start : start + per_document]
        texts += mixed["en"][start : start + per_document]
    return texts[:total]


def _read_pools(source: Path) -> dict[str, list[str]]:
    pools: dict[str, list[str]] = {"zh": [], "en": []}
    for text in _source_texts(source):
        for chunk in _cut_to_size(text):
            pools["zh" if len(CJK.findall(chunk)) * 4 > len(chunk) else "en"].append(chunk)
    if not any(pools.values()):
        raise SystemExit(f"no text found in {source}: give a folder of .jsonl.gz with a field 'pos', or of text files")
    return pools


def _source_texts(source: Path) -> Iterator[str]:
    for path in sorted(source.rglob("*")):
        if path.name.endswith(".jsonl.gz"):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    found = json.loads(line)["pos"]
                    yield from [found] if isinstance(found, str) else found
        elif path.suffix in TEXT_SUFFIXES:
            yield path.read_text("utf-8", errors="replace")


def _cut_to_size(text: str) -> Iterator[str]:
    """Pieces of at most MAX_CHARS that end with a sentence where one ends in their last third."""
    flat = " ".join(text.split())
    while len(flat) >= MIN_CHARS:
        end = len(flat)
        if end > MAX_CHARS:
            window = flat[:MAX_CHARS]
            ends = [window.rfind(mark) + 1 for mark in "。！？；"] + [
                window.rfind(mark) + 1 for mark in (". ", "! ", "? ")
            ]
            end = max(ends)
            if end < MAX_CHARS * 2 // 3:
                end = window.rfind(" ") if window.rfind(" ") > MAX_CHARS * 2 // 3 else MAX_CHARS
        yield flat[:end].strip()
        flat = flat[end:].strip()


def _recombined(pool: list[str], language: str) -> Iterator[str]:
    """New chunks from sentences of the pool, for when the folder holds too few."""
    chance = random.Random(f"{SEED} recombined {language}")
    sentences = [part.strip() for text in pool for part in SENTENCE_END.split(text) if part and len(part.strip()) > 8]
    joint = "" if language == "zh" else " "
    while True:
        text = ""
        while len(text) < MAX_CHARS * 3 // 4:
            text = joint.join(filter(None, (text, chance.choice(sentences))))
        yield text[:MAX_CHARS].strip()


def _zipf(count: int) -> np.ndarray:
    """Cumulative Zipf-Mandelbrot: the frequencies of words in natural text."""
    weight = 1.0 / (np.arange(count) + 2.7)  # 2.7: Mandelbrot's shift for English
    return np.cumsum(weight / weight.sum())


def _made(words: list[str], joint: str, stops: tuple[str, str], seed: str) -> Iterator[str]:
    """Chunks whose words follow Zipf's law, half of them from one of many topics so that neighbours mean something."""
    chance = np.random.default_rng(zlib.crc32(f"{SEED} {seed}".encode()))
    everywhere = _zipf(len(words))
    topic_words, topics = 400, 2000
    first_topical = 200  # the most frequent words belong to no topic
    topic = chance.integers(first_topical, len(words), size=(topics, topic_words))
    within = _zipf(topic_words)
    mean_length = sum(map(len, words[:2000])) / 2000 + len(joint)
    batch = int(MAX_CHARS / mean_length * 1.6)
    while True:
        about = topic[chance.integers(topics)]
        general = np.searchsorted(everywhere, chance.random(batch))
        topical = about[np.searchsorted(within, chance.random(batch))]
        picked = np.where(chance.random(batch) < 0.5, topical, general)
        text, sentence, length = "", [], int(chance.integers(6, 20))
        for index in picked:
            sentence.append(words[min(int(index), len(words) - 1)])
            if len(sentence) == length:
                made = joint.join(sentence)
                text += made[0].upper() + made[1:] + stops[int(chance.integers(2))]
                sentence, length = [], int(chance.integers(6, 20))
                if len(text) > MAX_CHARS:
                    break
        yield text[:MAX_CHARS].strip()


def _made_english() -> Iterator[str]:
    chance = random.Random(f"{SEED} english")
    onsets = (
        "b",
        "c",
        "d",
        "f",
        "g",
        "h",
        "l",
        "m",
        "n",
        "p",
        "r",
        "s",
        "t",
        "v",
        "w",
        "st",
        "tr",
        "pl",
        "cr",
        "sh",
        "th",
        "gr",
    )
    vowels = ("a", "e", "i", "o", "u", "ai", "ea", "ou", "io")
    codas = ["", "", "", "", "", "", "n", "r", "s", "t", "l", "st"]
    words = [
        "the",
        "of",
        "and",
        "to",
        "in",
        "a",
        "is",
        "that",
        "for",
        "it",
        "as",
        "was",
        "with",
        "be",
        "by",
        "on",
        "not",
    ]
    seen = set(words)
    while len(words) < 60_000:
        # Frequent words are short, as in every language.
        syllables = (
            1 if len(words) < 150 else chance.choice((1, 2, 2, 3)) if len(words) < 5000 else chance.choice((2, 2, 3))
        )
        word = "".join(chance.choice(onsets) + chance.choice(vowels) + chance.choice(codas) for _ in range(syllables))
        if word not in seen:
            seen.add(word)
            words.append(word)
    return _made(words, " ", (". ", ", "), "english")


def _made_chinese() -> Iterator[str]:
    chance = random.Random(f"{SEED} chinese")
    # The first level of GB 2312: the 3,755 characters in common use.
    level = [bytes((high, low)) for high in range(0xB0, 0xD8) for low in range(0xA1, 0xFF)]
    characters = [pair.decode("gb2312") for pair in level if pair < b"\xd7\xfa"]
    chance.shuffle(characters)
    spread = _zipf(len(characters))
    words = list("的一是在不了有和人这中大为上个国我以要他")
    seen = set(words)
    while len(words) < 60_000:
        length = (
            1
            if len(words) < 150
            else chance.choice((1, 2, 2, 2))
            if len(words) < 3000
            else chance.choice((2, 2, 2, 3, 4))
        )
        picks = np.searchsorted(spread, [chance.random() for _ in range(length)])
        word = "".join(characters[min(int(pick), len(characters) - 1)] for pick in picks)
        if word not in seen:
            seen.add(word)
            words.append(word)
    return _made(words, "", ("。", "，"), "chinese")


def cut_words(text: str) -> str:
    """Chinese cut into words by spaces, as a peer's user would do it beforehand; other text as it is."""
    if not CJK.search(text):
        return text
    import rjieba  # only making a corpus needs it

    return " ".join(word for word in rjieba.cut_for_search(text, True) if not word.isspace())


def _fresh(texts: list[str], per_document: int) -> list[Fresh]:
    made = []
    for number, start in enumerate(range(0, len(texts), per_document)):
        word = f"zyxwq{number:04d}"
        chunks = [f"{word} {text}" for text in texts[start : start + per_document]]
        made.append(Fresh(number=number, word=word, chunks=chunks, cut=[cut_words(text) for text in chunks]))
    return made


# ------------------------------------------------------------------------------------------- vectors

BUCKETS = 1 << 16
TERMS = 32  # the rarest words of a chunk, which make its vector
BATCH = 4096
LEARNT_FROM = 100_000  # chunks whose words are looked at for the company they keep
COMPANY = 2.0  # how much of a word's vector is its company; gives neighbours cosines like those of MiniLM


def _vectors(cut: list[str]) -> np.ndarray:
    """Sums of word vectors weighted by idf, where a word's vector is a random one plus the company it keeps.

    So chunks that share rare words are near each other, chunks on the same subject are less near, the variance falls
    off along the principal axes, and no two chunks are quite orthogonal: as with learned embeddings.
    """
    buckets, lengths = _hashed(cut)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    document_frequency = np.bincount(buckets, minlength=BUCKETS)
    idf = np.log1p(len(cut) / np.maximum(document_frequency, 1)).astype(np.float32)

    chance = np.random.default_rng(SEED)
    spectrum = ((1 + np.arange(DIM) / 32) ** -0.5).astype(np.float32)
    rotation = np.linalg.qr(chance.standard_normal((DIM, DIM)))[0].astype(np.float32)
    words = _unit((chance.standard_normal((BUCKETS, DIM), dtype=np.float32) * spectrum) @ rotation)
    shared = _unit(chance.standard_normal((1, DIM), dtype=np.float32))[0]

    def summed(low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The sum for each chunk, and which word went into which."""
        here = buckets[starts[low] : starts[high]]
        chunk = np.repeat(np.arange(high - low), lengths[low:high])
        order = np.lexsort((here, -idf[here], chunk))
        place = np.arange(len(here)) - np.repeat(starts[low:high] - starts[low], lengths[low:high])
        kept = order[place < TERMS]
        first = np.concatenate(([0], np.cumsum(np.minimum(lengths[low:high], TERMS))[:-1]))
        rows = np.add.reduceat(words[here[kept]] * idf[here[kept], None], first, axis=0)
        return _unit(rows), here[kept], chunk[kept]

    company = np.zeros_like(words)
    for low in range(0, min(len(cut), LEARNT_FROM), BATCH):
        high = min(low + BATCH, len(cut))
        rows, used, chunk = summed(low, high)
        order = np.argsort(used, kind="stable")
        which, first = np.unique(used[order], return_index=True)
        company[which] += np.add.reduceat(rows[chunk[order]], first, axis=0)
    company = _unit(company)
    company -= company.mean(axis=0)
    words = _unit(words + COMPANY * _unit(company))

    result = np.empty((len(cut), DIM), dtype=np.float32)
    for low in range(0, len(cut), BATCH):
        high = min(low + BATCH, len(cut))
        noise = _unit(chance.standard_normal((high - low, DIM), dtype=np.float32))
        result[low:high] = _unit(summed(low, high)[0] + 0.2 * shared + 0.1 * noise)
    return result


def _hashed(cut: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The distinct word buckets of each chunk, one after the other, and how many each has."""
    known: dict[str, int] = {}
    parts, lengths = [], np.empty(len(cut), dtype=np.int64)
    for number, line in enumerate(cut):
        found = set()
        for word in line.lower().split():
            bucket = known.get(word)
            if bucket is None:
                bucket = known[word] = zlib.crc32(word.encode()) % BUCKETS
            found.add(bucket)
        lengths[number] = len(found)
        parts.append(np.fromiter(sorted(found), dtype=np.int32, count=len(found)))
    return np.concatenate(parts), lengths


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


# ------------------------------------------------------------------------------------------- queries


def _queries(
    chunks: list[str], cut: list[str], *, count: int = QUERIES * QUERY_SETS, seed: str = "queries"
) -> list[Query]:
    """Half are a stretch of a chunk with all its common words, half are a few of its rarer words."""
    chance = random.Random(f"{SEED} {seed}")
    frequency: dict[str, int] = {}
    for line in cut[:: max(1, len(cut) // 20_000)]:
        for word in set(line.lower().split()):
            frequency[word] = frequency.get(word, 0) + 1
    made: dict[str, Query] = {}
    # More chunks than queries are wanted: a query that came up before, or is too short to mean anything, is left out.
    for chunk in chance.sample(range(len(chunks)), min(len(chunks), 2 * count)):
        joint = "" if CJK.search(chunks[chunk]) else " "
        number = len(made)
        text = (
            _stretch(chunks[chunk], joint, chance) if number % 2 else _rare_words(cut[chunk], frequency, joint, chance)
        )
        if text not in made and sum(map(str.isalnum, text)) >= MIN_QUERY_CHARS:
            made[text] = Query(number=number, text=text, cut=cut_words(text), chunk=chunk)
        if len(made) == count:
            break
    return list(made.values())


def _stretch(chunk: str, joint: str, chance: random.Random) -> str:
    parts = chunk.split() if joint else list(chunk)
    length = 8 if joint else 16  # about the length of a question in each language
    start = chance.randrange(max(1, len(parts) - length))
    return joint.join(parts[start : start + length])


def _rare_words(cut: str, frequency: dict[str, int], joint: str, chance: random.Random) -> str:
    words = sorted({word for word in cut.split() if len(word) > 1 and any(map(str.isalnum, word))})
    words.sort(key=lambda word: frequency.get(word.lower(), 0))
    return joint.join(chance.sample(words[:12], min(4, len(words[:12]))))


def _query_vectors(rows: np.ndarray, queries: list[Query]) -> np.ndarray:
    """The chunk's vector moved by noise of 0.6 of its length: cosine about 0.85."""
    chance = np.random.default_rng(SEED + 1)
    noise = _unit(chance.standard_normal((len(queries), DIM), dtype=np.float32))
    return _unit(rows[[query.chunk for query in queries]] + 0.6 * noise).astype(np.float32)


def _nearest(asked: np.ndarray, rows: np.ndarray, among: np.ndarray) -> np.ndarray:
    scores = asked @ (rows if len(among) == len(rows) else rows[among]).T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :NEIGHBOURS] if len(among) < BATCH else _top(scores)
    return among[best]


def _top(scores: np.ndarray) -> np.ndarray:
    some = np.argpartition(-scores, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


# --------------------------------------------------------------------------------------------- files


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield line[:-1]


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(f"{line}\n" for line in lines)


def recall(asked: np.ndarray, rows: np.ndarray, found: list[list[int]], wanted: np.ndarray) -> float:
    """The share of the wanted neighbours that were found, or others as near as the furthest of the wanted.

    As near: within NEAR of its cosine, so that rounding stored vectors to 16 bits does not count as a miss.
    """
    shares = []
    for vector, got, best in zip(asked, found, wanted, strict=True):
        furthest = float((rows[best] @ vector).min())
        near = sum(float(rows[one] @ vector) >= furthest - NEAR for one in set(got[: len(best)]))
        shares.append(near / len(best))
    return sum(shares) / len(shares)


__all__ = ["Corpus", "Fresh", "Query", "prepare", "recall"]
