"""Chunks, vectors and queries -> how headwater handles 100,000 of them embedded, in PostgreSQL and in Milvus.

    python bench/stores.py --corpus FOLDER              all three, and the floor where --peer-python has it
    python bench/stores.py --size 10000 --stores headwater,headwater_postgres

Starts a PostgreSQL and a Milvus of its own, from the packages that the tests use. Prints a table and writes
bench/results/stores-<size>.md. What is measured is what bench/scale.py measures.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import scale
from corpus import prepare
from pace import told
from peers.worker import disk_megabytes

HERE = Path(__file__).resolve().parent
NAMES = {
    "headwater": "embedded",
    "headwater_postgres": "PostgreSQL",
    "headwater_milvus": "vectors in Milvus",
    "floor": "bm25s + numpy",
}
SIZE = 100_000
# As a database of this size is set up: everything that is acknowledged is on disk, and the graph fits into memory.
POSTGRES = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "1GB", "maintenance_work_mem": "1GB"}
NOT_SHOWN = {"import_seconds", "rss_after_queries_mb", "one_core_p50_ms", "one_core_p95_ms"}


@contextmanager
def postgres() -> Iterator[Any]:
    """A server of our own, whose database the stores find in the environment."""
    from headwater.testing.postgres_server import PostgresServer

    server = PostgresServer(settings=POSTGRES)
    server.start()
    try:
        os.environ["DATABASE_URL"] = server.url("bench")
        yield lambda: database_megabytes(os.environ["DATABASE_URL"])
    finally:
        server.discard()


def database_megabytes(url: str) -> float:
    """What the database of this address takes."""
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("select pg_database_size(current_database())").fetchone()
        assert row is not None
        return float(row[0]) / 1e6


@contextmanager
def milvus() -> Iterator[Any]:
    """A server of our own, which the stores find in the environment."""
    from headwater.testing.milvus_server import MilvusServer

    with tempfile.TemporaryDirectory(prefix="headwater-milvus-") as folder:
        server = MilvusServer(Path(folder))
        server.start()
        try:
            os.environ["MILVUS_URI"], os.environ["MILVUS_TOKEN"] = server.uri, server.token
            yield lambda: disk_megabytes(Path(folder) / "data")
        finally:
            server.stop()


SERVERS = {"headwater_postgres": postgres, "headwater_milvus": milvus}


def table(size: int, about: dict[str, Any], by_store: dict[str, dict[str, float]], servers: dict[str, float]) -> str:
    """The run as Markdown."""
    stores = list(by_store)
    lines = [
        f"# {size:,} chunks in each store",
        "",
        f"`python bench/stores.py` with text from `{about['source']}`, {about['mean_chars']:.0f} characters a chunk, "
        f"{about['chinese_share']:.0%} with Chinese, vectors of 384 dimensions. {scale.machine()}; "
        "servers and client share the cores. PostgreSQL 18 with pgvector ("
        + ", ".join(f"{name} {value}" for name, value in POSTGRES.items())
        + "), Milvus 2.3.5 standalone. Memory is the client's alone.",
        "",
        "| | " + " | ".join(NAMES[store] for store in stores) + " |",
        "|---|" + "---:|" * len(stores),
    ]
    for title, key, form in scale.ROWS:
        if key not in NOT_SHOWN:
            lines.append(f"| {title} | " + " | ".join(form.format(by_store[store][key]) for store in stores) + " |")
    held = (f"{servers[store]:,.0f}" if store in servers else "" for store in stores)
    lines.append("| held by the server, MB | " + " | ".join(held) + " |")
    lines += ["", told(scale.floor_of(by_store), size)]
    return "\n".join(lines) + "\n"


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=SIZE, help="chunks")
    parser.add_argument("--corpus", type=Path, help="a folder of .jsonl.gz (field `pos`) or of text files")
    parser.add_argument("--stores", type=lambda text: text.split(","), help=f"some of {','.join(NAMES)}")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has bm25s, for the floor")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="where corpora and homes go")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    options = parser.parse_args()
    options.stores = options.stores or [s for s in NAMES if s != "floor" or scale.has_peers(options.peer_python)]
    if unknown := set(options.stores) - set(NAMES):
        parser.error(f"no such store: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    options.fills, options.rounds, options.threads, options.reuse = 1, scale.ROUNDS, 1, False
    return options


def main() -> int:
    """Start the servers, measure, write."""
    options = arguments()
    scale.NAMES |= NAMES
    corpus = prepare(options.size, source=options.corpus, data=options.data)
    homes = options.data / f"stores-{corpus.folder.name}"
    homes.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        sizes = {store: stack.enter_context(SERVERS[store]()) for store in options.stores if store in SERVERS}
        by_store = {store: scale.figures(one) for store, one in scale.measure(corpus, homes, options).items()}
        held = {store: size() for store, size in sizes.items()}
    shutil.rmtree(homes)
    text = table(options.size, corpus.about, by_store, held)
    print(text)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / f"stores-{options.size}.md").write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
