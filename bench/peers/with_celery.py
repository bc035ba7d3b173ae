"""celery on a Redis that writes to the disk before it answers; late acknowledgements, so that a crash loses nothing.

Its best setting here: four threads, twice as fast as one task after the other (`solo`); no results are kept.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from celery import Celery  # type: ignore[import-not-found]
from celery.worker import WorkController  # type: ignore[import-not-found]

from bench.peers.talk import Last, serve, timed

app = Celery("bench", broker=sys.argv[1])
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=128,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)
last = Last()
heard = threading.Event()
began = [0.0]


def _parcel(n: int) -> None:
    last.one()


def _wake(n: int) -> None:
    began[0] = time.monotonic()
    heard.set()


parcel: Any = app.task(name="parcel")(_parcel)
waking: Any = app.task(name="wake")(_wake)


@contextmanager
def consumer() -> Iterator[None]:
    controller = WorkController(
        app=app, pool_cls="threads", concurrency=4, without_gossip=True, without_mingle=True, without_heartbeat=True
    )
    thread = threading.Thread(target=controller.start, daemon=True)
    thread.start()
    try:
        yield
    finally:
        controller.stop()
        thread.join(10)


def submit_one(count: int) -> float:
    return timed(count, lambda: [parcel.delay(n) for n in range(count)])


def submit_callers(count: int, callers: int) -> float:
    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(parcel.delay, range(callers)))  # connections are made before the clock starts
        return timed(count, lambda: list(pool.map(parcel.delay, range(count))))


def drain(count: int) -> dict[str, float]:
    last.__init__()  # type: ignore[misc]
    with consumer():
        while last.count < count:
            time.sleep(0.005)
        return last.told()


def wake(count: int) -> list[float]:
    took = []
    with consumer():
        for n in range(-5, count):
            time.sleep(0.02)
            heard.clear()
            asked = time.monotonic()
            waking.delay(n)
            heard.wait(30)
            if n >= 0:
                took.append((began[0] - asked) * 1000)
    return took


if __name__ == "__main__":
    acts = (submit_one, submit_callers, drain, wake)
    serve({"prepare": lambda: None, "fill": submit_one, **{act.__name__: act for act in acts}})
