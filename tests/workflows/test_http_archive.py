"""An archive behind a web server: read, planned, run and committed to over http://."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.errors import NotFound, Unavailable
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.stores import Store, open_store
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.port import ADDED, LINEAGE
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.archives.table import Archives
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from custody.workflows.makers import TASK_KIND, task_key
from rig.apache import Apache
from rig.need import need
from rig.svn import Repository

COPIES = """
- name: copy
  script: cp notes.txt copy.txt; custody archive commit -m "a copy" copy.txt
"""


@pytest.fixture
def repository(apache: Apache) -> Repository:
    return apache.fresh_repository()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as opened:
        yield opened


def test_a_commit_over_http_is_found_run_and_answered_by_another(
    store: Store, repository: Repository, tmp_path: Path
) -> None:
    need("bubblewrap")
    kept = Archives(store).add("web", "svn", repository.url, "ada")
    assert repository.commit("over http", {"_workflows/a.yaml": COPIES, "notes.txt": "hello"}) == 1
    assert reconcile(store, kept) == 1, "no hook could tell: the repository was asked"
    shop = open_shop(store, WorkflowConfig(), tmp_path)
    Worker(store, Serving(tuple(kinds(shop))), Settings(lease=30.0)).run_until_quiet()
    shop.sandboxes.__exit__(None, None, None)
    job = store.queue.by_key(TASK_KIND, task_key("web", 1, "commit", "copy"))
    assert job is not None
    assert job.state == "done", (shop.kept / job.facts["log"]).read_text()
    assert repository.look("cat", "copy.txt") == "hello"
    assert repository.look("propget", "--revprop", "-r", "2", LINEAGE) == "copy"
    assert Archives(store).get("web").last == 2


def test_everything_an_archive_is_asked_for_works_over_http(repository: Repository, tmp_path: Path) -> None:
    repository.commit("first", {"a b/ü.txt": "text", "_workflows/x.yaml": "- name: x\n"})
    archive = SvnArchive(repository.url)
    assert archive.uuid() == SvnArchive(str(repository.path)).uuid()
    assert archive.youngest() == 1
    assert archive.read(1, "a b/ü.txt") == b"text"
    assert {entry.path for entry in archive.list(1, "")} == {"a b", "_workflows"}
    assert {entry.path for entry in archive.tree(1, "a b")} == {"a b/ü.txt"}
    assert {change.action for change in archive.changed(1)} == {ADDED}
    assert archive.meta(1).message == "first"
    archive.export(1, tmp_path / "out")
    assert (tmp_path / "out/a b/ü.txt").read_text() == "text"
    with pytest.raises(NotFound):
        archive.read(1, "nothing")


def test_a_web_server_that_is_away_is_no_reason_to_give_up(apache: Apache, repository: Repository) -> None:
    repository.commit("first", {"a.txt": "a"})
    archive = SvnArchive(repository.url)
    apache.stop()
    try:
        with pytest.raises(Unavailable):
            archive.youngest()
    finally:
        apache.start()
    assert archive.youngest() == 1
