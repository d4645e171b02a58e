"""Trains the bundled bilingual static embedder on one GPU: tokenizer, starting vectors, contrast and distillation."""

import argparse
import json
import lzma
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from pieces import build_tokenizer, fold_table, normalise
from tokenizers import Tokenizer
from torch import Tensor

CJK = re.compile(r"[\u3400-\u9fff]")
SENTENCE = re.compile(r"[^。！？；!?\n]+?(?:[。！？；!?\n]+|\. |$)")
SCALE = 20.0  # inverse temperature of all softmaxes
SIF = 1e-4  # Arora et al. 2017
MAX_PIECES = 320
SHORT_DIM = 128
QUESTIONS = [
    "what is the",
    "who was",
    "when did",
    "where is",
    "why does",
    "how many",
    "how much",
    "how do i",
    "how to",
    "which of the following",
    "what year did",
    "in what",
    "what are the",
    "what does mean",
    "is there a",
    "does",
    "can",
    "what type of",
    "whose",
    "to whom",
    "what was the name of",
    "how does affect",
    "是什么",
    "有哪些",
    "怎么",
    "如何",
    "为什么",
    "多少",
    "哪一年",
    "谁",
    "什么时候",
    "怎么办",
    "多少钱",
    "在哪里",
    "吗",
    "什么意思",
    "是谁",
    "哪些",
    "怎么样",
    "是不是",
    "什么是",
    "请问",
    "几个",
    "怎么做",
    "有什么",
    "哪个",
]


@dataclass(frozen=True)
class Texts:
    """Token ids of many texts, end to end."""

    ids: Tensor
    starts: Tensor  # one more than there are texts

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True)
class Ranges:
    """Stretches of token ids, each belonging to one row of a batch."""

    ids: Tensor
    rows: Tensor


def stretch(flat: Tensor, begin: Tensor, end: Tensor, rows: Tensor) -> Ranges:
    sizes = (end - begin).clamp(min=0)
    owner = torch.repeat_interleave(torch.arange(len(sizes), device=flat.device), sizes)
    offset = torch.arange(len(owner), device=flat.device) - (sizes.cumsum(0) - sizes)[owner]
    return Ranges(flat[begin[owner] + offset], rows[owner])


def pick(texts: Texts, which: Tensor) -> Ranges:
    begin = texts.starts[which]
    end = torch.minimum(texts.starts[which + 1], begin + MAX_PIECES)
    return stretch(texts.ids, begin, end, torch.arange(len(which), device=which.device))


class Student(torch.nn.Module):
    def __init__(self, weight: Tensor, damping: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight)
        self.damping = damping

    def forward(self, ranges: Ranges, rows: int) -> Tensor:
        """One vector per row: the sum of its pieces, repeated pieces damped to count ** damping."""
        size = len(self.weight)
        keys, counts = torch.unique(ranges.rows.long() * size + ranges.ids.long(), return_counts=True)
        offsets = torch.searchsorted(keys, torch.arange(rows, device=keys.device) * size)
        return F.embedding_bag(
            keys % size, self.weight, offsets, mode="sum", per_sample_weights=counts.float() ** self.damping
        )


class Teacher:
    def __init__(self, folder: Path) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
        self.model = AutoModel.from_pretrained(folder, dtype=dtype).to(self.device).eval()

    @torch.no_grad()
    def embed(self, texts: Sequence[str], max_length: int) -> Tensor:
        order = np.argsort([len(t) for t in texts], kind="stable")
        out = torch.empty(len(texts), self.model.config.hidden_size, device=self.device, dtype=torch.float16)
        for i in range(0, len(order), 2048):
            rows = order[i : i + 2048]
            batch = self.tokenizer(
                [texts[j] for j in rows], padding=True, truncation=True, max_length=max_length, return_tensors="pt"
            ).to(self.device)
            hidden = self.model(**batch).last_hidden_state.float()
            mask = batch["attention_mask"][..., None]
            out[torch.from_numpy(rows).to(self.device)] = F.normalize(
                (hidden * mask).sum(1) / mask.sum(1), dim=-1
            ).half()
        return out


