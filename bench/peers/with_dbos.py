"""DBOS: a queue with a hundred at once, polled ten times a second, on PostgreSQL or SQLite."""

from __future__ import annotations

import sys
import time
from typing import Any

from dbos import DBOS, DBOSClient  # type: ignore[import-not-found]

from bench.peers.talk import Last, serve, timed

URL, QUEUE = sys.argv[1], "parcels"
last = Last()


def _parcel(n: int) -> None:
    last.one()


def launch() -> None:
    DBOS(config={"name": "bench", "system_database_url": URL, "run_admin_server": False, "log_level": "ERROR"})
    DBOS.workflow(name="parcel")(_parcel)
    DBOS.listen_queues([QUEUE])
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=100, polling_interval_sec=0.1)


def prepare() -> None:
    """Its tables are made, and its queue; nothing is there to be done yet."""
    launch()
    DBOS.destroy()


def submit_one(count: int) -> float:
    client = DBOSClient(system_database_url=URL)
    order: Any = {"queue_name": QUEUE, "workflow_name": "parcel"}
    return timed(count, lambda: [client.enqueue(order, n) for n in range(count)])


def drain(count: int) -> dict[str, float]:
    last.__init__()  # type: ignore[misc]
    launch()
    last.began = time.monotonic()
    while last.count < count:
        time.sleep(0.01)
    told = last.told()
    DBOS.destroy()
    return told


if __name__ == "__main__":
    serve({"prepare": prepare, "submit_one": submit_one, "drain": drain})
