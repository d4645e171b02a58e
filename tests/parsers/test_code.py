"""Source code: functions and classes as sections, each block with its first line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.chunkers.recursive import RecursiveChunker
from headwater.errors import EmptyDocument, SourceError
from headwater.kinds import CODE_SUFFIXES
from headwater.parsers.code import CodeParser
from headwater.types import Blob, Document

Sound = Callable[[Document], Document]
PYTHON = "text/x-python"
NOTEBOOK = "application/x-ipynb+json"


def parse(text: str | bytes, mime: str = PYTHON, uri: str = "src/area.py") -> Document:
    data = text.encode() if isinstance(text, str) else text
    return CodeParser().parse(Blob(uri=uri, data=data, mime=mime, modified="2025-01-02T03:04:05+00:00"))


def paths(document: Document) -> list[str]:
    return [section.path for section in document.structure]


def words(document: Document, path: str) -> str:
    section = next(section for section in document.structure if section.path == path)
    return document.text[section.span.start : section.span.end]


PROGRAM = '''"""Areas of things. 面积计算。

More about it.
"""

import math

LIMIT = 3


# 圆 circle
@cached(size=3)
class Circle(Shape):
    """A circle."""

    radius: float = 1.0

    def __init__(
        self,
        radius: float,
    ) -> None:
        self.radius = radius

    @property
    async def area(self) -> float:
        def inner():
            return 1
        return math.pi * self.radius ** 2

    class Meta:
        def name(self): return "x"


def top(x: dict[str, int] = {"a": 1}) -> int:
    return x["a"]

print(top())
'''


def test_python(sound: Sound) -> None:
    document = sound(parse(PROGRAM))
    assert document.text == PROGRAM
    assert (document.title, document.description) == ("area.py", "Areas of things. 面积计算。")
    assert paths(document) == [
        "Circle",
        "Circle > __init__",
        "Circle > area",
        "Circle > Meta",
        "Circle > Meta > name",
        "top",
    ]
    assert words(document, "Circle").startswith("# 圆 circle\n@cached(size=3)\nclass Circle(Shape):")
    assert words(document, "Circle > area").startswith("    @property\n    async def area")
    assert words(document, "Circle > area").endswith("self.radius ** 2\n")
    assert words(document, "top") == 'def top(x: dict[str, int] = {"a": 1}) -> int:\n    return x["a"]\n'
    headers = [block.header for block in document.blocks]
    assert headers == [
        "",
        "class Circle(Shape)",
        "def __init__( self, radius: float, ) -> None",
        "async def area(self) -> float",
        "class Meta",
        "def name(self)",
        'def top(x: dict[str, int] = {"a": 1}) -> int',
        "",
    ]
    assert all(block.kind == "code" for block in document.blocks)
    assert document.coverage == {"functions": 4, "classes": 2}
    assert document.content_type == "code"


def test_every_line_is_in_a_block(sound: Sound) -> None:
    document = sound(parse(PROGRAM))
    covered = "".join(document.text[block.span.start : block.span.end] + "\n" for block in document.blocks)
    assert [line for line in covered.splitlines() if line.strip()] == [
        line for line in PROGRAM.splitlines() if line.strip()
    ]


@pytest.mark.parametrize("fault", ["print 'old'\n", "def half(:\n    pass\n", "\tx = 1\n  y = 2\n"])
def test_python_that_does_not_compile_is_read_by_indentation(sound: Sound, fault: str) -> None:
    document = sound(parse(PROGRAM + fault))
    assert [path for path in paths(document) if "half" not in path] == [
        "Circle",
        "Circle > __init__",
        "Circle > area",
        "Circle > Meta",
        "Circle > Meta > name",
        "top",
    ]
    assert any("does not compile" in problem for problem in document.problems)


LANGUAGES = {
    "text/javascript": (
        """import x from "y"
const a = 1
// 注释 {
function plain(a, {b, c}) {
  if (a) { return "}" }
}
export default function App({ children }) { return 1 }
export const arrow = async (x, y) => {
  return x
}
const short = x => {
  return `a ${x} }`
}
class Foo extends Bar {
  constructor(a) { super(a) }
  async run(x) {
    for (const y of x) { z(() => { y }) }
  }
  #secret() {
    return /[{]/.test("x")
  }
}
describe("x", () => { it("y", function () { }) })
""",
        ["plain", "App", "arrow", "short", "Foo", "Foo > constructor", "Foo > run", "Foo > secret"],
    ),
    "text/x-typescript": (
        """export interface Shape { area(): number }
export abstract class Circle<T> implements Shape {
  public area(): number {
    return 3
  }
  map<U>(f: (x: T) => U): U[] {
    return []
  }
}
export const useThing = (a: string): number => {
  return 1
}
""",
        ["Shape", "Circle", "Circle > area", "Circle > map", "useThing"],
    ),
    "text/x-java": (
        """package a.b;
/** 文档 { 注释 */
@Service("x")
public class Foo<T extends Bar> extends Other implements I {
    private int[] a = {1, 2};
    public Foo(int a) { this.a = null; }

