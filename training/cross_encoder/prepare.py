"""The text of ../prepare.py and the bundled model -> a tokenizer, a table of vectors and token ids to train on.

python prepare.py --data WORK/data.json.xz --out WORK/cross
"""

import argparse
import json
import lzma
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from headwater.models._pieces import Pieces, load

SEED: Final = 20_261_116
SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
# 22,000 rows of 128 bytes are 2.8 MB: what a file of below 4 MB has room for beside its tokenizer.
LATIN_ROWS: Final = 10_500
CHINESE_ROWS: Final = 11_500
DIM: Final = 128
SENTENCES: Final = re.compile(r"(?<=[。！？；!?\n])|(?<=[.;] )")
CHINESE: Final = re.compile(r"[\u3400-\u9fff]")
# Tokens of a document that are kept, and documents of a source: so that what goes to the GPU machine is below 30 MB.
MOST_TOKENS: Final = 300
MOST: Final = {"en_definitions": 15_000, "en_manuals": 30_000, "zh_news": 26_000}
LEFT_OUT: Final = ("en_ontologies", "en_thesaurus")
# Short parallel strings stand together, so that they are as long as passages.
GROUP: Final = 5


def chosen_pieces(model: Pieces, data: Any) -> list[int]:
    """Which pieces of the bundled model are kept: characters, common words, and what the training text needs."""
    counts: Counter[int] = Counter()
    texts = [text for name, pairs in data["pairs"].items() for pair in pairs[:8_000] for text in pair]
    texts += [text for pair in data["parallel"][:40_000] for text in pair]
    for start in range(0, len(texts), 5_000):
        for cut in model.cut([text[:1_500] for text in texts[start : start + 5_000]]):
            counts.update(cut.tolist())
    words = [piece.decode() for piece in model.pieces.tolist()]
    place = {word: number for number, word in enumerate(words)}
    common: dict[str, set[int]] = {}
    for language, room in (("en", 6_000), ("zh", 5_000)):
        listed = [word for bucket in data["frequencies"][language] for word in bucket]
        common[language] = set([place[word] for word in listed if word in place][:room])
    kept: set[int] = set()
    for chinese, room in ((False, LATIN_ROWS), (True, CHINESE_ROWS)):
        mine = [n for n, word in enumerate(words) if bool(CHINESE.search(word)) == chinese and word not in SPECIAL]
        sure = {n for n in mine if len(words[n]) == 1 and (chinese is False or counts[n] > 0)}
        sure |= {n for n in mine if not chinese and len(words[n]) == 2 and words[n].isascii()}
        sure |= common["zh" if chinese else "en"] & set(mine)
        rest = sorted(set(mine) - sure, key=lambda n: (-counts[n], -float(model.scores[n])))
        kept |= set(sorted(sure, key=lambda n: (-counts[n], -float(model.scores[n])))[:room])
        kept |= set(rest[: max(0, room - len(sure))])
    return sorted(kept)


