"""A SQLite file of any age -> the tables of today, or an error that says why not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from headwater.errors import BackendError, HomeDamaged, HomeTooNew

# "HDWT": the file says whose it is, so that another program's database is never written to.
APPLICATION_ID: Final = 0x48445754
# A row of a vector of 384 dimensions fills a tenth of such a page; 4 KiB pages were a fifth slower to read.
PAGE_BYTES: Final = 8192

# Chunk ids and part ids are `ticket << 20 | number`. A row of `chunk`, `text` or `posting` exists only while its ticket
# is alive: the transaction that replaces a version takes them away. Zero stands for "none" in section, page, parent and
# vector: SQLite stores it in no bytes at all.
_TABLES: Final = """
create table counters(
  one integer primary key check (one = 1),
  generation integer not null,
  ticket integer not null,
  place integer not null,
  written_by text not null
);
insert into counters values (1, 0, 0, 0, '');

create table space(
  id integer primary key, embedder text not null, dim integer not null, chunker text not null, state text not null
);

create table document(
  number integer primary key, id text not null unique,
  owner text not null, collection text not null, uri text not null,
  title text not null, description text not null, tags text not null, folder text not null,
  content_type text not null, mime text not null, archived integer not null,
  created text not null, updated text not null,
  state text not null, error text not null, problems text not null,
  chunks integer not null, chars integer not null, stamp text not null, content_hash text not null,
  ticket integer not null, meta text not null
);
create index document_collection on document(owner, collection);
create index document_without_version on document(number) where ticket = 0;
create index document_state on document(state) where state in ('failed', 'empty');

create table version(
  ticket integer primary key, document text not null, space integer not null, chunks integer not null,
  state text not null, generation integer not null
);
create index version_generation on version(generation);

create table outline(
  ticket integer primary key, structure text not null, blocks text not null, links text not null, pages text not null,
  hidden text not null
);
create table text(id integer primary key, body blob not null);
create table index_text(id integer primary key, before text not null, after text);

create table section(id integer primary key, path text not null unique);
create table chunk(
  id integer primary key, start integer not null, stop integer not null, section integer not null,
  first_page integer not null, last_page integer not null, kind integer not null, parent integer not null,
  vector integer not null
);
create index chunk_section on chunk(section) where section != 0;
create index chunk_page on chunk(first_page, last_page) where first_page != 0;
create index chunk_kind on chunk(kind) where kind != 0;
create index chunk_vector on chunk(vector) where vector != 0;

create table vector(id integer primary key, space integer not null, hash blob not null, data blob not null);
create unique index vector_hash on vector(hash, space);
create table idle(place integer primary key, vector integer not null unique);

create table term(id integer primary key, key text not null, value text not null, unique (key, value));
create table posting(term integer not null, ticket integer not null, primary key (term, ticket)) without rowid;

create table dead(ticket integer primary key);
create table floor(document text primary key, ticket integer not null) without rowid;
create index floor_ticket on floor(ticket);

create table queue(
  document text primary key, place integer not null unique,
  owner text not null, collection text not null, uri text not null, kind text not null,
  labels text not null, stamp text not null, payload blob, about text not null,
  ticket integer not null, previous integer not null, attempts integer not null, since text not null
);
"""

# Several spaces. A version of generation 0 stands beside a document's live one, in a space that is not active; the
# index of those costs nothing while there are none. `content` is the ticket under which a version's content came: it
# says which change of a document is the later one, whatever ticket a reindex gave the version. Vectors belong to an
# embedder, so that spaces of the same embedder share them.
_SPACES: Final = """
alter table counters add column space integer not null default 0;
update counters set space = (select coalesce(max(id), 0) from space);
alter table space add column settings text not null default '';
create unique index space_active on space(state) where state = 'active';
create table embedder(
  id integer primary key, fingerprint text not null, dim integer not null, unique (fingerprint, dim)
);
insert into embedder select id, embedder, dim from space;
alter table vector rename column space to embedder;
alter table version add column content integer not null default 0;
update version set content = ticket;
create unique index version_beside on version(document, space) where generation = 0;
"""

# What parsers say of a document: how much of it is there, and where its lines stand on the pages. `sketch` tells which
# documents are nearly the same: two of them have a key of `likeness` in common.
_PARSED: Final = """
alter table document add column coverage text not null default '{}';
alter table outline add column boxes blob not null default x'';
create table sketch(document integer primary key, data blob not null);
create table likeness(key integer not null, document integer not null, primary key (key, document)) without rowid;
"""

# Who refers to whom: `target` is a name as `_links.keys_of` makes it, and the indexes find the documents of a name.
# What was added before is taken from the outlines as well as SQL can.
_LINKED: Final = """
create table link(target text not null, ticket integer not null, primary key (target, ticket)) without rowid;
create index link_ticket on link(ticket);
create index document_title on document(lower(title));
create index document_file on document(lower(replace(uri, rtrim(uri, replace(uri, '/', '')), '')));
insert or ignore into link
  select lower(case instr(target, '#') when 0 then target else substr(target, 1, instr(target, '#') - 1) end), ticket
  from (
    select json_extract(value, '$[1]') as target, ticket
    from (select ticket, links from outline where typeof(links) = 'text'), json_each(links)
  ) where target not like '#%';
"""

# Step n takes a file of schema version n to n + 1. A new file is of version 0. Steps are never edited, only added.
STEPS: Sequence[str] = (_TABLES, _SPACES, _PARSED, _LINKED)


def prepare(db: sqlite3.Connection, path: Path, *, writable: bool, written_by: Callable[[], str]) -> None:
    """Refuse a file that is not ours or too new; make the tables of a new one; migrate an old one, all or nothing."""
    if db.execute("pragma application_id").fetchone()[0] != APPLICATION_ID:
        if db.execute("select count(*) from sqlite_master").fetchone()[0]:
            raise HomeDamaged(
                f"{str(path)!r} is a SQLite file of another program; move it away or name another home with --home"
            )
        if not writable:
            raise HomeDamaged(f"{str(path)!r} is empty; add documents with `headwater add SOURCE`")
    version = _version(db)
    if version > len(STEPS):
        raise HomeTooNew(
            f"{str(path)!r} was written by headwater {_writer(db)} (schema {version}); this one knows schema up to "
            f"{len(STEPS)}; update headwater to open it"
        )
    if version == len(STEPS):
        return
    if not writable:
        raise BackendError(
            f"{str(path)!r} has the older schema {version} and is open for reading only; "
            "run `headwater check` once to bring it up to date"
        )
    _migrate(db, written_by)


def _migrate(db: sqlite3.Connection, written_by: Callable[[], str]) -> None:
    if _version(db) == 0:
        db.execute(f"pragma page_size = {PAGE_BYTES}")
    db.execute("pragma journal_mode = wal")
    db.execute("begin immediate")
    try:
        # Another process may have been quicker: what is still to do is known only under the lock.
        for step in STEPS[_version(db) :]:
            for statement in step.split(";"):
                if statement.strip():
                    db.execute(statement)
        db.execute("update counters set written_by = ?", (written_by(),))
        db.execute(f"pragma application_id = {APPLICATION_ID}")
        db.execute(f"pragma user_version = {len(STEPS)}")
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("pragma user_version").fetchone()[0])


def _writer(db: sqlite3.Connection) -> str:
    try:
        row = db.execute("select written_by from counters").fetchone()
    except sqlite3.OperationalError:  # a newer schema may have moved it
        return "of a later version"
    return str(row[0]) if row and row[0] else "of a later version"
