"""A small world for trying the way out of sandboxes: two networks of their own, joined by a wire, and nothing else.

In one is "the machine": sandboxes that are started while a test uses `Outside` have their deadmen and proxies there. It
has a public address, services on its loopback and an abstract socket. In the other are the servers of the rest of the
world: public ones, and inner ones that the machine can reach. Names are looked up in a server of that world. No packet
leaves it: the kernel has no other way out of these namespaces.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from custody.border.sandbox import fork_server
from rig.install import in_ci
from rig.program import as_user, room, tool

PUBLIC, OTHER, MACHINE, INSIDE, METADATA = (
    "93.184.216.34",
    "93.184.216.35",
    "93.184.216.1",
    "10.9.9.9",
    "169.254.169.254",
)
SERVERS = Path(__file__).with_name("outside_servers.py")
SETUP = """\
ip link set lo up
ip link add w0 type veth peer name w1 netns {far}
ip addr add {machine}/24 dev w0
ip link set w0 up
ip route add 10.0.0.0/8 dev w0
ip route add 169.254.0.0/16 dev w0
"""
FAR = """\
ip link set lo up
ip addr add {public}/24 dev w1
ip addr add {other}/24 dev w1
ip addr add {inside}/8 dev w1
ip addr add {metadata}/16 dev w1
ip link set w1 up
"""
WRAPPER = """\
#!/bin/sh
exec {nsenter} --target {pid} --net --mount {user} {python} "$@"
"""


class Outside:
    """`ca` is what vouches for its servers; `site` is the folder that they serve."""

    def __init__(self) -> None:
        self.folder = room("outside")
        self.folder.chmod(0o755)
        self.site = self.folder / "site"
        self.site.mkdir()
        (self.site / "hello").write_text("hello from outside\n")
        self.ca = self.folder / "ca.pem"
        self._processes: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        if os.geteuid() != 0:
            message = "networks of one's own are made by root only"
            (pytest.fail if in_ci() else pytest.skip)(message)
        self._certificates()
        (self.folder / "resolv.conf").write_text(f"nameserver {PUBLIC}\noptions timeout:2 attempts:2\n")
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n10.9.9.9 listed.example.org\n")
        far, machine = self._begin("far", "--net"), self._begin("machine", "--net", "--mount")
        names = {
            "far": far,
            "machine": MACHINE,
            "public": PUBLIC,
            "other": OTHER,
            "inside": INSIDE,
            "metadata": METADATA,
        }
        self._inside(machine, SETUP.format(**names))
        self._inside(far, FAR.format(**names))
        for name in ("resolv.conf", "hosts"):
            self._inside(machine, f"mount --bind {self.folder / name} {os.path.realpath(f'/etc/{name}')}\n")
        self.machine = machine

    def _begin(self, place: str, *namespaces: str) -> int:
        words = [tool("unshare"), *namespaces, sys.executable, str(SERVERS), str(self.folder), place]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=_die_with_us)
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process.pid

    def _inside(self, pid: int, script: str) -> None:
        words = [tool("nsenter"), "--target", str(pid), "--net", "--mount", "sh", "-eu", "-c", script]
        subprocess.run(words, check=True, capture_output=True)

    def _certificates(self) -> None:
        def run(*words: str) -> None:
            subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test authority", "-days", "2")
        (self.folder / "extension").write_text("subjectAltName=DNS:*.example.org")
        run("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
        run(
            "x509",
            "-req",
            "-in",
            "server.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            "extension",
            "-days",
            "2",
            "-out",
            "server.pem",
        )

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def hits(self, place: str) -> list[dict[str, Any]]:
        file = self.folder / f"{place}.hits"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def forget(self) -> None:
        for place in ("far", "machine"):
            (self.folder / f"{place}.hits").unlink(missing_ok=True)

    def reached(self) -> list[dict[str, Any]]:
        """Connections to what nobody may reach: the machine itself, or an address that is not public."""
        bad = [
            hit
            for hit in self.hits("far")
            if hit.get("connected", PUBLIC).removeprefix("::ffff:") not in (PUBLIC, OTHER)
        ]
        return [*self.hits("machine"), *bad]

    def here(self, monkeypatch: pytest.MonkeyPatch, user: str = "") -> None:
        """Deadmen that are started from now on live there; as that user, if one is named."""
        python = "/usr/bin/python3" if user else sys.executable
        wrapper = self.folder / f"python{user}"
        words = " ".join(word for word in as_user(user) if word) if user else ""
        wrapper.write_text(WRAPPER.format(nsenter=tool("nsenter"), pid=self.machine, user=words, python=python))
        wrapper.chmod(0o755)

        class Sys:
            executable = str(wrapper)
            path = sys.path

        monkeypatch.setattr(fork_server, "sys", Sys)


def _die_with_us() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, 9)
