"""The stores that robots run on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from custody.cli import main
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount


@pytest.fixture(params=["memory", "file", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {"memory": "sqlite://:memory:", "file": f"sqlite:///{tmp_path / 'custody.db'}"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    with open_store(url) as opened:
        yield opened
        assert recount(opened) == []


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    """Where the database makes no difference."""
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as opened:
        yield opened
        assert recount(opened) == []


Custody = Callable[..., str]


@pytest.fixture
def custody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Custody]:
    """`custody robot …` in a folder of its own; what it said, if it ended with the code that was expected."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUSTODY_STORE", raising=False)
    monkeypatch.setenv("CUSTODY_WHO", "ada")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def run(*words: str, code: int = 0) -> str:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["robot", *words])
        out, err = capfd.readouterr()
        assert (ended.value.code or 0) == code, out + err
        return out + err

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
