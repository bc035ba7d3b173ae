"""Custody as a contestant: everything on (fsync, tokens, one event per move), as `custody worker run` would run it."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from bench.peers.talk import Last, serve, timed
from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.engine.listeners import NOTHING
from custody.kernel.model.graph import Edge
from custody.kernel.model.job import Answer, Change, Job, NewJob
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.stores import open_store

store = open_store(sys.argv[1])
THREADS = 4
BULK = 10_000


def jobs(count: int, kind: str = "parcel", keyed: bool = False) -> list[NewJob]:
    stamp = time.monotonic_ns()  # keys as the peers' are: alike at first, then counted
    return [NewJob(kind, {"n": n}, key=f"k{stamp}-{n}" if keyed else None) for n in range(count)]


def submit_one(count: int) -> float:
    made = jobs(count, "one")
    return timed(count, lambda: [store.queue.submit_one(job) for job in made])


def submit_callers(count: int, callers: int) -> float:
    made = iter(jobs(count, "one"))

    def caller() -> None:
        for job in made:
            store.queue.submit_one(job)

    threads = [threading.Thread(target=caller) for _ in range(callers)]

    def together() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return timed(count, together)


def submit_bulk(count: int, keyed: bool = False, kind: str = "bulk") -> float:
    made = jobs(count, kind, keyed)
    return timed(count, lambda: [store.queue.submit(made[at : at + BULK]) for at in range(0, count, BULK)])


def fill(count: int) -> float:
    return submit_bulk(count, kind="parcel")


class Counting:
    """Knows when the last of them was settled; nothing else is told to it."""

    def __init__(self) -> None:
        self.last = Last()

    def started(self, job: Job) -> None: ...

    def settled(self, job: Job, change: Change, answer: Answer) -> None:
        self.last.one()

    def lost(self, job: Job, reason: str) -> None:
        raise SystemExit(f"job {job.id} was lost: {reason}")

    trouble = NOTHING.trouble


def worker(watch: Any = NOTHING, kind: str = "parcel", handler: Any = None, **settings: Any) -> Worker:
    kinds = (Kind(kind, handler or (lambda work: Passed())),)
    return Worker(store, Serving(kinds), Settings(threads=THREADS, schedules=False, **settings), watch)


def drain(count: int, kind: str = "parcel") -> dict[str, float]:
    watch = Counting()
    runner = worker(watch, kind)
    watch.last = Last()
    runner.run_until_quiet()
    return watch.last.told()


def wake(count: int) -> list[float]:
    """Milliseconds from just before a submit to the handler's first line, one at a time, the worker being idle."""
    began: dict[int, float] = {}
    heard = threading.Event()

    def handler(work: Work) -> Outcome:
        began[work.payload["n"]] = time.monotonic()
        heard.set()
        return Passed()

    runner = worker(kind="wake", handler=handler)
    thread = threading.Thread(target=runner.run_forever)
    thread.start()
    took = []
    for n in range(-5, count):
        time.sleep(0.02)
        heard.clear()
        asked = time.monotonic()
        store.queue.submit_one(NewJob("wake", {"n": n}))
        heard.wait(30)
        if n >= 0:  # the first few warm the statements
            took.append((began[n] - asked) * 1000)
    runner.stop()
    thread.join()
    return took


def chain(count: int, length: int) -> int:
    """Chains of needs: each job but the first of its chain waits for the one before it."""
    ends: list[int] = []
    for step in range(length):
        width = count // length
        made = [NewJob("chained", {"n": n}, needs=[Edge(ends[n])] if step else ()) for n in range(width)]
        ends = [one.id for one in store.queue.submit(made)]
    return count


if __name__ == "__main__":
    acts = (submit_one, submit_callers, submit_bulk, fill, drain, wake, chain)
    serve({act.__name__: act for act in acts})
    store.close()