class Corpus:
    """All training text as token ids on the device, with the teacher's vectors of the English side."""

    def __init__(self, data: dict[str, object], tokenizer: Tokenizer, fold: dict[int, str], device: str) -> None:
        self.tokenizer, self.fold, self.device = tokenizer, fold, device
        pairs: dict[str, list[tuple[str, str]]] = data["pairs"]  # type: ignore[assignment]
        documents = {"zh": [], "en": []}
        for name, rows in pairs.items():
            documents[name[:2]] += [
                f"{a}。{b}" if name == "zh_news" else b for a, b in rows if len(b) > (80 if name[:2] == "zh" else 240)
            ]
        self.sentences = {language: self._sentences(texts) for language, texts in documents.items()}
        self.pairs = {
            name: (self.encode([a for a, _ in rows]), self.encode([b for _, b in rows])) for name, rows in pairs.items()
        }
        parallel = [(b, a) if CJK.search(b) and not CJK.search(a) else (a, b) for a, b in data["parallel"]]  # type: ignore[attr-defined]
        self.parallel_text = [p for p in parallel if CJK.search(p[0]) and not CJK.search(p[1])]
        self.cedict_text: list[tuple[str, str]] = data["cedict"]  # type: ignore[assignment]
        wordnet: list[tuple[list[str], str, str]] = data["wordnet"]  # type: ignore[assignment]
        self.wordnet_text = [(", ".join(w[:3]), g) for w, g, _ in wordnet] + [
            (w[0], w[1]) for w, _, _ in wordnet if len(w) > 1
        ]
        self.wordnet_text += [(w[0], up) for w, _, up in wordnet if up]
        for name in ("parallel", "cedict", "wordnet"):
            rows = getattr(self, f"{name}_text")
            self.pairs[name] = (self.encode([a for a, _ in rows]), self.encode([b for _, b in rows]))
        self.questions = self.encode(QUESTIONS)

    def encode(self, texts: Sequence[str]) -> Texts:
        cleaned = [normalise(t, self.fold) for t in texts]
        lists = [
            np.asarray(e.ids or [0], dtype=np.int32)
            for e in self.tokenizer.encode_batch(cleaned, add_special_tokens=False)
        ]
        starts = np.cumsum([0] + [len(x) for x in lists])
        return Texts(torch.from_numpy(np.concatenate(lists)).to(self.device), torch.from_numpy(starts).to(self.device))

    def _sentences(self, documents: list[str]) -> tuple[Texts, Tensor, list[str]]:
        texts: list[str] = []
        first = [0]
        for document in documents:
            texts += [s for s in SENTENCE.findall(document) if len(s) >= 6]
            first.append(len(texts))
        return self.encode(texts), torch.tensor(first, device=self.device), texts


