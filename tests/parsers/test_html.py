"""Web pages as people save them: the content with its structure, what the page says of itself, and hostile ones."""

import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import EmptyDocument, SourceError
from headwater.parsers.html import HtmlParser
from headwater.types import Blob, Document

SENTENCE = "检索增强生成把外部知识接入语言模型，从而减少幻觉并给出引用来源。"
WORDS = "The reservoir was filled in spring and the gauges were read every morning by the keeper. "

NEWS = f"""<!doctype html>
<html lang="zh-CN"><head><meta charset="utf-8">
<title>水库调度新规 - 某某新闻网</title>
<meta name="author" content="李雷"><meta name="description" content="新规的要点。">
<meta property="article:published_time" content="2026-03-04T08:30:00+08:00">
<meta property="og:site_name" content="某某新闻网"><meta property="og:locale" content="zh_CN">
<link rel="canonical" href="/news/42.html"><style>p {{ color: red }}</style>
</head><body>
<header><ul>{"".join(f'<li><a href="/c{n}">导航栏目{n}</a></li>' for n in range(20))}</ul></header>
<div class="ad">广告：买一送一</div><div id="cookie-banner">本站使用Cookie，点击同意</div>
<div class="content"><div class="article">
<h1>水库调度新规</h1>
<p>作者：李雷 2026年3月4日</p>
<h2>第一节 背景</h2>
<p>{SENTENCE * 3}见<a href="https://example.org/rule?a=1&amp;b=2">原文</a>与<a href="/more">更多</a>。</p>
<table><caption>表1 各站水位</caption>
<tr><th>站点</th><th>水位</th></tr><tr><td>甲站</td><td>12.5</td></tr>
<tr><td>乙|站</td><td><a href="/b">13.1</a></td></tr></table>
<figure><img src="f.png" alt="示意"><figcaption>图1 调度流程</figcaption></figure>
<h2>第二节 做法</h2>
<p>{SENTENCE * 2}
换行之后
继续。 Line one<br>line two, 10<sup>6</sup> m<sup>3</sup>, H<sub>2</sub>O.</p>
<ul><li>第一条</li><li>第二条<ol><li>甲</li><li>乙</li></ol></li></ul>
<pre><code class="language-python">if x &lt; 3:
    print(x)</code></pre>
<p style="display: none">看不见的字</p><p hidden>藏起来的字</p><span aria-hidden="true">图标</span>
<blockquote><p>引文一句。</p></blockquote>
<p>有脚注<sup><a href="#fn1">[1]</a></sup>的段落。</p>
<section class="footnotes"><ol><li id="fn1">脚注的内容。</li></ol></section>
</div></div>
<aside><h3>相关推荐</h3><ul>{"".join(f'<li><a href="/r{n}">推荐文章{n}</a></li>' for n in range(15))}</ul></aside>
<div class="comments"><p>网友评论：写得不错</p></div>
<footer>版权所有 备案号000000</footer><script>var x = "脚本内容"</script><noscript>请开启脚本</noscript>
</body></html>"""


def parse(page: str | bytes, uri: str = "https://example.com/news/index.html", **meta: str) -> Document:
    data = page.encode() if isinstance(page, str) else page
    return HtmlParser().parse(Blob(uri=uri, data=data, mime="text/html", modified="2026-05-05", meta=meta))


def piece(document: Document, span: tuple[int, int] | None) -> str:
    assert span is not None
    return document.text[span[0] : span[1]]


def page(body: str, head: str = "") -> str:
    return f"<html><head>{head}</head><body>{body}</body></html>"


def test_the_content_is_kept_and_what_stands_around_it_is_not() -> None:
    text = parse(NEWS).text
    for kept in ("水库调度新规", SENTENCE * 3, "第一条", "引文一句。", "脚注的内容。", "表1 各站水位", "图1 调度流程"):
        assert kept in text, kept
    for lost in "导航栏目 广告 Cookie 推荐文章 网友评论 版权所有 脚本 看不见 藏起来 图标 color 相关推荐".split():
        assert lost not in text, lost


def test_headings_make_sections() -> None:
    news = parse(NEWS)
    assert [(section.level, section.path) for section in news.structure] == [
        (1, "水库调度新规"),
        (2, "水库调度新规 > 第一节 背景"),
        (2, "水库调度新规 > 第二节 做法"),
    ]
    assert piece(news, news.structure[1].span).startswith("## 第一节 背景\n\n检索")
    assert news.text.startswith("# 水库调度新规\n\n") and news.coverage["headings"] == 3


