"""The catalog -> the text of every live document, one after the other, as it is stored."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.selection import TICKET_BITS
from headwater.storage._sql import Store


class Texts:
    """A catalog whose texts can be gone through from end to end: by one statement, with nothing made of them."""

    _database: Store

    def texts(self) -> Iterator[tuple[range, bytes]]:
        """Of every document that can be found: the ids of its chunks, and its text as UTF-8, lone surrogates too."""
        with self._database.reading(snapshot=True) as db:
            live = dict(db.execute("select ticket, chunks from version where generation != 0"))
            last, parts = 0, [b""]
            for id, body in db.stream("select id, body from text order by id"):
                ticket = id >> TICKET_BITS
                if ticket != last:
                    if last in live:
                        yield _chunks_of(last, live[last]), b"".join(parts)
                    last, parts = ticket, []
                parts.append(body)
            if last in live:
                yield _chunks_of(last, live[last]), b"".join(parts)


def _chunks_of(ticket: int, count: int) -> range:
    return range(ticket << TICKET_BITS, (ticket << TICKET_BITS) + count)
