"""Named SQL: every file of it is there, or nothing is opened."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

import custody
from custody.errors import Unavailable
from custody.kernel.stores.sql import statements

SOURCE = Path(custody.__file__).parent
FILES = sorted(file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("statements.sql"))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installation of SQL alone, of which files can be taken away."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOURCE / file, tmp_path / file)
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    statements.load.cache_clear()
    yield tmp_path
    statements.load.cache_clear()


def test_every_file_of_statements_is_loaded(installed: Path) -> None:
    every = {name for file in FILES for name in statements.parse((installed / file).read_text())[0]}
    assert every == set(statements.load("sqlite")) | set(statements.load("postgres"))


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_statements_that_is_missing_is_told(installed: Path, file: str) -> None:
    (installed / file).unlink()
    dialect = "postgres" if "postgres" in file else "sqlite"
    with pytest.raises(Unavailable, match="lacks") as told:
        statements.load(dialect)
    assert told.value.code == "store.statements"
    assert file in told.value.message
