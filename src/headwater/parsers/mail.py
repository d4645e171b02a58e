"""A mail, or a mailbox of them -> a document: headers as its first lines, the body, and its files as attachments.

Plain text is preferred to HTML. What a mail repeats of others, and signatures, are blocks of kind `quote`. A mailbox
lists its mails and hands each on as an attachment, so that each becomes a document of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from email.message import Message
from pathlib import PurePosixPath
from typing import Final

from headwater.clean import is_blank
from headwater.documents import Blob, Block, Document, Span
from headwater.errors import EmptyDocument, SourceError
from headwater.filters import Value
from headwater.kinds import MAIL, MAILBOX, kind_of
from headwater.parsers._letters import Part, addresses, file_name, header, name_for, quoted, sent, words
from headwater.parsers._markup import render
from headwater.parsers._outline import sections
from headwater.parsers._rendered import Rendered, below
from headwater.parsers._tree import tree

OUTLOOK: Final = "application/vnd.ms-outlook"
# Mail servers refuse more; what has more was made to do harm.
_MAX_ATTACHMENTS: Final = 200
_MAX_ATTACHMENT_BYTES: Final = 64 * 1024**2
_MAX_ALL_BYTES: Final = 256 * 1024**2
_MAX_PARTS: Final = 2000
_MAX_DEPTH: Final = 20
_MAX_MESSAGES: Final = 10_000
# Plain text beside HTML that is this much shorter only says that there is HTML.
_STUB_SHARE: Final = 0.1
_STUB_CHARS: Final = 200

_SIGNED: Final = frozenset(
    ("application/pkcs7-signature", "application/x-pkcs7-signature", "application/pgp-signature")
)
_LOCKED: Final = frozenset(("multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"))
_MESSAGE: Final = re.compile(rb"^From [^\r\n]*\d{4}[^\r\n]*\r?\n(?=[!-9;-~]+:)", re.MULTILINE)
_ESCAPED: Final = re.compile(rb"^>(>*From )", re.MULTILINE)


class MailParser:
    """Reads mails and mailboxes."""

    mimes: frozenset[str] = frozenset({MAIL, MAILBOX, OUTLOOK})

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for Outlook's own format and for what is no mail, EmptyDocument for one without words."""
        if blob.mime == OUTLOOK:
            raise SourceError(
                f"{blob.uri} is in Outlook's own format, which is not read; save the mail as .eml, add that"
            )
        if blob.mime == MAILBOX or (not blob.mime and _MESSAGE.match(blob.data)):
            return _mailbox(blob)
        try:
            message = message_from_bytes(blob.data)
        except RecursionError as error:
            raise SourceError(f"{blob.uri} is a mail of parts nested too deeply; save it anew as .eml") from error
        except (ValueError, LookupError, AssertionError) as error:
            raise SourceError(f"{blob.uri} cannot be read as a mail: {error}; save it anew as .eml") from error
        if not message.keys():
            raise SourceError(f"{blob.uri} is no mail: it begins without headers; save it anew as .eml")
        return _document(blob, message)


@dataclass(slots=True)
class _Letter:
    """What was found in a mail."""

    bodies: list[Rendered] = field(default_factory=list)
    files: list[Part] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    pictures: int = 0
    parts: int = 0


def _document(blob: Blob, message: Message) -> Document:
    letter = _Letter()
    _gather(message, letter, blob.uri, 0)
    subject, date = header(message, "Subject"), sent(message)
    people = {name: addresses(message, name) for name in ("From", "To", "Cc")}
    lines = [f"{name}: {', '.join(found)}" for name, found in people.items() if found]
    if said := date or header(message, "Date"):
        lines.append(f"Date: {said}")
    if subject:
        lines.append(f"Subject: {subject}")
    body = _joined(letter.bodies)
    if is_blank(body.text) and not letter.files and not subject:
        why = f"; {letter.problems[0]}" if letter.problems else ""
        raise EmptyDocument(f"{blob.uri} holds no text: a mail without subject, words and files{why}")
    whole = below("\n".join(lines) + "\n\n", body) if lines else body
    quotes = _around(quoted(whole.text, len(whole.text) - len(body.text)), whole.blocks)
    attachments = tuple(_attached(letter, blob, date))
    meta: dict[str, Value | tuple[Value, ...]] = {
        "author": _speaker(people["From"]),
        "from": people["From"],
        "to": people["To"],
        "cc": people["Cc"],
        "date": date,
        "message_id": header(message, "Message-ID"),
        "in_reply_to": header(message, "In-Reply-To"),
        "attachments": tuple(attached.uri.removeprefix(blob.uri + "#") for attached in attachments),
    }
    return Document(
        uri=blob.uri,
        text=whole.text,
        title=subject or PurePosixPath(blob.uri).stem,
        mime=MAIL,
        structure=sections(whole.headings, len(whole.text)),
        blocks=tuple(sorted((*whole.blocks, *quotes), key=lambda block: block.span)),
        links=whole.links,
        attachments=attachments,
        coverage={
            "attachments": len(letter.files),
            "attachments_kept": len(attachments),
            "inline_pictures": letter.pictures,
            "quoted_chars": sum(quote.span.end - quote.span.start for quote in quotes),
        },
        created=date,
        updated=date or blob.modified,
        problems=tuple(letter.problems),
        meta={**blob.meta, **{name: value for name, value in meta.items() if value}},
    )


