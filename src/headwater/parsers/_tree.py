"""The bytes or the text of HTML -> its elements. Nothing outside of it is ever read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from headwater.documents import Blob
from headwater.errors import EmptyDocument, SourceError
from headwater.parsers._decode import Decoded, decode

if TYPE_CHECKING:
    from lxml.etree import _Element as Element
else:
    Element = Any

_CHARSET: Final = re.compile(
    rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w:.-]{2,40})|<\?xml[^>]{0,200}?encoding=[\"']([\w:.-]{2,40})",
    re.IGNORECASE,
)
_HEAD_BYTES: Final = 4096
# In XHTML any element may close itself; HTML would take all that follows for its content.
_CLOSED: Final = re.compile(
    r"<(title|a|div|p|span|script|style|i|b|em|strong|td|th|li|ul|ol|section|iframe|textarea)(\s[^<>]*)?/>",
    re.IGNORECASE,
)


def decode_page(blob: Blob) -> Decoded:
    """The text of a page; what its server or its head says of its encoding is believed where it can be true."""
    said = str(blob.meta.get("charset", ""))
    if not said and (found := _CHARSET.search(blob.data[:_HEAD_BYTES])):
        said = (found[1] or found[2]).decode("ascii")
    return decode(blob.data, blob.uri, declared=said)


def tree(text: str, uri: str) -> Element:
    """The elements of a page or of a piece of one. Nothing outside it is ever read."""
    from lxml import etree

    # Without huge trees it stops, without a word, at what lies 256 deep; with them at 2,048, or at its other limits.
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True)
    try:
        page = etree.fromstring(_CLOSED.sub(r"<\1\2></\1>", text).encode("utf-8", "replace"), parser)
    except (etree.LxmlError, ValueError, AssertionError) as error:
        raise SourceError(f"{uri} cannot be read as HTML: {error}; save it anew from a browser") from error
    if any(entry.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for entry in parser.error_log):
        raise SourceError(f"{uri} is nested too deeply to be read, or endless; save it anew from a browser")
    if page is None:
        raise EmptyDocument(f"{uri} holds no text: nothing in it is HTML or words")
    return page
