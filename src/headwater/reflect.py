"""The sentences of an answer -> a verdict: whether it stands on what it cites, and how well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headwater.highlight import Terms
from headwater.types import Query, Sentence, Support, Verdict

# What a sentence is worth by its best citation. Weak is half: somebody should look at the quote.
WORTH: Final[dict[Support, float]] = {"supported": 1.0, "weak": 0.5, "unsupported": 0.0}
# Of the question's words, those that the answer and its sources have. Below this, weak sentences may be about
# something else; sentences in their source's own words are let through, for the writer may have used other words.
MIN_COVERAGE: Final = 0.25
SUPPORT_SHARE: Final = 0.7  # of the score; the rest is coverage. A true answer to a part of it beats a full invention


def reflect(query: Query, sentences: Sequence[Sentence]) -> Verdict:
    """Accepted when every sentence rests on a source, and the sources are about the question."""
    stating = [sentence for sentence in sentences if not sentence.text.rstrip().endswith((":", "："))]
    cited = [sentence for sentence in stating if sentence.citations]
    if not cited:
        return Verdict(accepted=False, reason="no passage answers it", score=1.0)
    worth = [max((WORTH[citation.support] for citation in one.citations), default=0.0) for one in stating]
    support, coverage = sum(worth) / len(worth), _coverage(query, cited)
    score = round(1 + 9 * (SUPPORT_SHARE * support + (1 - SUPPORT_SHARE) * coverage), 1)
    lacking = worth.count(0.0)
    if lacking:
        return Verdict(accepted=False, reason=f"{lacking} of {len(worth)} sentences have no support", score=score)
    if coverage < MIN_COVERAGE and min(worth) < 1.0:
        return Verdict(accepted=False, reason="weak support, and little of what is asked is covered", score=score)
    weak = sum(one < 1.0 for one in worth)
    reason = f"{len(worth) - weak} of {len(worth)} sentences are supported"
    return Verdict(accepted=True, reason=reason + (f", {weak} weakly" if weak else ""), score=score)


def _coverage(query: Query, sentences: Sequence[Sentence]) -> float:
    parts = [sentence.text for sentence in sentences]
    parts += (f"{one.title}\n{one.section}\n{one.quote}" for sentence in sentences for one in sentence.citations)
    seen = "\n".join(parts)
    terms = Terms.of(query.text)
    return len(terms.covered(seen, [(0, len(seen))])[0]) / max(1, len(terms.units))
