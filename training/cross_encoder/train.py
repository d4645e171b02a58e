"""training.npz -> a trained cross-encoder. For one GPU.

python train.py --data WORK/cross/training.npz --out WORK/cross/first.pt --minutes 7.2 --negatives hard --compile
python train.py --data WORK/cross/training.npz --out WORK/cross/model.pt --minutes 1.4 --start WORK/cross/first.pt \\
    --rate 8e-4 --warm 50

Questions are made while it trains, from titles and from sentences of the text; the passages beside the right one are
those that BM25 and the bundled model's vectors find for that question, its neighbours in the document, and copies of
it without the sentence or with another number in it.
"""

import argparse
import math
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from network import CLS, FIRST_WORD, CrossEncoder
from torch.nn import functional

SEP: Final = 3
SEED: Final = 20_261_116
WINDOW: Final = 160  # tokens of a passage
QUESTION: Final = 40
LIST: Final = 16  # passages to a question, the right one among them
BATCH: Final = 128
SMALL: Final = 1_000  # windows of a small collection
EASY_SHARE: Final = 0.6  # of the wrong passages
HELD_OUT: Final = 100  # every so manieth document is not trained on


class Data:
    """The arrays of training.npz, cut into windows that follow each other."""

    def __init__(self, path: Path) -> None:
        found = np.load(path)
        for name in found.files:
            setattr(self, name, found[name])
        self.table = self.table.astype(np.float32)
        self.words = np.split(self.question_words, np.flatnonzero(self.question_words == 0) + 1)[:-1]
        self.words = [word[:-1] for word in self.words]
        self.stands_for: dict[int, tuple[list[int], list[int]]] = {}
        for entry, (key, same) in enumerate(zip(self.dictionary_keys, self.dictionary_same, strict=True)):
            self.stands_for.setdefault(int(key), ([], []))[int(same)].append(entry)
        self.by_length: dict[int, Any] = {
            int(length): self.numbers[self.number_lengths == length] for length in set(self.number_lengths)
        }
        self.length_of = dict(zip(self.numbers.tolist(), self.number_lengths.tolist(), strict=True))
        windows, owners, spans = [], [], []  # sentences [first, last) of each window
        self.windows_of: list[list[int]] = []
        for number, (first, last, _, _) in enumerate(self.documents):
            mine, start = [], first + 1
            while start < last:
                end = start + 1
                while end < last and self.sentences[end + 1] - self.sentences[start] <= WINDOW:
                    end += 1
                mine.append(len(windows))
                windows.append(self.tokens[self.sentences[start] : self.sentences[end]][:WINDOW])
                owners.append(number)
                spans.append((start, end))
                start = end
            self.windows_of.append(mine)
        self.windows, self.owners, self.spans = windows, np.array(owners), spans

    def sentence(self, number: int) -> Any:
        """Its tokens."""
        return self.tokens[self.sentences[number] : self.sentences[number + 1]]

    def title(self, document: int) -> Any:
        """The tokens of its title; none where it has none."""
        return self.sentence(int(self.documents[document][0]))


