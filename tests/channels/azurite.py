"""A private Azurite on loopback for the tests of the Azure adapters.

Its telemetry is off and its version check too (the SDK is always newer). It loses the last seconds of what it
acknowledged when it is killed, so tests of crashes kill our processes and never this one.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # published


def program() -> str | None:
    cache = Path(os.environ.get("CUSTODY_RIG") or Path.home() / ".cache" / "custody-rig")
    installed = cache / "azurite" / "node_modules" / ".bin" / "azurite"
    return str(installed) if installed.exists() else shutil.which("azurite")


class Azurite:
    def __init__(self, command: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="azurite-"))
        self.blob, self.queue, table = (free_port() for _ in range(3))
        ports = {"blob": self.blob, "queue": self.queue, "table": table}
        places = [
            word for kind, port in ports.items() for word in (f"--{kind}Host", "127.0.0.1", f"--{kind}Port", str(port))
        ]
        flags = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location", str(self.folder)]
        self.process = subprocess.Popen([command, *flags, *places], stdout=subprocess.DEVNULL)
        wait_for(self.blob, self.process)

    @property
    def connection(self) -> str:
        where = {"Blob": self.blob, "Queue": self.queue}
        ends = ";".join(f"{kind}Endpoint=http://127.0.0.1:{port}/{ACCOUNT}" for kind, port in where.items())
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};{ends};"

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert process.poll() is None, "Azurite ended at once"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("Azurite does not answer")
