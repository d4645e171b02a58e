"""Token ids of a question and a passage -> one number: how well the passage answers.

A small transformer between the two sides. Every token looks at the question and the question looks at every token,
and both see, besides the words, how alike two tokens are (the bundled model's vectors) and whether they are the same.
Neighbours are seen by convolutions, so no length is too long for it. What a search engine would say of the pair, how
much of the question the passage and its best stretch cover, goes into the last step as it is.
"""

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

PAD: Final = 0
CLS: Final = 2
FIRST_WORD: Final = 4  # after the special tokens
SLOTS: Final = 64  # the first tokens, among which the question is: what is longer is not looked at
TOKEN_FEATURES: Final = 7
PAIR_FEATURES: Final = 5
# As in the built-in reranker: two blocks of 16 tokens are about two sentences.
STRETCH: Final = 32
STEP: Final = 16


def gelu(states: Tensor) -> Tensor:
    """In the form that every runtime has."""
    return functional.gelu(states, approximate="tanh")


class Attention(nn.Module):
    """One side looks at the other; likenesses count beside what the states say."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries, self.keys_values = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.mixed = nn.Linear(width, width)
        self.alike, self.same = nn.Parameter(torch.rand(heads) * 4), nn.Parameter(torch.rand(heads) * 4)

    def forward(self, looking: Tensor, seen: Tensor, likeness: Tensor, same: Tensor, hidden: Tensor) -> Tensor:
        """`likeness` and `same` are rows by what looks, columns by what is seen."""
        batch, many, width = looking.shape
        each = width // self.heads
        queries = self.queries(looking).view(batch, many, self.heads, each).transpose(1, 2)
        keys, values = self.keys_values(seen).view(batch, -1, 2, self.heads, each).permute(2, 0, 3, 1, 4).unbind(0)
        logits = queries @ keys.transpose(-1, -2) * each**-0.5
        logits = logits + self.alike[None, :, None, None] * likeness[:, None]
        logits = logits + self.same[None, :, None, None] * same[:, None] + hidden[:, None]
        return self.mixed((logits.softmax(-1) @ values).transpose(1, 2).reshape(batch, many, width))


class Layer(nn.Module):
    """Neighbours, the other side, and each token by itself."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.first, self.second, self.third, self.fourth = (nn.LayerNorm(width) for _ in range(4))
        self.neighbours = nn.Conv1d(width, width, 5, padding=2, groups=width)
        self.to_question, self.to_all = Attention(width, heads), Attention(width, heads)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, states: Tensor, likeness: Tensor, same: Tensor, there: Tensor, asked: Tensor) -> Tensor:
        """`likeness` and `same` are rows by token, columns by slot; `asked` says which slots hold the question."""
        slots = asked.shape[1]
        around = self.neighbours((self.first(states) * there[:, :, None]).transpose(1, 2)).transpose(1, 2)
        states = states + around
        normal = self.second(states)
        no_slot, no_token = (asked[:, None, :] - 1) * 1e4, (there[:, None, :] - 1) * 1e4
        states = states + self.to_question(normal, normal[:, :slots], likeness, same, no_slot)
        normal = self.third(states)
        found = self.to_all(normal[:, :slots], normal, likeness.transpose(1, 2), same.transpose(1, 2), no_token)
        found = found * asked[:, :, None]
        states = states + functional.pad(found, (0, 0, 0, states.shape[1] - slots))
        return states + self.down(gelu(self.up(self.fourth(states))))


