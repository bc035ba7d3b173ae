"""Robots that choose what is mounted, places that somebody forged, and folders that are swapped for links."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import custody
from prove.plugin import Scaled, Tell
from rig.need import need
from rig.program import as_user, reachable_python, room, unprivileged_user

SCRIPT = Path(__file__).with_name("mounting.py")


@dataclass(frozen=True, slots=True)
class Somebody:
    """A worker: its folder, and how a program is started as that user."""

    home: Path
    words: list[str]
    environ: dict[str, str]

    def told(self, *words: str) -> Any:
        done = subprocess.run(
            [*self.words, str(SCRIPT), str(self.home), *words],
            env=self.environ,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=1100,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture(params=["root", "an ordinary user"])
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Somebody]:
    need("bubblewrap")
    environ = {"PATH": os.environ["PATH"], "CUSTODY_WHO": "ada", "PYTHONDONTWRITEBYTECODE": "1"}
    if (request.param == "root") == (os.geteuid() == 0):
        yield Somebody(tmp_path, [sys.executable], environ)
        return
    if os.geteuid() != 0:
        pytest.skip("only root can become another")
    user = unprivileged_user()
    folder = room("mounts", user)
    words = as_user(user)
    source = f"{Path(custody.__file__).parents[1]}:{sysconfig.get_path('purelib')}"
    environ |= {"HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": source}
    yield Somebody(folder, [*words, reachable_python(words)], environ)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.proves("P5")
def test_neither_what_a_robot_says_nor_what_stands_in_the_table_chooses_what_is_mounted(
    worker: Somebody, tell: Tell
) -> None:
    found = worker.told("robots")
    lies = ["folder", "place", "priority", "types", "title", "mirrored"]
    assert {name: found["failed"].get(f"robot/says-{name} {name}") for name in lies} == dict.fromkeys(
        lies, "robot.reserved"
    ), found["said"]
    assert [found["items"][name] for name in lies] == [["store:map-1", {}]] * len(lies), "nothing of it was kept"
    assert all("the page of map-1\ntold=/inputs/item\n" in found["outputs"][name] for name in lies)
    forged = set(found["outputs"]) - set(lies)
    assert len(forged) == 13
    assert not [name for name in found["outputs"] if "not-for-robots" in found["outputs"][name]]
    assert not [name for name in forged if "the page" in found["outputs"][name] or "custody" in found["outputs"][name]]
    refused = {name: found["failed"].get(f"robot/peek {name}") for name in forged}
    assert refused == {
        "dots": "place.path",
        "dots-inside": "place.path",
        "absolute": "place.path",
        "nothing": "place.path",
        "itself": "place.path",
        "nul": "place.path",
        "a-path": "place.path",
        "last-link": "place.link",
        "middle-link": "place.link",
        "other-disk": "place.outside",
        "a-device": "place.outside",
        "no-root": None,
        "detail": None,
    }, found["said"]
    tell("", tries=len(lies) + len(forged), got_through=0)


@pytest.mark.proves("P5")
def test_a_folder_that_is_swapped_for_a_link_while_it_is_mounted_shows_nothing_but_itself(
    worker: Somebody, tell: Tell, scaled: Scaled[int]
) -> None:
    turns = scaled(20, 1_000, 50_000)
    found = worker.told("swaps", str(turns))
    counts = found["found"]
    assert found["swapped"] >= turns
    assert counts.get("GOT THROUGH", 0) == 0
    assert counts.get("its own", 0) > 0
    known = {"its own", "place.link", "place.missing", "sandbox.setup"}  # bwrap gave up early
    assert not [word for word in counts if word not in known and not word.startswith("nothing: not-started")], counts
    tell(f"{turns} mounts while folders were swapped {found['swapped']} times: {counts}", tries=1, got_through=0)
