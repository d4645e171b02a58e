"""The parts of a mail -> its words and its files: headers decoded, bodies chosen, quoted text found.

Whatever a mail program wrote wrong (raw bytes in headers, words cut in two, charsets that do not exist) is read as far
as it goes; nothing here fails for it.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from email.header import decode_header
from email.message import Message
from email.utils import collapse_rfc2231_value, getaddresses, parsedate_to_datetime
from typing import Final, NamedTuple

from headwater.documents import Span
from headwater.errors import SourceError
from headwater.parsers._decode import Decoded, decode

_MAX_HEADER_CHARS: Final = 20_000
# A mail to more people is a circular; nobody looks for it by its last receivers.
_MAX_ADDRESSES: Final = 100
_MAX_NAME_CHARS: Final = 150
_BLANKS: Final = re.compile(r"\s+")
_NOT_IN_NAMES: Final = re.compile(r"[\x00-\x1f\x7f/\\]+")

_ATTRIBUTION: Final = re.compile(
    r"^(?:(?:On|Am|Le|El)\b.{5,200}(?:wrote|schrieb|écrit|escribió)\s?:|.{0,120}(?:写道|寫道)\s?[:：])[ \t]*$",
    re.MULTILINE,
)
_ORIGINAL: Final = re.compile(
    r"^[ \t]*(?:-{2,}\s?(?:Original Message|Forwarded message|Original Appointment|原始邮件|原始郵件|转发邮件|轉寄郵件|"
    r"邮件原件|回复的原邮件|转发的邮件)\s?-{2,}|_{20,}[ \t]*$(?=\n+(?:From|发件人|寄件者)\s?[:：])|"
    r"(?:From|发件人|寄件者)\s?[:：].{1,200}\n(?:.{0,200}\n){0,2}?(?:Sent|Date|发送时间|日期|寄件日期|时间)\s?[:：])",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"^[ \t]*[>＞]")
_SIGNATURE: Final = re.compile(
    r"^(?:--[ \t]*|(?:发自我的|發自我的|Sent from my|Get Outlook for|来自).{2,60})$", re.MULTILINE
)


class Part(NamedTuple):
    """A file inside a mail: its name, where it has one, and what it says it is."""

    message: Message
    name: str
    mime: str


def header(message: Message, name: str) -> str:
    """A header in one line of text, or nothing."""
    return next((_decoded(said) for said in _raw(message, name)), "")


def addresses(message: Message, name: str) -> tuple[str, ...]:
    """People as `Name <address>`, each once."""
    # Addresses are told apart before names are decoded: a decoded name may hold a comma.
    try:
        found = getaddresses(_raw(message, name))[:_MAX_ADDRESSES]
    except RecursionError:  # comments in comments without end
        found = []
    people = []
    for spoken, written in found:
        named = _decoded(spoken).strip("\"' ")
        # Some programs encode the whole of `Name <address>`.
        address = _decoded(written) if written.startswith("=?") else written
        people.append(f"{named} <{address}>" if named and address and named != address else address or named)
    return tuple(dict.fromkeys(person for person in people if person)) or tuple(filter(None, [header(message, name)]))


def _raw(message: Message, name: str) -> list[str]:
    """A header as it stands in the mail, bytes that are no ASCII kept as surrogates."""
    return [str(said)[:_MAX_HEADER_CHARS] for key, said in message.raw_items() if key.lower() == name.lower()]


def sent(message: Message) -> str:
    """When it was sent, as ISO 8601."""
    try:
        return parsedate_to_datetime(header(message, "Date")).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""


def words(part: Message, uri: str) -> Decoded:
    """The text of a part; of what is no text nothing, with the reason."""
    data = part.get_payload(decode=True)
    charset = part.get_content_charset() or ""
    try:
        decoded = decode(data if isinstance(data, bytes) else b"", uri, declared=charset)
    except SourceError as error:
        return Decoded("", charset, (f"a part of the mail was left out: {error}",))
    if part.get_content_type() == "text/plain" and str(part.get_param("format", "")).lower() == "flowed":
        return Decoded(_unflowed(decoded.text, str(part.get_param("delsp", ""))), decoded.encoding, decoded.problems)
    return decoded


def file_name(part: Message) -> str:
    """The name of a file inside a mail, without any path."""
    said = part.get_filename("") or collapse_rfc2231_value(part.get_param("name", "") or "")
    return _NOT_IN_NAMES.sub("_", _decoded(str(said)).strip(" ."))[-_MAX_NAME_CHARS:]


def name_for(part: Part, number: int) -> str:
    """What to call a file that has no name."""
    if part.mime == "message/rfc822":
        inside = part.message.get_payload()
        first = inside[0] if isinstance(inside, list) and inside else None
        subject = header(first, "Subject") if isinstance(first, Message) else ""
        return (_NOT_IN_NAMES.sub("_", subject)[:80].strip() or f"message-{number}") + ".eml"
    return f"attachment-{number}{mimetypes.guess_extension(part.mime) or '.bin'}"


def quoted(text: str, start: int) -> Iterator[Span]:
    """Stretches that repeat other mails, and signatures; in order, apart from one another."""
    original = _ORIGINAL.search(text, start)
    end = original.start() if original else len(text)
    place = start
    spans: list[Span] = []
    while place < end:
        line_end = text.find("\n", place)
        line_end = end if line_end < 0 or line_end > end else line_end
        if _QUOTED.match(text[place : min(line_end, place + 20)]):
            begin = spans.pop().start if spans and is_gap(text, spans[-1].end, place) else place
            spans.append(Span(begin, line_end))
        place = line_end + 1
    spans = [Span(_attribution(text, start, span.start), span.end) for span in spans]
    signature = next((found for found in _SIGNATURE.finditer(text, start, end)), None)
    if signature and not any(span.start <= signature.start() < span.end for span in spans):
        stop = min((span.start for span in spans if span.start > signature.start()), default=end)
        spans.append(Span(signature.start(), stop))
    if original:
        spans.append(Span(original.start(), len(text)))
    for begin, stop in sorted(spans):
        if words_of_it := text[begin:stop].rstrip():
            yield Span(begin, begin + len(words_of_it))


def is_gap(text: str, start: int, end: int) -> bool:
    """Whether there is nothing but blanks between."""
    return not text[start:end].strip()


def _attribution(text: str, start: int, place: int) -> int:
    """Where the line begins that says whose words follow, if one stands right above."""
    above = text[max(start, place - 400) : place]
    found = list(_ATTRIBUTION.finditer(above))
    if found and not above[found[-1].end() :].strip():
        return place - len(above) + found[-1].start()
    return place


def _unflowed(text: str, delsp: str) -> str:
    """Lines that end in a blank go on in the next one."""
    lines: list[str] = []
    open_line = False
    for line in text.split("\n"):
        flows = line.endswith(" ") and line != "-- " and not line.startswith(">")
        if open_line:
            lines[-1] += line.removeprefix(" ")
        else:
            lines.append(line)
        if flows and delsp.lower() == "yes":
            lines[-1] = lines[-1][:-1]
        open_line = flows
    return "\n".join(lines)


def _decoded(said: str) -> str:
    """Encoded words and raw bytes as text."""
    said = said[:_MAX_HEADER_CHARS]
    pieces = []
    try:
        parts = decode_header(said)
    except (ValueError, LookupError, AssertionError):
        parts = [(said, None)]
    for piece, charset in parts:
        data = piece.encode("utf-8", "surrogateescape") if isinstance(piece, str) else piece
        pieces.append(_text_of(data, charset or ""))
    return _BLANKS.sub(" ", "".join(pieces)).strip()


def _text_of(data: bytes, charset: str) -> str:
    if data.isascii():
        return data.decode("ascii")
    try:
        return decode(data, "a header", declared=charset).text
    except SourceError:
        return data.decode("utf-8", "replace")