def test_tables_have_rows_and_a_header_and_their_caption() -> None:
    news = parse(NEWS)
    [table] = [block for block in news.blocks if block.kind == "table"]
    assert piece(news, table.span) == "| 站点 | 水位 |\n| 甲站 | 12.5 |\n| 乙\\|站 | 13.1 |"
    assert table.header == "站点 | 水位"
    assert [news.text[row : row + 4] for row in table.rows] == ["| 站点", "| 甲站", "| 乙\\"]
    captions = {piece(news, block.span): block.about for block in news.blocks if block.kind == "caption"}
    assert captions["表1 各站水位"] == table.span
    assert piece(news, captions["图1 调度流程"]).startswith(SENTENCE)
    assert news.coverage["tables"] == 1 and news.coverage["captions"] == 2


def test_words_are_written_as_they_are_read() -> None:
    text = parse(NEWS).text
    assert "换行之后继续。 Line one\nline two, 10^6 m^3, H2O." in text
    assert "- 第一条\n- 第二条\n  1. 甲\n  2. 乙" in text
    assert "```python\nif x < 3:\n    print(x)\n```" in text
    assert "> 引文一句。" in text


def test_code_and_notes_are_blocks() -> None:
    news = parse(NEWS)
    [code] = [block for block in news.blocks if block.kind == "code"]
    assert piece(news, code.span).startswith("```python\n")
    [note] = [block for block in news.blocks if block.kind == "note"]
    assert "脚注的内容。" in piece(news, note.span) and piece(news, note.about) == "有脚注[1]的段落。"


def test_links_have_places_and_whole_addresses() -> None:
    news = parse(NEWS)
    assert [(link.target, piece(news, link.span)) for link in news.links] == [
        ("https://example.org/rule?a=1&b=2", "原文"),
        ("https://example.com/more", "更多"),
        ("https://example.com/b", "13.1"),
    ]


def test_the_page_says_what_it_is() -> None:
    news = parse(NEWS)
    assert (news.title, news.description, news.created) == ("水库调度新规", "新规的要点。", "2026-03-04T08:30:00+08:00")
    assert dict(news.meta) == {
        "author": "李雷",
        "canonical": "https://example.com/news/42.html",
        "language": "zh-CN",
        "site": "某某新闻网",
        "published": "2026-03-04T08:30:00+08:00",
    }
    assert news.problems == () and news.mime == "text/html"


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        ('<script type="application/ld+json">{"@context":"x","@graph":[{"@type":"Organization","name":"O"},'
         '{"@type":["NewsArticle"],"headline":"H","author":[{"@type":"Person","name":"Ann"},{"name":"Bo"}],'
         '"datePublished":"2026-01-02T03:04:05Z","dateModified":"2026-02-03","publisher":{"name":"Daily"}}]}</script>',
         "",
         {"author": ("Ann", "Bo"), "published": "2026-01-02T03:04:05+00:00", "modified": "2026-02-03",
          "site": "Daily"}),
        ('<script type="application/ld+json">{bad</script><meta name="author" content="Kim">', "", {"author": "Kim"}),
        ('<meta property="og:url" content="https://a.org/x">', "", {"canonical": "https://a.org/x"}),
        ("", "<p class='byline'>By Jane Doe</p>", {"author": "Jane Doe"}),
        ("", "<a rel=author href=/j>Jane Doe</a>", {"author": "Jane Doe"}),
        ("", "<time datetime='2025-12-01T10:00'>1 Dec</time>", {"published": "2025-12-01T10:00:00"}),
        ("", "<h1>题目</h1><p>2026年3月4日 10:20 来源：某报 作者：王小明</p>",
         {"author": "王小明", "published": "2026-03-04"}),
        ('<meta name="pubdate" content="Mon, 02 Nov 2026 10:00:00 +0800">', "",
         {"published": "2026-11-02T10:00:00+08:00"}),
        ('<meta name="date" content="soon">', "", {}),
        ('<link rel="canonical" href="javascript:alert(1)">', "", {}),
    ],
)  # fmt: skip
def test_every_way_to_say_it(head: str, body: str, expected: dict[str, object]) -> None:
    document = parse(page(f"{body}<p>{WORDS * 5}</p>", head))
    assert dict(document.meta) == expected


