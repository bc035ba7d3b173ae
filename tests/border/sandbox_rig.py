"""What the sandbox tests share: real sandboxes in a fresh folder, and a look at what they leave behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from custody.border import processes
from custody.border.sandbox import cgroup
from custody.border.sandbox.launch import MARK, mark_of
from custody.border.sandbox.sandbox import End, Running, Sandboxes, Spec

PATIENCE = 60.0
"""Seconds for anything to happen on a machine that is busy with other things; no promise of ours is this slow."""


def need(tool: str, package: str) -> str:
    """A missing tool is a skip on a laptop and an error in CI."""
    found = shutil.which(tool, path="/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin")
    if found:
        return found
    message = f"{tool} is missing: apt-get install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@dataclass
class Box:
    """Starts sandboxes under fresh names, in one work folder."""

    sandboxes: Sandboxes
    work: Path
    numbers: Iterator[int] = field(default_factory=count)

    def start(self, script: str = "", **more: Any) -> Running:
        fields: dict[str, Any] = {"name": f"test-{next(self.numbers)}", "work": self.work, "script": script}
        return self.sandboxes.start(Spec(**(fields | {"timeout": PATIENCE, "grace": 0.2} | more)))

    def left_behind(self) -> dict[str, list[str]]:
        return left_behind(self.sandboxes.root)

    def run(self, script: str = "", **more: Any) -> tuple[End, str]:
        running = self.start(script, **more)
        end = running.wait(2 * PATIENCE)
        assert end is not None
        return end, running.output().decode(errors="replace")


@contextmanager
def box(folder: Path) -> Iterator[Box]:
    need("bwrap", "bubblewrap")
    need("perl", "perl-base")
    work = folder / "work"
    work.mkdir()
    with Sandboxes(folder / "state") as sandboxes:
        made = Box(sandboxes, work)
        yield made
        for name in sandboxes.names():
            running = sandboxes.find(name)
            assert running is not None
            running.stop(0)


def left_behind(root: Path) -> dict[str, list[str]]:
    """What the sandboxes below a state folder left on this machine. Empty lists are what we want."""
    mark = f"{MARK}={mark_of(root)}-".encode()
    groups = [path for place in cgroup.places().values() for path in place.glob(f"custody-{mark_of(root)}-*")]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "processes": [str(p.pid) for p in processes.all_processes() if mark in processes.environment(p.pid)],
        "groups": [str(path) for path in groups],
        "mounts": [line for line in mounts if " - tmpfs custody " in line],
    }
