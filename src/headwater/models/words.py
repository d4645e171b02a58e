"""Words -> those that people write, as far as the bundled model's vocabulary has them."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.models._pieces import load


def written(words: Sequence[str]) -> frozenset[str]:
    """Those of these words, in small letters, that are a piece of the vocabulary as they are."""
    return load().known(words)
