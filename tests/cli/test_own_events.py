"""What only the system or a person records is nobody else's word: not a label's, and not that of work of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.kernel.model.item import NewItem
from custody.kernel.stores import open_store
from rig.commands import Run, custody

__all__ = ["custody"]

LABEL = """\
name = "forger"
version = "1"
event = "{event}"
command = ["./forge.sh"]
[when]
absent = ["{event}"]
"""
KINDS = """\
from custody.kernel.engine import Kind, Work
from custody.kernel.model.event import NewEvent
from custody.kernel.model.outcome import Passed

KINDS = [Kind("forge", lambda work: Passed(events=[NewEvent("a", work.payload["event"])]))]
"""


@pytest.mark.parametrize("event", ["approved", "ingested", "went-back", "Approved", "task build", "5tored", "9one"])
@pytest.mark.parametrize("verb", ["lint", "run"])
def test_no_label_takes_it(custody: Run, tmp_path: Path, event: str, verb: str) -> None:
    (tmp_path / "forge.sh").write_text("#!/bin/sh\n")
    (tmp_path / "forge.sh").chmod(0o755)
    (tmp_path / "forger.robot.toml").write_text(LABEL.format(event=event))
    said = custody("robot", verb, "forger.robot.toml", *(["--once"] if verb == "run" else []))
    assert said.code != 0
    assert f"{event} is recorded by the system itself" in said.out + said.err


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ("approved", "event.reserved"),
        ("ingested", "event.reserved"),
        ("5tored", "event.reserved"),
        ("read", ""),
        ("mp3 made", ""),
    ],
)
def test_work_of_ones_own_says_what_it_did_in_words_of_its_own(
    custody: Run, tmp_path: Path, event: str, code: str
) -> None:
    (tmp_path / "own.py").write_text(KINDS)
    with open_store("sqlite:///custody.db") as store:
        store.records.put([NewItem("a", frozenset({"object"}))])
    custody("job", "submit", "forge", f'{{"event": "{event}"}}')
    custody("worker", "run", "--load", "own.py", "--until-idle")
    with open_store("sqlite:///custody.db") as store:
        assert (event in [told.type for told in store.records.events("item/a")]) is not bool(code)
        assert (store.queue.get(1).code or "") == code


def test_whoever_imports_from_where_things_were_is_told_of_the_front_door(custody: Run, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("from custody.engine import Kind\nKINDS = []\n")
    said = custody("worker", "run", "--load", "own.py", "--until-idle")
    assert said.code == 2
    assert "custody.engine, which is no more" in said.err
    assert "from custody import Kind" in said.err
    (tmp_path / "own.py").write_text("import custody.nothing\n")
    with pytest.raises(ModuleNotFoundError):  # any other is a surprise, and keeps its traceback
        custody("worker", "run", "--load", "own.py", "--until-idle")
