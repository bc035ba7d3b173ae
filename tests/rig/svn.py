"""Subversion repositories behind a private svnserve, so that commits come over a socket as in real life."""

from __future__ import annotations

import itertools
import secrets
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rig.program import LOOPBACK, Program, answers, free_port, room, tool

USER = "ann"
SETTINGS = "[general]\nanon-access = none\nauth-access = write\npassword-db = passwd\n"


@dataclass(frozen=True, slots=True)
class Repository:
    path: Path
    url: str
    password: str

    def svn(self, *words: str | Path, client: str = "svn", cwd: Path | None = None) -> str:
        """Run a client (`svn`, `svnmucc`) as the user who may commit; what it prints."""
        told = ["--username", USER, "--password", self.password, "--non-interactive", "--no-auth-cache"]
        return run([tool(client), *told, *words], cwd)

    def look(self, *words: str) -> str:
        """`svnlook WORD PATH …`: what a hook sees."""
        return run([tool("svnlook"), words[0], str(self.path), *words[1:]])

    def commit(self, message: str, files: dict[str, str]) -> int:
        """Put these texts at these paths, in one new revision; its number."""
        folders = {str(folder) for name in files for folder in Path(name).parents if folder != Path(".")}
        new = [folder for folder in sorted(folders) if not self._has(folder)]
        words = [word for folder in new for word in ("mkdir", folder)]
        drafts = self.path.parent.parent / "drafts"
        drafts.mkdir(exist_ok=True)
        for number, (name, text) in enumerate(files.items()):
            draft = drafts / f"{self.path.name}-{number}"
            draft.write_text(text)
            words += ["put", str(draft), name]
        said = self.svn("-U", self.url, "-m", message, *words, client="svnmucc")
        return int(said.split()[0].removeprefix("r"))

    def hook(self, name: str, script: str) -> None:
        """Scripts run with an empty environment: name programs by their full path."""
        path = self.path / "hooks" / name
        path.write_text(script)
        path.chmod(0o755)

    def _has(self, folder: str) -> bool:
        words = [tool("svnlook"), "tree", "-N", str(self.path), folder]
        return subprocess.run(words, capture_output=True).returncode == 0


class Subversion:
    """One svnserve over a folder of repositories, with one user and a password nobody else knows."""

    def __init__(self) -> None:
        self.folder = room("svn")
        self.port = free_port()
        self.password = secrets.token_hex(12)
        self.program = Program("svnserve", self.folder / "log")
        self.repositories = self.folder / "repositories"
        self.repositories.mkdir()
        self._numbers = itertools.count(1)

    def start(self) -> None:
        words = [tool("svnserve"), "--daemon", "--foreground", "--root", str(self.repositories)]
        words += ["--listen-host", LOOPBACK, "--listen-port", str(self.port)]
        self.program.run(words, lambda: answers(self.port))

    def stop(self, mode: str = "term") -> None:
        self.program.end({"term": signal.SIGTERM, "kill": signal.SIGKILL}[mode])

    def fresh_repository(self, name: str = "") -> Repository:
        path = self.repositories / (name or f"test_{next(self._numbers)}")
        run([tool("svnadmin"), "create", str(path)])
        (path / "conf" / "svnserve.conf").write_text(SETTINGS)
        (path / "conf" / "passwd").write_text(f"[users]\n{USER} = {self.password}\n")
        return Repository(path, f"svn://{LOOPBACK}:{self.port}/{path.name}", self.password)

    def remove(self) -> None:
        self.stop("kill")
        shutil.rmtree(self.folder, ignore_errors=True)


def run(words: list[str | Path] | list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd)
    if done.returncode:
        raise RuntimeError(f"{Path(words[0]).name} says: {done.stderr.strip()}")
    return done.stdout
