"""pgqueuer: asyncpg and uvloop, batches of 100 for one process and 500 for two, as measured best."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta
from typing import Any

import asyncpg  # type: ignore[import-not-found]
import uvloop  # type: ignore[import-not-found]
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries  # type: ignore[import-not-found]
from pgqueuer.domain.types import QueueExecutionMode  # type: ignore[import-not-found]

from bench.peers.talk import Last, serve

URL = sys.argv[1]
loop = uvloop.new_event_loop()


def run(work: Any) -> Any:
    return loop.run_until_complete(work)


async def connect() -> Any:
    return await asyncpg.connect(URL)


async def _prepare() -> None:
    await Queries(AsyncpgDriver(await connect())).install()


async def _submit_one(count: int) -> float:
    queries = Queries(AsyncpgDriver(await connect()))
    began = time.monotonic()
    for n in range(count):
        await queries.enqueue("one", b'{"n":%d}' % n)
    return count / (time.monotonic() - began)


async def _submit_callers(count: int, callers: int) -> float:
    async with asyncpg.create_pool(URL, min_size=callers, max_size=callers) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        left = iter(range(count))

        async def caller() -> None:
            for n in left:
                await queries.enqueue("one", b'{"n":%d}' % n)

        began = time.monotonic()
        await asyncio.gather(*(caller() for _ in range(callers)))
        return count / (time.monotonic() - began)


async def _submit_bulk(count: int, keyed: bool, entrypoint: str, size: int = 1000) -> float:
    queries = Queries(AsyncpgDriver(await connect()))
    stamp = time.monotonic_ns()
    began = time.monotonic()
    for at in range(0, count, size):
        n = min(size, count - at)
        keys = [f"k{stamp}-{i}" for i in range(at, at + n)] if keyed else None
        await queries.enqueue([entrypoint] * n, [b'{"n":%d}' % i for i in range(at, at + n)], [0] * n, dedupe_key=keys)
    return count / (time.monotonic() - began)


async def _drain(count: int, batch: int) -> dict[str, float]:
    queue = PgQueuer(AsyncpgDriver(await connect()))
    last = Last()

    async def work(job: Any) -> None:
        last.one()

    queue.entrypoint("parcel")(work)
    await queue.run(batch_size=batch, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=1))
    return last.told()


async def _wake(count: int) -> list[float]:
    queue = PgQueuer(AsyncpgDriver(await connect()))
    queries = Queries(AsyncpgDriver(await connect()))
    heard: asyncio.Queue[float] = asyncio.Queue()

    async def work(job: Any) -> None:
        heard.put_nowait(time.monotonic())

    queue.entrypoint("wake")(work)
    running = asyncio.create_task(queue.run())
    await asyncio.sleep(1)
    took = []
    for n in range(-5, count):
        await asyncio.sleep(0.02)
        asked = time.monotonic()
        await queries.enqueue("wake", b"{}")
        began = await heard.get()
        if n >= 0:
            took.append((began - asked) * 1000)
    queue.shutdown.set()
    await asyncio.wait([running], timeout=10)
    return took


if __name__ == "__main__":
    serve(
        {
            "prepare": lambda: run(_prepare()),
            "submit_one": lambda count: run(_submit_one(count)),
            "submit_callers": lambda count, callers: run(_submit_callers(count, callers)),
            "submit_bulk": lambda count, keyed=False: run(_submit_bulk(count, keyed, "bulk")),
            "fill": lambda count: run(_submit_bulk(count, False, "parcel")),
            "drain": lambda count, batch=100: run(_drain(count, batch)),
            "wake": lambda count: run(_wake(count)),
        }
    )
