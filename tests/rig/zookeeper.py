"""A private ZooKeeper: Debian's jar, one server, a free port, and a root of its own for every test."""

from __future__ import annotations

import itertools
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from kazoo.client import KazooClient

from rig.install import zookeeper_jar
from rig.program import LOOPBACK, CannotStart, Program, free_port, room, tool

# A short tick, so that a test about an expired session need not wait for seconds.
SETTINGS = """\
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
tickTime=100
minSessionTimeout=200
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
"""

JAVA = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # it lives for seconds: starting soon matters more than running fast
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.preAllocSize=1024",  # KiB of log at a time, where 64 MiB are usual
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


class ZooKeeper:
    """One server. `stop("kill")` is a crash; `start()` recovers the same data on the same port."""

    def __init__(self, megabytes: int = 256) -> None:
        self.folder = room("zookeeper")
        self._memory = f"-Xmx{megabytes}m"
        self.port = free_port()
        self.program = Program("zookeeper", self.folder / "log")
        self.settings = self.folder / "zoo.cfg"
        self.settings.write_text(SETTINGS.format(data=self.folder / "data", port=self.port))
        self._numbers = itertools.count(1)

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> None:
        jars = f"{self._jar()}:{self._jar().with_name('slf4j-simple.jar')}"
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        self.program.run([tool("java"), self._memory, *JAVA, "-cp", jars, main, self.settings], self._ready)

    def stop(self, mode: str = "term") -> None:
        self.program.end({"term": signal.SIGTERM, "kill": signal.SIGKILL}[mode])

    def fresh_root(self) -> str:
        """The address of an empty tree: clients that use it see nothing above it."""
        path = f"/test_{next(self._numbers)}"
        client = KazooClient(self.address)
        client.start()
        try:
            client.create(path)
        finally:
            client.stop()
            client.close()
        return self.address + path

    def own_client(self, *words: str) -> str:
        """What the command-line client says that comes with the server, with its own limits."""
        jars = ":".join(
            str(self._jar().with_name(name)) for name in ("zookeeper.jar", "slf4j-simple.jar", "commons-cli.jar")
        )
        main = "org.apache.zookeeper.ZooKeeperMain"
        command = [tool("java"), *JAVA, "-cp", jars, main, "-server", self.address, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        return done.stdout + done.stderr

    def word(self, four_letters: str, seconds: float = 5) -> str:
        """What the server answers to ruok, srvr, cons, dump, …"""
        with socket.create_connection((LOOPBACK, self.port), timeout=seconds) as connection:
            connection.sendall(four_letters.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def remove(self) -> None:
        self.stop("kill")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _jar(self) -> Path:
        jar = zookeeper_jar()
        if jar is None:
            raise CannotStart("ZooKeeper is not installed")
        return jar

    def _ready(self) -> None:
        # Who connects while it is starting may never be answered: ask anew rather than wait.
        if "Mode: standalone" not in self.word("srvr", seconds=0.2):
            raise CannotStart("ZooKeeper does not serve yet")
