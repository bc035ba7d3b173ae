"""Real Subversion and git repositories in a folder, and the tools they need."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest


def need(tool: str, package: str) -> str:
    found = shutil.which(tool, path="/usr/bin:/bin:/usr/sbin:/usr/local/bin")
    if found:
        return found
    message = f"{tool} is missing: apt-get install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@dataclass
class SvnRepository:
    path: Path

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def mucc(self, message: str, *words: str, url: str = "", options: tuple[str, ...] = ()) -> int:
        """One commit, made without a working copy; gives its revision."""
        argv = ["svnmucc", "--non-interactive", "--no-auth-cache", "-U", url or self.url, "-m", message]
        done = subprocess.run([*argv, *options, *words], capture_output=True, text=True, check=True)
        return int(done.stdout.split()[0].lstrip("r"))

    def put(self, path: str, content: bytes, message: str = "put") -> int:
        draft = self.path.parent / "draft"
        draft.write_bytes(content)
        return self.mucc(message, "put", str(draft), path)


@dataclass
class GitRepository:
    path: Path
    clone: Path

    def git(self, *words: str) -> str:
        argv = ["git", "-C", str(self.clone), *words]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.clone.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(argv, capture_output=True, text=True, check=True, env=env).stdout.strip()

    def commit(self, path: str, content: str, message: str = "commit") -> str:
        file = self.clone / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def push(self, *words: str) -> None:
        self.git("push", "-q", *(words or ("origin", "HEAD")))


def wait_for(port: int) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.005)
