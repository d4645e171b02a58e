"""The topics -> a test set in the layout of BEIR, and the answers: `python -m tests.quality.golden.regenerate`.

A topic is a file with documents and then questions:

    @@ id | language | title             a document; its text is on the lines below
    ?? kind | text                       a question
    -> id | words                        a document that answers it, and the words of it that do
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
TOPICS = FOLDER / "topics"
KINDS = ("keyword", "natural", "paraphrase", "cross", "code", "multi", "none")
DOCUMENT, QUESTION, ANSWER = "@@ ", "?? ", "-> "
BETWEEN = " | "


@dataclass(kw_only=True)
class GoldenDocument:
    """A document of the set; `language` is en, zh or zh-Hant."""

    id: str
    language: str
    title: str
    text: str = ""


@dataclass(kw_only=True)
class GoldenQuestion:
    """A question, and by document the words that answer it; `none` is answered by no document."""

    id: str
    kind: str
    text: str
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def language(self) -> str:
        """The language it is asked in."""
        return "zh" if any("\u4e00" <= letter <= "\u9fff" for letter in self.text) else "en"


@dataclass(kw_only=True)
class GoldenSet:
    """Every document and question, in the order of the files."""

    documents: list[GoldenDocument] = field(default_factory=list)
    questions: list[GoldenQuestion] = field(default_factory=list)


def read_topics() -> GoldenSet:
    """Read every topic; a line that has no place is refused."""
    found = GoldenSet()
    for path in sorted(TOPICS.glob("*.md")):
        _read(path, found)
    return found


def _read(path: Path, found: GoldenSet) -> None:
    lines: list[str] = []
    asked = 0

    def close() -> None:
        if lines:
            found.documents[-1].text = "\n".join(lines).strip()
            lines.clear()

    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith(DOCUMENT):
            close()
            id, language, title = line.removeprefix(DOCUMENT).split(BETWEEN, 2)
            found.documents.append(GoldenDocument(id=id, language=language, title=title))
        elif line.startswith(QUESTION):
            close()
            asked += 1
            kind, text = line.removeprefix(QUESTION).split(BETWEEN, 1)
            found.questions.append(GoldenQuestion(id=f"{path.stem}-q{asked:02}", kind=kind, text=text))
        elif line.startswith(ANSWER):
            id, words = line.removeprefix(ANSWER).split(BETWEEN, 1)
            found.questions[-1].answers[id] = words
        elif not asked:
            lines.append(line)
        elif line:
            raise ValueError(f"{path}:{number}: {line!r} is neither a question nor an answer")
    close()


def files(golden: GoldenSet) -> Iterator[tuple[str, str]]:
    """The name and the content of every file of the test set."""
    corpus = [{"_id": one.id, "title": one.title, "text": one.text} for one in golden.documents]
    queries = [{"_id": one.id, "text": one.text} for one in golden.questions]
    answers = [
        {
            "_id": one.id,
            "kind": one.kind,
            "language": one.language,
            "answers": [{"document": document, "span": words} for document, words in one.answers.items()],
        }
        for one in golden.questions
    ]
    for name, rows in (("corpus", corpus), ("queries", queries), ("answers", answers)):
        yield f"{name}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    judged = [f"{one.id}\t{document}\t1\n" for one in golden.questions for document in one.answers]
    yield "qrels/test.tsv", "query-id\tcorpus-id\tscore\n" + "".join(judged)


def main() -> None:
    """Write them."""
    for name, content in files(read_topics()):
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
