"""The body of a page -> the part that it was written for, without menus, advertising, comments and lists of links.

First whatever says what it is (`nav`, `class="sidebar"`) or looks like it (nothing but links) is taken out; then the
smallest element that still holds nearly all of the rest is chosen. Where too little would be left the whole body is
taken, and that is said.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.parsers._words import INLINE, is_unread

if TYPE_CHECKING:
    from lxml.etree import _Element as Element
else:
    Element = Any

# These stand around the content, except where they hold most of it.
_AROUND: Final = frozenset(("nav", "aside", "footer", "form", "menu"))
_ROLES: Final = frozenset(("navigation", "banner", "contentinfo", "search", "complementary", "alert", "dialog", "menu"))
_AROUND_NAMES: Final = re.compile(
    r"(?:^|[\s_-])(?:ads?|advert\w*|banner|breadcrumbs?|combx|comments?|cookies?|consent|copyright|disqus|foot|footer|"
    r"gdpr|global-?nav|header-?nav|login|masthead|menu|modal|nav|navbar|navigation|navheader|navfooter|newsletter|"
    r"outbrain|pager|pagination|popup|promo\w*|recommend\w*|related\w*|share|sharing|shoutbox|sidebar|sidenav|"
    r"site-?(?:header|footer|nav)|skip-?link|social|sponsor\w*|subscribe|taboola|tags|toc|toolbar|topbar|widget)"
    r"(?:$|[\s_-])|(?:侧边栏|导航|广告|相关推荐|评论)",
    re.IGNORECASE,
)
_MAIN_NAMES: Final = re.compile(
    r"(?:^|[\s_-])(?:article-?body|entry-?content|post-?content|article-?content)(?:$|[\s_-])"
)
# Notes and warnings beside the text of an article are part of it, whatever element they are in.
_CALLOUT_NAMES: Final = re.compile(
    r"(?:^|[\s_-])(?:admonition|alert|callout|caution|danger|footnotes?|hint|important|note|notice|tip|warning)"
    r"(?:$|[\s_-])",
    re.IGNORECASE,
)
_CALLOUT_ROLES: Final = frozenset(("note", "doc-footnote", "doc-notice", "doc-tip"))
_CONTENTS: Final = frozenset(("main", "article"))
# Elements that only hold others.
_HOLDERS: Final = frozenset(
    ("div", "section", "article", "main", "center", "table", "tbody", "tr", "td", "form", "span", "font")
)
# A part that holds so much of the page's words is its content, whatever it is called.
_MOST: Final = 0.5
# Text that is links to so large a part leads elsewhere.
_LINKED: Final = 0.6
_MIN_LINKS: Final = 4
# What the chosen element must hold of the words that are left; the rest is what a page puts around a text.
_NEARLY_ALL: Final = 0.85
# Less than this, and less than such a share of the page, is a mistake rather than the content.
_MIN_CHARS: Final = 200
_MIN_SHARE: Final = 0.25


class Main(NamedTuple):
    """The chosen element, and whether it is only the whole body for want of anything better."""

    element: Element
    doubtful: bool


class _Weight(NamedTuple):
    words: int  # characters that a reader sees
    linked: int  # of these inside of links
    links: int


def main_content(body: Element) -> Main:
    """Choose; what does not belong to the content is taken out of the tree."""
    from copy import deepcopy

    whole = deepcopy(body)
    weights = _weights(body)
    before = weights[body].words
    _prune(body, weights)
    weights = _weights(body)
    left = weights[body].words
    # Small pages lose nothing by being taken whole; a page of links is one on purpose.
    if left < _MIN_CHARS and left < _MIN_SHARE * before:
        return Main(whole, doubtful=True)
    named = _named(body, weights)
    chosen = body if named is None else named
    while (inner := _heavy_child(chosen, weights)) is not None:
        chosen = inner
    return Main(chosen, doubtful=False)


def _weights(body: Element) -> dict[Element, _Weight]:
    """For every element what stands in it."""
    from lxml import etree

    weights: dict[Element, _Weight] = {}
    sums: list[list[int]] = [[0, 0, 0]]
    inside_links = 0
    walk = etree.iterwalk(body, events=("start", "end"))
    for event, element in walk:
        if event == "start":
            sums.append([0, 0, 0])
            if is_unread(element):
                walk.skip_subtree()
                continue
            inside_links += element.tag == "a"
            _count(sums[-1], element.text, inside_links)
        else:
            words, linked, links = sums.pop()
            if not is_unread(element):
                inside_links -= element.tag == "a"
                links += element.tag == "a"
            weights[element] = _Weight(words, linked, links)
            sums[-1] = [sums[-1][0] + words, sums[-1][1] + linked, sums[-1][2] + links]
            _count(sums[-1], element.tail, inside_links)
    return weights


def _count(sums: list[int], text: str | None, inside_links: int) -> None:
    if text:
        length = len("".join(text.split()))
        sums[0] += length
        sums[1] += length if inside_links else 0


def _prune(body: Element, weights: dict[Element, _Weight]) -> None:
    """Take out what stands around the content."""
    most = _MOST * weights[body].words
    dropped: set[Element] = set()
    content: set[Element] = set()  # what the page itself calls its content, and all in it
    for element in list(body.iterdescendants()):
        above = element.getparent()
        if above in content or element.tag in _CONTENTS or element.get("role") == "main":
            content.add(element)
        if not isinstance(element.tag, str) or above in dropped:
            dropped.add(element)
            continue
        weight = weights.get(element)
        if weight is None or element.tag in INLINE or weight.words > most:
            continue
        around = _says_so(element) and not (element in content and _is_callout(element))
        if around or _is_links(element, weight):
            dropped.add(element)
            _remove(element)


def _says_so(element: Element) -> bool:
    if element.tag in _AROUND or element.get("role") in _ROLES:
        return True
    # The head of a page is a banner; the head of an article is its title.
    if element.tag == "header":
        return next(element.iter("h1"), None) is None
    if element.tag in ("p", "pre", "table", "tr", "td", "th", "li", "h1", "h2", "h3", "figure", "blockquote", "main"):
        return False
    names = f"{element.get('class') or ''} {element.get('id') or ''}"
    return bool(_AROUND_NAMES.search(names)) and not _MAIN_NAMES.search(names)


def _is_callout(element: Element) -> bool:
    """Whether it is a note or a warning to the text, or says whose words a quote is."""
    if element.tag == "footer":
        return bool(element.getparent().tag == "blockquote")
    if element.get("role") in _CALLOUT_ROLES:
        return True
    names = f"{element.get('class') or ''} {element.get('id') or ''}"
    return bool(_CALLOUT_NAMES.search(names)) and not _AROUND_NAMES.search(names)


def _is_links(element: Element, weight: _Weight) -> bool:
    """Lists and rows of links; a paragraph or a table with many links is still one."""
    if element.tag not in ("ul", "ol", "dl", "div", "section", "td", "tr"):
        return False
    return weight.links >= _MIN_LINKS and weight.linked > _LINKED * weight.words


def _remove(element: Element) -> None:
    """Without what follows it, which belongs to the element above."""
    above, before = element.getparent(), element.getprevious()
    if element.tail:
        if before is not None:
            before.tail = (before.tail or "") + element.tail
        else:
            above.text = (above.text or "") + element.tail
    above.remove(element)


def _named(body: Element, weights: dict[Element, _Weight]) -> Element | None:
    """What the page itself calls its content, where that is one element with a good part of the words."""
    least = max(_MIN_SHARE * weights[body].words, 1)
    for found in (
        [element for element in body.iter("main")] or body.xpath(".//*[@role='main']"),
        body.xpath(".//*[@itemprop='articleBody']"),
        [element for element in body.iter("article")],
    ):
        # What stands in a part that nobody sees has no weight.
        held = [element for element in found if element in weights and weights[element].words >= least]
        if len(held) == 1 and len(found) == 1:
            return held[0]
    return None


def _heavy_child(element: Element, weights: dict[Element, _Weight]) -> Element | None:
    """The child that holds nearly all, to be looked at next; none where the words are spread."""
    for child in element:
        heavy = weights[child].words >= max(1, _NEARLY_ALL * weights[element].words)
        if heavy and child.tag in _HOLDERS and not any(_is_content(other) for other in element if other is not child):
            return child
    return None


def _is_content(element: Element) -> bool:
    """Whether it holds something that no page has without a reason, however short it is."""
    return next(element.iter("h1", "h2", "h3", "table", "pre", "figure"), None) is not None
