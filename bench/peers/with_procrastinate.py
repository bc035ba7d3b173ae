"""procrastinate: psycopg, ten jobs at once in each worker, as its documentation recommends."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import procrastinate  # type: ignore[import-not-found]

from bench.peers.talk import Last, serve

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=sys.argv[1]))
last = Last()


async def _parcel(n: int) -> None:
    last.one()


parcel = app.task(queue="parcel", name="parcel")(_parcel)
bulk = app.task(queue="bulk", name="bulk")(_parcel)


def run(work: Any) -> Any:
    async def opened() -> Any:
        async with app.open_async():
            return await work()

    return asyncio.run(opened())


async def _submit_one(count: int) -> float:
    began = time.monotonic()
    for n in range(count):
        await bulk.defer_async(n=n)
    return count / (time.monotonic() - began)


async def _submit_callers(count: int, callers: int) -> float:
    left = iter(range(count))

    async def caller() -> None:
        for n in left:
            await bulk.defer_async(n=n)

    began = time.monotonic()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count / (time.monotonic() - began)


async def _submit_bulk(count: int, task: Any) -> float:
    began = time.monotonic()
    for at in range(0, count, 1000):
        await task.batch_defer_async(*({"n": n} for n in range(at, min(count, at + 1000))))
    return count / (time.monotonic() - began)


async def _drain() -> dict[str, float]:
    last.__init__()  # type: ignore[misc]
    await app.run_worker_async(queues=["parcel"], concurrency=10, wait=False, install_signal_handlers=False)
    return last.told()


if __name__ == "__main__":
    serve(
        {
            "prepare": lambda: run(app.schema_manager.apply_schema_async),
            "submit_one": lambda count: run(lambda: _submit_one(count)),
            "submit_callers": lambda count, callers: run(lambda: _submit_callers(count, callers)),
            "submit_bulk": lambda count: run(lambda: _submit_bulk(count, bulk)),
            "fill": lambda count: run(lambda: _submit_bulk(count, parcel)),
            "drain": lambda count: run(_drain),
        }
    )
