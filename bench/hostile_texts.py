"""Nothing -> text of every kind that is made to harm whoever reads it: Markdown, HTML, JSON, tables, mail, programs."""

import base64
import codecs
import json
from collections.abc import Iterator

from hostile_kinds import LIMIT, Hostile, hostile

WORDS = "The gauge at the old bridge is read every morning.\n"
# Whatever is done with it in the end, it is done in time.
ANY = f"document|empty|{LIMIT}"
MANY = 30_000


def plain() -> Iterator[Hostile]:
    """Plain text that is none, or too much of something."""
    yield hostile(
        "torn-utf8.txt",
        "bytes that are no UTF-8",
        lambda: WORDS.encode() * 9 + b"\xff\xfe\xc0\x80\xed\xa0\x80\xf5",
        ANY,
    )
    yield hostile(
        "surrogates.txt",
        "halves of characters",
        lambda: (WORDS + "\ud800\udfff" * 999).encode("utf-8", "surrogatepass"),
        ANY,
    )
    yield hostile(
        "surrogates-16.txt",
        "the same in UTF-16",
        lambda: codecs.BOM_UTF16_LE + (WORDS + "\ud83d " * 99).encode("utf-16-le", "surrogatepass"),
        ANY,
    )
    yield hostile("odd-16.txt", "UTF-16 without its last byte", lambda: WORDS.encode("utf-16")[:-1], ANY)
    yield hostile(
        "torn-32.txt",
        "a mark of UTF-32 and noise",
        lambda: b"\xff\xfe\0\0" + bytes(range(255, 0, -1)) * 9,
        f"{ANY}|failed",
    )
    yield hostile("zeros.txt", "a megabyte of zeros", lambda: b"\0" * 1_000_000, "failed|empty")
    yield hostile(
        "zeros-between.txt", "zeros among words", lambda: WORDS.replace(" ", "\0").encode() * 99, f"{ANY}|failed"
    )
    yield hostile(
        "overrides.txt",
        "text that is shown backwards",
        (WORDS + "\u202egnp.exe\u202c\u2066" * MANY).encode,
        ANY,
    )
    yield hostile("unseen.txt", "characters that take no room", ("\u200b\u200d\ufeff\u2060" * MANY + WORDS).encode, ANY)
    yield hostile("marks.txt", "a letter under 200,000 accents", (WORDS + "e" + "\u0301" * 200_000).encode, ANY)
    yield hostile("one-word.txt", "a word of 1 MB", lambda: b"a" * 1_000_000, ANY)
    yield hostile("one-word-zh.txt", "a sentence of 2 MB", ("水位站" * 220_000).encode, ANY, heavy=True)
    yield hostile("line-ends.txt", "a million line ends", lambda: b"x" + b"\r\n" * 1_000_000 + b"y", ANY)
    yield hostile("dots.txt", "a million dots", lambda: b". " * 100_000 + WORDS.encode(), ANY)
    yield hostile("colours.log", "the colours of a terminal", lambda: b"\x1b[31m" * MANY + WORDS.encode(), ANY)
    for kind in "txt md html json jsonl csv tsv eml mbox py js ipynb rtf pdf docx xlsx pptx epub odt png".split():
        yield hostile(f"nothing.{kind}", "a file of no bytes", lambda: b"", "empty|failed")
    yield hostile("blanks.md", "a file of blanks", lambda: b" \n\t\n" * 9999, "empty|failed")


