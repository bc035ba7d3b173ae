"""Real commits to a real Subversion repository run their own workflow files, in revision order, in real sandboxes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.kernel.stores import open_store
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.plan.plan_jobs import FAULTY
from rig.svn import Repository
from workflows.desk import PUBLISH, Desk, alive, until

NAP = f"sleep {300_000 + os.getpid()}"  # no other test run's


def test_the_hook_of_revision_three_before_that_of_two_changes_nothing(desk: Desk) -> None:
    for _ in range(3):
        desk.publish()
    assert [desk.notify(1), desk.notify(3), desk.notify(2), desk.notify(3)] == [1, 2, 0, 0]
    desk.run()
    ends = desk.ends()
    commits = [revision for revision, task, _ in ends if task == "COMMIT"]
    indexed = [revision for revision, task, _ in ends if task == "indexing"]
    assert commits == indexed == [1, 2, 3]
    assert desk.states("indexing", 1, 2, 3) == ["done"] * 3
    assert desk.states("build-PDF", 3) == ["done"]
    assert desk.log(3, "indexing") == "indexed\n"


def test_an_older_build_is_dead_before_the_newer_one_starts(desk: Desk) -> None:
    marks = desk.home / "marks"
    marks.mkdir(mode=0o777)
    slow = f"trap '' TERM; setsid {NAP} & echo started; {NAP}"
    first = desk.publish(slow)
    desk.notify(first)
    worker = desk.worker()
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    try:
        until(lambda: desk.task(first, "COMMIT").ended and desk.task(first, "build-PDF").holder)
        until(lambda: any(name.startswith("task-") for name in desk.shop.sandboxes.names()))
        second = desk.commit({"_workflows/publish.yaml": PUBLISH.format(script="echo quick")})
        desk.notify(second)
        until(lambda: desk.task(second, "COMMIT").ended and desk.task(second, "build-PDF").ended)
    finally:
        worker.stop()
        thread.join()
    assert desk.states("build-PDF", first, second) == ["superseded", "done"]
    order = [(revision, how) for revision, task, how in desk.ends() if task == "build-PDF"]
    assert order == [(first, "superseded"), (second, "passed")], "its death was confirmed first"
    assert not alive(NAP)
    assert "started" in (desk.shop.kept / desk.task(first, "build-PDF").facts["log"]).read_text(), (
        "output of superseded tasks is kept"
    )


def test_a_failed_task_skips_what_depends_on_it_and_holds_up_its_successor_visibly(desk: Desk) -> None:
    bad = PUBLISH.replace("echo indexed", "echo cannot; exit 7").format(script="echo built")
    first = desk.commit({"_workflows/publish.yaml": bad})
    second = desk.publish()
    desk.notify(second)
    desk.run()
    assert (desk.task(first, "indexing").state, desk.task(first, "indexing").code) == ("failed", "exit.7")
    assert desk.states("build-PDF", first, second) == ["skipped", "queued"]
    (reason,) = desk.store.queue.why(desk.task(second, "indexing").id)
    assert reason.code == "blocked"
    assert "indexing at 1" in reason.text
    assert desk.states("COMMIT", second) == ["done"], "planning goes on"
    desk.operator.accept(desk.task(first, "indexing").id, "the index is good enough")
    desk.run()
    assert desk.states("indexing", first, second) == ["done", "done"]
    assert desk.states("build-PDF", first, second)[1] == "done"


def test_a_retry_that_succeeds_brings_back_what_was_skipped(desk: Desk) -> None:
    flag = 'if [ -e /inputs/nothing ]; then :; fi; [ "$CUSTODY_ATTEMPT" = 1 ] && [ ! -e notes.txt ] || true'
    first = desk.commit(
        {
            "_workflows/a.yaml": f"- name: a\n  script: |\n    {flag}\n    exit 3\n- name: b\n  depends: [a]\n  script: echo b\n"
        }
    )
    desk.notify(first)
    desk.run()
    assert desk.states("b", first) == ["skipped"]
    job = desk.task(first, "a")
    desk.operator.accept(job.id, "fine")
    desk.run()
    assert desk.states("b", first) == ["done"]


def test_a_faulty_definition_fails_visibly_and_later_revisions_go_on(desk: Desk) -> None:
    first = desk.commit({"_workflows/publish.yaml": "- name: a\n  depends: [nobody]\n"})
    second = desk.publish()
    desk.notify(second)
    desk.run()
    faulty = desk.task(first, FAULTY)
    assert faulty.state == "failed"
    where = "_workflows/publish.yaml:2:13"
    assert where in faulty.facts["reason"]
    assert desk.states("COMMIT", first, second) == ["done", "done"]
    assert desk.states("build-PDF", second) == ["done"]
    assert where in desk.store.queue.why(faulty.id)[0].text
    printed = CliRunner().invoke(app, ["log", "proj", str(first), FAULTY, "--store", desk.store.url]).output
    assert printed.startswith(where), "what is wrong is what it has to say"


def test_retrying_a_faulty_definition_says_once_more_what_is_wrong(desk: Desk) -> None:
    first = desk.commit({"_workflows/publish.yaml": "- name: a\n  depends: [nobody]\n"})
    desk.notify(first)
    desk.run()
    desk.operator.resume(desk.task(first, FAULTY).id, "perhaps now")
    desk.run()
    faulty = desk.task(first, FAULTY)
    assert (faulty.state, faulty.code) == ("failed", "workflow.faults")
    assert "publish.yaml:2:13" in desk.store.queue.why(faulty.id)[0].text


def test_a_blocking_task_holds_up_the_next_commit(desk: Desk) -> None:
    first = desk.commit({"_workflows/a.yaml": "- name: gate\n  blocking: true\n  script: exit 1\n"})
    second = desk.commit({"notes.txt": "x"})
    desk.notify(second)
    desk.run()
    assert desk.states("gate", first) == ["failed"]
    assert desk.states("COMMIT", second) == ["queued"]
    (reason,) = desk.store.queue.why(desk.task(second, "COMMIT").id)
    assert reason.job == desk.task(first, "gate").id
    desk.operator.accept(desk.task(first, "gate").id, "let it pass")
    desk.run()
    assert desk.states("COMMIT", second) == ["done"]


def test_outputs_are_mounted_read_only_for_those_who_depend(desk: Desk) -> None:
    text = """