def starting_vectors(tokenizer: Tokenizer, teacher: Teacher, cedict: Sequence[tuple[str, str]], dim: int) -> Tensor:
    """Each English piece as the teacher sees it, each Chinese piece as the teacher sees its definitions."""
    pieces = [p for p, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    index = {p: i for i, p in enumerate(pieces)}
    definitions: dict[str, list[str]] = {}
    for word, definition in cedict:
        definitions.setdefault(word, []).append(definition)
    latin = [i for i, p in enumerate(pieces) if not CJK.search(p)]
    vectors = torch.zeros(len(pieces), 384, device=teacher.device)
    vectors[latin] = teacher.embed([pieces[i] for i in latin], 16).float()
    defined = [(i, d) for i, p in enumerate(pieces) for d in definitions.get(p, [])[:3]]
    owners = torch.tensor([i for i, _ in defined], device=teacher.device)
    vectors.index_add_(0, owners, teacher.embed([d for _, d in defined], 32).float())
    known = set(latin) | set(owners.tolist())
    for i, piece in enumerate(pieces):
        if i not in known:
            parts = [index[c] for c in piece if c in index and index[c] in known]
            if parts:
                vectors[i] = F.normalize(vectors[parts], dim=-1).mean(0)
    vectors = F.normalize(vectors, dim=-1)
    vectors = vectors - vectors.mean(0)
    _, _, axes = torch.linalg.svd(
        vectors[torch.randperm(len(vectors), device=vectors.device)[:30_000]], full_matrices=False
    )
    return vectors @ axes[:dim].T


def translations(
    tokenizer: Tokenizer, fold: dict[int, str], cedict: Sequence[tuple[str, str]], columns: int, seed: int
) -> Tensor:
    """For each piece up to `columns` pieces of the other language that the dictionary gives for it; -1 for none."""
    stop = set(
        [
            "a",
            "an",
            "the",
            "to",
            "of",
            "in",
            "on",
            "for",
            "and",
            "or",
            "be",
            "with",
            "by",
            "as",
            "at",
            "from",
            "one's",
            "sb",
            "sth",
            "used",
            "etc",
            "is",
            "s",
            "not",
        ]
    )
    options: dict[int, set[int]] = {}
    for word, definition in cedict:
        chinese = tokenizer.token_to_id(word)
        words = [w for w in re.findall(r"[a-z]+", normalise(definition, fold)) if w not in stop]
        if chinese is None or len(words) not in (1, 2):
            continue
        english = [i for w in words if (i := tokenizer.token_to_id(w)) is not None]
        if english:
            options.setdefault(chinese, set()).update(english)
        if len(words) == 1 and english:
            options.setdefault(english[0], set()).add(chinese)
    table = torch.full((tokenizer.get_vocab_size(), columns), -1, dtype=torch.int32)
    rng = random.Random(seed)
    for piece, others in options.items():
        chosen = sorted(others)
        rng.shuffle(chosen)
        table[piece] = torch.tensor([chosen[i % len(chosen)] for i in range(columns)])
    return table


class Sampler:
    """Draws batches on the device."""

    def __init__(self, corpus: Corpus, dictionary: Tensor, batch: int, device: str) -> None:
        self.corpus, self.dictionary, self.batch, self.device = corpus, dictionary.to(device), batch, device

    def integers(self, high: int | Tensor, size: int | None = None) -> Tensor:
        if isinstance(high, Tensor):
            return (torch.rand(len(high), device=self.device) * high).long()
        return torch.randint(high, (size or self.batch,), device=self.device)

    def surroundings(self, language: str) -> tuple[Ranges, Ranges]:
        """A sentence or two (or a part of them) against the sentences around."""
        texts, first, _ = self.corpus.sentences[language]
        document = self.integers(len(first) - 1)
        low, high = first[document], first[document + 1]
        keep = high - low >= 2
        low, high = low[keep], high[keep]
        rows = torch.arange(len(low), device=self.device)
        chosen = low + self.integers(high - low)
        last = torch.minimum(chosen + 1 + self.integers(2, len(low)), high)
        begin, end = texts.starts[chosen], texts.starts[last]
        size = end - begin
        part = 3 + self.integers((size - 3).clamp(min=1))
        shorten = (torch.rand(len(low), device=self.device) < 0.6) & (size > 6)
        shift = self.integers((size - part + 1).clamp(min=1))
        begin, end = torch.where(shorten, begin + shift, begin), torch.where(shorten, begin + shift + part, end)
        query = self.thin(
            stretch(texts.ids, begin, torch.minimum(end, begin + 80), rows),
            shorten & (torch.rand(len(low), device=self.device) < 0.5),
        )
        width = 2 + self.integers(8, len(low))
        start = torch.maximum(chosen - self.integers(width), low)
        stop = torch.minimum(start + width, high)
        whole = torch.rand(len(low), device=self.device) < 0.3
        left = stretch(
            texts.ids,
            texts.starts[start],
            torch.where(whole, texts.starts[stop], texts.starts[torch.minimum(chosen, stop)]),
            rows,
        )
        right_from = torch.where(whole, stop, torch.minimum(last, stop))
        right = stretch(texts.ids, texts.starts[right_from], texts.starts[stop], rows)
        return query, join([left, right])

    def thin(self, ranges: Ranges, rows: Tensor) -> Ranges:
        keep = ~(rows[ranges.rows] & (torch.rand(len(ranges.ids), device=self.device) < 0.4))
        return Ranges(ranges.ids[keep], ranges.rows[keep])

    def switch(self, ranges: Ranges, share: float) -> Ranges:
        """Replaces pieces by their translation in a share of the rows."""
        strength = torch.rand(self.batch, device=self.device) * 0.8 + 0.2
        strength = strength * (torch.rand(self.batch, device=self.device) < share)
        column = torch.randint(self.dictionary.shape[1], (len(ranges.ids),), device=self.device)
        other = self.dictionary[ranges.ids.long(), column]
        swap = (other >= 0) & (torch.rand(len(other), device=self.device) < strength[ranges.rows])
        return Ranges(torch.where(swap, other, ranges.ids), ranges.rows)

    def ask(self, ranges: Ranges, share: float) -> Ranges:
        """Adds the words of a question to a share of the rows."""
        rows = torch.nonzero(torch.rand(self.batch, device=self.device) < share).squeeze(1)
        words = pick(self.corpus.questions, self.integers(len(self.corpus.questions), len(rows)))
        return Ranges(torch.cat([ranges.ids, words.ids]), torch.cat([ranges.rows, rows[words.rows]]))


def contrast(left: Tensor, right: Tensor, taught: Tensor | None = None) -> Tensor:
    """In-batch softmax both ways, at both Matryoshka sizes; a teacher's similarities soften the targets."""
    target = torch.arange(len(left), device=left.device)
    loss = left.new_zeros(())
    for dim in (SHORT_DIM, left.shape[1]):
        logits = (F.normalize(left[:, :dim], dim=-1) @ F.normalize(right[:, :dim], dim=-1).T) * SCALE
        hard = F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)
        if taught is None:
            loss = loss + hard
        else:
            loss = loss + 0.5 * hard + 2 * (divergence(logits, taught) + divergence(logits.T, taught.T))
    return loss