class CrossEncoder(nn.Module):
    """The whole of it. `table` are directions of length 1, `known` a token's weight and rarity."""

    def __init__(self, table: Tensor, known: Tensor, *, width: int, layers: int, heads: int, inner: int) -> None:
        super().__init__()
        self.register_buffer("table", table)
        self.register_buffer("known", known)
        self.words = nn.Linear(table.shape[1], width)
        self.side = nn.Embedding(2, width)
        self.special = nn.Embedding(FIRST_WORD, width)
        self.evidence_in, self.evidence_out = nn.Linear(TOKEN_FEATURES, width), nn.Linear(width, width)
        self.layers = nn.ModuleList(Layer(width, heads, inner) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        self.share, self.worth = nn.Linear(width, 1), nn.Linear(width, width)
        self.judge_in = nn.Linear(2 * width + PAIR_FEATURES, width)
        self.judge_out = nn.Linear(width, 1)
        self.plain = nn.Linear(PAIR_FEATURES, 1)
        nn.init.constant_(self.plain.weight, 3.0)

    def vectors(self, ids: Tensor) -> Tensor:
        """Of length 1, or 0 for special tokens."""
        return self.table[ids]

    def forward(self, ids: Tensor, mask: Tensor, sides: Tensor) -> Tensor:
        """One logit for each row. `ids` are rows of the table."""
        there = mask.to(self.known.dtype)
        word = there * (ids >= FIRST_WORD).to(there.dtype)
        told = word * sides.to(there.dtype)
        asked = (word - told)[:, :SLOTS]
        own = (there * (1 - sides.to(there.dtype)))[:, :SLOTS]  # with [CLS], which sums up
        vectors = self.vectors(ids)
        known = self.known[ids] * word[:, :, None]
        across = told[:, :, None] * asked[:, None, :]
        likeness = (vectors @ vectors[:, :SLOTS].transpose(1, 2)).clamp(0, 1) * across
        same = (ids[:, :, None] == ids[:, None, :SLOTS]).to(there.dtype) * across
        # A pair of neighbours that stands side by side on the other side too.
        runs = functional.pad(same[:, :-1, :-1] * same[:, 1:, 1:], (0, 1, 0, 1))
        pair = self.pair_features(likeness, same, runs, known[:, :SLOTS])
        features = self.token_features(likeness, same, runs, known, word)
        states = self.words(vectors) + self.side(sides) + self.evidence_out(gelu(self.evidence_in(features)))
        states = states + self.special(ids.clamp(max=FIRST_WORD - 1)) * (1 - word)[:, :, None]
        for layer in self.layers:
            states = layer(states, likeness, same, there, own)
        states = self.last(states)
        first = (states * (ids == CLS).to(states.dtype)[:, :, None]).sum(1)
        slots = states[:, :SLOTS]
        shares = self.share(slots).squeeze(-1) + (own - 1) * 1e4
        pooled = (shares.softmax(-1)[:, :, None] * self.worth(slots)).sum(1)
        judged = self.judge_out(gelu(self.judge_in(torch.cat([first, pooled, pair], dim=-1))))
        logit: Tensor = judged + self.plain(pair)
        return logit

    def token_features(self, likeness: Tensor, same: Tensor, runs: Tensor, known: Tensor, word: Tensor) -> Tensor:
        """What each token finds on the other side."""
        rest = word.shape[1] - likeness.shape[2]

        def either(values: Tensor) -> Tensor:
            by_slot = functional.pad(values.amax(1), (0, rest))
            return torch.maximum(values.amax(2), by_slot)[:, :, None]

        best = either(likeness)
        near = functional.avg_pool1d((best * known[:, :, :1]).transpose(1, 2), 15, stride=1, padding=7).transpose(1, 2)
        counted = functional.pad(same.sum(1), (0, rest))[:, :, None] / 4
        return torch.cat([known, best, either(same), either(runs), near, counted], dim=-1)

    def pair_features(self, likeness: Tensor, same: Tensor, runs: Tensor, known: Tensor) -> Tensor:
        """How much of the question the passage and its best stretch cover: by likeness, by the same words, by pairs."""
        weights = known[:, :, 0] / known[:, :, 0].sum(1, keepdim=True).clamp(min=1e-6)
        rarities = known[:, :, 1] / known[:, :, 1].sum(1, keepdim=True).clamp(min=1e-6)
        covered = (likeness.amax(1) * weights).sum(1)
        exact = (same.amax(1) * rarities).sum(1)
        pairs = (runs.amax(1) * weights).sum(1)
        # By stretch of the passage: the likeness of every slot in it, and of those the weighted sum; the best counts.
        padded = functional.pad(likeness.transpose(1, 2), (0, STRETCH))
        stretches = functional.max_pool1d(padded, STRETCH, stride=STEP)
        best = (stretches * weights[:, :, None]).sum(1).amax(1)
        padded = functional.pad(same.transpose(1, 2), (0, STRETCH))
        stretches = functional.max_pool1d(padded, STRETCH, stride=STEP)
        best_exact = (stretches * rarities[:, :, None]).sum(1).amax(1)
        return torch.stack([covered, exact, pairs, best, best_exact], dim=-1)