@pytest.mark.parametrize(
    ("head", "body", "title"),
    [
        ("<title>The reservoir | Daily</title>", "<h1>The reservoir</h1>", "The reservoir"),
        ("<title>The reservoir - Daily</title><meta property=og:site_name content=Daily>", "", "The reservoir"),
        ("<title>A - B</title>", "", "A - B"),
        ("<meta property=og:title content=Shared>", "", "Shared"),
        ("", "<h1>Only heading</h1>", "Only heading"),
        ("", "<h2>Second</h2>", "Second"),
        ("", "", "https://example.com/news/index.html"),  # the address, where nothing else is known
    ],
)
def test_the_title(head: str, body: str, title: str) -> None:
    document = parse(page(f"{body}<p>{WORDS}</p>", head))
    assert document.title == title
    if head.startswith("<title>"):
        assert document.structure[0].title == title


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("gb18030", "gb2312"),
        ("gb18030", ""),
        ("utf-8", "utf-8"),
        ("utf-8", "gb2312"),  # saved anew by a program that left the old name in place
        ("big5", "big5"),
        ("utf-16", ""),
        ("gb18030", "no-such-thing"),
        ("shift_jis", "shift_jis"),
    ],
)
def test_every_encoding_is_read(encoding: str, declared: str) -> None:
    words = (
        "これは文書です。今日は晴れ。"
        if encoding == "shift_jis"
        else "歡迎光臨，這是中文。"
        if encoding == "big5"
        else SENTENCE
    )
    charset = f'<meta charset="{declared}">' if declared else ""
    assert words in parse(page(f"<p>{words * 5}</p>", charset).encode(encoding)).text


def test_what_the_server_says_counts() -> None:
    latin = "Größe und Maß: übrig. " * 5
    assert latin.strip() in parse(page(f"<p>{latin}</p>").encode("iso-8859-1"), charset="iso-8859-1").text


def test_tables_that_arrange_a_page_are_none() -> None:
    data = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    document = parse(page(f"<table><tr><td><h2>Left</h2><p>{WORDS}</p></td><td>{data}</td></tr></table>"))
    assert [(b.kind, piece(document, b.span)) for b in document.blocks] == [("table", "| a | b |\n| 1 | 2 |")]
    note = "<table><tr><td rowspan=2><img src=i.png></td><th>Note</th></tr><tr><td>Words of the note.</td></tr></table>"
    assert (
        parse(page(f"<p>{WORDS}</p>{note}<p>After.</p>")).text
        == f"{WORDS.strip()}\n\nNote\nWords of the note.\n\nAfter."
    )


def test_cells_that_span_are_filled() -> None:
    table = (
        "<table><thead><tr><th rowspan=2>城市</th><th colspan=2>水位</th></tr><tr><th>早</th><th>晚</th></tr></thead>"
        "<tr><td rowspan=2>甲</td><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table>"
    )
    document = parse(page(table))
    assert document.text == "| 城市 | 水位 早 | 水位 晚 |\n| 甲 | 1 | 2 |\n| 甲 | 3 | 4 |"
    assert document.blocks[0].header == "城市 | 水位 早 | 水位 晚"


def test_captions_that_are_only_paragraphs() -> None:
    table = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    document = parse(page(f"<p>{WORDS}</p><p>Table 3: Gauges</p>{table}<p>Table 3 shows that {WORDS * 4}</p>"))
    [caption] = [block for block in document.blocks if block.kind == "caption"]
    assert piece(document, caption.span) == "Table 3: Gauges" and piece(document, caption.about).startswith("| a")


def test_a_page_of_links_is_taken_whole_and_that_is_said() -> None:
    links = "".join(f"<li><a href='/{n}'>Chapter {n}</a></li>" for n in range(20))
    document = parse(page(f"<nav><ul>{links}</ul></nav>" * 3 + "<p>Hi.</p>"))
    assert document.text.count("Chapter 19") == 3 and document.text.endswith("Hi.")
    assert document.problems == ("the main content could not be told from the rest of the page; all of it was taken",)


@pytest.mark.parametrize("around", ["main", "article", "div id=content", "div class='post-content'", "section", "td"])
def test_content_is_found_in_any_element(around: str) -> None:
    name = around.split(maxsplit=1)[0]
    inner = f"<{around}><h1>Dams</h1><p>{WORDS * 6}</p><p>Short.</p></{name}>"
    inner = f"<table><tr>{inner}</tr></table>" if name == "td" else inner
    menu = "".join(f"<a href='/{n}'>Menu {n}</a> " for n in range(9))
    document = parse(page(f"<div class=top>{menu}</div>{inner}<div>{menu}</div>"))
    assert document.text == f"# Dams\n\n{(WORDS * 6).strip()}\n\nShort."


