"""Commands as people give them in a folder: what they say, and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Said:
    code: int
    out: str
    err: str

    def json(self) -> object:
        return json.loads(self.out)


Run = Callable[..., Said]


@pytest.fixture
def custody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in a folder of its own; in this process, because starting one costs half a second."""
    from custody.cli import main

    monkeypatch.chdir(tmp_path)
    for name in ("CUSTODY_STORE", "CUSTODY_CONFIG"):
        monkeypatch.setenv(name, "")  # so that what a command leaves there goes with the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUSTODY_WHO", "ada")

    def run(*words: str) -> Said:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        out, err = capfd.readouterr()
        code = ended.value.code
        return Said(code if isinstance(code, int) else 0, out, err)

    return run
