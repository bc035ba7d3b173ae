"""What is no file in the place of one, in a repository: told in words, nobody waits for it, other archives go on."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from custody.errors import Refused, Unavailable
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.stores import Store, open_store
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.notices import notify, reconcile
from custody.workflows.archives.ownership.plain_files import opened
from custody.workflows.archives.processes import conversation, silent_repositories
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.archives.table import Archives
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop, reconcile_all
from custody.workflows.makers import COMMIT_KIND, TASK_KIND, commit_key, task_key
from rig.need import need as need_service
from rig.svn import Subversion
from workflows.desk import Desk, until
from workflows.repositories import GitRepository, SvnRepository
from workflows.test_stopping import end_idle_readers, readers

TASK = "- {name: build, script: echo built}\n"
SOON = 20.0  # seconds; what waits for a pipe waits for ever


@pytest.fixture(autouse=True)
def nobody_is_suspected() -> Iterator[None]:
    yield
    silent_repositories._suspects.clear()


def pipe(file: Path) -> None:
    os.mkfifo(file)


def plug(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            made.bind(f"/proc/self/fd/{here}/{file.name}")  # a path that is short enough for a socket
        finally:
            os.close(here)


def link_to_a_pipe(file: Path) -> None:
    os.mkfifo(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


SORTS = [pipe, plug, link_to_a_pipe]


def put(sort: Callable[[Path], None], file: Path) -> None:
    """In the place of a file, or where there was none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.is_dir():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    sort(file)
    end_idle_readers()


def everything(store: Store, system: str, place: Path, out: Path) -> list[str]:
    """All that a worker asks of a repository; the codes of what went wrong."""
    codes = []
    archive = GitArchive(place, store) if system == "git" else SvnArchive(str(place))
    for ask in (
        archive.uuid,
        archive.youngest,
        lambda: archive.meta(1),
        lambda: archive.tree(1, ""),
        lambda: archive.read(1, "data.txt"),
        lambda: archive.changed(1),
        lambda: archive.export(1, out),
    ):
        try:
            ask()
        except (Unavailable, Refused) as error:
            codes.append(error.code)
    return codes


def blob(repository: GitRepository) -> str:
    id_ = repository.git("rev-parse", "HEAD:data.txt")
    return f"objects/{id_[:2]}/{id_[2:]}"


GIT_PLACES = [
    "objects/BLOB",
    "objects/pack/pack-1.idx",
    "objects/pack/pack-1.pack",
    "objects/info/alternates",
    "objects/info/packs",
    "HEAD",
    "packed-refs",
    "refs/heads/main",
    "refs/heads/other",
    "config",
    "custody-journal",
    "custody-spool/1",
]


@pytest.mark.parametrize("sort", SORTS, ids=lambda sort: sort.__name__)
@pytest.mark.parametrize("place", GIT_PLACES)
def test_nobody_waits_for_what_is_no_file_in_a_git_repository(
    own_store: Store, proj_git: GitRepository, tmp_path: Path, place: str, sort: Callable[[Path], None]
) -> None:
    proj_git.commit("data.txt", "data")
    proj_git.push()
    assert everything(own_store, "git", proj_git.path, tmp_path / "before") == []
    put(sort, proj_git.path / (blob(proj_git) if place == "objects/BLOB" else place))
    begun = time.monotonic()
    codes = everything(own_store, "git", proj_git.path, tmp_path / "out")
    assert time.monotonic() - begun < SOON
    assert set(codes) <= {"archive.corrupt", "archive.kind", "archive.unreachable", "archive.revision"}
    harmless = ("refs/heads/other", "custody-journal", "custody-spool/1", "refs/heads/main", "HEAD")
    assert codes or place in harmless, "it is told"


SVN_PLACES = [
    "db/revs/0/1",
    "db/revprops/0/1",
    "db/current",
    "db/format",
    "db/fs-type",
    "db/uuid",
    "db/fsfs.conf",
    "format",
    "db/min-unpacked-rev",
    "custody-spool/1",
    "db/revs/0.pack/pack",
]


@pytest.mark.parametrize("sort", SORTS, ids=lambda sort: sort.__name__)
@pytest.mark.parametrize("place", SVN_PLACES)
def test_nobody_waits_for_what_is_no_file_in_a_subversion_repository(
    own_store: Store, proj_svn: SvnRepository, tmp_path: Path, place: str, sort: Callable[[Path], None]
) -> None:
    proj_svn.put("data.txt", b"data")
    assert everything(own_store, "svn", proj_svn.path, tmp_path / "before") == []
    put(sort, proj_svn.path / place)
    begun = time.monotonic()
    codes = everything(own_store, "svn", proj_svn.path, tmp_path / "out")
    assert time.monotonic() - begun < SOON
    assert set(codes) <= {"archive.corrupt", "archive.kind", "archive.unreachable"}
    assert codes or place == "custody-spool/1", "it is told"


