"""What the scanner has to know of a programming language: its strings and comments, and how it names things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_NAME: Final = r"[A-Za-z_$\u0080-\uffff][\w$]*"
_SLASHES: Final = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)"
_HASH: Final = r"(?<![\w$\"'\\{&])\#[^\n]*"
_DOUBLE: Final = r'"(?:[^"\\\n]|\\(?:.|\n))*"?'
_SINGLE: Final = r"'(?:[^'\\\n]|\\(?:.|\n))*'?"
_CHARACTER: Final = r"'(?:[^'\\\n]|\\[^\n]{1,8})'"
_BACKTICKS: Final = r"`(?:[^`\\]|\\(?:.|\n))*`?"
_TRIPLE: Final = r'"""(?:[^"\\]|\\(?:.|\n)|"(?!""))*(?:"""|\Z)'
_LINE_DOUBLE: Final = r'"(?:[^"\\]|\\(?:.|\n))*"'
_LINE_SINGLE: Final = r"'[^']*'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How to read one language: patterns, which are compiled when a file of it comes."""

    quiet: str
    types: str = r"(?!)(?P<name>)"
    functions: str | None = None
    methods: str | None = None  # inside a type, where they have no word in front
    plain_functions: bool = False  # `type name(parameters) {`
    directives: bool = False  # lines that begin with # are for the preprocessor
    blocks: str | None = None  # closed by `end`
    statements: str | None = None


def _compiled(*patterns: str) -> str:
    return "(?m)" + "|".join(patterns)


def _types(words: str) -> str:
    modifiers = r"(?:[a-z]+(?:\([^()\n]*\))?\s+)*?"
    return rf"(?:^|(?<=[;{{}}\s])){modifiers}\b(?:{words})\s+(?P<name>{_NAME}(?:(?:\.|::){_NAME})*)"


def _keyword(word: str, name: str = _NAME) -> str:
    return "(?m)" rf"^[ \t]*(?:[\w@]+(?:\([^()\n]*\))?[ \t]+)*?(?:{word})\s+(?P<name>{name})"


_C_LIKE: Final = _compiled(_SLASHES, r"^[ \t]*\#(?:[^\n\\]|\\(?:.|\n))*", _DOUBLE, _CHARACTER)
_JAVA_LIKE: Final = _compiled(_SLASHES, _TRIPLE, _DOUBLE, _CHARACTER)
# A slash that begins a regular expression comes after a sign that no value ends with. Nobody writes long ones, and in a
# program without line ends each slash would be followed to its end.
_EXPRESSION: Final = r"[ \t]*/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.){0,300}\]){1,1000}/[a-z]*"
_SCRIPT: Final = _compiled(
    _SLASHES, _DOUBLE, _SINGLE, _BACKTICKS, r"(?<=[=(,:;!&|?{}\n+])" + _EXPRESSION, r"(?<=return)" + _EXPRESSION
)
_ARROW: Final = r"[^=\n]{0,300}=>\s*$|\([^()]*(?:\([^()]*\)[^()]*)*\)[^=;{}]{0,200}=>\s*$"
_SCRIPT_FUNCTIONS: Final = (
    "(?m)"
    rf"^[ \t]*(?:(?:export|default|async|declare)\s+)*function\s*\*?\s*(?P<name>{_NAME})"
    rf"|^[ \t]*(?:export\s+)?(?:const|let|var)\s+(?P<variable>{_NAME})[^=\n]{{0,200}}=\s*(?:async\s*)?"
    rf"(?:function\b|{_ARROW})"
)
_SCRIPT_METHODS: Final = (
    "(?m)"
    r"^[ \t]*(?:(?:public|private|protected|static|async|get|set|readonly|override|abstract)\s+)*[*#]?"
    rf"(?P<name>{_NAME})\s*(?:<[^<>(){{}}]*>)?\s*\("
)
_RUBY: Final = _compiled(r"^=begin\b[\s\S]*?(?:^=end\b[^\n]*|\Z)", _HASH, _DOUBLE, _SINGLE)
_SHELL: Final = _compiled(r"(?<![\w$\"'\\{&])\#[^\n]*", r"\\.", _LINE_DOUBLE, _LINE_SINGLE, r"\$\{[^{}\n]*\}")
_SCRIPTED: Final = Language(
    quiet=_SCRIPT,
    types=_types("class|interface|enum|namespace|module"),
    functions=_SCRIPT_FUNCTIONS,
    methods=_SCRIPT_METHODS,
)

LANGUAGES: Final[dict[str, Language]] = {
    "text/javascript": _SCRIPTED,
    "text/x-typescript": _SCRIPTED,
    "text/x-java": Language(
        quiet=_JAVA_LIKE, types=_types("class|interface|enum|record|@interface"), plain_functions=True
    ),
    "text/x-c": Language(quiet=_C_LIKE, types=_types("struct|union|enum"), plain_functions=True, directives=True),
    "text/x-c++": Language(
        quiet=_C_LIKE,
        types=_types("class|struct|union|enum|namespace|enum class"),
        plain_functions=True,
        directives=True,
    ),
    "text/x-csharp": Language(
        quiet=_compiled(_SLASHES, r"^[ \t]*\#[^\n]*", r'\$?@\$?"(?:[^"]|"")*"?', _TRIPLE, _DOUBLE, _CHARACTER),
        types=_types("class|struct|interface|enum|record|namespace"),
        plain_functions=True,
        directives=True,
    ),
    "text/x-go": Language(
        quiet=_compiled(_SLASHES, _DOUBLE, _CHARACTER, r"`[^`]*`?"),
        types=("(?m)" rf"^[ \t]*type\s+(?P<name>{_NAME})(?:\[[^\]\n]*\])?\s+(?:struct|interface)"),
        functions=(
            "(?m)"
            rf"^[ \t]*func\s+(?:\(\s*(?:{_NAME}\s+)?\*?\s*(?P<owner>{_NAME})(?:\[[^\]\n]*\])?\s*\)\s*)?"
            rf"(?P<name>{_NAME})"
        ),
    ),
    "text/x-rust": Language(
        quiet=_compiled(_SLASHES, r'\bb?r(#*)"[\s\S]*?(?:"\1|\Z)', _LINE_DOUBLE, _CHARACTER),
        types=(
            "(?m)"
            rf"^[ \t]*(?:pub(?:\([^()]*\))?\s+)?(?:unsafe\s+)?(?:(?:struct|enum|union|trait|mod)\s+(?P<name>{_NAME})"
            rf"|impl\b(?:\s*<[^{{}}\n]*?>)?\s+(?:[^{{}}\n]*?\bfor\s+)?&?(?P<target>{_NAME}))"
        ),
        functions=_keyword("fn"),
    ),
    "text/x-kotlin": Language(
        quiet=_JAVA_LIKE,
        types=("(?m)" rf"^[ \t]*(?:[a-z@][\w]*\s+)*?(?:class|interface|object)\s+(?P<name>{_NAME})"),
        functions=_keyword("fun", rf"(?:<[^<>\n]*>\s*)?(?:{_NAME}(?:<[^<>\n]*>)?\.)?{_NAME}"),
    ),
    "text/x-swift": Language(
        quiet=_compiled(_SLASHES, _TRIPLE, _DOUBLE),
        types=_keyword("class|struct|enum|protocol|extension|actor", rf"{_NAME}(?:\.{_NAME})*"),
        functions=(
            "(?m)"
            rf"^[ \t]*(?:@?\w+(?:\([^()\n]*\))?[ \t]+)*?"
            rf"(?:func\s+(?P<name>{_NAME})|(?P<variable>init|deinit|subscript))\b[?!]?"
        ),
    ),
    "text/x-php": Language(
        quiet=_compiled(_SLASHES, r"\#(?!\[)[^\n]*", _LINE_DOUBLE, r"'(?:[^'\\]|\\(?:.|\n))*'?"),
        types=_types("class|interface|trait|enum"),
        functions=_keyword(r"function\s*&?", _NAME),
    ),
    "text/x-scala": Language(quiet=_JAVA_LIKE, types=_types("class|object|trait|enum"), functions=_keyword("def")),
    "text/x-shellscript": Language(
        quiet=_SHELL,
        functions=(
            "(?m)" r"^[ \t]*(?:function\s+(?P<name>[\w:.-]+)(?:\s*\(\s*\))?|(?P<variable>[\w:.-]+)\s*\(\s*\))\s*$"
        ),
    ),
    "text/x-perl": Language(
        quiet=_compiled(r"^=\w+[\s\S]*?(?:^=cut\b[^\n]*|\Z)", _HASH, _DOUBLE, _SINGLE),
        functions=_keyword("sub"),
    ),
    "text/x-r": Language(
        quiet=_compiled(_HASH, _LINE_DOUBLE, r"'(?:[^'\\]|\\(?:.|\n))*'"),
        functions=("(?m)" r"^[ \t]*(?P<name>[\w.]+)\s*(?:<-|=)\s*function\b"),
    ),
    "text/x-ruby": Language(
        quiet=_RUBY,
        blocks=(r"[ \t]*(?:private\s+|public\s+|protected\s+)?(?P<kind>def|class|module)\s+(?P<name>[\w.:]+[?!=]?)"),
    ),
    "text/x-lua": Language(
        quiet=_compiled(r"--\[\[[\s\S]*?(?:\]\]|\Z)", r"--[^\n]*", _DOUBLE, _SINGLE),
        blocks=(r"[ \t]*(?:local\s+)?(?P<kind>function)\s+(?P<name>[\w.:]+)"),
    ),
    "text/x-sql": Language(
        quiet=_compiled(r"--[^\n]*", r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)", r"'(?:[^']|'')*'"),
        statements=(
            "(?mi)"
            r"^[ \t]*CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|UNIQUE|MATERIALIZED|"
            r"EXTERNAL|VIRTUAL|DEFINER\s*=\s*\S+)\s+)*(?P<kind>TABLE|VIEW|FUNCTION|PROCEDURE|TRIGGER|INDEX|TYPE|SCHEMA|SEQUENCE|"
            r"PACKAGE(?:\s+BODY)?|EVENT|DATABASE)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[^\s(;]+)"
        ),
    ),
    # Rules for the looks of a page have no names of their own.
    "text/css": Language(quiet=_compiled(r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)")),
}