- name: make
  script: mkdir -p dist; echo book > dist/book.txt; ln -s /etc/passwd dist/link
  outputs: [dist]
- name: use
  depends: [make]
  script: |
    cat /inputs/make/dist/book.txt
    ! touch /inputs/make/x
    ! test -e /inputs/make/dist/link
"""
    revision = desk.commit({"_workflows/a.yaml": text})
    desk.notify(revision)
    desk.run()
    assert desk.states("use", revision) == ["done"], desk.log(revision, "use")
    assert "book" in desk.log(revision, "use")


def test_declared_outputs_that_are_no_files_or_were_never_made_are_told_in_the_log(desk: Desk) -> None:
    text = """
- name: make
  script: mkdir -p dist void; echo book > dist/book.txt; ln -s /etc/passwd dist/link; mkfifo dist/pipe; printf made
  outputs: [dist, "*.pdf", void]
"""
    revision = desk.commit({"_workflows/a.yaml": text})
    desk.notify(revision)
    desk.run()
    assert desk.states("make", revision) == ["done"]
    assert desk.log(revision, "make").splitlines() == [
        "made",
        "custody: 'dist/link' is declared as an output and was not kept: it is a link, not a file",
        "custody: 'dist/pipe' is declared as an output and was not kept: it is a pipe, a socket or a device, not a file",
        "custody: no file was made for the output '*.pdf'",
        "custody: no file was made for the output 'void'",
    ]


def test_outputs_are_kept_as_far_as_a_task_may_leave_something_and_holes_cost_nothing(desk: Desk) -> None:
    text = """
- name: holes
  script: truncate -s 1500M out.bin; echo end >> out.bin
  outputs: [out.bin]
- name: much
  script: head -c 3000000 /dev/urandom > out.bin; echo made
  outputs: [out.bin]