def divergence(logits: Tensor, taught: Tensor) -> Tensor:
    return F.kl_div(F.log_softmax(logits, 1), F.log_softmax(taught * SCALE, 1), log_target=True, reduction="batchmean")


def imitate(vectors: Tensor, taught: Tensor) -> Tensor:
    """The similarities of all texts of a batch, as the teacher sees them."""
    same = torch.eye(len(vectors), device=vectors.device, dtype=torch.bool)
    wanted = (taught @ taught.T).masked_fill(same, -9.0)
    loss = vectors.new_zeros(())
    for dim in (SHORT_DIM, vectors.shape[1]):
        unit = F.normalize(vectors[:, :dim], dim=-1)
        loss = loss + 2 * divergence((unit @ unit.T * SCALE).masked_fill(same, -9.0 * SCALE), wanted)
    return loss


@dataclass(frozen=True)
class Lesson:
    """Everything that does not change while the student learns."""

    corpus: Corpus
    weight: Tensor
    dictionary: Tensor
    taught: dict[str, tuple[Tensor, Tensor]]
    pools: dict[str, tuple[Texts, Tensor]]


class Clock:
    def __init__(self) -> None:
        self.began = time.time()

    def seconds(self) -> float:
        return time.time() - self.began

    def say(self, *what: object) -> None:
        print(f"[{self.seconds():5.0f} s]", *what, flush=True)