    @Override
    public List<String> run(final String x, int y) throws IOException {
        if (x == null) { return null; }
        list.forEach(z -> { System.out.println(z); });
        return new ArrayList<>() { };
    }
    interface Inner { void g(); }
}
""",
        ["Foo", "Foo > Foo", "Foo > run", "Foo > Inner"],
    ),
    "text/x-c": (
        """#include <stdio.h>
#define X(a) { a
struct point { int x; };
static struct point origin = { 0 };
/* sum } */
static int
add(int a, int b)
{
    while (a) { a--; }
    return '{';
}
struct point *make(int x) {
    return 0;
}
""",
        ["point", "add", "make"],
    ),
    "text/x-c++": (
        """namespace hw {
class Foo : public Bar {
public:
  Foo(int a) : a_(a), b_(a) {}
  int get() const noexcept override { return a_; }
};
template <typename T>
T Foo::max(T a, T b) { return a > b ? a : b; }
}
hw::Foo::~Foo() { auto f = [](int a) { return a; }; }
""",
        ["hw", "hw > Foo", "hw > Foo > Foo", "hw > Foo > get", "hw > Foo > max", "hw > Foo > ~Foo"],
    ),
    "text/x-csharp": (
        """using System;
namespace A.B {
  [Serializable]
  public class Foo : Bar {
    public int X { get; set; }
    [HttpGet("x")]
    public async Task<int> RunAsync(int a) {
      using (var x = new Y()) { }
      return 1;
    }
  }
}
""",
        ["A.B", "A.B > Foo", "A.B > Foo > RunAsync"],
    ),
    "text/x-go": (
        """package main

type Server struct {
	x int
}

// Handle 处理
func (s *Server) Handle(w http.ResponseWriter, r *http.Request) error {
	for i := 0; i < 3; i++ {
		fmt.Println("{")
	}
	return nil
}

func main() {
	go func() { }()
}
""",
        ["Server", "Server > Handle", "main"],
    ),
    "text/x-rust": (
        """#[derive(Debug)]
