"""Temporal: a workflow of one activity for each job, against its own server on a file; no sandbox, two hundred at once.

An activity is where it lets effects happen, so that is what a job is compared with.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.peers.talk import Last, serve

ADDRESS, QUEUE = sys.argv[1].split("/")
MANY = 200
heard: asyncio.Queue[float] = asyncio.Queue()
last = Last()


@activity.defn
async def parcel(n: int) -> None:
    last.one()
    heard.put_nowait(time.monotonic())


@workflow.defn(name="job")
class Job:
    @workflow.run
    async def run(self, n: int) -> None:
        await workflow.execute_activity(parcel, n, start_to_close_timeout=timedelta(seconds=60))


def worker(client: Client) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Job],
        activities=[parcel],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_activities=MANY,
        max_concurrent_workflow_tasks=MANY,
    )


async def _submit(count: int, callers: int) -> float:
    client, left, stamp = await Client.connect(ADDRESS), iter(range(count)), time.monotonic_ns()

    async def caller() -> None:
        for n in left:
            await client.start_workflow("job", n, id=f"{QUEUE}-{stamp}-{n}", task_queue=QUEUE)

    began = time.monotonic()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count / (time.monotonic() - began)


async def _drain(count: int) -> dict[str, float]:
    client = await Client.connect(ADDRESS)
    last.__init__()  # type: ignore[misc]
    async with worker(client):
        while last.count < count:
            await asyncio.sleep(0.005)
        return last.told()


async def _wake(count: int) -> list[float]:
    client, took = await Client.connect(ADDRESS), []
    async with worker(client):
        for n in range(-3, count):
            await asyncio.sleep(0.02)
            asked = time.monotonic()
            await client.start_workflow("job", n, id=f"{QUEUE}-wake-{n}", task_queue=QUEUE)
            began = await heard.get()
            if n >= 0:
                took.append((began - asked) * 1000)
    return took


def run(work: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    return lambda **given: asyncio.run(work(**given))


if __name__ == "__main__":
    serve(
        {
            "prepare": lambda: None,
            "submit_one": lambda count: asyncio.run(_submit(count, 1)),
            "submit_callers": run(_submit),
            "fill": lambda count: asyncio.run(_submit(count, 16)),
            "drain": run(_drain),
            "wake": run(_wake),
        }
    )