def markdown() -> Iterator[Hostile]:
    """Markdown that readers of it are known to choke on."""
    made = {
        "quotes": ">" * MANY + " x\n",
        "quotes-lines": "\n".join(">" * n + " x" for n in range(1, 700)),
        "lists": "\n".join("  " * n + "- x" for n in range(700)),
        "brackets": "[" * 150_000 + WORDS,
        "links": "[a](" * MANY + WORDS,
        "nested-links": "[" * MANY + "a" + "](x)" * MANY,
        "images": "![[" * MANY + WORDS,
        "wikilinks": "[[a|" * MANY + WORDS,
        "backticks": "`" * 200_001 + WORDS,
        "backticks-growing": " ".join("`" * n for n in range(1, 1000)),
        "emphasis": "*a **a " * MANY,
        "underscores": "_" * 100_000 + WORDS,
        "tables": "|" * 150_000 + "\n" + "|-" * 75_000 + "|\n" + "|" * 150_000,
        "table-columns": "|" + "a|" * 5_000 + "\n|" + "-|" * 5_000 + "\n" + ("|" + "b|" * 5_000 + "\n") * 20,
        "dashes": "|" + "-" * 500_000 + "\n|-|",
        "frontmatter-open": "---\n" + "key: [\n" * MANY,
        "frontmatter-bomb": "---\na: &a [x,x]\n"
        + "".join(
            f"{c}: &{c} [*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p}]\n"
            for p, c in zip("abcdefghijk", "bcdefghijkl", strict=True)
        )
        + "---\n"
        + WORDS,
        "frontmatter-deep": "---\na: " + "[" * 5_000 + "]" * 5_000 + "\n---\n" + WORDS,
        "frontmatter-tags": "---\ntags: [" + "a," * MANY + "]\n---\n" + WORDS,
        "comments": "<!--" * MANY + WORDS,
        "comments-obsidian": "%%" * 200_001 + WORDS,
        "headings": "".join(f"# {n}\n" for n in range(10_000)),
        "heading-long": "# " + "a" * 300_000,
        "heading-levels": "".join("#" * (n % 6 + 1) + f" {n}\n\nx\n" for n in range(4_000)),
        "fences": "```\n~~~\n" * 15_001 + WORDS,
        "fence-open": "````" + "`" * MANY + "\n" + WORDS * 9,
        "html": "<div " * MANY + WORDS,
        "autolinks": "<http://" * MANY + WORDS,
        "tags": "#a" * MANY + " #" + "b" * MANY,
        "callouts": "> [!note" * 20_000 + "\n" + "> [!x]- y\n" * 6_000,
        "block-ids": "".join(f"x ^b{n}\n\n" for n in range(6_000)),
        "setext": "a\n=\n" * 10_000,
        "blanks": "a" + " " * 1_000_000 + "b\n" + WORDS,
        "hidden": "# h\n%%x%%\ntext\n" * 5_000,
        "escapes": "\\[" * 150_000,
    }
    for name, text in made.items():
        yield hostile(f"md-{name}.md", f"Markdown: {name.replace('-', ' ')}", text.encode, ANY)


def pages() -> Iterator[Hostile]:
    """HTML."""
    head, foot = "<!doctype html><html><head><title>T</title></head><body><p>" + WORDS + "</p>", "</body></html>"
    made = {
        "divs": "<div>" * MANY + WORDS,
        "divs-300": "<div>" * 300 + WORDS + "</div>" * 300,
        "attributes": "<p " + " ".join(f"a{n}='x'" for n in range(MANY)) + f">{WORDS}</p>",
        "tables-deep": "<table><tr><td>" * 5000 + WORDS,
        "tables-deep-100": "<table><tr><td>" * 100 + WORDS + "</td></tr></table>" * 100,
        "spans": "<table><tr><td colspan=999999999 rowspan=999999999>a</td><td>b</td></tr><tr><td>c</td></tr></table>",
        "spans-many": "<table>" + "<tr><td colspan=1000 rowspan=1000>a</td></tr>" * 300 + "</table>",
        "cells": "<table>" + ("<tr>" + "<td>1" * 150 + "\n") * 150 + "</table>",
        "open": "<" * 150_000,
        "ends": "</p>" * MANY,
        "links": "<a href=x>" * 30_000,
        "bold": "<b><i>" * 30_000 + WORDS,
        "comments": "<!--" * MANY,
        "scripts": "<script>" * MANY + WORDS,
        "entities": "&amp;&#0;&#xD800;&#x110000;&nosuch;" * 20_000,
        "data": f"<img src='data:image/png;base64,{'A' * 3_000_000}'>",
        "lists": "<ul><li>" * 20_000 + WORDS,
        "headings": "<h1>a</h1>" * 30_000,
        "base": "<base href='file:///etc/'><a href='passwd'>x</a><iframe src='file:///etc/passwd'></iframe>"
        "<object data='/etc/passwd'></object>",
        "templates": "<template><svg><math><mtext><table>" * 5000,
        "refresh": "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>" * 999,
        "charset": "<meta charset='no-such-code'>" + WORDS,
    }
    for name, text in made.items():
        data = (head + text + foot).encode("utf-8", "surrogatepass")
        yield hostile(f"page-{name}.html", f"HTML: {name.replace('-', ' ')}", lambda data=data: data, f"{ANY}|deep")


