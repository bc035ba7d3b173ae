"""Story two: an archive in which a book is being written. Every commit runs the workflow files it carries.

The repository is git's, or one of plain folders where there is no git. Without a sandbox the index is the ready-made
one; the build waits, visibly, and `why` says what to install.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.demo.author import Author
from custody.kernel.engine.kinds import Chore, Kind
from custody.kernel.stores import Store
from custody.workflows.config import WorkflowConfig
from custody.workflows.kinds import chores, kinds, open_shop, reconcile_all
from custody.workflows.tasks.runner import Runner

NAME = "My-Project"
COUNTED = """\
# Read as it was at the revision being processed.
- name: index
  depends: [PREV]                 # this task, one revision earlier
  script: |
    grep -c . chapters/*.md > index.txt
    cat index.txt
  outputs: [index.txt]
"""
READY_MADE = """\
# Read as it was at the revision being processed.
- name: index
  depends: [PREV]                 # this task, one revision earlier
  ready: index                    # needs no sandbox: nothing of the archive's own is run
"""
BUILT = """
- name: build-book
  depends: [index]
  cancels: [PREV]                 # a newer book replaces one still being made
  script: |
    echo "building revision $CUSTODY_REVISION from $(ls chapters | wc -l) chapters"
    sleep {seconds}
    cat chapters/*.md > book.txt
  outputs: [book.txt]
"""
CHAPTERS = ("The harbour", "A lighthouse", "The flood", "Afterwards")


@dataclass
class Book:
    store: Store
    home: Path
    shop: Runner

    @classmethod
    def open(cls, store: Store, home: Path) -> Book:
        return cls(store, home, open_shop(store, WorkflowConfig(), home))

    def begin(self) -> None:
        """A revision for each chapter; those that an earlier start made are there already."""
        author = Author(self.store, NAME, self.home / "archive", "An author")
        author.begin()
        desk = self.home / "author"
        author.fetch(desk)
        for number, title in enumerate(CHAPTERS, start=1):
            if not (desk / "chapters" / f"{number}.md").exists():
                self._write(desk, number, title)
                author.commit(desk, f"Chapter {number}: {title}")
            reconcile_all(self.store)

    def kinds(self) -> Sequence[Kind]:
        return kinds(self.shop, at_once=2)

    def chores(self) -> Sequence[Chore]:
        return chores(self.store, every=2.0)

    def _write(self, desk: Path, number: int, title: str) -> None:
        for folder in ("chapters", "_workflows"):
            (desk / folder).mkdir(exist_ok=True)
        text = "".join(f"{title}, line {line}\n" for line in range(1, 20 * number))
        (desk / "chapters" / f"{number}.md").write_text(text)
        index = COUNTED if self.shop.sandbox_works else READY_MADE
        (desk / "_workflows" / "publish.yaml").write_text(index + BUILT.format(seconds=1 if number < 4 else 2))