def test_bookmarks_are_kept_whole() -> None:
    document = parse(
        "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<TITLE>Bookmarks</TITLE><H1>Bookmarks</H1><DL><p><DT><H3>技术</H3><DL><p>"
        '<DT><A HREF="https://www.debian.org/">Debian</A><DD>描述<DT><A HREF="https://pypi.org/">PyPI</A></DL><p></DL><p>'
    )
    assert [piece(document, link.span) for link in document.links] == ["Debian", "PyPI"] and "描述" in document.text


@pytest.mark.parametrize(
    "body", ["", "<script>x</script>", "<p> &nbsp; </p>", "<img src=a.png>", "<div hidden>x</div>"]
)
def test_a_page_without_words_is_empty(body: str) -> None:
    with pytest.raises(EmptyDocument, match="holds no text"):
        parse(page(body))
    with pytest.raises(EmptyDocument):
        parse(b"")


def test_xhtml_closes_what_html_does_not() -> None:
    document = parse(
        '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/>'
        f'<script src="a"/></head><body><a id="top"/><div class="x"/><p>{WORDS}</p></body></html>'
    )
    assert document.text == WORDS.strip()


def test_nothing_outside_is_read() -> None:
    document = parse(
        '<!DOCTYPE html [<!ENTITY e SYSTEM "file:///etc/passwd"><!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
        f"<html><body><p>{WORDS}&e; &b;</p></body></html>"
    )
    assert "root:" not in document.text and WORDS.strip() in document.text


tags = st.sampled_from(
    "<p>|</p>|<div>|</div>|<table>|<tr>|<td>|<th>|</table>|<ul>|<li>|</ul>|<h1>|</h1>|<a href='#x'>|<a href='/y'>|</a>|"
    "<pre>|</pre>|<figure>|<figcaption>|</figure>|<sup>|2|<br>|text|文字|&amp;|&#0;|&#xD800;|<!--|-->|<![CDATA[|]]>|<x:y>|"
    "<dl>|<dt>|<dd>|<blockquote>|<img alt='a picture of it'>|<main>|<nav>|<title>|<caption>|<td colspan=99>|"
    "<td rowspan=9>|<li id=fn1 class=footnote>|<dl class=footnote>|<p id=x>|图1 |<script>|</script>|<base href='//['>|"
    "<a href='http://[x'>|<math>|\n| |\t|<header>|"
    "<aside>|<p class=caption>|<sup>2</sup>|<ol start=9>|<li value=3>|`|```|#|\\".split("|")
)


@given(st.lists(tags, max_size=60).map("".join))
def test_nothing_breaks_it(text: str) -> None:
    try:
        document = parse(text)
    except SourceError:
        return
    for span in (
        *(section.span for section in document.structure),
        *(block.span for block in document.blocks),
        *(block.about for block in document.blocks if block.about),
        *(link.span for link in document.links),
    ):
        assert 0 <= span.start < span.end <= len(document.text)
    for block in document.blocks:
        assert list(block.rows) == sorted(block.rows)
        assert all(document.text[row] == "|" and block.span.start <= row < block.span.end for row in block.rows)
    for section in document.structure:
        assert section.title in document.text[section.span.start :].partition("\n")[0]


@pytest.mark.parametrize(
    "text",
    [
        "<div>" * 50_000 + "x",
        "<table><tr><td>" * 10_000 + "x",
        "<ul><li>" * 20_000 + "x",
        "<blockquote>" * 20_000 + "x",
        "<p>x" * 50_000,
        "<a href='/x'>" * 20_000 + "x",
        "<td colspan=1000000 rowspan=1000000>x" * 2_000,
        "<table>" + "<tr><td rowspan=64 colspan=64>x" * 2_000,
        "<li id=a class=footnote>" * 10_000 + "x",
        "<figure><figcaption>图1 x" * 5_000,
        "<" * 200_000 + "x",
        "&amp" * 100_000,
        "x<br>" * 50_000,
        "<div class='" + "nav " * 50_000 + "'>x",
        "<title>" + "a | " * 20_000,
        "图1 " * 50_000,
        "<h1>" * 5_000 + "x",
        "<dl class=footnote><dt>" * 5_000 + "x",
    ],
    ids=range(18),
)
def test_hostile_pages_cost_little(text: str) -> None:
    started = time.process_time()
    with suppress(SourceError):
        parse(f"{text}<p>end</p>")
    # Two at most on a free core; a machine that is busy or slow gets several times that.
    assert time.process_time() - started < 15


