"""Write the expected chunks of the golden corpus anew: `python -m tests.golden.regenerate`, then read the diff."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headwater.chunkers.auto import AutoChunker
from headwater.chunkers.contextual import ContextualChunker
from headwater.chunkers.hierarchical import HierarchicalChunker
from headwater.chunkers.meta import MetaChunker
from headwater.chunkers.recursive import RecursiveChunker
from headwater.chunkers.semantic import SemanticChunker
from headwater.chunkers.sentence import SentenceChunker
from headwater.chunkers.whole import WholeChunker
from headwater.messages import Message, Piece
from headwater.models.hashed import HashedEmbedder
from headwater.parsers.markdown import MarkdownParser
from headwater.parsers.text import TextParser
from headwater.protocols import Chunker
from headwater.sources.files import FileSource
from headwater.types import Blob, Chunk, Document

CORPUS = Path(__file__).with_name("corpus")
SUFFIX = ".chunks"
# Small, so that short files show how they are cut.
CHUNKER = RecursiveChunker(size=100, overlap=20)


class Echo:
    """A language model that says how long the prompt was."""

    name = "echo"
    context_tokens = 8192

    def stream(self, messages: Sequence[Message], **_: object) -> Iterator[Piece]:
        """One piece."""
        yield Piece(text=f"({len(messages[-1].content)} characters were asked about)")


# Every strategy on a file of each language, and on questions in both.
SHOWN = ("en.md", "zh.md", "faq.txt")
STRATEGIES: dict[str, Chunker] = {
    "auto": AutoChunker(size=100, overlap=20),
    "contextual": ContextualChunker(size=100, overlap=20, language_model=Echo, parallel=1),
    "hierarchical": HierarchicalChunker(size=50, overlap=10, parent_size=150),
    "meta": MetaChunker(size=100, overlap=20),
    "semantic": SemanticChunker(embedder=HashedEmbedder, size=100, minimum=30),
    "sentence": SentenceChunker(size=100, minimum=30),
    "whole": WholeChunker(),
}


def sources() -> list[Path]:
    """The files of the corpus, without what is expected of them."""
    return sorted(path for path in CORPUS.iterdir() if path.suffix != SUFFIX)


def expectations() -> list[tuple[Path, Path, Chunker]]:
    """A file, where its chunks are written down, and what cuts it."""
    found = [(path, path.with_name(path.name + SUFFIX), CHUNKER) for path in sources()]
    for name, chunker in STRATEGIES.items():
        found += [(CORPUS / file, CORPUS / f"{file}.{name}{SUFFIX}", chunker) for file in SHOWN]
    return found


def render(path: Path, chunker: Chunker = CHUNKER) -> str:
    """What becomes of a file, as text."""
    blob = FileSource(path).read(path.as_posix())
    named = Blob(uri=path.name, data=blob.data, mime=blob.mime)
    parsers = {mime: parser for parser in (TextParser(), MarkdownParser()) for mime in parser.mimes}
    document = parsers[named.mime].parse(named)
    chunks = [_chunk(number, chunk) for number, chunk in enumerate(chunker.chunk(document))]
    return "\n".join([_head(document, chunker), *chunks])


def _head(document: Document, chunker: Chunker) -> str:
    facts = {
        "title": document.title,
        "mime": document.mime,
        "tags": ", ".join(document.tags),
        "created": document.created,
        "meta": ", ".join(f"{key}={value}" for key, value in sorted(document.meta.items())),
        "links": ", ".join(f"{link.kind} {link.target}" for link in document.links),
        "problems": "; ".join(document.problems),
        "chunker": chunker.fingerprint,
    }
    return "".join(f"{name}: {fact}\n" for name, fact in facts.items() if fact)


def _chunk(number: int, chunk: Chunk) -> str:
    pages = f" | pages {', '.join(map(str, chunk.pages))}" if chunk.pages else ""
    section = f" | {chunk.section}" if chunk.section else ""
    parent = f" | in {chunk.parent}" if chunk.parent else ""
    shown = f"=== {number} | {chunk.span.start}-{chunk.span.end} | {chunk.kind}{section}{pages}{parent}\n{chunk.text}\n"
    return shown + (f"--- indexed\n{chunk.index_text}\n" if chunk.index_text else "")


def main() -> None:
    """Regenerate every expectation."""
    for path, expected, chunker in expectations():
        expected.write_text(render(path, chunker), encoding="utf-8", newline="\n")
        print(expected.relative_to(Path(__file__).parents[2]))


if __name__ == "__main__":
    main()
