"""New documents -> found by their words at once, where vectors take long to make; those come with a second change.

Killed in between, a document is in the state `indexed`, which the indexer takes for unfinished: it makes it again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from headwater.indexer import Indexer, Progress
from headwater.types import Change, Version


def is_slow(indexer: Indexer) -> bool:
    """Whether it pays: an embedder that says after how many texts its work should be safe takes its time for them."""
    return hasattr(indexer.embedder, "commit_texts")


class WordsFirst(Indexer):
    """An indexer that makes no vectors and leaves other open changes alone."""

    @classmethod
    def beside(cls, indexer: Indexer) -> "WordsFirst":
        """One with the same parts."""
        made = cls(
            catalog=indexer.catalog,
            text=indexer.text,
            vectors=indexer.vectors,
            chunker=indexer.chunker,
            embedder=indexer.embedder,
            read=indexer.read,
            parser=indexer.parser,
            batch_chunks=indexer.batch_chunks,
            space=indexer.space,
        )
        made.rest, made.unwanted = indexer.rest, indexer.unwanted
        return made

    def take_in(self, changes: Sequence[Change], on_progress: Callable[[Progress], None]) -> None:
        """Make these documents found by their words; raises BackendError."""
        self.text.refresh()
        drawn = self.catalog.draw(changes)
        self._apply(self._prepare.versions(drawn), 0, len(drawn), on_progress)

    def embedded(self, versions: list[Version]) -> list[Version]:
        """The same versions, unfinished; those without text have nothing to wait for."""
        return [replace(one, state="indexed") if one.state == "completed" and one.chunks else one for one in versions]
