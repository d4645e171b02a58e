"""Markdown as people and Obsidian write it: what is found, what is left alone, and that nothing breaks it."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.chunkers.meta import MetaChunker
from headwater.errors import EmptyDocument
from headwater.filters import All
from headwater.parsers.markdown import MarkdownParser
from headwater.storage.memory import MemoryTextIndex
from headwater.tokens import Cutter
from headwater.types import Blob, Chunk, Document, Span

NOTE = """---
title: 我的笔记
tags: [rag, 检索]
aliases:
  - 笔记A
date: 2026-01-02
rating: 4.5
author: {name: Li}
---
# 一级标题

参见 [[另一篇|别名]] 与 [[目录/页面#小节]]、[[页#^块]] ![[图.png]] #标签 #项目/子项

## 二级 `code` **Heading** ##

```python
# not a heading
x = 1  #notatag
```

| 列A | 列B |
|---|---|
| 1 | 二 |
| 3 | 四 |

### 三级

- [ ] 待办 <!-- a remark -->

行内 `# code #nota` %%private%% $E=mc^2$ #fff #123 [site](https://example.org/a_(b)) and https://example.com/x.

> [!note] 提示
> 引用也是正文。

Setext 标题
===

尾段
"""


def parse(text: str, uri: str = "/vault/notes/note.md") -> Document:
    return MarkdownParser().parse(Blob(uri=uri, data=text.encode(), mime="text/markdown", modified="2025-05-05"))


def piece(document: Document, span: tuple[int, int]) -> str:
    return document.text[span[0] : span[1]]


def test_the_text_is_the_file_and_frontmatter_is_read() -> None:
    note = parse(NOTE)
    assert note.text == NOTE
    assert (note.title, note.created, note.updated, note.mime) == (
        "我的笔记",
        "2026-01-02",
        "2025-05-05",
        "text/markdown",
    )
    assert note.tags == ("rag", "检索", "标签", "项目/子项")
    assert note.meta == {"aliases": ("笔记A",), "rating": 4.5, "date": "2026-01-02"}
    assert [problem for problem in note.problems if "'author'" in problem]
    assert piece(note, note.hidden[0]) == NOTE[: NOTE.index("# 一级")]


def test_headings_make_sections_with_paths() -> None:
    note = parse(NOTE)
    assert [(section.level, section.path) for section in note.structure] == [
        (1, "一级标题"),
        (2, "一级标题 > 二级 code Heading"),
        (3, "一级标题 > 二级 code Heading > 三级"),
        (1, "Setext 标题"),
    ]
    assert piece(note, note.structure[0].span).endswith("正文。\n\n")
    assert piece(note, note.structure[1].span).startswith("## 二级")
    assert piece(note, note.structure[3].span) == "Setext 标题\n===\n\n尾段\n"


def test_tables_and_code_are_blocks() -> None:
    note = parse(NOTE)
    assert [block.kind for block in note.blocks] == ["code", "table"]
    assert piece(note, note.blocks[0].span).startswith("```python\n# not") and "#notatag\n```" in note.text
    assert piece(note, note.blocks[1].span) == "| 列A | 列B |\n|---|---|\n| 1 | 二 |\n| 3 | 四 |"


def test_links_are_found_with_their_places() -> None:
    note = parse(NOTE)
    assert [(link.kind, link.target) for link in note.links] == [
        ("wikilink", "另一篇"),
        ("wikilink", "目录/页面#小节"),
        ("wikilink", "页#^块"),
        ("embed", "图.png"),
        ("url", "https://example.org/a_(b)"),
        ("url", "https://example.com/x"),
    ]
    assert piece(note, note.links[0].span) == "[[另一篇|别名]]"


def test_comments_are_hidden() -> None:
    note = parse(NOTE)
    assert [piece(note, span) for span in note.hidden[1:]] == ["<!-- a remark -->", "%%private%%", "> [!note] "]
    block = parse("before\n\n%%\n# secret\n%%\n\n<!--\n## old\n-->\n\nafter `<!-- shown -->` 50%% and 60%%")
    assert [piece(block, span) for span in block.hidden] == ["%%\n# secret\n%%", "<!--\n## old\n-->"]
    assert block.structure == ()
    assert parse("a <!-- never closed\n\nb").hidden == ()


def test_marks_that_obsidian_does_not_show_are_hidden() -> None:
    note = parse(
        "> [!warning]- 注意 Title\n> body\n\n> > [!tip|wide]\n> > nested\n\nA paragraph. ^37066d\n\n- item ^my-id\n\n"
        "^lone1\n\n10 ^2\n\na^b\n\n`> [!note]` and\n```\n> [!note] code ^abcdef\n```\n[!note] no quote\n"
    )
    assert [piece(note, span) for span in note.hidden] == [
        "> [!warning]- ",
        "> > [!tip|wide]",
        " ^37066d",
        " ^my-id",
        "^lone1",
    ]
    kept = "".join(sign for place, sign in enumerate(note.text) if not any(a <= place < b for a, b in note.hidden))
    assert kept.startswith("注意 Title\n> body") and "A paragraph.\n" in kept


def test_the_rows_of_a_table_are_known() -> None:
    [table] = [block for block in parse(NOTE).blocks if block.kind == "table"]
    assert table.header == "列A | 列B"
    assert [NOTE[row:].split("\n", maxsplit=1)[0] for row in table.rows] == [
        "| 列A | 列B |",
        "| 1 | 二 |",
        "| 3 | 四 |",
    ]


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("aliases: [年假, Annual leave]", ("年假", "Annual leave")),
        ("alias: Annual leave, 年假", ("Annual leave", "年假")),
        ("Aliases:\n- 2024\n- a, b", ("2024", "a, b")),
        ("aliases:", None),
    ],
)
def test_other_names_of_a_note(front: str, expected: tuple[str, ...] | None) -> None:
    assert parse(f"---\n{front}\n---\ntext").meta.get("aliases") == expected


def test_a_note_is_found_by_its_other_name() -> None:
    index = MemoryTextIndex(cutter=Cutter())
    note = parse("---\naliases: [带薪休假, PTO]\n---\n# Leave\n\nEverybody rests for some days.")
    other = parse("# Other\n\nNothing to see.", "/vault/other.md")
    for number, document in enumerate((note, other), 1):
        body = document.text.rpartition("---\n")[2]
        start = len(document.text) - len(body)
        index.add([(Chunk(span=Span(start, len(document.text)), text=body, id=number << 20), document)])
    index.flush()
    index.refresh()
    for question in ("带薪休假", "PTO"):
        assert [found[0] >> 20 for found in index.search(question, 5, All())] == [1]


def test_links_of_the_properties_count() -> None:
    note = parse("---\nup: '[[Home#Start|start]]'\n---\n![[a.png|300]] [[B#^x]] [[C#H|d]]")
    assert [(link.kind, link.target) for link in note.links] == [
        ("wikilink", "Home#Start"),
        ("embed", "a.png"),
        ("wikilink", "B#^x"),
        ("wikilink", "C#H"),
    ]


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("tags: a, b c", ("a", "b", "c")),
        ("tags: ['#x', y]", ("x", "y")),
        ("tag: 单个", ("单个",)),
        ("Tags:\n- 2024\n- z", ("2024", "z")),
        ("tags:", ()),
    ],
)
def test_tags_are_written_in_many_ways(front: str, expected: tuple[str, ...]) -> None:
    assert parse(f"---\n{front}\n---\ntext").tags == expected


def test_bad_frontmatter_is_a_problem_and_no_failure() -> None:
    note = parse("---\ntitle: Leave: the rules\ndate: 2025-02-01\n---\n# Heading\n")
    assert (note.title, note.created) == ("Leave: the rules", "2025-02-01")
    assert "not valid YAML" in note.problems[0]
    assert parse("---\ndate: 2025-13-45\n---\ntext").problems
    assert parse("---\na: " + "[" * 1200 + "\n---\ntext").problems


def test_rules_at_the_top_are_no_frontmatter() -> None:
    for text in (
        "---\n\nA text between rules.\n\n---\n\nMore.",
        "---\nnever closed: true\n\ntext",
        "--- \n- a\n- b\n---\nx",
    ):
        assert parse(text).hidden == (), text
    assert parse("---\n---\ntext").hidden[0] == (0, 8)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n# First\n\n# Second", "First"),
        ("## Opens with this\n\ntext", "Opens with this"),
        ("intro\n\n## Later", "note"),
        ("plain text", "note"),
    ],
)
def test_the_title_is_a_heading_or_the_name(text: str, title: str) -> None:
    assert parse(text).title == title


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("#tag is none", []),
        ("####### seven", []),
        ("    # indented code", []),
        ("~~~\n# fenced\n~~~\n# real", ["real"]),
        ("````\n```\n# still fenced\n````", []),
        ("```\n# never closed", []),
        ("> ```\n> # quoted\n> ```\n\n# real", ["real"]),
        ("text\nmore text\n---\nafter", []),
        ("- item\n---\n", []),
        ("one\n---\ntext\n\ntwo\n===", ["one", "two"]),
        ("# [a link](x) and [[Page|name]] {#id}", ["a link and name"]),
        ("- item\n\n    continued\n\n# real", ["real"]),
        ("#", []),
        ("# C# and F#", ["C# and F#"]),
    ],
)
def test_what_is_a_heading_and_what_is_not(text: str, headings: list[str]) -> None:
    assert [section.title for section in parse(text).structure] == headings


def test_indented_lines_are_code_but_not_in_a_list() -> None:
    assert [block.kind for block in parse("text\n\n    code\n\n    more\n\ntext").blocks] == ["code"]
    assert parse("- item\n\n    its second paragraph\n").blocks == ()
    assert parse("a paragraph\n    goes on\n").blocks == ()


@pytest.mark.parametrize("text", ["", "\n \n", "---\ntitle: only this\n---\n", "<!-- nothing else -->"])
def test_what_holds_no_text_is_empty(text: str) -> None:
    with pytest.raises(EmptyDocument):
        parse(text)


def test_windows_line_ends_make_no_difference() -> None:
    assert parse(NOTE.replace("\n", "\r\n")) == parse(NOTE)


fragments = st.sampled_from(
    [
        *(
            "---\n",
            "# ",
            "#",
            "===\n",
            "```",
            "~~~\n",
            "`",
            "``",
            "<!--",
            "-->",
            "%%",
            "[[",
            "]]",
            "|",
            "|---|\n",
            "![",
            "](",
        ),
        *(
            ")",
            "http://",
            "a",
            "标题",
            " ",
            "    ",
            "\t",
            "\n",
            "\n\n",
            "- ",
            "1. ",
            "> ",
            "tags: ",
            "key: [",
            "{",
            "}",
            "*",
            "\\",
        ),
    ]
)


@given(
    st.one_of(st.lists(fragments, max_size=60).map("".join), st.text(st.characters(exclude_categories=["Cs", "Cc"])))
)
@example("---\n? [a]\n---\nx")
@example("---\n!!python/object/apply:os.system [ls]\n---\nx")
@example("---\na: &a [*a]\n---\nx")
def test_nothing_breaks_it(text: str) -> None:
    try:
        document = parse(text)
    except EmptyDocument:
        return
    assert document.text == text.removeprefix("\ufeff")
    for span in (*(s.span for s in document.structure), *(b.span for b in document.blocks), *document.hidden):
        assert 0 <= span.start < span.end <= len(document.text)
    for before, after in zip(document.hidden, document.hidden[1:], strict=False):
        assert before.end < after.start
    for link in document.links:
        assert link.target in piece(document, link.span)


@pytest.mark.parametrize(
    "text",
    [
        "`" * 50_000 + "x",
        "<!--" * 20_000,
        "[" * 50_000,
        "](" * 30_000,
        "%%" * 30_000,
        "# " + "*a" * 30_000,
        "`a ``b " * 9_000,
        "|" * 50_000 + "\n|-|\n",
        "> " * 30_000,
        "\n" * 50_000 + "x",
        "[a](" * 20_000,
        "a\n---\n" * 9_000,
        "%%\n" * 9_999,
    ],
    ids=range(13),
)
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    started = time.process_time()
    parse(text + "\nend")
    assert time.process_time() - started < 2


def test_where_a_link_leads_is_no_tag() -> None:
    note = parse("- [Install](#install)\n- [设置](#设置)\n\n[top]: #top\n\nA tag (#real) and #other: here.\n")
    assert note.tags == ("real", "other")


ROWS = "".join(f"<tr><td>Weir {place}</td><td>{place}.5 &amp; more</td></tr>" for place in range(40))


@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
def test_a_table_of_html_is_cut_between_rows_and_keeps_its_column_names(between: str) -> None:
    table = f"<table>\n<tr><th>Station</th><th><b>Level</b> &amp; trend</th></tr>{ROWS}</table>".replace(
        "<tr>", between + "<tr>"
    )
    note = parse(f"# Levels\n\nBefore.\n\n{table}\n\n## After\n\ntext\n")
    [block] = note.blocks
    assert (block.kind, block.header) == ("table", "Station | Level & trend")
    assert note.text[slice(*block.span)] == table and len(block.rows) == 41
    assert [section.title for section in note.structure] == ["Levels", "After"]
    parts = [chunk for chunk in MetaChunker(size=100, overlap=0).chunk(note) if "<td>" in chunk.text]
    assert len(parts) > 5
    for part in parts[1:]:
        assert part.text.startswith("<tr>") and "Station | Level & trend" in part.index_text
        assert part.text.count("<tr>") == part.text.count("</tr>")


def test_tables_of_html_that_never_end_are_text_and_cost_no_more_than_their_length() -> None:
    note = parse("<table>\n<tr><td>a</td></tr>\n# Still a heading\n" * 20_000)
    assert note.blocks == () and len(note.structure) == 20_000
