"""What only the system or a person records is nobody else's word: not a label's, and not that of work of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.model.item import NewItem
from custody.stores import open_store
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
from custody.engine import Kind, Work
from custody.model.event import NewEvent
from custody.model.outcome import Passed

KINDS = [Kind("forge", lambda work: Passed(events=[NewEvent("a", work.payload["event"])]))]
"""


@pytest.mark.parametrize("event", ["approved", "ingested", "went-back", "Approved", "task build"])
@pytest.mark.parametrize("verb", ["lint", "run"])
def test_no_label_takes_it(custody: Run, tmp_path: Path, event: str, verb: str) -> None:
    (tmp_path / "forge.sh").write_text("#!/bin/sh\n")
    (tmp_path / "forge.sh").chmod(0o755)
    (tmp_path / "forger.robot.toml").write_text(LABEL.format(event=event))
    said = custody("robot", verb, "forger.robot.toml", *(["--once"] if verb == "run" else []))
    assert said.code != 0
    assert f"{event} is recorded by the system itself" in said.out + said.err


@pytest.mark.parametrize(
    ("event", "code"), [("approved", "event.reserved"), ("ingested", "event.reserved"), ("read", "")]
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
