"""One filled house per module for looking at, one empty house per test for changing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from web.house import House, open_house


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("house")) as made:
        yield made


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """An archive without deposits, for what is refused."""
    with open_house(tmp_path_factory.mktemp("empty"), filled=False) as made:
        yield made


@pytest.fixture
def own(tmp_path: Path) -> Iterator[House]:
    """An empty archive that a test may change as it likes."""
    with open_house(tmp_path, filled=False) as made:
        yield made
