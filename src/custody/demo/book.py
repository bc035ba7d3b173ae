"""Story two: an archive in which a book is being written. Every commit runs the workflow files it carries.

The repository is git's or Subversion's, whichever is installed; without either the story is left out, and the
greeting says so. Without a sandbox the tasks wait, visibly, and `why` says what to install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.engine.kinds import Chore, Kind
from custody.model.errors import NotFound, Unavailable
from custody.stores import Store
from custody.workflows.archives import Archives
from custody.workflows.serving import WorkflowConfig, chores, kinds, open_shop, reconcile_all
from custody.workflows.shop import Shop

NAME = "My-Project"
WORKFLOW = """\
# Read as it was at the revision being processed.
- name: index
  depends: [PREV]                 # this task, one revision earlier
  script: |
    grep -c . chapters/*.md > index.txt
    cat index.txt
  outputs: [index.txt]

- name: build-book
  depends: [index]
  cancels: [PREV]                 # a newer book replaces one still being made
  script: |
    echo "building revision $CUSTODY_REVISION from $(cat /inputs/index/index.txt | wc -l) chapters"
    sleep {seconds}
    cat chapters/*.md > book.txt
  outputs: [book.txt]
"""
CHAPTERS = ("The harbour", "A lighthouse", "The flood", "Afterwards")


@dataclass
class Book:
    store: Store
    home: Path
    shop: Shop

    @classmethod
    def open(cls, store: Store, home: Path) -> Book | None:
        """The story, or None where there is neither git nor Subversion."""
        if not shutil.which("git"):
            return None
        return cls(store, home, open_shop(store, WorkflowConfig(), home))

    @property
    def repository(self) -> Path:
        return self.home / "archive.git"

    def begin(self) -> None:
        """A revision for each chapter; those that an earlier start made are there already."""
        try:
            Archives(self.store).get(NAME)
        except NotFound:
            shutil.rmtree(self.repository, ignore_errors=True)
            self._git("init", "-q", "--bare", "-b", "main", str(self.repository))
            Archives(self.store).add(NAME, "git", str(self.repository), "demo")
        desk = self._desk()
        for number, title in enumerate(CHAPTERS, start=1):
            if not (desk / "chapters" / f"{number}.md").exists():
                self._commit(desk, number, title)
            reconcile_all(self.store)

    def kinds(self) -> Sequence[Kind]:
        return kinds(self.shop, at_once=2)

    def chores(self) -> Sequence[Chore]:
        return chores(self.store, every=2.0)

    def _desk(self) -> Path:
        """The author's working copy, as the repository has it."""
        desk = self.home / "author"
        shutil.rmtree(desk, ignore_errors=True)
        self._git("clone", "-q", str(self.repository), str(desk))
        return desk

    def _commit(self, desk: Path, number: int, title: str) -> None:
        for folder in ("chapters", "_workflows"):
            (desk / folder).mkdir(exist_ok=True)
        text = "".join(f"{title}, line {line}\n" for line in range(1, 20 * number))
        (desk / "chapters" / f"{number}.md").write_text(text)
        (desk / "_workflows" / "publish.yaml").write_text(WORKFLOW.format(seconds=1 if number < 4 else 2))
        self._git("-C", str(desk), "add", ".")
        self._git("-C", str(desk), "commit", "-q", "-m", f"Chapter {number}: {title}")
        self._git("-C", str(desk), "push", "-q", "origin", "HEAD:main")

    def _git(self, *words: str) -> None:
        who = {"GIT_AUTHOR_NAME": "An author", "GIT_AUTHOR_EMAIL": "author@localhost"}
        who |= {"GIT_COMMITTER_NAME": "An author", "GIT_COMMITTER_EMAIL": "author@localhost"}
        environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(["git", *words], env=environment, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise Unavailable(f"git cannot keep the demo's archive: {said[-1] if said else done.returncode}")
