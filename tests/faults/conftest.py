"""A store to be troubled, and where to put it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from custody.kernel.stores import Store, open_store
from faults.audit import audit
from faults.troubled import Troubled
from kernel.stores.clock import HandClock


@contextmanager
def quick() -> Iterator[Path]:
    """A folder where fsync costs nothing, if the machine has one: for tests that cut no power."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    with quick() as folder:
        yield folder


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(clock: HandClock) -> Iterator[Store]:
    with open_store("sqlite://:memory:", clock) as store:
        yield store
        assert audit(store) == []


@pytest.fixture
def troubled(store: Store) -> Troubled:
    return Troubled(store.db)