def records() -> Iterator[Hostile]:
    """JSON and tables."""
    either = f"{ANY}|failed: .*(JSON|deep|nested|damaged|long)"
    made = {
        "deep.json": "[" * 1_000_000 + "]",
        "deep-objects.json": '{"a":' * MANY + "1" + "}" * MANY,
        "deep-900.json": '{"a":[' * 450 + '"x"' + "]}" * 450,
        "open.json": '{"a":' * 900,
        "digits.json": '{"a": ' + "9" * 300_000 + "}",
        "numbers.json": '[{"a": 1e400, "b": -1e400, "c": NaN, "d": Infinity, "e": 1e-999}]',
        "surrogate.json": '[{"a": "\\ud800", "b": "\\udc00x"}]',
        "zero.json": '[{"a": "\\u0000x", "\\u0000": "b"}]',
        "keys.json": json.dumps({f"k{n}": n for n in range(MANY)}),
        "keys-same.json": "{" + ",".join('"a": 1' for _ in range(MANY)) + "}",
        "rows-unlike.json": json.dumps([{f"k{n}": n} for n in range(10_000)]),
        "string.json": json.dumps("a " * 300_000),
        "lines.jsonl": '{"a": 1}\n{"a": \n' * 20_000,
        "deep.jsonl": '{"a": 1}\n' + "[" * MANY + "\n" + '{"a": 2}\n',
        "schema.json": '{"$ref": "#", "a": {"$ref": "file:///etc/passwd"}}',
    }
    for name, text in made.items():
        yield hostile(name, f"JSON: {name.partition('.')[0].replace('-', ' ')}", text.encode, either)
    tables = {
        "line.csv": b"a,b\n" + b"x" * 6_000_000,
        "columns.csv": b",".join(b"c%d" % n for n in range(MANY)) + b"\n" + b"1," * (MANY - 1) + b"1\n",
        "zeros.csv": b"a,b,c\n" + b"1,\0,3\n" * 999,
        "quote-open.csv": b'a,b,c\n1,"2,3\n' + b"4,5,6\n" * 50_000,
        "quotes.csv": b"a,b,c\n" + b'"' * 300_001 + b"\n1,2,3\n",
        "ragged.csv": b"\n".join(b"x," * n for n in range(1200)),
        "formulas.csv": b"a,b\n=cmd|'/c calc'!A1,@SUM(1)\n" * 99,
        "separators.csv": b";,\t|" * MANY,
        "returns.csv": b"a,b\r\r\r\n" * MANY,
        "torn.tsv": b"a\tb\n\xff\xfe\t\x81\n" * 999,
    }
    for name, data in tables.items():
        yield hostile(
            name,
            f"a table: {name.partition('.')[0].replace('-', ' ')}",
            lambda data=data: data,
            f"{either}|failed: .*(no parser|not text)",
        )
    yield hostile(
        "line-50.csv", "a table of one line of 50 MB", lambda: b"a,b\n" + b"x," * 25_000_000, either, heavy=True
    )


HEAD = "From: a@example.org\nTo: b@example.org\nDate: Mon, 3 Mar 2025 08:00:00 +0000\nSubject: S\nMIME-Version: 1.0\n"


def many_parts(count: int) -> str:
    """A mail of so many parts."""
    part = f"--x\nContent-Type: text/plain\n\n{WORDS}"
    return f'{HEAD}Content-Type: multipart/mixed; boundary="x"\n\n{part * count}--x--\n'


def nested_parts(depth: int) -> str:
    """A mail whose parts have parts."""
    made = HEAD
    for n in range(depth):
        made += f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n'
    return made + "Content-Type: text/plain\n\n" + WORDS + "".join(f"\n--b{n}--" for n in reversed(range(depth)))


def forwarded(depth: int) -> str:
    """A mail in a mail in a mail."""
    return (HEAD + "Content-Type: message/rfc822\n\n") * depth + HEAD + "\n" + WORDS