def prepare(arguments: argparse.Namespace, clock: Clock) -> Lesson:
    torch.manual_seed(arguments.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    with lzma.open(arguments.data, "rt", encoding="utf-8") as stream:
        data = json.load(stream)
    fold = fold_table(data["fold"])
    clock.say("read")
    arguments.out.mkdir(parents=True, exist_ok=True)
    texts = [normalise(b, fold) for rows in data["pairs"].values() for pair in rows for b in pair]
    texts += [normalise(t, fold) for pair in data["parallel"] for t in pair] + [
        normalise(g, fold) for _, g, _ in data["wordnet"]
    ]
    tokenizer = build_tokenizer(
        texts, [w for w, _ in data["cedict"]], data["frequencies"], (arguments.latin, arguments.chinese)
    )
    del texts
    tokenizer.save(str(arguments.out / "tokenizer.json"), pretty=False)
    (arguments.out / "fold.json").write_text(
        json.dumps({chr(k): v for k, v in fold.items()}, ensure_ascii=False), encoding="utf-8"
    )
    clock.say(
        "tokenizer",
        tokenizer.get_vocab_size(),
        tokenizer.encode("treatment of myocardial infarction in 1963 心肌梗死的治疗方法").tokens,
    )
    corpus = Corpus(data, tokenizer, fold, device)
    clock.say(
        "encoded",
        {n: len(a) for n, (a, _) in corpus.pairs.items()},
        {n: len(s[0]) for n, s in corpus.sentences.items()},
    )
    teacher = Teacher(arguments.teacher)
    weight = starting_vectors(tokenizer, teacher, data["cedict"], arguments.dim)
    counts = torch.bincount(torch.cat([s[0].ids for s in corpus.sentences.values()]).long(), minlength=len(weight)) + 1
    weight = weight * (SIF / (SIF + counts / counts.sum()))[:, None]
    clock.say("starting vectors")
    taught, pools = teach(corpus, teacher, data)
    clock.say("taught", sum(len(v) for _, v in pools.values()), "texts")
    return Lesson(corpus, weight, translations(tokenizer, fold, data["cedict"], 4, arguments.seed), taught, pools)


def fit(lesson: Lesson, arguments: argparse.Namespace, clock: Clock) -> Student:
    torch.manual_seed(arguments.seed)
    rng = random.Random(arguments.seed)
    student = Student(lesson.weight.clone(), arguments.damping).to(lesson.weight.device)
    optimiser = torch.optim.Adam(student.parameters(), lr=arguments.rate)
    sampler = Sampler(lesson.corpus, lesson.dictionary, arguments.batch, str(lesson.weight.device))
    tasks = plan(sampler, student, lesson)
    losses: dict[str, list[Tensor]] = {}
    for step in range(arguments.steps):
        for group in optimiser.param_groups:
            group["lr"] = arguments.rate * (1 - step / arguments.steps) + 1e-5
        name, _, task = rng.choices(tasks, [share for _, share, _ in tasks])[0]
        loss = task()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        losses.setdefault(name, []).append(loss.detach())
        if (step + 1) % max(1, arguments.steps // 6) == 0:
            clock.say(step + 1, {n: round(float(torch.stack(v[-20:]).mean()), 3) for n, v in sorted(losses.items())})
        if clock.seconds() > arguments.seconds:
            clock.say("stopped at step", step)
            break
    return student


def teach(
    corpus: Corpus, teacher: Teacher, data: dict[str, object]
) -> tuple[dict[str, tuple[Tensor, Tensor]], dict[str, tuple[Texts, Tensor]]]:
    """The teacher's vectors of English pairs, and of texts in either language whose English is known."""
    taught = {}
    pools = {}
    for name, rows in data["pairs"].items():  # type: ignore[attr-defined]
        if name.startswith("en"):
            vectors = (teacher.embed([a for a, _ in rows], 48), teacher.embed([b for _, b in rows], 224))
            taught[name] = vectors
            pools[f"{name}.left"], pools[f"{name}.right"] = (
                (t, v) for t, v in zip(corpus.pairs[name], vectors, strict=True)
            )
    texts, _, sentences = corpus.sentences["en"]
    taught["sentences"] = (teacher.embed(sentences, 64), torch.empty(0))
    pools["sentences"] = (texts, taught["sentences"][0])
    for name, rows in (
        ("parallel", corpus.parallel_text),
        ("cedict", corpus.cedict_text),
        ("wordnet", corpus.wordnet_text),
    ):
        vectors = teacher.embed([b for _, b in rows], 96)
        pools[f"{name}.zh" if name != "wordnet" else "wordnet.words"] = (corpus.pairs[name][0], vectors)
        pools[f"{name}.en"] = (corpus.pairs[name][1], vectors)
    pools["wordnet.words"] = (corpus.pairs["wordnet"][0], teacher.embed([a for a, _ in corpus.wordnet_text], 24))
    return taught, pools


Task = tuple[str, float, Callable[[], Tensor]]


def plan(sampler: Sampler, student: Student, lesson: Lesson) -> list[Task]:
    """What a step may do, and how often."""
    corpus, size, taught, pools = lesson.corpus, sampler.batch, lesson.taught, lesson.pools

    def around(language: str, switched: float) -> Callable[[], Tensor]:
        def step() -> Tensor:
            query, passage = sampler.surroundings(language)
            left = student(sampler.ask(sampler.switch(query, switched), 0.25), size)
            right = student(passage, size)
            full = torch.zeros(size, 2, dtype=torch.bool, device=left.device)
            full[query.rows.long(), 0] = True
            full[passage.rows.long(), 1] = True
            full = full.all(1)
            return contrast(left[full], right[full])

        return step

    def pairs(names: list[str], switched: float) -> Callable[[], Tensor]:
        odds = [len(corpus.pairs[n][0]) ** 0.5 * (3 if n in LONG else 1) for n in names]

        def step() -> Tensor:
            lefts, rights, teacher_left, teacher_right = [], [], [], []
            shares = np.random.default_rng(int(torch.randint(2**31, (1,)))).multinomial(
                size, np.array(odds) / sum(odds)
            )
            done = 0
            for name, count in zip(names, shares, strict=True):
                left, right = corpus.pairs[name]
                which = sampler.integers(len(left), int(count))
                for out, texts in ((lefts, left), (rights, right)):
                    ranges = pick(texts, which)
                    out.append(Ranges(ranges.ids, ranges.rows + done))
                if name in taught:
                    teacher_left.append(taught[name][0][which])
                    teacher_right.append(taught[name][1][which])
                done += int(count)
            query = sampler.ask(sampler.switch(join(lefts), switched), 0.2)
            similarities = (
                torch.cat(teacher_left) @ torch.cat(teacher_right).T if teacher_left and not switched else None
            )
            return contrast(
                student(query, size),
                student(join(rights), size),
                None if similarities is None else similarities.float(),
            )

        return step

    def imitation() -> Tensor:
        names = list(pools)
        ranges, vectors = [], []
        each = size // 2 // len(names)
        for i, name in enumerate(names):
            texts, known = pools[name]
            which = sampler.integers(len(texts), each)
            found = pick(texts, which)
            ranges.append(Ranges(found.ids, found.rows + i * each))
            vectors.append(known[which])
        return imitate(student(join(ranges), each * len(names)), torch.cat(vectors).float())

    english = [n for n in taught if n != "sentences"]
    chinese = [n for n in corpus.pairs if n.startswith("zh")]
    return [
        ("zh around", 0.20, around("zh", 0.0)),
        ("zh around switched", 0.08, around("zh", 1.0)),
        ("en around", 0.14, around("en", 0.0)),
        ("en around switched", 0.06, around("en", 1.0)),
        ("zh pairs", 0.07, pairs(chinese, 0.0)),
        ("en pairs", 0.16, pairs(english, 0.0)),
        ("en pairs switched", 0.02, pairs(english, 0.5)),
        ("parallel", 0.08, pairs(["parallel"], 0.0)),
        ("dictionary", 0.04, pairs(["cedict"], 0.0)),
        ("wordnet", 0.03, pairs(["wordnet"], 0.0)),
        ("imitation", 0.12, imitation),
    ]


LONG = {"en_wiki_title_passage", "en_manuals", "en_arxiv"}


def join(parts: list[Ranges]) -> Ranges:
    return Ranges(torch.cat([p.ids for p in parts]), torch.cat([p.rows for p in parts]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="what prepare.py wrote")
    parser.add_argument("--teacher", type=Path, required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--latin", type=int, default=48_000, help="English and other pieces")
    parser.add_argument("--chinese", type=int, default=36_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--damping", type=float, default=0.75)
    parser.add_argument("--seconds", type=float, default=1100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    clock = Clock()
    student = fit(prepare(arguments, clock), arguments, clock)
    np.save(arguments.out / "weights.npy", student.weight.detach().cpu().numpy().astype(np.float16))
    clock.say("written")


if __name__ == "__main__":
    main()
