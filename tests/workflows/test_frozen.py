"""An archive whose repository is no longer what it was: nothing is done with what stands in its place, and there is a
way back."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from pathlib import Path

from typer.testing import CliRunner, Result

from custody.errors import Refused
from custody.kernel.stores import open_store
from custody.workflows.archives import hook_spool, hooks
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.kinds import reconcile_all
from rig.program import tool
from rig.svn import Subversion, run
from workflows.desk import Desk, until
from workflows.repositories import GitRepository

TASK = {"_workflows/a.yaml": "- {name: a, script: 'cat whose'}\n", "whose": "ours"}


def archive(desk: Desk, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", desk.store.url])


def replace(desk: Desk, svn: Subversion, revisions: int, keep_uuid: bool = False) -> None:
    """Another repository stands where ours was."""
    other, uuid = svn.fresh_repository(), desk.repository.look("uuid").strip()
    for number in range(revisions):
        other.commit("theirs", {**TASK, "whose": f"theirs {number}"})
    shutil.rmtree(desk.repository.path)
    os.rename(other.path, desk.repository.path)
    if keep_uuid:
        run([tool("svnadmin"), "setuuid", str(desk.repository.path), uuid])


def test_what_another_repository_says_is_neither_planned_nor_run(one_desk: Desk, svn: Subversion) -> None:
    for _ in range(2):
        one_desk.notify(one_desk.commit(TASK | {"n": str(_)}))
    one_desk.worker().run_until_idle(1)  # the first is planned
    replace(one_desk, svn, 3)
    reconcile(one_desk.store, Archives(one_desk.store).get("proj"))
    one_desk.run()
    for revision, name in ((1, "a"), (2, "COMMIT")):
        job = one_desk.task(revision, name)
        assert job.ended is None, "it would have run what somebody else wrote, with the secrets of this archive"
        assert "has another uuid now" in one_desk.store.queue.why(job.id)[0].text


def test_what_is_left_of_an_archive_that_was_removed_waits_until_it_is_added_again(one_desk: Desk) -> None:
    one_desk.notify(one_desk.commit(TASK))
    one_desk.worker().run_until_idle(1)
    one_desk.notify(one_desk.commit({"n": "1"}))
    assert archive(one_desk, "remove", "proj", "--why", "its disk is changed").exit_code == 0
    one_desk.run()
    for revision, name in ((1, "a"), (2, "COMMIT")):
        job = one_desk.task(revision, name)
        assert job.ended is None, "a commit that failed would hold up all that follow"
        assert "no longer looked after" in one_desk.store.queue.why(job.id)[0].text


def test_an_archive_that_went_back_is_not_thawed_to_be_frozen_again_at_the_next_look(
    one_desk: Desk, svn: Subversion
) -> None:
    for number in range(3):
        one_desk.commit({"n": str(number)})
    one_desk.notify(3)
    one_desk.run()
    replace(one_desk, svn, 1, keep_uuid=True)
    reconcile_all(one_desk.store)
    done = archive(one_desk, "thaw", "proj", "--why", "it is all right")
    assert isinstance(done.exception, Refused)
    assert "revision 1" in done.exception.message
    assert "another name" in done.exception.hint
    assert Archives(one_desk.store).get("proj").frozen


def test_why_an_archive_was_thawed_and_removed_is_in_its_history(one_desk: Desk, svn: Subversion) -> None:
    one_desk.notify(one_desk.commit({"n": "1"}))
    one_desk.run()
    replace(one_desk, svn, 1)
    reconcile_all(one_desk.store)
    assert archive(one_desk, "thaw", "proj", "--why", "dumped and loaded").exit_code == 0
    assert Archives(one_desk.store).get("proj").frozen == ""
    reconcile_all(one_desk.store)
    assert Archives(one_desk.store).get("proj").frozen == ""
    assert archive(one_desk, "remove", "proj", "--why", "no longer ours").exit_code == 0
    told = {event.type: event.detail.get("why") for event in one_desk.store.records.events("archive/proj")}
    assert (told["thawed"], told["dropped"]) == ("dumped and loaded", "no longer ours")


def test_pushes_to_a_frozen_archive_are_counted_one_by_one_when_it_is_thawed(
    tmp_path: Path, proj_git: GitRepository
) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        archives = Archives(store)
        kept = archives.add("proj", "git", str(proj_git.path), "ada")
        archives.freeze("proj", "somebody looks", kept.uuid, "ada")
        for number in range(3):
            hooks.install(proj_git.path, ["/bin/false"])
            proj_git.commit("f", str(number))
            proj_git.push()
        until(lambda: len(hook_spool.spooled(proj_git.path)) == 3)
        reconcile_all(store)
        archives.thaw("proj", kept.uuid, "ada")
        assert reconcile_all(store) == 3
        assert GitArchive(proj_git.path, store).youngest() == 3
        assert hook_spool.spooled(proj_git.path) == []


def add_unasked(desk: Desk, name: str, system: str, location: str) -> None:
    row = {"name": name, "system": system, "location": location, "uuid": name, "last": 0}
    desk.store.db.write(lambda tx: tx.run("wf_add_archive", **row))


def test_a_repository_that_is_spoilt_does_not_stop_the_others(one_desk: Desk, proj_git: GitRepository) -> None:
    add_unasked(one_desk, "a-spoilt-one", "git", str(proj_git.path))
    proj_git.git("--git-dir", str(proj_git.path), "config", "custody.uuid", "0b8a4d1c-6c0e-4c52-9f4e-8d8a3b0f2a11")
    (proj_git.path / "custody-journal").write_text("nonsense\n")
    one_desk.commit({"n": "1"})
    assert reconcile_all(one_desk.store) == 1
    assert "the count of its revisions cannot be read" in Archives(one_desk.store).out_of_reach("a-spoilt-one")


def test_a_server_that_says_nothing_does_not_keep_the_others_waiting(one_desk: Desk) -> None:
    one_desk.commit({"n": "1"})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        add_unasked(one_desk, "a-silent-one", "svn", f"svn://127.0.0.1:{silent.getsockname()[1]}/x")
        asking = threading.Thread(target=reconcile_all, args=(one_desk.store,), daemon=True)
        asking.start()
        until(lambda: Archives(one_desk.store).get("proj").last == 1, 60)
        silent.settimeout(60)
        silent.accept()[0].close()
    asking.join(60)
    assert Archives(one_desk.store).out_of_reach("a-silent-one")