class Questions(torch.utils.data.IterableDataset[Any]):
    """Without end: a question, the right passage, copies of it that are wrong, and the document it is from."""

    def __init__(self, data: Data, documents: Any, seed: int) -> None:
        self.data, self.seed = data, seed
        weights = np.ones(len(documents))
        sources = data.documents[documents, 2]
        for source in set(sources.tolist()):  # a large source counts as the root of its size
            weights[sources == source] = (sources == source).sum() ** -0.4
        self.documents, self.weights = documents, weights / weights.sum()

    def __iter__(self) -> Any:
        worker = torch.utils.data.get_worker_info()
        rng = np.random.default_rng((self.seed, worker.id if worker else 0))
        while True:
            for document in rng.choice(self.documents, size=4_096, p=self.weights):
                if (made := self.made(rng, int(document))) is not None:
                    yield made

    def made(self, rng: Any, document: int) -> Any:
        data = self.data
        mate = int(data.documents[document, 3])
        target = mate if mate >= 0 and rng.random() < 0.8 else document
        if not data.windows_of[document] or not data.windows_of[target]:
            return None
        title = data.title(document)
        kind = "title" if len(title) >= 3 and rng.random() < 0.3 else "sentence"
        place = int(rng.integers(len(data.windows_of[document])))
        if mate >= 0 and target == mate:
            place = min(place, len(data.windows_of[target]) - 1)
        window = data.windows_of[target][place]
        right = data.windows[window]
        wrong: list[Any] = []
        if kind == "title":
            window = data.windows_of[target][0]
            right = data.windows[window]
            question = self.disturbed(rng, title[:QUESTION], other=rng.random() < 0.15, drop=0.1)
        else:
            first, last = data.spans[data.windows_of[document][place]]
            choice = int(rng.integers(first, last))
            sentence = data.sentence(choice)
            if len(sentence) < 5:
                return None
            question = self.asked(rng, sentence, other=mate < 0 and rng.random() < 0.25)
            if target == document and last - first > 1:
                rest = np.concatenate([data.sentence(n) for n in range(first, last) if n != choice])[:WINDOW]
                if rng.random() < 0.15:
                    right = rest
                elif len(rest) > 20:
                    wrong.append(rest)
            if target == document and (changed := self.renumbered(rng, question, right)) is not None:
                wrong.append(changed)
            if len(title) and rng.random() < 0.4:
                right = np.concatenate([title[:30], right])[:WINDOW]
                wrong = [np.concatenate([title[:30], one])[:WINDOW] for one in wrong]
        if len(question) < 2 or len(right) < 5:
            return None
        others = [number for number in data.windows_of[target] if number != window] if target == document else []
        beside = int(rng.choice(others)) if others else -1
        return question[:QUESTION], right, wrong[: COPIES - 1], target, document, beside

    def asked(self, rng: Any, sentence: Any, *, other: bool) -> Any:
        """A part of a sentence with the answer taken out and the words of a question put in."""
        long = int(rng.integers(4, 26))
        start = int(rng.integers(max(1, len(sentence) - long + 1)))
        part = sentence[start : start + long]
        if rng.random() < 0.7 and len(part) > 5:
            gap = int(rng.integers(1, 4))
            figures = [n for n, token in enumerate(part) if int(token) in self.data.length_of]
            at = int(rng.choice(figures)) if figures and rng.random() < 0.5 else int(rng.integers(len(part) - gap + 1))
            part = np.concatenate([part[:at], part[at + gap :]])
        return self.disturbed(rng, part, other=other, drop=float(rng.choice([0.0, 0.2, 0.4, 0.6])))

    def disturbed(self, rng: Any, tokens: Any, *, other: bool, drop: float) -> Any:
        """Words left out, said otherwise or in the other language, in another order, and a question's words added."""
        data, found = self.data, []
        for token in tokens:
            if rng.random() < drop:
                continue
            entries = data.stands_for.get(int(token), ([], []))
            choices = entries[0] if other else entries[1]
            if choices and rng.random() < (0.9 if other else 0.15):
                entry = int(rng.choice(choices))
                found.append(data.dictionary_tokens[data.dictionary_ends[entry] : data.dictionary_ends[entry + 1]])
            elif not other or not choices or rng.random() < 0.5:
                found.append(np.array([token]))
        if rng.random() < 0.2 and len(found) > 3:
            cut = int(rng.integers(1, len(found)))
            found = found[cut:] + found[:cut]
        if rng.random() < 0.6:
            word = data.words[int(rng.integers(len(data.words)))]
            found.insert(0 if rng.random() < 0.6 else len(found), word)
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def renumbered(self, rng: Any, question: Any, right: Any) -> Any:
        """The passage with another number in the place of one that is asked for; None where none is."""
        shared = [
            int(token) for token in set(question.tolist()) & set(right.tolist()) if int(token) in self.data.length_of
        ]
        if not shared:
            return None
        changed = right.copy()
        for token in shared:
            changed[right == token] = int(rng.choice(self.data.by_length[self.data.length_of[token]]))
        return changed


COPIES: Final = 3  # the right passage and at most two wrong copies of it


def collated(batch: Any) -> Any:
    """Arrays of one length: questions stand at the right end, so that the passage follows."""
    asked = np.zeros((len(batch), QUESTION + 2), dtype=np.int64)
    copies = np.zeros((len(batch), COPIES, WINDOW), dtype=np.int64)
    facts = np.zeros((len(batch), 4), dtype=np.int64)  # how many copies, two documents, a window beside the right one
    for row, (question, right, wrong, target, document, beside) in enumerate(batch):
        asked[row, QUESTION - len(question)] = CLS
        asked[row, QUESTION + 1 - len(question) : QUESTION + 1] = question
        asked[row, QUESTION + 1] = SEP
        for place, passage in enumerate((right, *wrong)):
            copies[row, place, : len(passage)] = passage
        facts[row] = (1 + len(wrong), target, document, beside)
    return tuple(torch.from_numpy(one) for one in (asked, copies, facts))


