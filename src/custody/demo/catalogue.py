"""All four in one line: an object is ingested, robots check it, one of them writes a record of it into an archive,
the archive's own workflow indexes the records, and the object's page shows the whole of it.

The catalogue is an archive like any other: its records can be read, its history is git's, its index is made by the
workflow file that it carries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from custody.engine.kinds import Backoff
from custody.model.errors import NotFound, Unavailable
from custody.model.item import Item
from custody.model.trigger import Trigger
from custody.robots.robot import Report, Robot, robot
from custody.stores import Store
from custody.workflows.archives import Archives
from custody.workflows.git import GitArchive

NAME = "catalogue"
EVENT = "catalogued"
BRANCH = "refs/heads/main"
WORKFLOW = """\
# Every record that is committed is indexed.
- name: index
  depends: [PREV]
  script: |
    ls records | wc -l
    cat records/*.txt | grep '^title:' | sort > index.txt
  outputs: [index.txt]
"""


@dataclass
class Catalogue:
    store: Store
    home: Path

    @property
    def repository(self) -> Path:
        return self.home / "catalogue.git"

    @property
    def desk(self) -> Path:
        return self.home / "cataloguer"

    def begin(self) -> None:
        """An empty catalogue with its workflow, unless an earlier start made it."""
        try:
            Archives(self.store).get(NAME)
        except NotFound:
            shutil.rmtree(self.repository, ignore_errors=True)
            self._git("init", "-q", "--bare", "-b", "main", str(self.repository))
            Archives(self.store).add(NAME, "git", str(self.repository), "demo")
        self._tidy_desk()
        if not (self.desk / "_workflows").exists():
            self._write("_workflows/index.yaml", WORKFLOW)
            self._commit("An empty catalogue")

    def robot(self) -> Robot:
        """Wakes for objects whose files have been looked at, and again when they change."""

        @robot(
            name="cataloguer",
            version="1.0",
            event=EVENT,
            when=Trigger(types=frozenset({"object"}), past=frozenset({"formats identified"}), old=frozenset({EVENT})),
            backoff=Backoff(first=0.5),
        )
        def catalogue(item: Item, report: Report) -> None:
            name = f"records/{item.id.rpartition('/')[2]}.txt"
            detail = item.detail
            self._tidy_desk()
            text = f"item: {item.id}\ntitle: {detail.get('title', '')}\nversion: {detail.get('version', '')}\n"
            self._write(name, text)
            self._commit(f"Record of {detail.get('title') or item.id}")
            report.note(archive=NAME, revision=self._revision_of(name), record=name)

        return catalogue

    # git: a desk with a working copy, as any cataloguer would have it

    def _tidy_desk(self) -> None:
        """As the repository has it, whatever a killed attempt left."""
        if not (self.desk / ".git").exists():
            shutil.rmtree(self.desk, ignore_errors=True)
            self._git("clone", "-q", str(self.repository), str(self.desk))
            return
        try:
            self._git("-C", str(self.desk), "fetch", "-q", "origin")
            self._git("-C", str(self.desk), "reset", "-q", "--hard", "origin/main")
            self._git("-C", str(self.desk), "clean", "-q", "-fd")
        except Unavailable:
            shutil.rmtree(self.desk, ignore_errors=True)
            self._git("clone", "-q", str(self.repository), str(self.desk))

    def _write(self, name: str, text: str) -> None:
        path = self.desk / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def _commit(self, message: str) -> None:
        """Nothing, if it is there already: an attempt that is repeated finds what the one before has done."""
        self._git("-C", str(self.desk), "add", ".")
        if self._git("-C", str(self.desk), "status", "--porcelain"):
            self._git("-C", str(self.desk), "commit", "-q", "-m", message)
            self._git("-C", str(self.desk), "push", "-q", "origin", "HEAD:main")
            # every record is to be a revision of its own, so each push is counted before the next
            GitArchive(self.repository, self.repository / "custody-journal").youngest()

    def _revision_of(self, name: str) -> int:
        """The number of the revision in which a record was last written."""
        commit = self._git("-C", str(self.desk), "log", "-1", "--format=%H", "--", name).strip()
        archive = Archives(self.store).get(NAME).open()
        assert isinstance(archive, GitArchive)
        for revision in range(archive.youngest(), 0, -1):
            if archive.update(revision).new == commit:
                return revision
        raise NotFound(f"{name} is in no revision", code="catalogue.revision")

    def _git(self, *words: str) -> str:
        who = {"GIT_AUTHOR_NAME": "The cataloguer", "GIT_AUTHOR_EMAIL": "cataloguer@localhost"}
        who |= {"GIT_COMMITTER_NAME": "The cataloguer", "GIT_COMMITTER_EMAIL": "cataloguer@localhost"}
        environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(["git", *words], env=environment, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise Unavailable(f"git {words[0]}: {done.stderr.strip()[:200]}", code="catalogue.git")
        return done.stdout
