"""Where the workers of a fleet come from: each is the copy of a process that has read the program already.

What a worker does after its first line is what `custody worker run` does; only reading a few hundred modules, most of
what a start costs, is done once for all. (That the program starts from nothing is shown by every test of a command.)
Not for what runs for days: a copy shares its parent's memory.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

READ_BEFORE = [
    "pytest",  # the main module of whoever starts us, which every copy would read again
    "custody.cli.nouns.worker",
    "custody.cli.composition",
    "custody.config",
    "custody.cli.process.log",
    "custody.kernel.engine",
    "custody.kernel.history.seal",
    "custody.kernel.history.ledger",
    "custody.kernel.stores.sqlite.database",
    "custody.kernel.stores.postgres.database",
    "custody.ingest.states",
    "custody.web.operations.bulk",
    "typer._adapters",
]
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(READ_BEFORE)


class Born:
    """A process that can be signalled and waited for, as one of `subprocess`."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self._process = CONTEXT.Process(target=custody, args=(list(words), dict(environ), log))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, what: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, what)


def custody(words: list[str], environ: dict[str, str], log: Path) -> None:
    """In the copy: become `custody WORDS…`, which ends when the process that it is a copy of does."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    os.environ.update(environ)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), sys.stderr.fileno())
    from custody.cli import main

    main(words)