pub struct Point<'a> { x: &'a str }
impl<'a> Point<'a> {
    /// doc
    pub fn new(x: &'a str) -> Self { Point { x } }
    async fn go<T: Into<String>>(&self, t: T) -> Result<(), String> where T: Clone {
        match t { _ => {} }
        let c = '{';
        Ok(())
    }
}
impl fmt::Display for Point<'_> {
    fn fmt(&self, f: &mut Formatter) -> Result { Ok(()) }
}
fn main() { println!("{}", r#"}"#); }
""",
        ["Point", "Point", "Point > new", "Point > go", "Point", "Point > fmt", "main"],
    ),
    "text/x-kotlin": (
        """package a
data class User(val name: String, val age: Int = 3) {
    fun greet(): String { return "hi ${name}" }
}
fun String.shout(): String {
    return this
}
""",
        ["User", "User > greet", "String.shout"],
    ),
    "text/x-swift": (
        """import UIKit
class View: UIView {
    init(frame: CGRect) { super.init(frame: frame) }
    override func draw(_ rect: CGRect) {
        if let x = y { print("}") }
    }
}
func top(a: Int) -> Int { return a }
""",
        ["View", "View > init", "View > draw", "top"],
    ),
    "text/x-php": (
        """<?php
# comment {
class Foo extends Bar {
    public function run(array $x): ?string { if ($x) { return "a}"; } return null; }
}
function top($a) { return function() { }; }
""",
        ["Foo", "Foo > run", "top"],
    ),
    "text/x-ruby": (
        """module App
  # 类
  class Foo < Bar
    def run(x)
      x.each do |y|
        puts "end"
      end
    end

    def self.make?
    end
  end
end
""",
        ["App", "App > Foo", "App > Foo > run", "App > Foo > self.make?"],
    ),
    "text/x-shellscript": (
        """#!/bin/bash
# setup {
log() {
  echo "${1} }"
}
function build {
  for f in *.c; do { gcc $f; }; done
}
log x
""",
        ["log", "build"],
    ),
    "text/x-sql": (
        """-- users
CREATE TABLE IF NOT EXISTS `users` (
  id INT, -- the ; id
  name VARCHAR(10) DEFAULT 'a;b'
);
insert into users values (1);
create or replace function f(a int) returns int as $$
begin
  return 1;
end; $$ language plpgsql;
""",
        ["users", "f"],
    ),
    "text/x-lua": ("local M = {}\nfunction M.run(a)\n  if a then\n    return 1\n  end\nend\n", ["M.run"]),
    "text/x-perl": ("package A;\nsub run { my ($x) = @_; return $x; }\n", ["run"]),
    "text/x-r": ("f <- function(x) {\n  x # }\n}\n", ["f"]),
    "text/x-scala": ("object Main {\n  def run(x: Int): Int = { x }\n}\n", ["Main", "Main > run"]),
    "text/css": ("a { color: red }\n", []),
}


@pytest.mark.parametrize("mime", LANGUAGES)
def test_languages(sound: Sound, mime: str) -> None:
    text, expected = LANGUAGES[mime]
    document = sound(parse(text, mime, "src/x"))
    assert document.text == text
    assert paths(document) == expected
    for section in document.structure:
        inside = document.text[section.span.start : section.span.end]
        assert inside.endswith("\n")
        # What opens inside closes inside, but for braces in strings and comments.
        if mime in ("text/x-java", "text/x-csharp", "text/x-go", "text/x-kotlin"):
            bare = inside.replace('"{"', "").replace("文档 {", "").replace("${name}", "")
            assert bare.count("{") == bare.count("}")


def test_comments_and_attributes_belong_to_what_follows(sound: Sound) -> None:
    java = sound(parse(LANGUAGES["text/x-java"][0], "text/x-java"))
    assert words(java, "Foo").startswith('/** 文档 { 注释 */\n@Service("x")\npublic class Foo')
    assert "@Override" in words(java, "Foo > run").splitlines()[0]
    go = sound(parse(LANGUAGES["text/x-go"][0], "text/x-go"))
    assert words(go, "Server > Handle").startswith("// Handle 处理\nfunc (s *Server)")
    sql = sound(parse(LANGUAGES["text/x-sql"][0], "text/x-sql"))
    assert words(sql, "users").endswith("'a;b'\n);\n")
    assert words(sql, "f").endswith("language plpgsql;\n")


def test_every_kind_of_program_has_a_parser() -> None:
    assert set(CODE_SUFFIXES.values()) <= CodeParser.mimes


@pytest.mark.parametrize("mime", [mime for mime in LANGUAGES if mime != "text/css"])
def test_half_a_file_is_read(sound: Sound, mime: str) -> None:
    text = LANGUAGES[mime][0]
    for cut in range(1, len(text), 7):
        if text[:cut].strip():
            sound(parse(text[:cut], mime))


def test_one_long_line_and_many_braces_take_no_time(sound: Sound) -> None:
    minified = "function a(){return{b:function(){}}}" * 3_000
    assert len(sound_of(minified, "text/javascript").structure) <= 1
    sound_of("{" * 50_000, "text/x-c")
    sound_of("int f() {\n" * 5_000, "text/x-c")


def sound_of(text: str, mime: str) -> Document:
    document = parse(text, mime)
    assert all(0 <= block.span.start < block.span.end <= len(text) for block in document.blocks)
    return document


@given(st.sampled_from(sorted(LANGUAGES)), st.text(alphabet="{}();\"'`/*#\n \\abfnclas=>:[]<", max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_parts_that_nest(mime: str, text: str) -> None:
    try:
        document = parse(text, mime)
    except EmptyDocument:
        return
    assert document.text == text
    open_ones: list[Any] = []
    for section in document.structure:
        while open_ones and open_ones[-1].end <= section.span.start:
            open_ones.pop()
        assert not open_ones or section.span.end <= open_ones[-1].end
        open_ones.append(section.span)
    for chunk in RecursiveChunker(size=20, overlap=2).chunk(document):
        assert text[chunk.span.start : chunk.span.end] == chunk.text


def test_a_notebook(sound: Sound) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# 水位分析\n", "\n", "Text of it.\n", "```\n", "# no heading\n", "```"]},
        {
            "cell_type": "code",
            "source": "import math\nprint(math.pi)",
            "outputs": [
                {"output_type": "stream", "text": ["3.14159\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "42", "text/html": "<b>42</b>"}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no"},
            ],
        },
        {"cell_type": "markdown", "source": "## Next\n\nMore."},
        {
            "cell_type": "code",
            "source": "print('x' * 9000)",
            "outputs": [{"output_type": "stream", "text": "x" * 9000}],
        },
        {"cell_type": "code", "source": "", "outputs": []},
    ]
    document = sound(parse(json.dumps({"nbformat": 4, "cells": cells}), NOTEBOOK, "a.ipynb"))
    assert document.title == "水位分析"
    assert paths(document) == ["水位分析", "水位分析 > Next"]
    shown = [document.text[block.span.start : block.span.end] for block in document.blocks]
    assert shown[:4] == ["import math\nprint(math.pi)", "3.14159", "42", "ValueError: no"]
    assert len(shown[5]) == 2000
    assert document.coverage == {"text_cells": 2, "code_cells": 2}
    assert document.problems == ("1 outputs are long and only their beginning is in the text",)


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3}', "[" * 100_000])
def test_what_is_no_notebook_says_so(text: str) -> None:
    with pytest.raises(SourceError, match="no Jupyter notebook"):
        parse(text, NOTEBOOK)


def test_encodings_and_what_holds_nothing(data: Path) -> None:
    source = "# 计算圆的面积\ndef area(r):\n    return 3.14 * r * r\n"
    assert parse(source.encode("gbk")).text == source
    with pytest.raises(EmptyDocument):
        parse("\n\n")
    with pytest.raises(SourceError, match="not text"):
        parse((data / "manual.docx").read_bytes())
