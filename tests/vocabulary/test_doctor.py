"""What the doctor says of documents in Chinese and English that something is wrong with, and of those that are well."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.chunkers.recursive import RecursiveChunker
from headwater.doctor import examine
from headwater.types import Block, Chunk, Document, Section, Span

ENGLISH = "The gauge at the old bridge is read every morning, and the level is told to the office in town. " * 5
CHINESE = "老桥水位站每天早上八点观测一次水位，汛期每小时观测一次，值班员须将水位上报县水文局。" * 5
CHUNKER = RecursiveChunker(size=40, overlap=0)


def examined(document: Document) -> tuple[dict[str, object], str]:
    coverage, problems = examine(document, CHUNKER.chunk(document))
    return dict(coverage), "\n".join(problems)


@pytest.mark.parametrize(("text", "language"), [(ENGLISH, "en"), (CHINESE, "zh"), (ENGLISH[:300] + CHINESE, "zh+en")])
def test_a_document_that_is_well_has_a_full_score_and_no_problems(text: str, language: str) -> None:
    coverage, problems = examined(Document(uri="a", text=text))
    assert problems == ""
    assert coverage == {"language": language, "in_chunks": 1.0, "score": 1.0}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("これは日本語の文章です。水位を毎朝観測します。" * 5, "ja"),
        ("이것은 한국어 문장입니다. 매일 아침 수위를 잽니다. " * 5, "ko"),
        ("Le niveau de la rivière est relevé chaque matin par le gardien du pont. " * 5, "latin"),
        ("1234 5678 90.5\n" * 20, "other"),
        ("Уровень реки измеряется каждое утро. " * 5, "other"),
        ("", "other"),
    ],
)
def test_other_languages_are_told(text: str, language: str) -> None:
    assert examined(Document(uri="a", text=text))[0]["language"] == language


@pytest.mark.parametrize(
    "garbled",
    [
        "caf\ufffd r\ufffdsum\ufffd " * 10,
        "\ue001\ue002\ue003\ue004 \uf0b7 " * 10,
        "CafÃ© rÃ©sumÃ© Ã  la carte â€™ " * 10,
        "锟斤拷锟斤拷，烫烫烫烫烫烫" * 5,
        "姘翠綅绔欐瘡澶╀笂鎶ャ€傜殑锛屽湪銆備腑" * 5,
        "(cid:12)(cid:88)(cid:9) (cid:101)" * 10,
        "\x00\x01\x02\x7f\x9d" * 10,
        "\ud800\udfff" * 10,
    ],
)
@pytest.mark.parametrize("around", [ENGLISH, CHINESE])
def test_garbled_text_is_told_with_an_example_and_a_remedy(garbled: str, around: str) -> None:
    coverage, problems = examined(Document(uri="a", text=around + garbled))
    assert isinstance(coverage["garbled"], float) and coverage["garbled"] > 0.005
    assert "garbled, such as" in problems and "UTF-8" in problems
    assert isinstance(coverage["score"], float) and coverage["score"] < 1.0
    problems = examined(Document(uri="a", text=around + garbled, mime="application/pdf"))[1]
    assert "fonts" in problems


@pytest.mark.parametrize(
    "text",
    [
        "Ärger über Öl: ça va, naïve façade — “quoted” … ½ × 10⁻³ Å",
        "一般的中文，包含“引号”、《书名》、——破折号、①②③、℃、㎡、臺灣繁體字。",
        "emoji 😀🎉 and mathematics 𝑥 ∈ ℝ, Greek αβγ",
        "\tTabbed\r\nlines\fand pages\u0085",
    ],
)
def test_text_that_only_looks_odd_is_not_garbled(text: str) -> None:
    coverage, problems = examined(Document(uri="a", text=text * 20))
    assert "garbled" not in coverage and "garbled" not in problems


def test_pages_without_text_are_named() -> None:
    text = f"{CHINESE}\f   \f{ENGLISH}\f\n\f"
    starts = (0, len(CHINESE) + 1, len(CHINESE) + 5, len(text) - 2, len(text))
    coverage, problems = examined(Document(uri="a", text=text, page_starts=starts))
    assert (coverage["pages"], coverage["pages_with_text"], coverage["score"]) == (5, 2, 0.4)
    assert "3 of 5 pages have no text (2, 4, 5)" in problems and "headwater[ocr]" in problems


def test_what_a_parser_measured_itself_is_believed() -> None:
    document = Document(
        uri="a", text=CHINESE, page_starts=(0, len(CHINESE)), coverage={"pages": 4, "pages_with_text": 1}
    )
    coverage, problems = examined(document)
    assert problems == "" and coverage["score"] == 0.25


def test_tables_without_a_header_are_counted() -> None:
    tables = (
        Block(kind="table", span=Span(0, 40), header="站名 | 水位"),
        Block(kind="table", span=Span(50, 90)),
        Block(kind="code", span=Span(100, 120)),
    )
    coverage, problems = examined(Document(uri="a", text=ENGLISH, blocks=tables, mime="application/pdf"))
    assert (coverage["tables"], coverage["tables_without_header"]) == (2, 1)
    assert "1 of 2 tables have no header" in problems and "first row" in problems
    assert examined(Document(uri="a", text=ENGLISH, blocks=tables, mime="text/markdown"))[1] == ""


def test_empty_sections_are_told_when_they_are_many() -> None:
    text = "".join(f"# 标题{n}\n\n" for n in range(4)) + "# Last\n" + ENGLISH
    places = [text.index(f"# 标题{n}") for n in range(4)] + [text.index("# Last"), len(text)]
    sections = tuple(
        Section(title=f"标题{n}", level=1, path=f"标题{n}", span=Span(places[n], places[n + 1])) for n in range(5)
    )
    coverage, problems = examined(Document(uri="a", text=text, structure=sections))
    assert (coverage["sections"], coverage["empty_sections"]) == (5, 4)
    assert "4 of 5 sections have nothing under their heading, such as '标题0'" in problems


def test_functions_of_one_line_are_no_empty_sections() -> None:
    lines = [f"const f{n} = () => {n};\n" for n in range(5)]
    spans = [Span(n * len(lines[0]), (n + 1) * len(lines[0])) for n in range(5)]
    sections = tuple(Section(title=f"f{n}", level=1, path=f"f{n}", span=span) for n, span in enumerate(spans))
    blocks = tuple(Block(kind="code", span=span) for span in spans)
    coverage, problems = examined(Document(uri="a", text="".join(lines), structure=sections, blocks=blocks))
    assert "empty_sections" not in coverage and "heading" not in problems


def test_text_that_is_in_no_chunk_is_told_but_not_what_is_hidden() -> None:
    document = Document(uri="a", text=CHINESE + ENGLISH, hidden=(Span(0, len(CHINESE)),))
    half = Chunk(span=Span(len(CHINESE), len(CHINESE) + 240), text=ENGLISH[:240])
    coverage, problems = examine(document, [half])
    assert 0.4 < float(coverage["in_chunks"]) < 0.7
    assert "is in no passage" in "\n".join(problems)
    assert examined(document)[0]["in_chunks"] == 1.0


def test_encoded_data_is_told() -> None:
    coverage, problems = examined(Document(uri="a", text=ENGLISH + "QUJD" * 1_000 + " " + CHINESE))
    assert coverage["longest_run"] == 4_000 and "without a blank" in problems
    assert "longest_run" not in examined(Document(uri="a", text=CHINESE.replace("。", "") * 30))[0]


def test_passages_without_context_are_told() -> None:
    lines = [f"Level {n}\n\n" for n in range(12)]
    text = "".join(lines)
    chunks, start = [], 0
    for line in lines:
        chunks.append(Chunk(span=Span(start, start + len(line)), text=line))
        start += len(line)
    coverage, problems = examine(Document(uri="a", text=text), chunks)
    assert coverage["chunks_without_context"] == 12 and "under no heading" in "\n".join(problems)
    told = [Chunk(span=c.span, text=c.text, section="Readings") for c in chunks]
    assert "chunks_without_context" not in examine(Document(uri="a", text=text), told)[0]


@given(st.text(max_size=400), st.lists(st.integers(0, 400), max_size=4))
def test_every_text_can_be_examined(text: str, places: list[int]) -> None:
    starts = tuple(sorted({min(place, len(text)) for place in places} | {0}))
    document = Document(uri="a", text=text, page_starts=starts)
    coverage, problems = examine(document, CHUNKER.chunk(document))
    assert 0.0 <= float(coverage["score"]) <= 1.0
    assert all(isinstance(problem, str) and problem for problem in problems)


def test_thousands_of_gaps_and_hidden_stretches_take_no_time() -> None:
    """Each gap used to be compared with every hidden stretch: minutes for a file of 200 KB."""
    line = "x %%hidden%% y\n"
    text = line * 20_000
    starts = range(0, len(text), len(line))
    hidden = tuple(Span(start + 2, start + 12) for start in starts)
    chunks = [Chunk(span=Span(start, start + 1), text="x") for start in starts]
    began = time.process_time()
    coverage, _ = examine(Document(uri="a", text=text, hidden=hidden), chunks)
    assert time.process_time() - began < 5
    assert coverage["in_chunks"] == pytest.approx(1 - 20_000 / (len(text) - 200_000), abs=0.001)


@given(st.text(max_size=200), st.integers(1, 9))
def test_a_text_in_pieces_is_examined_as_the_whole(text: str, size: int) -> None:
    document = Document(uri="a", text=text)
    whole = examine(document, ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwater.doctor._PIECE_CHARS", size)
        assert examine(document, ()) == whole