def _speaker(people: tuple[str, ...]) -> str:
    """The name of the first, or the address where there is none."""
    return people[0].partition(" <")[0] if people else ""


# ------------------------------------------------------------------------------------------------- parts


def _gather(part: Message, letter: _Letter, uri: str, depth: int) -> None:
    """Sort a part and those in it into words and files."""
    letter.parts += 1
    mime = part.get_content_type()
    if letter.parts > _MAX_PARTS or depth > _MAX_DEPTH:
        if letter.parts == _MAX_PARTS + 1 or depth == _MAX_DEPTH + 1:
            letter.problems.append(f"parts beyond the first {_MAX_PARTS}, or nested deeper than {_MAX_DEPTH}, left out")
        return
    if mime in _LOCKED and "signed" not in str(part.get_param("smime-type", "")):
        letter.problems.append("a part is encrypted and was left out; add the mail as your mail program shows it")
        return
    name, disposition = file_name(part), part.get_content_disposition()
    inside = part.get_payload()
    if mime == MAIL or (mime.startswith("message/") and isinstance(inside, list) and mime != "message/partial"):
        letter.files.append(Part(part, name, MAIL))
    elif isinstance(inside, list):
        parts = [piece for piece in inside if isinstance(piece, Message)]
        if mime == "multipart/alternative":
            parts = _preferred(parts, uri)
        for piece in parts:
            _gather(piece, letter, uri, depth + 1)
    elif mime in _SIGNED:
        return
    elif mime in ("text/plain", "text/html") and not (name and disposition == "attachment"):
        rendered, problems = _body(part, uri)
        letter.problems += problems
        if not is_blank(rendered.text):
            letter.bodies.append(rendered)
    elif mime.startswith("image/") and part.get("Content-ID") and disposition != "attachment":
        letter.pictures += 1  # logos and smileys: they belong to the looks of the mail
    elif name or part.get_payload(decode=True):
        letter.files.append(Part(part, name, mime))


def _preferred(parts: list[Message], uri: str) -> list[Message]:
    """Of the same thing said in several ways the plain one, unless it only says that there is another."""
    plain = next((part for part in parts if part.get_content_type() == "text/plain"), None)
    others = [part for part in parts if part is not plain and part.get_content_type() != "text/calendar"]
    if plain is None:
        return others[-1:] or parts[:1]
    said = len("".join(words(plain, uri).text.split()))
    richer = next((part for part in others for page in part.walk() if page.get_content_type() == "text/html"), None)
    if richer is None:
        return [plain]
    page = next(page for page in richer.walk() if page.get_content_type() == "text/html")
    shown = len("".join(_body(page, uri)[0].text.split()))
    stub = said < _STUB_CHARS and said < _STUB_SHARE * shown
    files = [piece for part in others if part.is_multipart() for piece in part.walk() if file_name(piece)]
    return [richer] if stub else [plain, *files]


def _body(part: Message, uri: str) -> tuple[Rendered, tuple[str, ...]]:
    decoded = words(part, uri)
    if part.get_content_type() != "text/html" or is_blank(decoded.text):
        lines = (line.rstrip() for line in decoded.text.strip("\n").split("\n"))
        return Rendered("\n".join(lines)), decoded.problems
    try:
        page = tree(decoded.text, uri)
    except EmptyDocument:
        return Rendered(""), decoded.problems
    except SourceError as error:
        return Rendered(""), (*decoded.problems, f"the HTML of the mail was left out: {error}")
    return render(next(page.iter("body"), page)), decoded.problems


