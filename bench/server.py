"""A private PostgreSQL for a benchmark: default durability (fsync on), a fresh database for each contestant."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))


@contextmanager
def postgres(**settings: str) -> Iterator[Any]:
    """The tests' own rig, with everything that the tests switch off for speed left on."""
    from rig.postgres import Postgres  # type: ignore[import-not-found]

    server = Postgres()
    server.settings |= settings
    server.start()
    try:
        yield server
    finally:
        server.remove()


@contextmanager
def zookeeper() -> Iterator[str]:
    """A private ZooKeeper that writes to the disk before it answers; its address."""
    from rig.zookeeper import ZooKeeper  # type: ignore[import-not-found]

    server = ZooKeeper()
    server.start()
    try:
        yield f"zookeeper://{server.address}"
    finally:
        server.remove()


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
