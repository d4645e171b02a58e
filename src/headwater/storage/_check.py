"""What is wrong inside a catalog, in sentences, and the mending of what can be mended from within."""

from __future__ import annotations

from typing import Final

from headwater.selection import TICKET_BITS
from headwater.storage._commit import PART_CHARS
from headwater.storage._rows import readable
from headwater.storage._sql import Connection

_ALIVE: Final = "select ticket from version"
# The live version of a document is the one it names; beside it stand those of other spaces, of generation 0.
_HOMELESS: Final = (
    "not exists (select 1 from document where document.id = version.document and document.ticket != 0 "
    "and (document.ticket = version.ticket or version.generation = 0))"
)
_DROPPED: Final = "version.generation = 0 and version.space not in (select id from space)"
_TORN: Final = (
    "exists (select 1 from document where document.id = version.document "
    f"and (chars + {PART_CHARS - 1}) / {PART_CHARS} != "
    f"(select count(*) from text where text.id >= version.ticket << {TICKET_BITS} "
    f"and text.id < (version.ticket + 1) << {TICKET_BITS}))"
)

# (what counts the wrong rows, the sentence for that many of them). `{}` is the count.
_RULES: Final = (
    (
        f"select count(*) from version where {_HOMELESS}",
        "{} versions belong to no document",
    ),
    (
        f"select count(*) from version where {_DROPPED}",
        "{} versions are of a space that was dropped (invisible to searches)",
    ),
    (
        "select count(*) from version join space on space.id = version.space "
        "where (version.generation != 0) != (space.state = 'active')",
        "{} versions are in the wrong space",
    ),
    (
        "select count(*) from document where ticket != 0 and not exists "
        "(select 1 from version where version.ticket = document.ticket)",
        "{} documents point to a version that is not there",
    ),
    (
        f"select count(*) from chunk where id >> {TICKET_BITS} not in ({_ALIVE})",
        "{} chunks belong to no version",
    ),
    (
        f"select count(*) from text where id >> {TICKET_BITS} not in ({_ALIVE})",
        "{} parts of text belong to no version",
    ),
    (
        "select count(*) from version where chunks > (select count(*) from chunk "
        f"where chunk.id >= ticket << {TICKET_BITS} and chunk.id < (ticket + 1) << {TICKET_BITS})",
        "{} versions lack some of their chunks",
    ),
    (
        "select count(*) from version join document on document.id = version.document "
        "where document.ticket = version.ticket and document.chunks != version.chunks",
        "{} documents count their chunks wrongly",
    ),
    (
        "select count(*) from chunk join version on version.ticket = chunk.id >> 20 "
        "join document on document.id = version.document "
        "where start < 0 or start > stop or stop > document.chars",
        "{} chunks reach outside their document's text",
    ),
    (
        f"select count(*) from version where {_TORN}",
        "{} documents lack a part of their text",
    ),
    (
        "select count(*) from chunk where section != 0 and section not in (select id from section)",
        "{} chunks point to a section that is not there",
    ),
    (
        "select count(*) from chunk where vector != 0 and vector not in (select id from vector)",
        "{} chunks point to a vector that is not there",
    ),
    (
        "select count(*) from chunk join version on version.ticket = chunk.id >> 20 where version.state = 'completed' "
        "and chunk.vector = 0 and (chunk.id & 1048575) < version.chunks "
        "and exists (select 1 from chunk other where other.vector != 0)",
        "{} chunks of completed documents have no vector",
    ),
    (
        "select count(*) from vector left join embedder on embedder.id = vector.embedder "
        "where dim is null or length(data) != 2 * dim",
        "{} vectors have the wrong size",
    ),
    (
        "select count(*) from vector where id not in (select vector from chunk) "
        "and id not in (select vector from idle)",
        "{} vectors belong to no chunk and are not listed as idle",
    ),
    (
        f"select count(*) from dead where ticket in ({_ALIVE})",
        "{} versions are both alive and dead",
    ),
    (
        f"select count(*) from posting where ticket not in ({_ALIVE})",
        "{} entries of the filter index belong to no version (harmless)",
    ),
    (
        "select count(*) from likeness where document not in (select number from document)",
        "{} entries that tell which documents are alike belong to none (harmless)",
    ),
    (
        "select count(*) from version where ticket > (select ticket from counters)",
        "{} versions have tickets that were never drawn",
    ),
)

# In this order: each takes away what the one before has orphaned.
_MENDING: Final = (
    "delete from version where chunks > (select count(*) from chunk "
    f"where chunk.id >= ticket << {TICKET_BITS} and chunk.id < (ticket + 1) << {TICKET_BITS})",
    f"delete from version where {_TORN}",
    f"delete from version where {_DROPPED}",
    "delete from version where (generation != 0) != "
    "(space = coalesce((select id from space where state = 'active'), 0))",
    f"delete from version where {_HOMELESS}",
    "update document set ticket = 0, chunks = 0, chars = 0, stamp = '', content_hash = '', state = 'failed', "
    "error = 'its text was lost in this home; add it again' "
    f"where ticket != 0 and ticket not in ({_ALIVE})",
    f"delete from version where {_HOMELESS}",
    f"insert into dead select distinct id >> {TICKET_BITS} from chunk "
    f"where id >> {TICKET_BITS} not in ({_ALIVE}) on conflict do nothing",
    *(f"delete from {table} where id >> {TICKET_BITS} not in ({_ALIVE})" for table in ("chunk", "text", "index_text")),
    f"delete from outline where ticket not in ({_ALIVE})",
    f"delete from link where ticket not in ({_ALIVE})",
    f"delete from posting where ticket not in ({_ALIVE})",
    *(f"delete from {table} where document not in (select number from document)" for table in ("sketch", "likeness")),
    f"delete from dead where ticket in ({_ALIVE})",
    "delete from term where id not in (select term from posting)",
    "delete from section where id not in (select section from chunk)",
    "update chunk set vector = 0 where vector != 0 and vector not in (select id from vector)",
    "delete from idle where vector in (select vector from chunk) or vector not in (select id from vector)",
    "insert into idle(vector) select id from vector where id not in (select vector from chunk) order by id "
    "on conflict do nothing",
    "update document set chunks = (select chunks from version where version.ticket = document.ticket) "
    "where ticket != 0",
    "update counters set ticket = max(ticket, (select coalesce(max(ticket), 0) from version))",
    "update counters set generation = generation + 1",
)


def check(db: Connection) -> list[str]:
    """Every rule that is broken."""
    counted = [(db.execute(sql).fetchone()[0], sentence) for sql, sentence in _RULES]
    counted.append((len(_unreadable(db)), "the text of {} documents cannot be read: its bytes were damaged"))
    return [sentence.format(f"{count:,}") for count, sentence in counted if count]


def mend(db: Connection) -> None:
    """Take away rows that belong to nothing; a document whose text is gone says so."""
    for ticket in sorted(_unreadable(db)):
        db.execute("delete from version where ticket = ?", (ticket,))
    for sql in _MENDING:
        db.execute(sql)


def _unreadable(db: Connection) -> set[int]:
    """The versions whose text is none any more: a database looks after its pages, not after what they say."""
    found = set()
    for id, body in db.stream("select id, body from text"):
        try:
            readable(body)
        except UnicodeDecodeError:
            found.add(id >> TICKET_BITS)
    return found
