"""Talks with a process that answers questions about a repository: each answer has its time, whatever it reads.

What a repository holds is its owner's choice: a pipe in the place of a file, a disk that hangs, keep whoever reads
them for ever. So nobody waits longer than his own time, nor than `SILENCE` for the next byte, and a process that was
silent is ended, with all that it has begun.
"""

from __future__ import annotations

import logging
import os
import select
import subprocess
import time
from typing import Any

from custody.errors import Unavailable
from custody.workflows.archives.processes.vcs_process import (
    BEAT_SECONDS,
    DYING,
    SILENT,
    STOPPED,
    Seconds,
    given_up,
    time_left,
)

SILENCE = 60.0  # seconds without a byte, after which no more is expected
_PIECE = 1 << 20
log = logging.getLogger("custody.workflows.talking")


class Talk:
    """One process, its questions and its answers. Used by one thread at a time."""

    def __init__(self, process: subprocess.Popen[bytes], tool: str, where: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.tool, self.where = process, tool, where
        self.buffer = bytearray()
        self._in, self._out = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._out, select.POLLIN | select.POLLHUP)
        self._writable.register(self._in, select.POLLOUT)
        self.within(0)

    def within(self, seconds: Seconds) -> None:
        """How long the answers that follow may take, all together."""
        self._left = time_left(seconds)

    def send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            self._wait(self._writable)
            try:
                left = left[os.write(self._in, left) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self.ended() from None

    def fill(self) -> None:
        """More bytes; `Unavailable` if there are none in time."""
        self._wait(self._readable)
        piece = os.read(self._out, _PIECE)
        if not piece:
            raise self.ended()
        self.buffer += piece

    def take(self, size: int) -> bytes:
        """At most so many of the bytes that have come."""
        piece = bytes(self.buffer[:size])
        del self.buffer[:size]
        return piece

    def _wait(self, ready: Any) -> None:
        silent = time.monotonic() + SILENCE
        while True:
            left = min(self._left(), silent - time.monotonic())
            if left <= 0 and given_up():
                raise Unavailable(f"{self.tool} is not waited for", code=STOPPED, where=self.where)
            if left <= 0:
                raise Unavailable(f"{self.tool} gave no answer in time", code=SILENT, where=self.where)
            if ready.poll(min(BEAT_SECONDS, left) * 1000):
                return

    def ended(self) -> Unavailable:
        return Unavailable(f"{self.tool} ended without an answer", code="archive.unreachable", where=self.where)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """End it; and wait until whatever it has begun is gone too: the last of them closes the pipe."""
        self.process.kill()
        if self.process.stdin:
            self.process.stdin.close()
        until = time.monotonic() + DYING
        with self.process:
            while (left := until - time.monotonic()) > 0:
                if self._readable.poll(left * 1000) and not os.read(self._out, _PIECE):
                    return
        log.warning("%s at %s was killed, and has not ended within %g seconds", self.tool, self.where, DYING)
