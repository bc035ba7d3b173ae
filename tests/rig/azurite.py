"""A private Azurite: Azure's Blob and Queue storage, as npm's stand-in for it understands them.

It writes its data a few seconds after it has acknowledged them, so a killed Azurite forgets: crash tests kill
our own processes, never this one. It neither enforces the 50,000 blocks of a blob nor knows every call.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil

from rig.install import azurite_program
from rig.program import LOOPBACK, CannotStart, Program, answers, free_port, room, tool

ACCOUNT = "custody"


class Azurite:
    """One server with one account, whose key nobody else knows."""

    def __init__(self) -> None:
        self.folder = room("azurite")
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()
        self.ports = {"blob": free_port(), "queue": free_port(), "table": free_port()}
        self.program = Program("azurite", self.folder / "log")

    def url(self, kind: str = "blob") -> str:
        return f"http://{LOOPBACK}:{self.ports[kind]}/{ACCOUNT}"

    @property
    def connection_string(self) -> str:
        ends = f"BlobEndpoint={self.url('blob')};QueueEndpoint={self.url('queue')}"
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={self.key};{ends};"

    def start(self) -> None:
        script = azurite_program()
        if script is None:
            raise CannotStart("Azurite is not installed")
        # Without the first flag it reports to its makers; without the second it refuses newer clients.
        words = [tool("node"), str(script), "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        words += ["--location", str(self.folder / "data")]
        for kind, port in self.ports.items():
            words += [f"--{kind}Host", LOOPBACK, f"--{kind}Port", str(port)]
        environ = os.environ | {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.key}"}
        self.program.run(words, self._ready, environ=environ, cwd=self.folder)

    def stop(self) -> None:
        self.program.end()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ready(self) -> None:
        for port in self.ports.values():
            answers(port)
