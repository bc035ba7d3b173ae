"""huey on SQLite with fsync on. It takes a task out of the store before it runs it: at most once."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from huey import SqliteHuey

from bench.peers.talk import Last, serve, timed

queue = SqliteHuey(filename=sys.argv[1], fsync=True, results=False)
last = Last()
heard = threading.Event()
began = [0.0]


def _parcel(n: int) -> None:
    last.one()


def _wake(n: int) -> None:
    began[0] = time.monotonic()
    heard.set()


parcel: Any = queue.task()(_parcel)
waking: Any = queue.task()(_wake)


def fill(count: int) -> float:
    return timed(count, lambda: [parcel(n) for n in range(count)])


def drain(count: int) -> dict[str, float]:
    """With its own consumer, one worker: more are slower on SQLite."""
    last.__init__()  # type: ignore[misc]
    consumer = queue.create_consumer(workers=1, periodic=False, initial_delay=0.001, max_delay=0.01)
    consumer.start()
    while last.count < count:
        time.sleep(0.005)
    consumer.stop(graceful=True)
    return last.told()


def wake(count: int) -> list[float]:
    consumer = queue.create_consumer(workers=1, periodic=False)
    consumer.start()
    took = []
    for n in range(-2, count):
        time.sleep(0.02)
        heard.clear()
        asked = time.monotonic()
        waking(n)
        heard.wait(30)
        if n >= 0:
            took.append((began[0] - asked) * 1000)
    consumer.stop(graceful=True)
    return took


if __name__ == "__main__":
    serve({"fill": fill, "drain": drain, "wake": wake})
