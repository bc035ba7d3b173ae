"""A private Redis that loses nothing it has answered for: every write is on the disk before the answer.

Only benchmarks ask for it; nothing of ours keeps anything there.
"""

from __future__ import annotations

import shutil
import signal
import socket

from rig.install import program
from rig.program import LOOPBACK, CannotStart, Program, free_port, room


class Redis:
    def __init__(self) -> None:
        self.folder = room("redis")
        self.port = free_port()
        self.program = Program("redis", self.folder / "log")

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def start(self) -> None:
        server = program("redis-server")
        if server is None:
            raise CannotStart("Redis is not installed")
        words = [server, "--bind", LOOPBACK, "--port", str(self.port), "--dir", str(self.folder), "--save", ""]
        self.program.run([*words, "--appendonly", "yes", "--appendfsync", "always"], self.ask)

    def ask(self, words: str = "PING") -> bytes:
        """One command, as typed; its answer."""
        with socket.create_connection((LOOPBACK, self.port), timeout=5) as line:
            line.sendall(words.encode() + b"\r\n")
            answer = line.recv(1 << 16)
        if not answer.startswith(b"+"):
            raise ConnectionError(answer[:100])
        return answer

    def remove(self) -> None:
        self.program.end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
