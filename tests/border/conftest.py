from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from custody.border.folder import Folder
from custody.border.http.fetch import Fetcher
from custody.border.http.policy import Policy

from .server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    started.start()
    yield started
    started.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    path = tmp_path / "folder"
    path.mkdir()
    with Folder(path) as opened:
        yield opened


@pytest.fixture
def fetcher(server: Server) -> Iterator[Callable[..., Fetcher]]:
    """Fetchers for the local server, which try again at once: `fetcher(tries=2)`. They are patient, as a machine may
    stand still for seconds; a test of impatience says with what."""
    made: list[Fetcher] = []

    def make(**changes: Any) -> Fetcher:
        hurry = replace(
            Policy.local(server.port),
            connect_seconds=60,
            answer_seconds=60,
            slow_seconds=60,
            total_seconds=240,
            backoff_seconds=0.01,
            patience_seconds=0.3,
            tries=3,
        )
        made.append(Fetcher(replace(hurry, **changes)))
        return made[-1]

    yield make
    for one in made:
        one.close()
