"""Tasks that run in an image: allowed ones only, and found again after their worker was killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from custody.kernel.engine import Serving, Settings, Worker
from custody.workflows.archives.port import LINEAGE
from custody.workflows.archives.table import Archives
from custody.workflows.kinds import WorkflowConfig, kinds
from custody.workflows.makers import COMMIT_KIND
from rig.podman import IMAGE, Podman
from rig.svn import Repository
from workflows.desk import Desk, sitting_at, until


def sitting_with(
    engine: str, environ: Mapping[str, str], folder: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> AbstractContextManager[Desk]:
    for name, value in environ.items():
        if name.startswith(("CONTAINERS", "DOCKER")):
            monkeypatch.setenv(name, value)
    config = WorkflowConfig(images=("localhost/custody/*",), adopt=60.0, engine=engine)
    return sitting_at(f"sqlite:///{folder / 'custody.db'}", repository, folder, config)


@pytest.fixture
def docked(tmp_path: Path, repository: Repository, podman: Podman, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with sitting_with("podman", podman.environ, tmp_path, repository, monkeypatch) as made:
        yield made
    podman.podman("rm", "--all", "--force", "--time", "0")


@pytest.fixture
def at_the_dock(
    tmp_path: Path, repository: Repository, podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    """With docker as the engine: its own client, and podman's store to serve it."""
    if shutil.which("docker") is None:
        pytest.skip("there is no docker client on this machine")
    with (
        podman.docker() as environ,
        sitting_with(environ["DOCKER"], environ, tmp_path, repository, monkeypatch) as made,
    ):
        yield made
    podman.podman("rm", "--all", "--force", "--time", "0")


def test_a_task_in_an_image_gets_its_revision_and_leaves_its_outputs(docked: Desk) -> None:
    text = f"""
- name: build
  image: {IMAGE}
  outputs: [out]
  script: mkdir out; cat notes.txt > out/copy; echo built
- name: after
  depends: [build]
  script: cat /inputs/build/out/copy
"""
    docked.commit({"_workflows/a.yaml": text, "notes.txt": "from the archive"})
    docked.notify(1)
    docked.run()
    assert docked.states("build", 1) == ["done"], docked.task(1, "build")
    assert docked.log(1, "build") == "built\n"
    assert docked.log(1, "after") == "from the archive"


def test_an_image_that_nobody_allowed_or_that_is_not_there_is_told_and_never_pulled(docked: Desk) -> None:
    text = "- name: a\n  image: elsewhere/thing:1\n  script: true\n- name: b\n  image: localhost/custody/none:1\n  script: true\n"
    docked.commit({"_workflows/a.yaml": text})
    docked.notify(1)
    with docked.working():
        until(lambda: docked.task(1, "a").ended)
        until(
            lambda: (
                "is not on this machine"
                in str([event.detail for event in docked.store.records.events(docked.task(1, "b").subject)])
            )
        )
    assert docked.task(1, "a").code == "image.refused"


COMMITS = """
- name: publish
  image: {image}
  script: |
    mkdir -p site
    echo "page of r$CUSTODY_REVISION" > site/index.html
    custody archive commit -m "Pages, from a container" site
- name: check
  script: cat site/index.html || echo none
"""


def test_a_task_in_an_image_commits_and_its_commit_is_known_as_its_own(docked: Desk, podman: Podman) -> None:
    """No network, no credentials and no Subversion in there: only the socket."""
    commit_from_inside(docked, podman)


def commit_from_inside(docked: Desk, podman: Podman) -> None:
    docked.commit({"_workflows/a.yaml": COMMITS.format(image=podman.add_python())})
    docked.notify(1)
    docked.run()
    assert docked.states("publish", 1) == ["done"], docked.log(1, "publish")
    assert docked.log(1, "publish") == "committed revision 2\n"
    assert docked.repository.look("cat", "site/index.html") == "page of r1\n"
    made = Archives(docked.store).opened("proj").meta(2)
    assert (made.message, made.properties[LINEAGE]) == ("Pages, from a container", "publish")
    assert docked.states("check", 2) == ["done"], "its commit was planned like any other"
    assert docked.log(2, "check") == "page of r1\n"
    assert docked.states("publish", 2) == ["skipped"]
    (reason,) = docked.store.queue.why(docked.task(2, "publish").id)
    assert "this commit was made by publish; publish is not reentrant" in reason.text


