"""The dashboard and the API over many jobs, asked by a real client over loopback.

    python -m bench.web [--quick] [--jobs N] [--store URL | --postgres] [--json FILE]

Lists must answer within 50 ms in 99 of 100 cases, the overview within 100 ms, over a million jobs; and two hundred
open dashboards hear news within two seconds while others are served on. Exit 1 when a row falls short. On a machine
that others use too, the numbers are what is left of it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import selectors
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.server import database, postgres
from custody.ingest.states import JOB_KIND, MACHINES
from custody.installation import machines
from custody.kernel.model.authority.acting import system
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Filter, NewJob
from custody.kernel.model.machine import WORK
from custody.kernel.stores import Store, open_store
from custody.web.app import Options, build_app
from custody.web.live_updates import PAUSE_SECONDS, SHARE_SECONDS
from custody.web.server import Server

PIECE = 2_000
DASHBOARDS = 200
LIST_MS, OVERVIEW_MS, NEWS_MS = 50.0, 100.0, 2_000.0


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    median: float  # milliseconds
    p99: float
    target: float

    @property
    def ok(self) -> bool:
        return self.p99 <= self.target

    def __str__(self) -> str:
        grade = "ok" if self.ok else "short"
        found = f"median={self.median:.1f}ms p99={self.p99:.1f}ms target={self.target:.0f}ms"
        return f"RESULT name={self.name} {found} {grade}"


def fill(store: Store, count: int) -> None:
    """Most are done, some failed for a handful of reasons, some wait: as an archive looks after a year."""
    ingest = MACHINES[JOB_KIND]
    for at in range(0, count, PIECE):
        jobs = []
        for n in range(at, min(count, at + PIECE)):
            collection = f"collection-{n % 40}"
            if n % 3:
                state = "queued" if n % 50 == 1 else "failed" if n % 50 == 2 else "done"
                jobs.append(
                    NewJob("parcel", {"title": f"Parcel {n}"}, machine=WORK, state=state, collection=collection)
                )
            else:
                state = "pending" if n % 60 == 0 else "held" if n % 60 == 3 else "completed"
                payload = {"title": f"Object {n}"}
                jobs.append(NewJob(JOB_KIND, payload, machine=ingest, state=state, collection=collection))
        store.queue.submit(jobs, system("bench"))
    for at in range(0, count // 20, 500):
        items = [
            NewItem(f"ark:/99999/fk4{n:07}", frozenset({"object"}), detail={"title": f"{n}"})
            for n in range(at, at + 500)
        ]
        store.records.put(items, [NewEvent(item.id, "ingested") for item in items], "bench")


ADDRESSES = (
    # name, address, target
    ("bare request", "/api/v1/health", LIST_MS),
    ("api jobs", "/api/v1/jobs?limit=50", LIST_MS),
    ("api jobs, deep", "/api/v1/jobs?limit=50&before={middle}", LIST_MS),
    ("api jobs by state", "/api/v1/jobs?state=done&limit=50", LIST_MS),
    ("api jobs failed", "/api/v1/jobs?ended=failed&limit=50", LIST_MS),
    ("api jobs by kind", "/api/v1/jobs?kind=parcel&limit=50&before={middle}", LIST_MS),
    ("api jobs by collection", "/api/v1/jobs?collection=collection-7&limit=50", LIST_MS),
    ("api jobs of an absent collection", "/api/v1/jobs?collection=nowhere&limit=50", LIST_MS),
    ("api jobs failed in a collection", "/api/v1/jobs?collection=collection-7&ended=failed&limit=50", LIST_MS),
    ("api jobs of an absent lane", "/api/v1/jobs?lane=nowhere&limit=50", LIST_MS),
    ("api items", "/api/v1/items?limit=50", LIST_MS),
    ("api events", "/api/v1/events?limit=50", LIST_MS),
    ("api events of an absent type", "/api/v1/events?type=nothing&limit=50", LIST_MS),
    ("api events of a subject", "/api/v1/events?subject=job/{middle}&limit=50", LIST_MS),
    ("api items of an absent type", "/api/v1/items?type=nothing&limit=50", LIST_MS),
    ("page jobs", "/jobs", LIST_MS),
    ("page events", "/events", LIST_MS),
    ("page failures", "/failures", LIST_MS),
    ("page channels", "/channels", LIST_MS),
    ("page robots", "/robots", LIST_MS),
    ("page archives", "/archives", LIST_MS),
    ("page history", "/history", OVERVIEW_MS),
    ("overview", "/", OVERVIEW_MS),
    ("metrics", "/metrics", OVERVIEW_MS),
)


def ask(connection: http.client.HTTPConnection, address: str) -> float:
    """Milliseconds until all of the answer is there."""
    began = time.perf_counter()
    connection.request("GET", address, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, f"{address} {answer.status} {body[:200]!r}"
    return (time.perf_counter() - began) * 1000


def row(name: str, times: list[float], target: float) -> Row:
    ordered = sorted(times)
    return Row(
        name.replace(" ", "-").replace(",", ""),
        statistics.median(ordered),
        ordered[int(len(ordered) * 0.99) - 1],
        target,
    )


def lists(server: Server, count: int, rounds: int) -> list[Row]:
    rows = []
    for name, address, target in ADDRESSES:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        here = address.format(middle=count // 2)
        for _ in range(3):
            ask(connection, here)
        rows.append(row(name, [ask(connection, here) for _ in range(rounds)], target))
        connection.close()
    return rows


def dashboards(server: Server, store: Store, rounds: int) -> list[Row]:
    """Open streams; then a piece of news: when has the last one heard it, and how are they and others served then?

    Each asks for its page again when it hears, as a browser does.
    """
    lines = [_stream(server) for _ in range(DASHBOARDS)]
    heard: list[float] = []
    pages: list[float] = []
    served: list[float] = []
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    try:
        for number in range(rounds):
            _drain(lines)
            began = time.perf_counter()
            store.queue.submit_one(NewJob("parcel", {"title": f"News {number}"}))
            last = _all_heard(lines, lambda: pages.append(ask(connection, "/")))
            heard.append((last - began) * 1000)
            served += [ask(connection, "/api/v1/jobs?limit=50") for _ in range(10)]
    finally:
        connection.close()
        for line in lines:
            line.close()
    return [
        row(f"{DASHBOARDS} dashboards hear", heard, NEWS_MS),
        row(f"{DASHBOARDS} dashboards ask again", pages, OVERVIEW_MS),
        row(f"api beside {DASHBOARDS} dashboards", served, LIST_MS),
    ]


def _stream(server: Server) -> socket.socket:
    line = socket.create_connection((server.host, server.port), timeout=60)
    line.sendall(b"GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
    assert b"200" in line.recv(4096)
    return line


def _drain(lines: list[socket.socket]) -> None:
    """What was said before does not count; nor does the pause that many of them make after they have heard."""
    time.sleep(max(PAUSE_SECONDS, SHARE_SECONDS * len(lines)) + 0.6)
    for line in lines:
        line.setblocking(False)
        try:
            while line.recv(65536):
                pass
        except BlockingIOError:
            pass


def _all_heard(lines: list[socket.socket], then: Callable[[], None]) -> float:
    with selectors.DefaultSelector() as waiting:
        for line in lines:
            waiting.register(line, selectors.EVENT_READ)
        left, until = set(lines), time.perf_counter() + 30
        while left:
            assert time.perf_counter() < until, f"{len(left)} dashboards have not heard"
            for key, _ in waiting.select(1):
                if b"data" in key.fileobj.recv(65536):  # type: ignore[union-attr]
                    left.discard(key.fileobj)
                    then()
    return time.perf_counter()


@contextmanager
def place(url: str, on_postgres: bool) -> Iterator[str]:
    """The store that is named, or one that is thrown away afterwards."""
    if url:
        yield url
    elif on_postgres:
        with postgres() as server, database(server) as made:
            yield made
    else:
        with tempfile.TemporaryDirectory(prefix="custody-bench-") as name:
            yield f"sqlite:///{Path(name) / 'web.db'}"


def measure(url: str, count: int, rounds: int) -> list[Row]:
    with open_store(url) as store:
        if not store.queue.list(Filter(), 0, 1):
            fill(store, count)
        options = Options(b"a secret of thirty-two bytes, no less", demo=True, machines=machines())
        server = Server(build_app(store, options)).start()
        try:
            return [*lists(server, count, rounds), *dashboards(server, store, max(5, rounds // 20))]
        finally:
            server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer jobs and rounds")
    parser.add_argument("--jobs", type=int, default=0, help="how many; a million unless told")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    parser.add_argument("--store", default="", help="a store to use; filled when it is empty, and kept")
    parser.add_argument("--postgres", action="store_true", help="a private PostgreSQL instead of SQLite")
    options = parser.parse_args()
    count, rounds = options.jobs or (20_000 if options.quick else 1_000_000), 50 if options.quick else 300
    with place(options.store, options.postgres) as url:
        rows = measure(url, count, rounds)
    for each in rows:
        print(each)
    if options.json:
        options.json.write_text(json.dumps([asdict(each) | {"ok": each.ok} for each in rows], indent=1))
    return 0 if all(each.ok for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