"""
    desk.shop = replace(desk.shop, outputs=2)
    revision = desk.commit({"_workflows/a.yaml": text})
    desk.notify(revision)
    desk.run()
    assert desk.states("holes", revision) == ["done"]
    kept = (desk.shop.folder(desk.task(revision, "holes")) / "outputs" / "out.bin").stat()
    assert kept.st_size == (1500 << 20) + 4
    assert kept.st_blocks * 512 < 1 << 20
    job = desk.task(revision, "much")
    assert (job.state, job.code) == ("failed", "task.outputs")
    told = "its outputs cannot be kept: more than 2 MiB"
    assert desk.log(revision, "much").splitlines() == ["made", f"custody: {told}"]
    assert not (desk.shop.folder(job) / "outputs").exists()


def test_a_lost_hook_is_repaired_by_asking_the_repository(desk: Desk) -> None:
    for _ in range(3):
        desk.publish()
    assert reconcile(desk.store, Archives(desk.store).get("proj")) == 3
    assert reconcile(desk.store, Archives(desk.store).get("proj")) == 0


def test_another_repository_in_its_place_freezes_the_archive_and_says_so(desk: Desk) -> None:
    desk.publish()
    reconcile(desk.store, Archives(desk.store).get("proj"))
    subprocess.run(["svnadmin", "setuuid", str(desk.repository.path)], check=True)
    assert reconcile(desk.store, Archives(desk.store).get("proj")) == 0
    frozen = Archives(desk.store).get("proj").frozen
    assert "has another uuid now: it is another one, or `svnadmin setuuid` changed it" in frozen
    desk.publish()
    assert desk.notify(2) == 0, "a frozen archive takes nothing in"


def test_every_order_of_notices_gives_the_same_plan(desk: Desk) -> None:
    for number in range(6):
        desk.publish(note=str(number))
    chance = random.Random(3)
    notices = [chance.randint(1, 6) for _ in range(20)] + [6]
    for revision in notices:
        desk.notify(revision)
    jobs = [desk.task(revision, "COMMIT") for revision in range(1, 7)]
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)
    assert len(jobs) == len({job.id for job in jobs}) == 6


def test_the_installed_hook_takes_a_commit_in_and_never_fails_the_committer(
    tmp_path: Path, repository: Repository
) -> None:
    url = f"sqlite:///{tmp_path / 'custody.db'}"
    program = str(Path(sys.executable).with_name("custody"))
    (tmp_path / "custody.toml").write_text('store = "sqlite:///custody.db"\n')  # hooks stand elsewhere
    words = [program, "archive", "add", "proj", str(repository.path)]
    added = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "the hook is installed" in added.stdout, added.stderr
    assert (repository.path / "custody-store").read_text().strip() == url
    assert (repository.path / "custody-store").stat().st_mode & 0o777 == 0o600, "there may be a password in it"
    assert "custody.db" not in (repository.path / "hooks" / "post-commit").read_text()
    repository.commit("first", {"a.txt": "a"})
    with open_store(url) as store:
        until(lambda: Archives(store).get("proj").last == 1)
    (tmp_path / "custody.db").rename(tmp_path / "elsewhere.db")  # the store is gone: the committer must not notice
    (tmp_path / "custody.db").mkdir()
    assert repository.commit("second", {"b.txt": "b"}) == 2


@pytest.mark.kills
def test_a_killed_worker_leaves_no_process_behind_and_the_task_runs_again(desk: Desk) -> None:
    first = desk.commit({"_workflows/a.yaml": f"- name: long\n  script: |\n    echo begun\n    {NAP}\n"})
    desk.notify(first)
    (desk.home / "custody.toml").write_text("")
    (desk.home / "profiles").mkdir()
    command = [sys.executable, "-m", "custody", "worker", "run", "--lease", "2", "--no-log"]
    environment = {**os.environ, "CUSTODY_STORE": desk.store.url, "CUSTODY_CONFIG": str(desk.home / "custody.toml")}
    process = subprocess.Popen(command, env=environment, cwd=desk.home)
    until(lambda: alive(NAP))
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not alive(NAP))
    second = subprocess.Popen(command, env=environment, cwd=desk.home)
    try:
        until(lambda: alive(NAP))
        assert desk.task(first, "long").attempts >= 2  # more if the machine was too busy to keep a lease
        desk.operator.cancel(desk.task(first, "long").id, "enough")
        until(lambda: desk.task(first, "long").ended == "cancelled")
        assert not alive(NAP), "cancelled is recorded only when the work is dead"
    finally:
        second.terminate()
        second.wait()
