"""Every chunker that ships keeps the contract."""

import pytest

from headwater.chunkers.auto import STRATEGIES, AutoChunker
from headwater.chunkers.contextual import ContextualChunker
from headwater.chunkers.hierarchical import HierarchicalChunker
from headwater.chunkers.meta import MetaChunker
from headwater.chunkers.recursive import RecursiveChunker
from headwater.chunkers.semantic import SemanticChunker
from headwater.chunkers.sentence import SentenceChunker
from headwater.chunkers.whole import WholeChunker
from headwater.models.hashed import HashedEmbedder
from headwater.protocols import Chunker
from headwater.registry import installed
from headwater.testing.chunker_contract import ChunkerContract

EMBEDDER = HashedEmbedder(dim=64)


class TestRecursive(ChunkerContract):
    def chunker(self) -> Chunker:
        return RecursiveChunker(size=40, overlap=10)


class TestSentence(ChunkerContract):
    def chunker(self) -> Chunker:
        return SentenceChunker(size=40, minimum=10)


class TestSemantic(ChunkerContract):
    def chunker(self) -> Chunker:
        return SemanticChunker(embedder=lambda: EMBEDDER, size=40, minimum=10)


class TestSemanticParagraphs(ChunkerContract):
    def chunker(self) -> Chunker:
        return SemanticChunker(embedder=lambda: EMBEDDER, size=40, minimum=10, grain="paragraphs")


class TestMeta(ChunkerContract):
    def chunker(self) -> Chunker:
        return MetaChunker(size=40, overlap=10)


class TestContextualWithoutModel(ChunkerContract):
    def chunker(self) -> Chunker:
        return ContextualChunker(size=40, overlap=10)


class TestHierarchical(ChunkerContract):
    def chunker(self) -> Chunker:
        return HierarchicalChunker(size=20, overlap=5, parent_size=120)


class TestWhole(ChunkerContract):
    def chunker(self) -> Chunker:
        return WholeChunker(size=60)


class TestAuto(ChunkerContract):
    def chunker(self) -> Chunker:
        return AutoChunker(size=40, overlap=10)


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestEveryStrategyOfAuto:
    def test_it_keeps_the_contract(self, strategy: str) -> None:
        class Chosen(ChunkerContract):
            def chunker(self) -> Chunker:
                return AutoChunker(size=40, overlap=10, collections={"default": strategy}, embedder=lambda: EMBEDDER)

        contract = Chosen()
        tests = [name for name in dir(contract) if name.startswith("test_")]
        assert len(tests) > 6
        for name in tests:
            getattr(contract, name)()


def test_every_chunker_that_ships_is_tried_here() -> None:
    assert set(installed("chunkers")) >= {
        *("auto", "contextual", "hierarchical", "meta", "recursive", "semantic", "sentence", "whole")
    }
    assert set(installed("chunkers")) - {"auto"} <= set(STRATEGIES)
