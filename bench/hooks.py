"""Hooks as they come: from another process, each with a connection of its own, at a steady pace whoever is slow.

A hook is late from the moment it was due, so one that has to wait for the one before is not forgiven. Beside them
come bare durable inserts at the same pace, so that both meet the same moments of the machine.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from bench.peers.contest import PROJECT
from custody.model.machine import PLAIN
from custody.stores import Store
from custody.web.app import Options, build_app
from custody.web.serving import Server
from custody.web.tokens import Tokens

PER_SECOND = 200
SENDERS = 8
FIRST = 11  # those before it find nothing prepared, and are not counted


@dataclass(frozen=True, slots=True)
class Address:
    port: int
    path: str
    secret: str


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds, each."""

    hooks: list[float]
    bare: list[float]


@contextmanager
def answered(store: Store, archive: str) -> Iterator[Address]:
    secret = Tokens(store).create("hook", ["worker"], [archive], 1, "bench")[1]
    server = Server(build_app(store, Options(b"0" * 32, machines=PLAIN))).start()
    try:
        yield Address(server.port, f"/api/v1/archives/{archive}/notify", secret)
    finally:
        server.stop()


@dataclass(frozen=True, slots=True)
class Hooks:
    address: Address
    store: str  # where the bare inserts go
    count: int

    def run(self) -> Took:
        """In a process of its own: whoever asks is no part of what is measured."""
        words = json.dumps({"address": asdict(self.address), "store": self.store, "count": self.count})
        done = subprocess.run(
            [sys.executable, "-m", "bench.hooks"],
            input=words,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=PROJECT,
        )
        return Took(**json.loads(done.stdout))


def ask(address: Address, revision: int) -> None:
    headers = {"Authorization": f"Bearer {address.secret}", "Content-Type": "application/json"}
    asking = http.client.HTTPConnection("127.0.0.1", address.port)
    asking.request("POST", address.path, f'{{"revision": {revision}}}', headers)
    answer = asking.getresponse()
    answer.read()
    asking.close()
    assert answer.status == 202, answer.status


def _pace(address: Address, store: str, count: int) -> Took:
    for revision in range(1, FIRST):
        ask(address, revision)
    with psycopg.connect(store, autocommit=True) as db, ThreadPoolExecutor(SENDERS + 1) as pool:
        db.execute("create table bare (id bigint generated always as identity primary key, payload text)")
        begun = time.perf_counter() + 0.1
        bare = pool.submit(_at_pace, begun, range(count), lambda _: _insert(db))
        shares = [range(sender, count, SENDERS) for sender in range(SENDERS)]
        hooks = [pool.submit(_at_pace, begun, share, lambda n: ask(address, FIRST + n)) for share in shares]
        return Took([took for sent in hooks for took in sent.result()], bare.result())


def _insert(db: psycopg.Connection[Any]) -> None:
    db.execute("insert into bare (payload) values ('x')", prepare=True)


def _at_pace(begun: float, numbers: Iterable[int], act: Callable[[int], None]) -> list[float]:
    """Milliseconds from when each was due to when it was done."""
    took = []
    for number in numbers:
        due = begun + number / PER_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))
        act(number)
        took.append((time.perf_counter() - due) * 1000)
    return took


if __name__ == "__main__":
    told = json.loads(sys.stdin.read())
    print(json.dumps(asdict(_pace(Address(**told["address"]), told["store"], told["count"]))))
