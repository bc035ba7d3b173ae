"""Whoever writes into one of the demo's archives: a git repository, or plain folders where there is no git."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from custody.errors import NotFound, Unavailable
from custody.kernel.stores import Store
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.table import Archives


@dataclass(frozen=True, slots=True)
class Author:
    store: Store
    archive: str
    place: Path  # of the repository, without its ending
    name: str

    @property
    def repository(self) -> Path:
        return self.place.with_suffix(".git" if shutil.which("git") else ".folder")

    def begin(self) -> bool:
        """Make the archive, unless an earlier start did; True when it is new."""
        try:
            Archives(self.store).get(self.archive)
            return False
        except NotFound:
            shutil.rmtree(self.repository, ignore_errors=True)
        if self.repository.suffix == ".git":
            self._git("init", "-q", "--bare", "-b", "main", str(self.repository))
        else:
            FolderArchive.make(self.repository)
        Archives(self.store).add(self.archive, self.repository.suffix[1:], str(self.repository), "demo")
        return True

    def fetch(self, desk: Path) -> None:
        """A working copy, as the archive is now."""
        shutil.rmtree(desk, ignore_errors=True)
        if self.repository.suffix == ".git":
            self._git("clone", "-q", str(self.repository), str(desk))
            return
        desk.mkdir(parents=True)
        kept = FolderArchive(self.repository)
        if youngest := kept.youngest():
            kept.export(youngest, desk)

    def commit(self, desk: Path, message: str) -> None:
        """The working copy as it stands is the next revision."""
        if self.repository.suffix == ".git":
            self._git("-C", str(desk), "add", ".")
            self._git("-C", str(desk), "commit", "-q", "-m", message)
            self._git("-C", str(desk), "push", "-q", "origin", "HEAD:main")
        else:
            FolderArchive(self.repository).keep(desk, message, self.name)

    def _git(self, *words: str) -> None:
        who = {
            f"GIT_{part}_{what}": value
            for part in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", self.name), ("EMAIL", "author@localhost"))
        }
        environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(["git", *words], env=environment, capture_output=True, text=True, timeout=60)
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise Unavailable(f"git cannot keep the demo's archive: {said[-1] if said else done.returncode}")
