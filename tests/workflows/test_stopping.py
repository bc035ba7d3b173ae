"""A task that is told to stop before its own process has begun: whoever writes its revision out is stopped too."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from custody.errors import Unavailable
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.engine.work import Work
from custody.kernel.model.machine import PLAIN
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store, open_store
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.processes.kept_open import Pool
from custody.workflows.archives.table import Archives
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from custody.workflows.makers import COMMIT_KIND, TASK_KIND, task_key
from custody.workflows.tasks.recipes import definitions_of
from custody.workflows.tasks.run import run_task
from custody.workflows.tasks.runner import Runner, attempt_name
from rig.need import need as need_service
from workflows.desk import Desk, until
from workflows.repositories import GitRepository, SvnRepository

TASK = "- {name: build, script: echo built}\n"


def with_a_task_svn(repository: SvnRepository) -> None:
    repository.put("data.txt", b"data")
    repository.mucc("two", "mkdir", "_workflows")
    repository.put("_workflows/a.yaml", TASK.encode())


def with_a_task_git(repository: GitRepository) -> None:
    repository.commit("data.txt", "data")
    repository.commit("_workflows/a.yaml", TASK)
    repository.push()


def readers() -> set[int]:
    """Of the processes that we have begun, and those that they have, those that read repositories."""
    parents, names = dict[int, int](), dict[int, str]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            name, _, rest = (process / "stat").read_text().partition(" (")[2].rpartition(") ")
            names[int(process.name)], parents[int(process.name)] = name, int(rest.split()[1])
    ours, more = set[int](), {os.getpid()}
    while more:
        more = {one for one, parent in parents.items() if parent in more}
        ours |= more
    return {one for one in ours if names[one] in ("git", "svn", "svnserve", "bwrap")}


def end_idle_readers() -> None:
    for pool in Pool.all:
        pool.close()


def living(processes: set[int]) -> set[int]:
    def lives(process: int) -> bool:
        with suppress(OSError):
            return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
        return False

    return {one for one in processes if lives(one)}


@contextmanager
def planned(store: Store, shop: Runner) -> Iterator[int]:
    """Its last revision is planned; a worker goes on with its tasks."""
    serving = Serving(tuple(kinds(shop)))
    reconcile(store, Archives(store).get("proj"))
    Worker(store, serving.only([COMMIT_KIND]), Settings()).run_until_quiet()
    revision = Archives(store).get("proj").last
    job = store.queue.by_key(TASK_KIND, task_key("proj", revision, "commit", "build"))
    assert job is not None
    yield job.id


@pytest.mark.parametrize("what", ["its content", "what it does"])
@pytest.mark.parametrize("system", ["svn", "git"])
def test_a_task_that_is_cancelled_while_its_revision_is_written_out_ends_soon(
    request: pytest.FixtureRequest, tmp_path: Path, system: str, what: str
) -> None:
    need_service("bubblewrap")
    repository = request.getfixturevalue(f"proj_{system}")
    (with_a_task_svn if system == "svn" else with_a_task_git)(repository)
    end_idle_readers()
    before = readers()
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        Archives(store).add("proj", system, str(repository.path), "ada")
        shop = open_shop(store, WorkflowConfig(), tmp_path)
        with planned(store, shop) as job:
            if what == "its content":
                kept = Archives(store).get("proj")
                definitions_of(store, kept, kept.last)  # it is known what it does
            reading = readers() - before
            for process in reading:  # as a disk that hangs stops them
                os.kill(process, signal.SIGSTOP)
            worker = Worker(store, Serving(tuple(kinds(shop))).only([TASK_KIND]), Settings(lease=6.0, grace=0.1))
            thread = threading.Thread(target=worker.run_forever)
            thread.start()
            try:
                until(lambda: store.queue.get(job).holder)
                time.sleep(1)
                assert reading
                assert Operator(store, PLAIN, "ada").cancel(job, "enough").code == "asked", "it is under way"
                until(lambda: store.queue.get(job).ended == "cancelled", 20)
                until(lambda: not living(reading), 5)  # the kernel ends the inner of a sandbox when the outer is dead
            finally:
                worker.stop()
                thread.join()
        assert list(shop.work.glob("task-*")) == []
        shop.sandboxes.__exit__(None, None, None)


def test_an_archive_of_folders_stops_between_two_files(tmp_path: Path) -> None:
    archive = FolderArchive.make(tmp_path / "kept")
    source = tmp_path / "source"
    source.mkdir()
    for number in range(5):
        (source / f"{number}.txt").write_text("x")
    archive.keep(source, "five", "ada")
    left = iter([1.0, 1.0, 0.0])
    with pytest.raises(Unavailable):
        archive.export(1, tmp_path / "out", lambda: next(left))
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_a_worker_that_leaves_does_not_leave_a_stubborn_task_its_whole_grace(one_desk: Desk) -> None:
    """Its job is given back a moment later, and another worker may begin it."""
    text = "- name: build\n  grace: 10m\n  script: |\n    trap '' TERM\n    echo begun\n"
    text += "    while :; do sleep 0.1; done\n"
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": text}))
    with planned(one_desk.store, one_desk.shop) as job:
        queue = one_desk.store.queue
        work = Work(queue.claim(queue.ready_queues("workflow/task|"), "ada's", 600)[0], queue)
        work.trusted_until = time.monotonic() + 600
        thread = threading.Thread(target=run_task, args=(work, one_desk.shop))
        thread.start()
        name = attempt_name(work.job)
        until(lambda: (found := one_desk.shop.sandboxes.find(name)) and found.output() == b"begun\n")
        work.stop("shutdown")
        thread.join(120)
        assert not thread.is_alive(), "ten minutes"
        assert one_desk.shop.sandboxes.find(name) is None
        assert queue.get(job).ended is None
