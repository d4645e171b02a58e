"""Request bodies -> latencies: a bounded number of keep-alive connections, in a process that does little else.

    python bench/load.py < plan.json          {"host", "port", "path", "connections", "seconds", "bodies"}

Every connection sends the next body as soon as it has the answer to its last, until the time is over (`seconds`), a
second line comes in (`seconds` null), or there are no more. Prints one line of JSON: milliseconds of every answer with
status 200, the count of every other outcome, and what this process itself took.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

RETRY_SECONDS = 0.05  # after being told to come back: a client that is polite, but in a hurry
ANSWER_SECONDS = 60.0


class Load:
    """One run: what was sent, and what came of it."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.host, self.port = plan["host"], plan["port"]
        self.bodies: Iterator[str] = iter(plan["bodies"])
        self.milliseconds: list[float] = []
        self.other: Counter[str] = Counter()
        self.bytes = 0
        self.over = False

    async def run(self) -> dict[str, Any]:
        """Everything until the end, as numbers."""
        wall, cpu = time.perf_counter(), time.process_time()
        ending = asyncio.create_task(self._end())
        async with asyncio.TaskGroup() as group:
            for _ in range(self.plan["connections"]):
                group.create_task(self._connection())
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        ending.cancel()
        return {
            "milliseconds": [round(one, 2) for one in self.milliseconds],
            "other": dict(self.other),
            "seconds": wall,
            "cpu_seconds": cpu,
            "bytes": self.bytes,
        }

    async def _end(self) -> None:
        if self.plan["seconds"] is None:
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        else:
            await asyncio.sleep(self.plan["seconds"])
        self.over = True

    async def _connection(self) -> None:
        head = (
            f"POST {self.plan['path']} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        reader = writer = None
        while not self.over and (text := next(self.bodies, None)) is not None:
            body = text.encode()
            try:
                if reader is None or writer is None:
                    reader, writer = await asyncio.open_connection(self.host, self.port, limit=1 << 20)
                began = time.perf_counter()
                writer.write(head + str(len(body)).encode() + b"\r\n\r\n" + body)
                status = await asyncio.wait_for(self._answer(reader), ANSWER_SECONDS)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.other[type(error).__name__] += 1
                reader = writer = None
                continue
            if status == 200:
                self.milliseconds.append((time.perf_counter() - began) * 1000)
            else:
                self.other[str(status)] += 1
                await asyncio.sleep(RETRY_SECONDS if status == 429 else 0)
        if writer is not None:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> int:
        """The status of an answer that was read to its end. The server says how long each is."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        self.bytes += len(await reader.readexactly(length))
        return int(head[9:12])


def main() -> None:
    """One plan in, one line of figures out."""
    plan = json.loads(sys.stdin.readline())
    print(json.dumps({**asyncio.run(Load(plan).run()), "pid": os.getpid()}))


if __name__ == "__main__":
    main()
