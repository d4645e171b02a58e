"""What a list (bookmarks, a feed) says of a page that cannot be had -> a small document in the page's place."""

from __future__ import annotations

from typing import Final

from headwater.types import Blob, Change

# In a document's meta: the list that names it, as a path or an address.
LISTED_IN: Final = "listed_in"
# In the meta of one whose page could not be had: why.
DEAD_LINK: Final = "dead_link"

_UNSEEN: Final = (b"script", b"style", b"noscript", b"template", b"svg", b"head")
# A page that a program fills in the browser says no more than "Loading" or "please enable JavaScript".
_FEWEST_BYTES: Final = 80
# One without a program says "App" or "Loading…" at least; a short sentence, also of six Chinese characters, is more.
_FEWEST_BYTES_STILL: Final = 16


def stand_in(change: Change, reason: str) -> Blob:
    """The document that what is known of a page makes."""
    labels = change.labels
    highlights = str(labels.meta.get("highlights", ""))
    # Its own address is not said: it is the uri, and would make every such document alike.
    lines = [f"# {labels.title or change.uri}", labels.description, highlights]
    if labels.tags:
        lines.append(", ".join(labels.tags))
    text = "\n\n".join(line for line in lines if line)
    meta = {LISTED_IN: labels.meta.get(LISTED_IN, ""), DEAD_LINK: reason}
    return Blob(uri=change.uri, data=text.encode("utf-8", "surrogatepass"), mime="text/markdown", meta=meta)


def says_nothing(blob: Blob) -> bool:
    """Whether a page is an empty frame that a program would fill. One without a program is short, not empty."""
    if blob.mime != "text/html":
        return False
    small = blob.data.lower()
    fewest = _FEWEST_BYTES if b"<script" in small else _FEWEST_BYTES_STILL
    return not _says_something(blob.data, small, fewest)


def _says_something(page: bytes, small: bytes, fewest: int) -> bool:
    """From tag to tag, each looked at once, until enough words were seen."""
    seen, place = 0, 0
    while place < len(page):
        tag = page.find(b"<", place)
        text = page[place:] if tag < 0 else page[place:tag]
        seen += len(b" ".join(text.replace(b"&nbsp;", b" ").split()))
        if seen >= fewest or tag < 0:
            break
        if small.startswith(b"<!--", tag):
            end = page.find(b"-->", tag)
        else:
            name = next((one for one in _UNSEEN if _opens(small, tag, one)), b"")
            closing = small.find(b"</" + name, tag) if name else tag
            end = page.find(b">", closing) if closing >= 0 else -1
        if end < 0:
            break
        place = end + 1
    return seen >= fewest


def _opens(page: bytes, tag: int, name: bytes) -> bool:
    end = tag + 1 + len(name)
    return page.startswith(name, tag + 1) and page[end : end + 1] in (b">", b" ", b"\n", b"\t", b"\r", b"/")
