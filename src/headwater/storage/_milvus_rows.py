"""One collection of Milvus: rows (chunk id, ticket, vector) in, ids out.

`since` is a time of the server: a reading waits until it has seen what was written before, which takes one tick of the
server (0.2 s as it comes) and only once; the next reading with the same time does not wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from headwater.errors import BackendError
from headwater.selection import Ids
from headwater.storage._metric import COSINE, DISTANCE, INNER_PRODUCT
from headwater.storage._milvus import RATE_LIMIT, CollectionGone, Connection
from headwater.types import Matrix, Vector

ID: Final = "id"
TICKET: Final = "ticket"
VECTOR: Final = "embedding"
METRICS: Final = {COSINE: "COSINE", INNER_PRODUCT: "IP", DISTANCE: "L2"}
# As much as the server gives to one question.
WINDOW: Final = 16_384
MAX_ID: Final = np.iinfo(np.int64).max
# One request; the server takes 64 MB.
SEND_BYTES: Final = 8 << 20
# Nobody waits for a write as for a search, and a server that was just started is slow.
WRITE_SECONDS: Final = 60.0
# A segment is closed, and gets its graph, when so many rows have come. One of 5,000 rows that is still open gets an
# index of the server's own that found 0.37 of the best 10; smaller ones are scanned, which finds all of them.
SEAL_ROWS: Final = 4_000
_DESCRIBED: Final = "headwater home "


class Rows:
    """A collection by its name, which may not exist yet; `own` is the name of the home that it belongs to."""

    def __init__(self, connection: Connection, name: str, *, own: str) -> None:
        self._connection, self.name, self._own = connection, name, own

    # ------------------------------------------------------------------------------------- the collection

    def dim(self) -> int | None:
        """How many dimensions its vectors have; None where it does not exist. BackendError for another home's."""
        try:
            told = self._call("looking for the collection", "describe_collection")
        except CollectionGone:
            return None
        if told.get("description") != _DESCRIBED + self._own:
            raise BackendError(
                f"collection {self.name!r} in Milvus at {self._connection.place} belongs to somebody else; "
                "name another one: `collection` of [vector_index]"
            )
        vectors = [field for field in told["fields"] if field["name"] == VECTOR]
        return int(vectors[0]["params"]["dim"]) if vectors else 0

    def create(self, *, dim: int, metric: str, graph: Mapping[str, int]) -> None:
        """Make it, empty, with its graph."""

        def made(client: Any, *, timeout: float) -> None:
            from pymilvus import DataType

            schema = client.create_schema(auto_id=False, enable_dynamic_field=False, description=_DESCRIBED + self._own)
            schema.add_field(ID, DataType.INT64, is_primary=True)
            schema.add_field(TICKET, DataType.INT64)
            schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=dim)
            index = client.prepare_index_params()
            index.add_index(VECTOR, index_type="HNSW", metric_type=METRICS[metric], params=dict(graph))
            client.create_collection(self.name, schema=schema, timeout=timeout)
            client.create_index(self.name, index, timeout=timeout, sync=False)

        self._connection.call("making the collection", made, seconds=WRITE_SECONDS)

    def load(self, *, patient: bool) -> None:
        """Have the server bring it into memory, where it is searched; nothing where it is there."""
        self._call("loading the collection", "load_collection", seconds=WRITE_SECONDS if patient else 0.0)

    def drop(self) -> None:
        """Away with it, if it exists and is ours."""
        if self.dim() is not None:
            self._call("dropping the collection", "drop_collection")

    def names(self) -> list[str]:
        """Every collection of the server."""
        return list(
            self._connection.call("listing collections", lambda client, **given: client.list_collections(**given))
        )

    # ------------------------------------------------------------------------------------------- writing

    def put(self, added: Mapping[int, tuple[Ids, Matrix]], *, unsealed: int) -> int:
        """Write the rows of tickets over what they had; return how many now wait for their segment to be closed."""
        if not added:
            return unsealed
        ids = np.concatenate([ids for ids, _ in added.values()])
        vectors = np.concatenate([rows for _, rows in added.values()])
        tickets = np.repeat(list(added), [len(ids) for ids, _ in added.values()])
        step = max(1, min(SEND_BYTES // (4 * vectors.shape[1] + 16), SEAL_ROWS))
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            columns = zip(ids[part].tolist(), tickets[part].tolist(), vectors[part], strict=True)
            data = [{ID: id, TICKET: ticket, VECTOR: vector} for id, ticket, vector in columns]
            self._call("writing vectors", "upsert", data=data, seconds=WRITE_SECONDS)
            unsealed += len(data)
            if unsealed >= SEAL_ROWS:
                self._seal()
                unsealed = 0
        return unsealed

    def delete(self, filter: str) -> None:
        """Away with what a filter allows."""
        self._call("removing vectors", "delete", filter=filter, seconds=WRITE_SECONDS)

    def _seal(self) -> None:
        """Have the server close its open segments; it goes on with that by itself."""
        try:
            # Not waited for: what was written is in the server's log already.
            self._call("closing a segment", "flush", _async=True, retry_on_rate_limit=False)
        except BackendError as error:
            # Newer servers let nobody do it more than once in ten seconds, and then do it by themselves.
            if getattr(error.__cause__, "code", None) != RATE_LIMIT:
                raise

    # ------------------------------------------------------------------------------------------- reading

    def nearest(self, vector: Vector, limit: int, *, filter: str, ef: int, since: int) -> Ids:
        """The likeliest of those that a filter allows, at most `limit`; there may be more."""
        found = self._call(
            "searching",
            "search",
            data=[vector],
            limit=limit,
            filter=filter,
            anns_field=VECTOR,
            search_params={"params": {"ef": max(ef, limit)}},
            **_seen(since),
        )
        return np.array([hit[ID] for hit in found[0]], dtype=np.int64)

    def count(self, filter: str, *, since: int) -> int:
        """How many a filter allows."""
        found = self._call("counting", "query", filter=filter, output_fields=["count(*)"], **_seen(since))
        return int(found[0]["count(*)"])

    def some(self, filter: str, limit: int, *, since: int) -> Ids:
        """Ids that a filter allows, in any order, at most `limit`."""
        found = self._call(
            "reading ids", "query", filter=filter or f"{ID} >= 0", output_fields=[ID], limit=limit, **_seen(since)
        )
        return np.array([row[ID] for row in found], dtype=np.int64)

    def ids(self, filter: str, *, since: int) -> Ids:
        """Every id that a filter allows, sorted, however many: a range with too many of them is cut in two."""
        whole: list[Ids] = []
        ranges = [(0, MAX_ID)]
        while ranges:
            low, high = ranges.pop()
            bounds = f"({ID} >= {low} and {ID} < {high})"
            found = self.some(f"({filter}) and {bounds}" if filter else bounds, WINDOW, since=since)
            if len(found) < WINDOW:
                whole.append(found)
            else:
                middle = int(np.sort(found)[WINDOW // 2])
                ranges += [(low, middle), (middle, high)]
        together: Ids = np.sort(np.concatenate(whole))
        return together

    def _call(self, what: str, method: str, **given: Any) -> Any:
        return self._connection.call(
            what, lambda client, **more: getattr(client, method)(collection_name=self.name, **more), **given
        )


def _seen(since: int) -> dict[str, Any]:
    if not since:  # of a server that does not tell its time
        return {"consistency_level": "Strong"}
    return {"consistency_level": "Customized", "guarantee_timestamp": since}