def _joined(bodies: list[Rendered]) -> Rendered:
    whole = Rendered("")
    for body in bodies:
        moved = below(whole.text + "\n\n" if whole.text else "", body)
        whole = replace(
            moved,
            headings=(*whole.headings, *moved.headings),
            blocks=(*whole.blocks, *moved.blocks),
            links=(*whole.links, *moved.links),
        )
    return whole


def _around(spans: Iterator[Span], blocks: tuple[Block, ...]) -> list[Block]:
    """Quoted text as blocks, without the tables and the code in it, which are blocks already."""
    quotes = []
    for span in spans:
        start = span.start
        for block in blocks:
            if start <= block.span.start < span.end:
                quotes.append(Block(kind="quote", span=Span(start, block.span.start)))
                start = block.span.end
        quotes.append(Block(kind="quote", span=Span(start, span.end)))
    return [quote for quote in quotes if quote.span.start < quote.span.end]


def _attached(letter: _Letter, blob: Blob, date: str) -> Iterator[Blob]:
    """The files of a mail as sources of their own, no two of one name."""
    used: set[str] = set()
    total = 0
    for number, part in enumerate(letter.files, 1):
        name = _unused(part.name or name_for(part, number), used)
        try:
            data = _bytes_of(part)
        except (ValueError, LookupError, AssertionError, RecursionError) as error:
            letter.problems.append(f"the attachment {name!r} was left out: {error}")
            continue
        total += len(data)
        if number > _MAX_ATTACHMENTS or len(data) > _MAX_ATTACHMENT_BYTES or total > _MAX_ALL_BYTES:
            letter.problems.append(
                f"the attachment {name!r} of {len(data)} bytes was left out: {_MAX_ATTACHMENTS} files, "
                f"{_MAX_ATTACHMENT_BYTES} bytes each and {_MAX_ALL_BYTES} in all are the limits; add it by itself"
            )
            total -= len(data)
        elif data:
            used.add(name)
            mime = MAIL if part.mime == MAIL else kind_of(name, data)
            yield Blob(uri=f"{blob.uri}#{name}", data=data, mime=mime, modified=date, meta={"attached_to": blob.uri})
        else:
            letter.problems.append(f"the attachment {name!r} is empty")


def _bytes_of(part: Part) -> bytes:
    inside = part.message.get_payload()
    first = inside[0] if isinstance(inside, list) and inside else None
    if part.mime == MAIL and isinstance(first, Message):
        return first.as_bytes()
    data = part.message.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _unused(name: str, used: set[str]) -> str:
    path = PurePosixPath(name)
    fresh, number = name, 1
    while fresh in used:
        number += 1
        fresh = f"{path.stem} ({number}){path.suffix}"
    return fresh


# ----------------------------------------------------------------------------------------------- mailboxes


def _mailbox(blob: Blob) -> Document:
    """The list of its mails, and each of them."""
    starts = [found.span() for found in _MESSAGE.finditer(blob.data)]
    if not starts:
        raise SourceError(f"{blob.uri} is no mailbox: no mail in it begins with a line `From `; export it again")
    ends = [start for start, _ in starts[1:]] + [len(blob.data)]
    lines, attachments = [], []
    for number, ((_, begin), end) in enumerate(zip(starts[:_MAX_MESSAGES], ends, strict=False), 1):
        data = _ESCAPED.sub(rb"\1", blob.data[begin:end]).rstrip(b"\r\n") + b"\n"
        message = message_from_bytes(data.partition(b"\n\n")[0] + b"\n\n")
        people = ", ".join(addresses(message, "From"))
        lines.append(f"{number}. {header(message, 'Subject')} ({', '.join(filter(None, (people, sent(message))))})")
        attachments.append(Blob(uri=f"{blob.uri}#{number}.eml", data=data, mime=MAIL, meta={"attached_to": blob.uri}))
    left_out = len(starts) - len(attachments)
    return Document(
        uri=blob.uri,
        text="\n".join(lines),
        title=PurePosixPath(blob.uri).stem,
        mime=MAILBOX,
        attachments=tuple(attachments),
        coverage={"messages": len(starts), "messages_kept": len(attachments)},
        updated=blob.modified,
        problems=(f"{left_out} mails beyond the first {_MAX_MESSAGES} were left out; cut the mailbox",)
        if left_out
        else (),
        meta=blob.meta,
    )
