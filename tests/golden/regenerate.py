"""Write the expected chunks of the golden corpus anew: `python -m tests.golden.regenerate`, then read the diff."""

from pathlib import Path

from headwater.chunk import RecursiveChunker
from headwater.parsers.markdown import MarkdownParser
from headwater.parsers.text import TextParser
from headwater.sources.files import FileSource
from headwater.types import Blob, Chunk, Document

CORPUS = Path(__file__).with_name("corpus")
SUFFIX = ".chunks"
# Small, so that short files show how they are cut.
CHUNKER = RecursiveChunker(size=100, overlap=20)


def sources() -> list[Path]:
    """The files of the corpus, without what is expected of them."""
    return sorted(path for path in CORPUS.iterdir() if path.suffix != SUFFIX)


def render(path: Path) -> str:
    """What becomes of a file, as text."""
    blob = FileSource(path).read(path.as_posix())
    named = Blob(uri=path.name, data=blob.data, mime=blob.mime)
    parsers = {mime: parser for parser in (TextParser(), MarkdownParser()) for mime in parser.mimes}
    document = parsers[named.mime].parse(named)
    chunks = [_chunk(number, chunk) for number, chunk in enumerate(CHUNKER.chunk(document))]
    return "\n".join([_head(document), *chunks])


def _head(document: Document) -> str:
    facts = {
        "title": document.title,
        "mime": document.mime,
        "tags": ", ".join(document.tags),
        "created": document.created,
        "meta": ", ".join(f"{key}={value}" for key, value in sorted(document.meta.items())),
        "links": ", ".join(f"{link.kind} {link.target}" for link in document.links),
        "problems": "; ".join(document.problems),
        "chunker": CHUNKER.fingerprint,
    }
    return "".join(f"{name}: {fact}\n" for name, fact in facts.items() if fact)


def _chunk(number: int, chunk: Chunk) -> str:
    pages = f" | pages {', '.join(map(str, chunk.pages))}" if chunk.pages else ""
    section = f" | {chunk.section}" if chunk.section else ""
    shown = f"=== {number} | {chunk.span.start}-{chunk.span.end} | {chunk.kind}{section}{pages}\n{chunk.text}\n"
    return shown + (f"--- indexed\n{chunk.index_text}\n" if chunk.index_text else "")


def main() -> None:
    """Regenerate every expectation."""
    for path in sources():
        expected = path.with_name(path.name + SUFFIX)
        expected.write_text(render(path), encoding="utf-8", newline="\n")
        print(expected.relative_to(Path(__file__).parents[2]))


if __name__ == "__main__":
    main()
