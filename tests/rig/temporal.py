"""A private Temporal server: the development server of its command line, on an SQLite file of ours.

Clients take `address`. Time-skipping test servers are fetched from the network when asked for, so there are
none here: give workflows short intervals instead.
"""

from __future__ import annotations

import os
import shutil
import signal
import urllib.request

from rig.install import temporal_program
from rig.program import LOOPBACK, CannotStart, Program, free_port, room


class Temporal:
    """One server. `stop("kill")` is a crash; `start()` goes on with the same workflows on the same port."""

    def __init__(self) -> None:
        self.folder = room("temporal")
        self.port, self.http_port, self.metrics_port = free_port(), free_port(), free_port()
        self.program = Program("temporal", self.folder / "log")

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def http(self) -> str:
        """The same server for those who speak JSON."""
        return f"http://{LOOPBACK}:{self.http_port}/api/v1"

    def start(self) -> None:
        program = temporal_program()
        if program is None:
            raise CannotStart("Temporal is not installed")
        words = [str(program), "server", "start-dev", "--headless", "--ip", LOOPBACK, "--log-level", "error"]
        words += ["--port", str(self.port), "--http-port", str(self.http_port)]
        words += ["--metrics-port", str(self.metrics_port), "--db-filename", str(self.folder / "temporal.db")]
        quiet = {"TEMPORAL_VERSION_CHECK_DISABLED": "true", "HOME": str(self.folder)}
        self.program.run(words, self._ready, environ=os.environ | quiet, cwd=self.folder)

    def stop(self, mode: str = "term") -> None:
        self.program.end({"term": signal.SIGTERM, "kill": signal.SIGKILL}[mode])

    def remove(self) -> None:
        self.stop("kill")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ready(self) -> None:
        urllib.request.urlopen(f"{self.http}/namespaces/default", timeout=1).close()