def attached(name: str, data: bytes) -> str:
    """A mail with a file."""
    told = f'Content-Disposition: attachment; filename="{name}"\nContent-Transfer-Encoding: base64\n\n'
    packed = base64.encodebytes(data).decode()
    return f'{HEAD}Content-Type: multipart/mixed; boundary="x"\n\n--x\n\n{WORDS}--x\n{told}{packed}--x--\n'


def mails() -> Iterator[Hostile]:
    """Mail."""
    made = {
        "parts": many_parts(10_000),
        "nested": nested_parts(3000),
        "nested-30": nested_parts(30),
        "forwarded": forwarded(500),
        "forwarded-10": forwarded(10),
        "header": HEAD + "X-Long: " + "a" * 5_000_000 + "\n\n" + WORDS,
        "headers": "Received: from x\n" * MANY + HEAD + "\n" + WORDS,
        "recipients": HEAD.replace("b@example.org", ", ".join(f'"N {n}" <n{n}@example.org>' for n in range(5000)))
        + "\n"
        + WORDS,
        "brackets": HEAD.replace("b@example.org", "<" * 20_000 + "(" * 20_000) + "\n" + WORDS,
        "encoded": HEAD.replace("Subject: S", "Subject: " + "=?utf-8?q?=E6=B0?=" * 5000) + "\n" + WORDS,
        "encoded-open": HEAD.replace("Subject: S", "Subject: " + "=?utf-8?q?" * 20_000) + "\n" + WORDS,
        "charset": HEAD + "Content-Type: text/plain; charset=no-such-code\n\n" + WORDS,
        "parameters": HEAD
        + "Content-Type: text/plain; "
        + "; ".join(f"p*{n}*=x" for n in range(3000))
        + "\n\n"
        + WORDS,
        "boundary": HEAD + 'Content-Type: multipart/mixed; boundary="' + "(.*)+" * 99 + '"\n\n' + WORDS,
        "no-boundary": HEAD + "Content-Type: multipart/mixed\n\n" + WORDS,
        "quoted-printable": HEAD + "Content-Transfer-Encoding: quoted-printable\n\n" + "=" * MANY + WORDS,
        "base64": HEAD + "Content-Transfer-Encoding: base64\n\n" + "!" * MANY,
        "uuencode": HEAD + "Content-Transfer-Encoding: x-uuencode\n\nbegin 644 /etc/passwd\n" + "M" * 999,
        "date": HEAD.replace("3 Mar 2025 08:00:00 +0000", "99 Foo 99999999999 99:99:99 +9999") + "\n" + WORDS,
        "traversal": attached("../../../../etc/cron.d/evil.txt", WORDS.encode()),
        "long-name": attached("n" * 5000 + ".txt", WORDS.encode()),
        "odd-name": attached("a\x01b\x7f|;$(id).txt", WORDS.encode()),
        "program": attached("tool.exe", b"MZ" + bytes(range(256)) * 9),
        "quotes": HEAD + "\n" + "\n".join(">" * n + " x" for n in range(1, 700)) + "\n" + WORDS,
        "html": HEAD + "Content-Type: text/html\n\n" + "<blockquote>" * 20_000 + WORDS,
    }
    for name, text in made.items():
        data = text.encode("utf-8", "surrogatepass")
        yield hostile(f"mail-{name}.eml", f"mail: {name.replace('-', ' ')}", lambda data=data: data, f"{ANY}|deep")
    box = ("From a@example.org Mon Mar  3 08:00:00 2025\n" + HEAD + "\n" + WORDS + "\n") * 12_000
    yield hostile("mails.mbox", "a mailbox of 12,000 mails", box.encode, f"document|{LIMIT}", heavy=True)


