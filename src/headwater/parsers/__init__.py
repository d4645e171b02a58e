"""Adapters from bytes to documents. Each file reads one family of formats.

The table says which, so that none of them is imported to be asked; a test compares it with what they say themselves.
"""

from collections.abc import Mapping
from typing import Final

# Written here and linear: they run where they are called and need no process of their own.
TRUSTED: Final = frozenset({"markdown", "text"})

READS: Final[Mapping[str, frozenset[str]]] = {
    "code": frozenset(
        {
            "application/x-ipynb+json",
            "text/css",
            "text/javascript",
            "text/x-c",
            "text/x-c++",
            "text/x-csharp",
            "text/x-go",
            "text/x-java",
            "text/x-kotlin",
            "text/x-lua",
            "text/x-perl",
            "text/x-php",
            "text/x-python",
            "text/x-r",
            "text/x-ruby",
            "text/x-rust",
            "text/x-scala",
            "text/x-shellscript",
            "text/x-sql",
            "text/x-swift",
            "text/x-typescript",
        }
    ),
    "epub": frozenset({"application/epub+zip"}),
    "html": frozenset({"application/xhtml+xml", "text/html"}),
    "image": frozenset(
        {"image/bmp", "image/gif", "image/jpeg", "image/png", "image/tiff", "image/webp", "image/x-ms-bmp"}
    ),
    "mail": frozenset({"application/mbox", "application/vnd.ms-outlook", "message/rfc822"}),
    "markdown": frozenset({"text/markdown", "text/x-markdown"}),
    "pdf": frozenset({"application/pdf"}),
    "sheet": frozenset(
        {
            "application/vnd.ms-excel",
            "application/vnd.ms-excel.sheet.binary.macroenabled.12",
            "application/vnd.ms-excel.sheet.macroenabled.12",
            "application/vnd.ms-excel.template",
            "application/vnd.oasis.opendocument.spreadsheet",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        }
    ),
    "slides": frozenset(
        {
            "application/vnd.oasis.opendocument.presentation",
            "application/vnd.ms-powerpoint",
            "application/vnd.ms-powerpoint.presentation.macroenabled.12",
            "application/vnd.openxmlformats-officedocument.presentationml.presentation",
            "application/vnd.openxmlformats-officedocument.presentationml.slideshow",
        }
    ),
    "table": frozenset(
        {
            "application/geo+json",
            "application/json",
            "application/jsonl",
            "application/ld+json",
            "application/x-jsonlines",
            "application/x-ndjson",
            "text/csv",
            "text/tab-separated-values",
        }
    ),
    "text": frozenset({"text/plain"}),
    "word": frozenset(
        {
            "application/msword",
            "application/rtf",
            "application/vnd.ms-word.document.macroenabled.12",
            "application/vnd.oasis.opendocument.text",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "text/rtf",
        }
    ),
}
