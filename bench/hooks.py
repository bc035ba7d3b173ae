"""Hooks as they come: from another process, each with a connection of its own, at a steady pace whoever is slow.

Several archives are committed to, each with a token of its own, as the API gives each only so many answers a second.
A hook is late from the moment it was due, so one that has to wait for the one before is not forgiven. Beside them
come bare durable inserts at the same pace, so that both meet the same moments of the machine.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from bench.peers.contest import PROJECT
from custody.kernel.access.tokens import Tokens
from custody.kernel.model.machine import PLAIN
from custody.kernel.stores import Store
from custody.web.app import Options, build_app
from custody.web.server import Server

PER_SECOND = 200
FIRST = 4  # those before it find nothing prepared, and are not counted


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
def answered(store: Store, archives: Sequence[str]) -> Iterator[list[Address]]:
    secrets = {name: Tokens(store).create(name, ["hook"], [name], 1, "bench", [name])[1] for name in archives}
    server = Server(build_app(store, Options(b"0" * 32, machines=PLAIN))).start()
    try:
        yield [Address(server.port, f"/api/v1/archives/{name}/notify", secret) for name, secret in secrets.items()]
    finally:
        server.stop()


@dataclass(frozen=True, slots=True)
class Hooks:
    addresses: Sequence[Address]  # one for each archive
    store: str  # where the bare inserts go
    count: int

    def run(self) -> Took:
        """In a process of its own: whoever asks is no part of what is measured."""
        words = json.dumps(
            {"addresses": [asdict(each) for each in self.addresses], "store": self.store, "count": self.count}
        )
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


def _pace(addresses: Sequence[Address], store: str, count: int) -> Took:
    for address in addresses:
        for revision in range(1, FIRST):
            ask(address, revision)
    with psycopg.connect(store, autocommit=True) as db, ThreadPoolExecutor(len(addresses) + 1) as pool:
        db.execute("create table bare (id bigint generated always as identity primary key, payload text)")
        begun = time.perf_counter() + 0.1
        bare = pool.submit(_at_pace, begun, range(count), lambda _: _insert(db))
        hooks = [
            pool.submit(_at_pace, begun, range(sender, count, len(addresses)), _asker(address, len(addresses)))
            for sender, address in enumerate(addresses)
        ]
        return Took([took for sent in hooks for took in sent.result()], bare.result())


def _asker(address: Address, senders: int) -> Callable[[int], None]:
    return lambda number: ask(address, FIRST + number // senders)


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
    addresses = [Address(**each) for each in told["addresses"]]
    print(json.dumps(asdict(_pace(addresses, told["store"], told["count"]))))
