"""Small readings of text and markup that the preparation shares."""

import gzip
import html
import re
from pathlib import Path

Pair = tuple[str, str]
CJK = re.compile(r"[\u3400-\u9fff]")


def squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def has_cjk(text: str) -> bool:
    return CJK.search(text) is not None


def strip_tags(markup: str) -> str:
    markup = re.sub(r"(?is)<(script|style|pre|nav|footer|code\s+class)\b.*?</\1>", " ", markup)
    return squeeze(html.unescape(re.sub(r"(?s)<[^>]*>", " ", markup)).replace("¶", " "))


def is_prose(text: str) -> bool:
    letters = sum(c.isalpha() or c == " " for c in text)
    return letters > 0.86 * len(text) and text.count(". ") + text.count("。") >= 1


def read_text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "ignore")


def markup_files(package: Path) -> list[Path]:
    return sorted(p for p in package.rglob("*") if p.is_file() and re.search(r"\.(html?|page)(\.gz)?$", p.name))