@pytest.mark.parametrize("sort", [pipe, plug], ids=lambda sort: sort.__name__)
@pytest.mark.parametrize("place", ["custody-archive", "1/about.json", "1/content/data.txt", "1/content/new"])
def test_nobody_waits_for_what_is_no_file_in_an_archive_of_folders(
    tmp_path: Path, place: str, sort: Callable[[Path], None]
) -> None:
    archive = FolderArchive.make(tmp_path / "kept")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "data.txt").write_text("data")
    archive.keep(tmp_path / "source", "one", "ada")
    put(sort, tmp_path / "kept" / place)
    codes = set()
    for ask in (
        archive.uuid,
        lambda: archive.meta(1),
        lambda: archive.read(1, "data.txt"),
        lambda: archive.head(1, "data.txt", 9),
        lambda: archive.export(1, tmp_path / "out"),
    ):
        try:
            ask()
        except Unavailable as error:
            codes.add(error.code)
    assert codes == {"archive.corrupt"}


def test_a_file_that_is_a_pipe_by_the_time_it_is_opened_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unavailable, match="is a pipe, a socket or a device, not a file"):
        opened(tmp_path / "pipe", "here")


@pytest.mark.parametrize("system", ["git", "svn"])
def test_a_repository_that_says_nothing_keeps_a_thread_once_and_no_other_archive(
    request: pytest.FixtureRequest, one_desk: Desk, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    """Its readers are stopped, as a disk that hangs stops them: whatever was looked at before, no answer comes."""
    monkeypatch.setattr(conversation, "SILENCE", 2.0)
    repository = request.getfixturevalue(f"proj_{system}")
    if system == "git":
        repository.commit("_workflows/a.yaml", TASK)
        repository.push()
    else:
        repository.mucc("one", "mkdir", "_workflows")
        repository.put("_workflows/a.yaml", TASK.encode())
    store = one_desk.store
    Archives(store).add("silent", system, str(repository.path), "ada")
    end_idle_readers()
    archive = Archives(store).opened("silent")
    before = readers()
    last = archive.youngest()
    archive.meta(last)  # there is one now that reads it
    stopped = readers() - before
    assert stopped
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        notify(store, "silent", 1)
        one_desk.notify(one_desk.publish())
        with one_desk.working(threads=2):
            until(lambda: one_desk.task(1, "build-PDF").ended == "passed", 60)
            commit = store.queue.by_key(COMMIT_KIND, commit_key("silent", 1))
            assert commit is not None
            until(lambda: commit.id and "no answer" in store.queue.why(commit.id)[0].text, 30)
        begun = time.monotonic()
        with pytest.raises(Unavailable) as again:
            archive.read(last, "_workflows/a.yaml")
        assert time.monotonic() - begun < 1, "it is left alone for a while"
        assert again.value.code == "archive.silent"
    finally:
        for process in stopped:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    silent_repositories._suspects[str(repository.path)].again = 0
    assert archive.read(last, "_workflows/a.yaml") == TASK.encode(), "and asked again later"
    assert silent_repositories._suspects == {}


def test_one_that_was_silent_is_asked_by_one_at_a_time() -> None:
    def silent() -> None:
        with silent_repositories.asking("there"):
            raise Unavailable("nothing", code="archive.silent")

    with pytest.raises(Unavailable, match="nothing"):
        silent()
    with pytest.raises(Unavailable, match="is asked again in"):
        silent()
    silent_repositories._suspects["there"].again = 0
    with silent_repositories.asking("there"), pytest.raises(Unavailable, match="is being asked again"):
        silent()
    with silent_repositories.asking("there"):
        pass
    with pytest.raises(Unavailable, match="nothing"):
        silent()
    first = silent_repositories._suspects["there"].pause
    silent_repositories._suspects["there"].again = 0
    with pytest.raises(Unavailable, match="nothing"):
        silent()
    assert silent_repositories._suspects["there"].pause == 2 * first


def test_the_worker_goes_on_with_others_while_one_has_pipes_in_it(
    request: pytest.FixtureRequest, tmp_path: Path, proj_git: GitRepository, svn: Subversion
) -> None:
    """More archives with a pipe in them than the worker has threads."""
    need_service("bubblewrap")
    proj_git.commit("_workflows/a.yaml", TASK)
    proj_git.commit("data.txt", "data")
    proj_git.push()
    good = svn.fresh_repository()
    good.commit("one", {"_workflows/a.yaml": TASK})
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        shop = open_shop(store, WorkflowConfig(), tmp_path)
        for number in range(5):
            copy = tmp_path / f"copy-{number}.git"
            shutil.copytree(proj_git.path, copy)
            Archives(store).add(f"bad-{number}", "git", str(copy), "ada")
        reconcile_all(store)
        Worker(store, Serving(tuple(kinds(shop))).only([COMMIT_KIND]), Settings()).run_until_quiet()
        for number in range(5):
            put(pipe, tmp_path / f"copy-{number}.git" / blob(proj_git))
        Archives(store).add("good", "svn", str(good.path), "ada")
        reconcile(store, Archives(store).get("good"))
        worker = Worker(store, Serving(tuple(kinds(shop))), Settings(lease=6.0, threads=3, grace=0.1))
        thread = threading.Thread(target=worker.run_forever)
        thread.start()
        try:
            key = task_key("good", 1, "commit", "build")
            until(lambda: getattr(store.queue.by_key(TASK_KIND, key), "ended", "") == "passed", 60)
            bad = store.queue.by_key(TASK_KIND, task_key("bad-0", 1, "commit", "build"))
            assert bad is not None
            until(lambda: "a pipe, a socket or a device" in store.queue.why(bad.id)[0].text, 60)
        finally:
            worker.stop()
            thread.join()
            shop.sandboxes.__exit__(None, None, None)