def programs() -> Iterator[Hostile]:
    """Source code, notebooks, RTF, and files under a wrong name."""
    cell = {"cell_type": "code", "source": "x = 1\n", "outputs": []}
    made = {
        "parens.py": "x = " + "(" * MANY + ")" * MANY,
        "blocks.py": "\n".join(" " * n + "if x:" for n in range(1000)),
        "blocks-90.py": "\n".join(" " * n + "def f():" for n in range(90)) + "\n" + " " * 90 + "pass",
        "plus.py": "x = " + "1+" * 50_000 + "1",
        "string.py": "x = '" + "a" * 300_000,
        "zero.py": "x = 1\n\0\ndef f(): pass\n",
        "functions.py": "def f(a):\n    return a\n\n" * 3_000,
        "coding.py": "# -*- coding: no-such-code -*-\ndef f(): pass\n",
        "braces.js": "{" * MANY + "}" * MANY,
        "braces-open.js": "function f() {" * 20_000,
        "comments.js": "/*" * MANY,
        "regex.js": "/" * MANY + "\n" + "x = /[/" * 20_000,
        "templates.js": "`${" * 50_000,
        "arrows.ts": "const f = (" * 20_000 + "=> {" * 20_000,
        "pointers.c": "int " + "*" * 50_000 + "f(" + "(" * 50_000,
        "blanks.java": "public class A" + " " * 200_000 + "\n" + "@A(" * 20_000,
        "generics.cpp": "template<" * 30_000 + "class A {};",
        "statements.sql": "select ((((" * 20_000 + ";" * 20_000,
        "heredoc.sh": "#!/bin/sh\n" + "cat <<EOF\n" * 20_000,
        "ends.rb": "def f\n" * 20_000 + "end\n" * 20_000,
        "cells.ipynb": json.dumps({"cells": [cell] * 20_000, "metadata": {}, "nbformat": 4}),
        "output.ipynb": json.dumps(
            {"cells": [{**cell, "outputs": [{"output_type": "stream", "text": ["x" * 5_000_000]}]}], "nbformat": 4}
        ),
        "deep.ipynb": '{"cells": ' + "[" * MANY + "]" * MANY + "}",
        "odd.ipynb": json.dumps(
            {"cells": [None, 1, {"source": {"a": 1}}, {"cell_type": [], "source": 3, "outputs": "x"}], "metadata": []}
        ),
        "groups.rtf": "{\\rtf1 " + "{" * 1_000_000,
        "bin.rtf": "{\\rtf1 \\bin999999999999 " + WORDS + "}",
        "unicode.rtf": "{\\rtf1 \\uc999999999 " + "\\u-99999 ?\\u55357 ?" * 5000 + WORDS + "}",
        "controls.rtf": "{\\rtf1 " + "\\" + "a" * 200_000 + " " + WORDS + "}",
    }
    for name, text in made.items():
        yield hostile(
            name,
            f"a program or a file like it: {name}",
            text.encode,
            f"{ANY}|deep|notebook|failed: .*(JSON|damaged|nested|not text)",
        )


def misnamed() -> Iterator[Hostile]:
    """Files that are not what their names say."""
    from hostile_office import deck, letter, said, shape, workbook
    from hostile_office import rows as sheet_rows
    from hostile_pdfs import one_page, png

    page = f"<!doctype html><html><body><p>{WORDS * 3}</p></body></html>"
    mail = HEAD + "\n" + WORDS
    yield hostile("page.pdf", "HTML called a PDF", page.encode, "document")
    yield hostile("slides.txt", "slides called text", lambda: deck(shape()), "document")
    yield hostile("letter.pdf", "a letter called a PDF", lambda: letter(said()), "document")
    yield hostile(
        "sheet.docx", "a workbook called a letter", lambda: workbook(sheet_rows("A1=name", "A2=Lin")), "document"
    )
    yield hostile("report.csv", "a PDF called a table", one_page, "document")
    yield hostile("mail.html", "a mail called a page", mail.encode, "document")
    yield hostile("picture.md", "a picture called Markdown", lambda: png(40, 40, 40), "empty|failed")
    yield hostile(
        "program.docx",
        "a program called a letter",
        lambda: b"MZ\x90\0\3\0\0\0" + bytes(range(256)) * 40,
        "failed: no parser",
    )
    yield hostile(
        "elf.pdf", "a program called a PDF", lambda: b"\x7fELF\2\1\1\0" + bytes(range(256)) * 40, "failed: no parser"
    )
    yield hostile(
        "noise.xlsx", "noise called a workbook", lambda: bytes((n * 7919 + n // 3) % 256 for n in range(9999)), "failed"
    )