def make_tokenizer(model: Pieces, kept: Sequence[int], data: Any) -> tuple[Any, list[int]]:
    """A tokenizer of the kept pieces, and each token's row in the table: traditional characters share one."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    lowest = float(model.scores.min()) / model.steps
    vocabulary = [(name, lowest) for name in SPECIAL]
    vocabulary += [(model.pieces[n].decode(), round(float(model.scores[n]) / model.steps, 2)) for n in kept]
    rows = list(range(len(vocabulary)))
    there = {word: number for number, (word, _) in enumerate(vocabulary)}
    for traditional, simplified in sorted(data["fold"].items()):
        if len(traditional) == 1 and traditional not in there and simplified in there:
            vocabulary.append((traditional, vocabulary[there[simplified]][1]))
            rows.append(there[simplified])
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=1, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"[a-z]+|[0-9]+|[\x{3400}-\x{9fff}]+|[^\W_a-z0-9\x{3400}-\x{9fff}]+"), behavior="removed", invert=True
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer, rows


def make_table(model: Pieces, kept: Sequence[int]) -> tuple[Any, Any]:
    """Directions of length 1 in fewer dimensions, and what else is known of a piece: how long, how likely."""
    rows = np.asarray(model.table)[list(kept)].astype(np.float32) * model.scales[list(kept), None]
    lengths = np.linalg.norm(rows, axis=1)
    unit = rows / np.maximum(lengths, 1e-9)[:, None]
    _, _, directions = np.linalg.svd(unit[:: max(1, len(unit) // 20_000)], full_matrices=False)
    small = unit @ directions[:DIM].T
    small /= np.maximum(np.linalg.norm(small, axis=1, keepdims=True), 1e-9)
    table = np.zeros((len(SPECIAL) + len(kept), DIM), dtype=np.float32)
    table[len(SPECIAL) :] = small
    known = np.zeros((len(table), 2), dtype=np.float32)
    known[len(SPECIAL) :, 0] = lengths / lengths.mean()
    known[len(SPECIAL) :, 1] = -model.scores[list(kept)] / model.steps / 10
    return table, known


class Texts:
    """Documents as token ids: a title, and sentences that follow each other."""

    def __init__(self, tokenizer: Any, rows: Sequence[int]) -> None:
        self._tokenizer, self._rows = tokenizer, np.array(rows, dtype=np.uint16)
        self.tokens: list[Any] = []
        self.sentences: list[int] = [0]  # ends
        self.documents: list[tuple[int, int, int, int]] = []  # first sentence, last, source, mate
        self._size = 0

    def ids(self, texts: Sequence[str]) -> list[Any]:
        found = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [self._rows[one.ids] for one in found]

    def add(self, title: str, text: str, *, source: int, mate: int = -1) -> int:
        """The first sentence is the title, also where it is empty. The number of the document."""
        first, kept = len(self.sentences) - 1, 0
        for number, ids in enumerate(self.ids([title[:400], *SENTENCES.split(text)])):
            if number and (not len(ids) or kept > MOST_TOKENS):
                continue
            kept += len(ids)
            self._size += len(ids)
            self.tokens.append(ids)
            self.sentences.append(self._size)
        self.documents.append((first, len(self.sentences) - 1, source, mate))
        return len(self.documents) - 1


def dictionary(texts: Texts, data: Any) -> list[tuple[int, Any, int]]:
    """Single tokens and what may stand for them: (token, tokens, 0 for the other language or 1 for the same)."""
    found: list[tuple[int, Any, int]] = []
    pairs = [(zh, re.sub(r"\(.*?\)|^to ", "", en).split(",")[0].strip()) for zh, en in data["cedict"]]
    pairs = [(zh, en) for zh, en in pairs if en and len(en.split()) <= 3 and len(zh) <= 4]
    left, right = texts.ids([zh for zh, _ in pairs]), texts.ids([en for _, en in pairs])
    for zh, en in zip(left, right, strict=True):
        if len(zh) == 1 and 1 <= len(en) <= 3:
            found.append((int(zh[0]), en, 0))
        if len(en) == 1 and 1 <= len(zh) <= 3:
            found.append((int(en[0]), zh, 0))
    for lemmas, _, _ in data["wordnet"]:
        for one, ids in zip(lemmas, cut := texts.ids(lemmas), strict=True):
            if len(ids) == 1 and " " not in one:
                found += [(int(ids[0]), other, 1) for other in cut if 1 <= len(other) <= 3 and other[0] != ids[0]]
    return found


def main() -> None:
    """Write tokenizer.json, rows.json and training.npz."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rng = random.Random(SEED)
    with lzma.open(arguments.data) as file:
        data = json.load(file)
    model = load()
    kept = chosen_pieces(model, data)
    tokenizer, rows = make_tokenizer(model, kept, data)
    table, known = make_table(model, kept)
    arguments.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(arguments.out / "tokenizer.json"), pretty=False)
    texts = Texts(tokenizer, rows)
    sources = sorted(name for name in data["pairs"] if name not in LEFT_OUT)
    for number, name in enumerate(sources):
        pairs = data["pairs"][name]
        rng.shuffle(pairs)
        for title, text in pairs[: MOST.get(name, len(pairs))]:
            texts.add(title, text, source=number)
        print(name, len(texts.documents), sum(map(len, texts.tokens)), flush=True)
    parallel = data["parallel"]
    long = [pair for pair in parallel if len(pair[0]) > 60]
    short = [pair for pair in parallel if 5 < len(pair[0]) <= 60 and len(pair[1]) > 15]
    rng.shuffle(short)
    groups = [list(zip(*short[i : i + GROUP], strict=True)) for i in range(0, len(short) - GROUP, GROUP)]
    both = [("\n".join(zh), "\n".join(en)) for zh, en in groups] + [tuple(pair) for pair in long]
    for chinese, english in both:
        first = texts.add("", chinese, source=len(sources), mate=len(texts.documents) + 1)
        texts.add("", english, source=len(sources), mate=first)
    print("parallel", len(texts.documents), sum(map(len, texts.tokens)), flush=True)
    stands_for = dictionary(texts, data)
    lengths = [len(ids) for _, ids, _ in stands_for]
    words = [model.pieces[n].decode() for n in kept]
    numbers = [n + len(SPECIAL) for n, word in enumerate(words) if word.isdigit()]
    np.savez_compressed(
        arguments.out / "training.npz",
        tokens=np.concatenate(texts.tokens),
        sentences=np.array(texts.sentences, dtype=np.int64),
        documents=np.array(texts.documents, dtype=np.int64),
        table=table.astype(np.float16),
        known=known,
        numbers=np.array(numbers, dtype=np.int64),
        number_lengths=np.array([len(words[n - len(SPECIAL)]) for n in numbers], dtype=np.int64),
        chinese=np.array([0] * len(SPECIAL) + [int(bool(CHINESE.search(word))) for word in words], dtype=np.int8),
        dictionary_keys=np.array([key for key, _, _ in stands_for], dtype=np.int64),
        dictionary_same=np.array([same for _, _, same in stands_for], dtype=np.int8),
        dictionary_ends=np.cumsum([0, *lengths]),
        dictionary_tokens=np.concatenate([ids for _, ids, _ in stands_for]).astype(np.uint16),
        question_words=np.concatenate([np.append(ids, 0) for ids in texts.ids(QUESTION_WORDS)]).astype(np.uint16),
        rows=np.array(rows, dtype=np.int64),
    )
    print(len(kept), "pieces,", len(rows), "tokens,", len(stands_for), "in the dictionary")


# What a question has and no passage has: it should come to weigh nothing.
QUESTION_WORDS: Final = (
    *("what is", "what are", "which", "who", "when did", "when was", "where is", "how many", "how much", "how long"),
    *("how do i", "how does", "why", "what kind of", "what year", "can i", "does", "how to", "what was the name of"),
    *("什么", "是什么", "哪个", "哪一年", "什么时候", "谁", "哪里", "多少", "多久", "怎么", "怎么办", "如何", "为什么"),
    *("有哪些", "是谁", "几", "多大", "能不能", "可以", "吗", "是多少", "什么意思", "怎样", "在哪里"),
)

if __name__ == "__main__":
    main()
