"""Blob stores for the tests of channels: each promise is tested on every store that is installed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from channels.memory import Memory
from custody.channels.blobs.local import Files
from custody.channels.blobs.port import Blobs

# Machines that run tests are slow at times; what is slow is not wrong.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


class Clock:
    """Time that a test moves by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **parts: float) -> None:
        self.now += timedelta(**parts)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A folder in memory, if there is such: for tests that make thousands of commits."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(params=["files", "azure", "memory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Blobs:
    return make(request, tmp_path, clock)()


@pytest.fixture
def files(tmp_path: Path, clock: Clock) -> Files:
    return Files(tmp_path / "blobs", clock)


def make(request: pytest.FixtureRequest, folder: Path, clock: Clock) -> Callable[[], Blobs]:
    """What opens the store of this test once more, as another process would."""
    if request.param == "memory":
        memory = Memory(clock)
        return lambda: memory
    if request.param == "files":
        return lambda: Files(folder / "blobs", clock)
    pytest.importorskip("azure.storage.blob")
    server = request.getfixturevalue("azurite")
    from custody.channels.blobs.azure import Azure

    container = "t" + os.urandom(8).hex()
    return lambda: Azure.connect(server.connection_string, container)
