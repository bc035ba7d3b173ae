"""An archive on each store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.bench import Archive, archive


@pytest.fixture(params=["sqlite", "postgres", "zookeeper"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    """An archive of one's own, on SQLite, on PostgreSQL, and with ZooKeeper as the queue."""
    if request.param == "zookeeper":
        hosts = request.getfixturevalue("zookeeper_hosts")
        url = f"zookeeper://{hosts}?with=sqlite:///{tmp_path / 'custody.db'}"
    elif request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'custody.db'}"
    else:
        url = request.getfixturevalue("postgres_url")
    with archive(tmp_path, url) as made:
        yield made
