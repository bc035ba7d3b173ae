"""An archive on each store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.bench import Archive, archive


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    """An archive of one's own, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'custody.db'}"
    else:
        url = request.getfixturevalue("postgres_url")
    with archive(tmp_path, url) as made:
        yield made
