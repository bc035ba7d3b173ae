"""The servers as fixtures: started when the first test asks for one, ended with the test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.need import need
from rig.postgres import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A private PostgreSQL, durable as in production; a test that stops it starts it again."""
    need("postgresql")
    server = Postgres()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """An empty database for this test alone."""
    url = postgres.fresh_database()
    yield url
    postgres.give_back(url)
