"""All four in one line: an object is ingested, robots check it, one of them writes a record of it into an archive,
the archive's own workflow indexes the records, and the object's page shows the whole of it.

The catalogue is an archive like any other: its records can be read, its history is git's (without git, that of plain
folders), its index is made by the workflow file that it carries.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from custody.border.sandbox.sandbox import available
from custody.demo.author import Author
from custody.kernel.engine.kinds import Backoff
from custody.kernel.model.item import Item
from custody.kernel.model.trigger import Trigger
from custody.kernel.stores import Store
from custody.robots.robot import Report, Robot, robot
from custody.workflows.archives.table import Archives
from custody.workflows.archives.working_copy.draft import Draft

NAME = "catalogue"
EVENT = "catalogued"
COMMIT_SECONDS = 60.0
WORKFLOW = """\
# Every record that is committed is indexed.
- name: index
  depends: [PREV]
  script: |
    ls records | wc -l
    cat records/*.txt | grep '^title:' | sort > index.txt
  outputs: [index.txt]
"""
READY_MADE = """\
# Every record that is committed is indexed.
- name: index
  depends: [PREV]
  ready: index
"""
RECORD = "item: {id}\ntitle: {title}\nversion: {version}\n"


@dataclass
class Catalogue:
    store: Store
    home: Path

    def begin(self) -> None:
        """A catalogue that says what it is, and its workflow; unless an earlier start made it."""
        author = Author(self.store, NAME, self.home / "catalogue", "The cataloguer")
        author.begin()
        with tempfile.TemporaryDirectory(prefix="custody-desk-") as folder:
            desk = Path(folder, "desk")
            author.fetch(desk)
            if not (desk / "_workflows").exists():
                self._write(desk)
                author.commit(desk, "A catalogue")

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
            report.note(archive=NAME, revision=self.write(item, name), record=name)

        return catalogue

    def write(self, item: Item, name: str) -> int:
        """Commit a record of an item as it is now; the revision. An attempt that is repeated finds the first one's."""
        archive = Archives(self.store).opened(NAME)
        key = f"{item.id}/{item.changed}"
        known = archive.committed(key, since=0)
        if known is not None:
            return known
        detail = {"id": item.id, "title": item.detail.get("title", ""), "version": item.detail.get("version", "")}
        with tempfile.TemporaryDirectory(prefix="custody-record-") as folder:
            record = Path(folder, "record.txt")
            record.write_text(RECORD.format(**detail))
            message = f"Record of {detail['title'] or item.id}"
            draft = Draft(message=message, base=archive.youngest(), put={name: record}, gone=(), lineage=(), key=key)
            return archive.commit(draft, COMMIT_SECONDS)

    def _write(self, desk: Path) -> None:
        """The first revision, as a person would make it."""
        workflow = WORKFLOW if available() else READY_MADE
        for name, text in (("_workflows/index.yaml", workflow), ("records/about.txt", "title: The catalogue\n")):
            (desk / name).parent.mkdir(exist_ok=True)
            (desk / name).write_text(text)