class Miner:
    """Finds the passages that are hardest to tell from the right one: by BM25 and by vectors, all on the GPU."""

    def __init__(self, data: Data, device: str, *, small: bool) -> None:
        self.small = small
        self.device, self.owners = device, torch.tensor(data.owners, device=device)
        count, wide = len(data.windows), len(data.table)
        self.padded = torch.zeros((count, WINDOW), dtype=torch.int16, device=device)
        packed = np.zeros((count, WINDOW), dtype=np.int16)
        for number, window in enumerate(data.windows):
            packed[number, : len(window)] = window.astype(np.int16)
        self.padded = torch.from_numpy(packed).to(device)
        self.lengths = torch.tensor([len(window) for window in data.windows], device=device)
        self.table = torch.tensor(data.table, device=device)
        self.weights = torch.tensor(data.known[:, :1], device=device)
        self.matrix = torch.zeros((count, wide), dtype=torch.bfloat16, device=device)
        self.vectors = torch.zeros((count, self.table.shape[1]), dtype=torch.bfloat16, device=device)
        there = torch.zeros(wide, device=device)
        for start in range(0, count, 8_192):
            bags = self.bags(self.padded[start : start + 8_192].long())
            there += (bags > 0).sum(0)
        rarity = torch.log(1 + (count - there + 0.5) / (there + 0.5))
        mean = self.lengths.float().mean()
        for start in range(0, count, 8_192):
            bags = self.bags(self.padded[start : start + 8_192].long())
            norm = 1.2 * (0.25 + 0.75 * self.lengths[start : start + 8_192].float() / mean)
            self.matrix[start : start + 8_192] = (bags * 2.2 / (bags + norm[:, None]) * rarity).bfloat16()
            self.vectors[start : start + 8_192] = self.embedded(bags).bfloat16()

    def bags(self, rows: Any) -> Any:
        """How often each token stands in each row."""
        found = torch.zeros((len(rows), len(self.table)), device=self.device)
        found.scatter_add_(1, rows, torch.ones_like(rows, dtype=torch.float32))
        found[:, :FIRST_WORD] = 0
        return found

    def embedded(self, bags: Any) -> Any:
        """As the bundled model does."""
        return functional.normalize(bags.pow(0.75) @ (self.table * self.weights), dim=-1)

    def found(self, questions: Any, documents: Any, many: int) -> Any:
        """For each question so many windows of other documents, most of them hard."""
        bags = self.bags(questions)
        by_words = (bags.clamp(max=2).bfloat16() @ self.matrix.T).float()
        by_vectors = (self.embedded(bags).bfloat16() @ self.vectors.T).float()
        for column in range(documents.shape[1]):
            own = self.owners[None, :] == documents[:, column, None]
            by_words.masked_fill_(own, -1e4)
            by_vectors.masked_fill_(own, -1e4)
        best = by_words.amax(1, keepdim=True).clamp(min=1e-3)
        mixed = by_words / best + by_vectors
        near = torch.cat([mixed.topk(40, dim=1).indices, by_vectors.topk(20, dim=1).indices], dim=1)
        # The first are drawn more often than the last.
        chance = torch.cat([torch.arange(40, 0, -1), torch.arange(20, 0, -1)]).float().to(self.device)
        hard = near.gather(1, torch.multinomial(chance.expand(len(near), -1), many))
        if not self.small:
            return hard
        # What a search finds in a small collection: most of it has little to do with the question.
        some = torch.randint(mixed.shape[1], (SMALL,), device=self.device)
        found = torch.cat([mixed[:, some].topk(60, dim=1).indices, by_vectors[:, some].topk(20, dim=1).indices], dim=1)
        picked = torch.multinomial(torch.ones(found.shape, device=self.device), many)
        easy = some[found.gather(1, picked)]
        return torch.where(torch.rand(easy.shape, device=self.device) < EASY_SHARE, easy, hard)