def test_a_news_page_in_gb2312() -> None:
    """Headings, tables, captions, author and date, all there; checked against the page as a browser shows it."""
    data = (Path(__file__).parents[1] / "data" / "news-zh.html").read_bytes()
    news = HtmlParser().parse(Blob(uri="news-zh.html", data=data, mime="text/html"))
    numbers = range(1, 7)
    assert [section.title for section in news.structure] == ["层级切分方法", *(f"第{n}节 方法{n}" for n in numbers)]
    tables = [block for block in news.blocks if block.kind == "table"]
    assert [piece(news, table.span) for table in tables] == [f"| 模型 | 得分 |\n| 甲{n} | 0.{n} |" for n in numbers]
    captions = [block for block in news.blocks if block.kind == "caption"]
    assert [piece(news, caption.span) for caption in captions] == [f"图{n} 流程示意" for n in numbers]
    assert [piece(news, caption.about)[:4] for caption in captions] == [f"正文段{n}" for n in numbers]
    assert sum(block.kind == "code" for block in news.blocks) == 6
    assert (news.title, news.meta["author"], news.created, news.problems) == ("层级切分方法", "李雷", "2026-03-04", ())
    for lost in ("栏目", "推荐", "评论", "版权", "Cookie", "广告", "脚本"):
        assert lost not in news.text


def test_what_lies_deep_is_read_and_what_lies_deeper_is_not_lost_in_silence() -> None:
    deep = parse("<div>" * 1000 + f"<p>{WORDS}</p>" + "</div>" * 1000 + f"<p>{SENTENCE * 3}</p>")
    assert WORDS.strip() in deep.text and SENTENCE in deep.text
    with pytest.raises(SourceError, match="nested too deeply"):
        parse("<div>" * 3000 + f"<p>{WORDS}</p>" + "</div>" * 3000 + f"<p>{SENTENCE * 3}</p>")


def test_an_article_that_nobody_sees_is_not_the_content() -> None:
    page = parse(f"<template><article><p>{WORDS}</p></article></template><p>{SENTENCE * 3}</p>")
    assert SENTENCE in page.text and WORDS.strip() not in page.text


def test_soft_hyphens_and_accents_written_as_entities_are_what_is_seen() -> None:
    page = "<h1>Do&shy;nau</h1><p>Co&shy;oper&shy;ation in Zu&#776;rich of zero&#8203;width.</p>"
    document = HtmlParser().parse(Blob(uri="a.html", data=page.encode(), mime="text/html"))
    assert document.text == "# Donau\n\nCooperation in Zürich of zerowidth."


def test_notes_and_warnings_of_an_article_are_part_of_it() -> None:
    text = parse(
        page(
            f'<main><h1>Pump</h1><p>{SENTENCE * 3}</p><div class="alert alert-warning" role="alert">Hot surface.</div>'
            '<aside class="starlight-aside starlight-aside--tip"><p>Use gloves.</p></aside>'
            "<blockquote><p>Wise words.</p><footer>Ann Lee</footer></blockquote>"
            '<aside class="sidebar note"><p>Our shop</p></aside><aside><h3>More</h3><p>Other stories</p></aside></main>'
            '<div class="alert" role="alert">We are hiring</div><footer>Imprint</footer>'
        )
    ).text
    assert text.endswith("Hot surface.\n\nUse gloves.\n\n> Wise words.\n\n> Ann Lee")


def test_what_a_click_unfolds_is_read_with_the_question_that_opens_it() -> None:
    folded = parse(
        page(
            f"<main><h1>FAQ</h1><p>{SENTENCE * 3}</p>"
            '<h3><button aria-controls="a" id="q">Can I return it?</button></h3>'
            '<div id="a" role="region" aria-labelledby="q" hidden><p>Within 30 days.</p></div>'
            '<h3>Sizes <button>Copy</button></h3><div role="tabpanel" aria-hidden="true"><p>Small.</p></div>'
            '<div role="tabpanel" style="display:none"><p>Large.</p></div><p hidden>Secret</p></main>'
        )
    )
    assert [section.title for section in folded.structure] == ["FAQ", "Can I return it?", "Sizes"]
    assert "Within 30 days." in folded.text and folded.text.endswith("Small.\n\nLarge.")


def test_the_column_of_line_numbers_is_no_code() -> None:
    code = parse(
        page(
            "<main><table><tr><td><pre>9\n10\n11</pre></td><td><pre>a = 1\nb = 2\nc = 3</pre></td></tr></table>"
            "<pre>1\n2\n3</pre></main>"
        )
    )
    assert code.text == "```\na = 1\nb = 2\nc = 3\n```\n\n```\n1\n2\n3\n```"
