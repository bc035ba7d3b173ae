"""Private servers for a benchmark, durable as in production, with a fresh place for each contestant.

PostgreSQL has its default durability (fsync on). The two peers that do not use it have what they want instead: celery
a Redis that writes to the disk before it answers, Temporal its own server on a file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from bench.peers.contest import CELERY, TEMPORAL, Peer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rig import install  # type: ignore[import-not-found]

__all__ = ["Servers", "azurite", "database", "install", "postgres", "servers", "zookeeper"]


MEMORY = "1GB"
"""PostgreSQL's buffers: its own default, made for the smallest machines, is full before a round is over."""


@dataclass(frozen=True, slots=True)
class Servers:
    postgres: Any
    redis: Any = None
    temporal: Any = None
    _turns: Iterator[int] = field(default_factory=count)

    @contextmanager
    def place(self, peer: Peer) -> Iterator[str]:
        """The address of an empty place for a contestant."""
        if peer is CELERY:
            self.redis.ask("FLUSHALL")
            yield self.redis.url
        elif peer is TEMPORAL:
            yield f"{self.temporal.address}/parcels-{next(self._turns)}"
        else:
            with database(self.postgres) as url:
                yield url


@contextmanager
def servers(peers: Sequence[Peer]) -> Iterator[Servers]:
    """Those that these contestants want."""
    with ExitStack() as stack:
        redis = stack.enter_context(_redis()) if CELERY in peers else None
        temporal = stack.enter_context(_temporal()) if TEMPORAL in peers else None
        yield Servers(stack.enter_context(postgres()), redis, temporal)


@contextmanager
def _running(server: Any) -> Iterator[Any]:
    server.start()
    try:
        yield server
    finally:
        server.remove()


def _redis() -> AbstractContextManager[Any]:
    from rig.redis import Redis  # type: ignore[import-not-found]

    return _running(Redis())


def _temporal() -> AbstractContextManager[Any]:
    from rig.temporal import Temporal  # type: ignore[import-not-found]

    return _running(Temporal())


def azurite() -> AbstractContextManager[Any]:
    from rig.azurite import Azurite  # type: ignore[import-not-found]

    return _running(Azurite())


def postgres(**settings: str) -> AbstractContextManager[Any]:
    """The tests' own rig, but with all that they switch off for speed, and with a real server's memory."""
    from rig.postgres import Postgres  # type: ignore[import-not-found]

    server = Postgres()
    server.settings |= {"shared_buffers": MEMORY} | settings
    return _running(server)


@contextmanager
def zookeeper() -> Iterator[str]:
    """A private ZooKeeper that writes to the disk before it answers; its address."""
    from rig.zookeeper import ZooKeeper  # type: ignore[import-not-found]

    with _running(ZooKeeper()) as server:
        yield f"zookeeper://{server.address}"


@contextmanager
def database(server: Any) -> Iterator[str]:
    """An empty database, thrown away afterwards, with a checkpoint behind us so that nobody pays for another's."""
    import psycopg

    url = server.fresh_database()
    with psycopg.connect(server.url(), autocommit=True) as db:
        db.execute("checkpoint")
    try:
        yield url
    finally:
        server.give_back(url)