def assembled(miner: Miner, batch: Any) -> Any:
    """Rows of [CLS] question [SEP] passage [SEP]: the right one first, then the wrong ones."""
    asked, copies, facts = (one.to(miner.device, non_blocking=True) for one in batch)
    mined = miner.found(asked, facts[:, 1:3], LIST)
    passages = miner.padded[mined].long()
    beside = miner.padded[facts[:, 3].clamp(min=0)].long()
    passages[:, 0] = torch.where((facts[:, 3] >= 0)[:, None], beside, passages[:, 0])
    # The copies take the first places; what was drawn for these moves on.
    for place in range(COPIES):
        takes = (facts[:, 0] > place)[:, None]
        moved = passages[:, place].clone()
        passages[:, place] = torch.where(takes, copies[:, place], moved)
        if place == 0:
            passages[:, COPIES] = moved
    count = len(asked)
    told = functional.pad(passages, (0, 1))
    lengths = (passages != 0).sum(-1, keepdim=True)
    told = told.scatter(2, lengths, SEP).view(count * LIST, WINDOW + 1)
    asked = asked[:, None, :].expand(-1, LIST, -1).reshape(count * LIST, -1)
    ids = torch.cat([asked, told], dim=1)
    sides = torch.cat([torch.zeros_like(asked), (told != 0).long()], dim=1)
    return ids, (ids != 0).long(), sides


def main() -> None:  # noqa: PLR0915
    """Train for so many minutes and keep the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--inner", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--start", type=Path, help="go on from these weights")
    parser.add_argument("--negatives", choices=("hard", "mixed"), default="mixed")
    parser.add_argument("--warm", type=int, default=500, help="steps until the full rate")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--part", type=int, default=1, help="train on every so manieth document only, for a trial")
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    data = Data(arguments.data)
    sound = np.array([number for number, mine in enumerate(data.windows_of) if mine])[:: arguments.part]
    held = (sound // 2) % HELD_OUT == 0
    miner = Miner(data, arguments.device, small=arguments.negatives == "mixed")
    shape = {name: getattr(arguments, name) for name in ("width", "layers", "heads", "inner")}
    model = CrossEncoder(torch.tensor(data.table), torch.tensor(data.known), **shape).to(arguments.device)
    print(f"{len(data.windows):,} windows, {sum(p.numel() for p in model.parameters()):,} weights", flush=True)

    def loader(documents: Any, seed: int, workers: int) -> Any:
        return iter(
            torch.utils.data.DataLoader(
                Questions(data, documents, seed),
                batch_size=BATCH,
                num_workers=workers,
                collate_fn=collated,
                prefetch_factor=4 if workers else None,
            )
        )

    if arguments.start:
        weights = torch.load(arguments.start)["weights"]
        model.load_state_dict({name: value.float() for name, value in weights.items()}, strict=False)
    run = model
    if arguments.compile:
        run = torch.compile(model, dynamic=False)
    trial = loader(sound[held], 7, 0)
    trials = [assembled(miner, next(trial)) for _ in range(8)]
    optimiser = torch.optim.AdamW(model.parameters(), lr=arguments.rate, weight_decay=0.01, betas=(0.9, 0.98))
    batches = loader(sound[~held], SEED, arguments.workers)
    first = assembled(miner, next(batches))
    try:
        with torch.autocast(arguments.device, dtype=torch.bfloat16):
            run(*first).float().sum().backward()  # compiling is not training
    except RuntimeError as error:
        print(f"not compiled: {error}"[:500], flush=True)
        run = model
    began, step, total = time.monotonic(), 0, arguments.minutes * 60
    while (spent := time.monotonic() - began) < total:
        share = spent / total
        rate = arguments.rate * min(1.0, (step + 1) / arguments.warm) * (0.5 + 0.5 * math.cos(math.pi * share) + 0.01)
        for group in optimiser.param_groups:
            group["lr"] = rate
        ids, mask, sides = assembled(miner, next(batches))
        with torch.autocast(arguments.device, dtype=torch.bfloat16):
            logits = run(ids, mask, sides).float().view(-1, LIST)
        right = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        truth = torch.zeros_like(logits)
        truth[:, 0] = 1
        loss = functional.cross_entropy(logits, right)
        loss = loss + 0.1 * functional.binary_cross_entropy_with_logits(logits, truth)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 500 == 0:
            with torch.no_grad(), torch.autocast(arguments.device, dtype=torch.bfloat16):
                tried = [model(*one).float().view(-1, LIST) for one in trials]
            ranks = torch.cat([(one[:, 1:] > one[:, :1]).sum(1) + 1 for one in tried]).float()
            first_share, mean = (ranks == 1).float().mean(), (1 / ranks).mean()
            told = f"{time.monotonic() - began:6.1f} s step {step} loss {loss.item():.3f}"
            print(f"{told} held out: first {first_share:.3f} MRR {mean:.3f}", flush=True)
        step += 1
    torch.save({"shape": shape, "weights": {k: v.half().cpu() for k, v in model.state_dict().items()}}, arguments.out)
    print(f"{step} steps", flush=True)


if __name__ == "__main__":
    main()
