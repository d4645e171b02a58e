"""The head of a page -> what it says of itself: title, author, dates, description, address, language, site.

In order of trust: JSON-LD, the `meta` of articles and OpenGraph, other `meta`, marked elements of the body, and last
what a reader would see under the title.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from headwater.parsers._words import words_of

if TYPE_CHECKING:
    from lxml.etree import _Element as Element
else:
    Element = Any

_TITLES: Final = ("og:title", "twitter:title", "dc.title", "citation_title")
_AUTHORS: Final = ("author", "article:author", "dc.creator", "citation_author", "parsely-author", "byl")
_PUBLISHED: Final = (
    *("article:published_time", "og:published_time", "date", "pubdate", "publishdate", "publish_date", "dc.date"),
    *(
        "dc.date.issued",
        "citation_publication_date",
        "citation_date",
        "parsely-pub-date",
        "sailthru.date",
        "dcterms.date",
    ),
)
_MODIFIED: Final = ("article:modified_time", "og:updated_time", "last-modified", "dcterms.modified", "revised")
_DESCRIPTIONS: Final = ("description", "og:description", "twitter:description", "dc.description")
_SITES: Final = ("og:site_name", "application-name")
_ARTICLES: Final = re.compile(r"Article|Posting|Report|WebPage|Book|Recipe|HowTo|Question|Course|Product|CreativeWork")

# More than any page needs to say what it is; beyond it the page is a program.
_MAX_DATA_CHARS: Final = 500_000
_MAX_DATA_PARTS: Final = 500
_MAX_VALUE_CHARS: Final = 2000
_MAX_NAME_CHARS: Final = 100
# The line under a title is among the first of the page.
_NEAR_TITLE_CHARS: Final = 600

_DAY: Final = re.compile(r"(?<!\d)((?:19|20)\d\d)\s?[-/.年]\s?(\d{1,2})\s?[-/.月]\s?(\d{1,2})(?!\d)")
_BYLINE_CLASS: Final = re.compile(r"(?:^|[\s_-])(?:byline|author|writer|作者)(?:$|[\s_-]|-?name)", re.IGNORECASE)
_BYLINE: Final = re.compile(
    r"(?:作者|撰文|文|記者|记者|责任编辑)\s?[:：/／|丨]\s?([\w·.]{2,20}(?:[ 、][\w·.]{2,20}){0,2})"
)
_BY: Final = re.compile(r"^(?:by|von|par)\s+", re.IGNORECASE)
_TITLE_JOINT: Final = re.compile(r"\s+[-–—|·_»]\s+|\s*[|_]\s*|\s?[—–]{1,2}\s?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageMeta:
    """What is known; whatever is not said is empty."""

    title: str = ""
    title_line: str = ""  # as the browser shows it, with the name of the site
    authors: tuple[str, ...] = ()
    published: str = ""
    modified: str = ""
    description: str = ""
    canonical: str = ""
    language: str = ""
    site: str = ""
    tags: tuple[str, ...] = ()


def page_meta(page: Element, address: str = "") -> PageMeta:
    """Read the head of a whole page, before anything is taken out of it."""
    said = _said(page)
    data = list(_linked_data(page))
    article = next((part for part in data if _ARTICLES.search(_text(part.get("@type")))), {})
    heads = [words_of(heading) for heading in page.iter("h1")]
    whole = next((" ".join((element.text or "").split()) for element in page.iter("title")), "")
    site = _first(said, _SITES) or _text(article.get("publisher"))
    return PageMeta(
        title=_title(whole, site) or _text(article.get("headline")) or _first(said, _TITLES) or "".join(heads[:1]),
        title_line=whole,
        authors=_authors(page, said, article),
        published=iso(_text(article.get("datePublished")) or _first(said, _PUBLISHED))
        or _seen_date(page, "datePublished"),
        modified=iso(_text(article.get("dateModified")) or _first(said, _MODIFIED)) or _marked(page, "dateModified"),
        description=_first(said, _DESCRIPTIONS) or _text(article.get("description")),
        canonical=_canonical(page, said, address),
        language=_language(page, said),
        site=site,
        tags=tuple(dict.fromkeys(said.get("article:tag", ()))),
    )


def iso(said: str) -> str:
    """A date or a time as ISO 8601, or nothing where it cannot be told."""
    said = said.strip()[:64]
    if not said:
        return ""
    try:
        return datetime.fromisoformat(said).isoformat() if len(said) > 10 else date.fromisoformat(said).isoformat()
    except ValueError:
        pass
    if found := _DAY.search(said):
        try:
            return date(int(found[1]), int(found[2]), int(found[3])).isoformat()
        except ValueError:
            return ""
    try:
        return parsedate_to_datetime(said).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""


def _said(page: Element) -> dict[str, list[str]]:
    """Every `meta` by its name, in lower case."""
    said: dict[str, list[str]] = {}
    for element in page.iter("meta"):
        name = element.get("property") or element.get("name") or element.get("http-equiv") or element.get("itemprop")
        content = " ".join((element.get("content") or "")[:_MAX_VALUE_CHARS].split())
        if name and content:
            said.setdefault(name.strip().lower(), []).append(content)
    return said


def _first(said: dict[str, list[str]], names: tuple[str, ...]) -> str:
    return next((said[name][0] for name in names if name in said), "")


def _linked_data(page: Element) -> Iterator[dict[str, Any]]:
    """The objects of every JSON-LD script."""
    for script in page.iter("script"):
        if "ld+json" not in (script.get("type") or ""):
            continue
        try:
            waiting = [json.loads((script.text or "")[:_MAX_DATA_CHARS])]
        except (ValueError, RecursionError):
            continue
        seen = 0
        while waiting and seen < _MAX_DATA_PARTS:
            part = waiting.pop(0)
            seen += 1
            if isinstance(part, list):
                waiting += part[:_MAX_DATA_PARTS]
            elif isinstance(part, dict):
                yield part
                waiting += [part[name] for name in ("@graph", "mainEntity") if name in part]


def _text(value: Any) -> str:
    """What a value of JSON-LD says: itself, its first part or its name."""
    for _ in range(4):
        if isinstance(value, list):
            value = value[0] if value else ""
        elif isinstance(value, dict):
            value = value.get("name") or value.get("@value") or ""
    return " ".join(value[:_MAX_VALUE_CHARS].split()) if isinstance(value, str) else ""


def _title(whole: str, site: str) -> str:
    """The title without the name of the site, which stands behind it (or before it) on every page."""
    parts = _TITLE_JOINT.split(whole)
    if len(parts) > 1 and site and site.casefold() in (parts[0].casefold(), parts[-1].casefold()):
        kept = parts[1:] if parts[0].casefold() == site.casefold() else parts[:-1]
        return whole[whole.index(kept[0]) : whole.rindex(kept[-1]) + len(kept[-1])]
    return whole


def _authors(page: Element, said: dict[str, list[str]], article: dict[str, Any]) -> tuple[str, ...]:
    written = article.get("author")
    names = [_text(part) for part in (written if isinstance(written, list) else [written])]
    if not any(names):
        names = next((said[name] for name in _AUTHORS if name in said), [])
    if not any(names):
        names = [words_of(element) for element in page.iter("a") if element.get("rel") == "author"]
    if not any(names):
        marked = page.xpath("//*[@itemprop='author' or contains(@class,'author') or contains(@class,'byline')]")
        names = [words_of(e) for e in marked[:3] if e.get("itemprop") or _BYLINE_CLASS.search(e.get("class") or "")][:1]
        names = [_BY.sub("", _DAY.split(name)[0]).strip(" ,，|·") for name in names]
    if not any(names) and (found := _BYLINE.search(_near_title(page))):
        names = [found[1].strip()]
    # An address is no name.
    kept = (name for name in names if name and len(name) <= _MAX_NAME_CHARS and not name.startswith("http"))
    return tuple(dict.fromkeys(kept))


def _seen_date(page: Element, name: str) -> str:
    """A date marked as such, or the first that stands under the title."""
    if marked := _marked(page, name):
        return marked
    for element in page.iter("time"):
        if day := iso(element.get("datetime") or words_of(element)):
            return day
    found = _DAY.search(_near_title(page))
    return iso(found[0]) if found else ""


def _marked(page: Element, name: str) -> str:
    for element in page.xpath(f"//*[@itemprop='{name}']"):
        if day := iso(element.get("datetime") or element.get("content") or words_of(element)):
            return day
    return ""


def _near_title(page: Element) -> str:
    """What follows the only heading of the first level."""
    heads = list(page.iter("h1"))
    if len(heads) != 1:
        return ""
    texts: list[str] = []
    length = 0
    for element in heads[0].itersiblings():
        texts.append(words_of(element))
        length += len(texts[-1])
        if length > _NEAR_TITLE_CHARS:
            break
    return "\n".join(texts)[:_NEAR_TITLE_CHARS]


def _canonical(page: Element, said: dict[str, list[str]], address: str) -> str:
    for element in page.iter("link"):
        if "canonical" in (element.get("rel") or "").lower().split() and element.get("href"):
            return _absolute(element.get("href"), address)
    return _absolute(_first(said, ("og:url",)), address)


def _absolute(href: str, address: str) -> str:
    if not href:
        return ""
    try:
        whole = urljoin(address, href.strip()[:_MAX_VALUE_CHARS])
    except ValueError:
        return ""
    return whole if whole.startswith(("http://", "https://")) else ""


def _language(page: Element, said: dict[str, list[str]]) -> str:
    root = next(page.iter("html"), None)
    own = "" if root is None else root.get("lang") or root.get("xml:lang") or ""
    return (own or _first(said, ("content-language", "og:locale"))).strip().replace("_", "-")[:35]