def test_with_docker_as_the_engine_a_task_runs_commits_and_leaves_nothing(at_the_dock: Desk, podman: Podman) -> None:
    commit_from_inside(at_the_dock, podman)
    at_the_dock.commit({"_workflows/a.yaml": f"- name: long\n  image: {IMAGE}\n  script: echo begun; sleep 600\n"})
    at_the_dock.notify(3)
    with at_the_dock.working():
        until(lambda: at_the_dock.shop.sandboxes.names())
        (name,) = at_the_dock.shop.sandboxes.names()
        running = at_the_dock.shop.sandboxes.find(name)
        assert running is not None
        until(lambda: running.output() == b"begun\n")
        at_the_dock.operator.cancel(at_the_dock.task(3, "long").id, "enough")
        until(lambda: at_the_dock.task(3, "long").ended)
    assert at_the_dock.states("long", 3) == ["cancelled"]
    assert podman.podman("ps", "--all", "--quiet").split() == []


@pytest.mark.kills
def test_a_container_outlives_its_worker_and_the_next_worker_goes_on_with_it(docked: Desk, podman: Podman) -> None:
    script = "echo begun; while ! test -e go; do sleep 0.1; done; echo ended; exit 5"
    docked.commit({"_workflows/a.yaml": f"- name: long\n  image: {IMAGE}\n  script: {script}\n"})
    docked.notify(1)
    (docked.home / "custody.toml").write_text('[workflows]\nimages = ["localhost/custody/*"]\nadopt = 60\n')
    (docked.home / "profiles").mkdir()
    command = [sys.executable, "-m", "custody", "worker", "run", "--lease", "2", "--no-log"]
    environment = {**os.environ, "CUSTODY_STORE": docked.store.url}
    environment["CUSTODY_CONFIG"] = str(docked.home / "custody.toml")
    worker = subprocess.Popen(command, env=environment, cwd=docked.home)
    try:
        until(lambda: docked.task(1, "long").facts.get("container") and docked.shop.sandboxes.names())
        (name,) = docked.shop.sandboxes.names()
        running = docked.shop.sandboxes.find(name)
        assert running is not None
        until(lambda: running.output() == b"begun\n")
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    with docked.working():
        until(lambda: docked.task(1, "long").attempts == 2 and docked.task(1, "long").holder)
        assert len(podman.podman("ps", "--quiet").split()) == 1, "no second container was started"
        (docked.shop.work / name / "go").touch()
        until(lambda: docked.task(1, "long").ended)
    job = docked.task(1, "long")
    assert (job.state, job.code) == ("failed", "exit.5"), "its code reached the worker that took over"
    assert docked.log(1, "long") == "begun\nended\n", "and its whole output; it ran once"


def test_on_another_machine_a_task_is_not_begun_while_its_container_may_still_run(docked: Desk) -> None:
    docked.commit({"_workflows/a.yaml": f"- name: long\n  image: {IMAGE}\n  script: true\n"})
    docked.notify(1)
    Worker(docked.store, Serving(tuple(kinds(docked.shop))).only([COMMIT_KIND]), Settings()).run_until_quiet()
    claim = docked.store.queue.claim(docked.store.queue.ready_queues("workflow/task|"), "elsewhere", 0.01)[0]
    docked.store.queue.keep(claim, {"container": {"home": "elsewhere", "name": "x"}}, {}, (), "elsewhere")
    with docked.working():
        until(lambda: "dead_by" in docked.task(1, "long").facts["container"])
    job = docked.task(1, "long")
    assert job.holder, "so that whatever would replace it has to wait"
    assert job.facts["container"]["home"] == "elsewhere"
