"""What the tests of the way out share: a small world, and sandboxes on its machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from custody.border import modes
from custody.border.egress.allowance import Egress, Rules
from custody.border.roots import ours
from custody.border.sandbox.sandbox import Sandboxes
from custody.border.sandbox.spec import Mount
from rig.outside import Outside

from .sandbox_rig import Box, need

CA = "/inputs/ca.pem"
CURL = f"curl -sS --max-time 20 --cacert {CA}"


def way(*granted: str, asked: Sequence[str] = (), fresh: float = 600.0, **rules: Any) -> Egress:
    """Open for as long as a test lasts, unless it says otherwise."""
    return Egress("archive/book", granted, tuple(asked), Rules(**rules), fresh)


@contextmanager
def boxes(outside: Outside, folder: Path, monkeypatch: pytest.MonkeyPatch, user: str = "") -> Iterator[OutBox]:
    need("bwrap", "bubblewrap")
    outside.here(monkeypatch, user)
    outside.forget()
    work = folder / "work"
    work.mkdir()
    if user:  # the folder is his own, and closed; but root asks here in his name, to whom he is somebody else
        monkeypatch.setattr(modes, "must_be_closed", lambda work: None)
    with Sandboxes(folder / "state") as sandboxes:
        if user:
            sandboxes._parents = {}  # control groups are root's here
        made = OutBox(sandboxes, work)
        made.ca = outside.ca
        yield made
        for name in sandboxes.names():
            running = sandboxes.find(name)
            assert running is not None
            running.stop(0)


class OutBox(Box):
    ca: Path

    def start(self, script: str = "", **more: Any) -> Any:
        return super().start(script, **{"mounts": (Mount(ours(self.ca), CA),), **more})
