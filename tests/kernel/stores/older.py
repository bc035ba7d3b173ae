"""Stores as they were: opened with no more of the migrations than there were then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from custody.kernel.stores.postgres.server.condition import asked
from custody.kernel.stores.sql import migrations as migrating
from custody.kernel.stores.sql.migrations import migrations

ONE_LINE = 20
"""So many there were when there was one line for all."""


def number_of(name: str) -> int:
    """Where a migration stood, or stands, in the line for all."""
    return next(script.place for script in migrations("sqlite") if script.name == name and script.place)


@contextmanager
def older(schema: int) -> Iterator[None]:
    """A program that knew the first so many."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            migrating,
            "migrations",
            lambda dialect: tuple(script for script in migrations(dialect) if 0 < script.place <= schema),
        )
        asked.cache_clear()  # what it looks for is what its own migrations leave
        try:
            yield
        finally:
            asked.cache_clear()
