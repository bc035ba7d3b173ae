"""Tasks that commit: from inside their sandbox, known as theirs, and never twice."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from custody.errors import BadInput, CustodyError, NotFound, Refused, Unavailable
from custody.kernel.model.job import NewJob
from custody.kernel.stores import open_store
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.port import COMMIT_KEY, LINEAGE, Archive
from custody.workflows.archives.processes.vcs_process import call
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.archives.table import Archives
from custody.workflows.archives.working_copy.draft import Draft, gather
from custody.workflows.commands.archive import app
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from custody.workflows.makers import TASK_KIND, task_key
from custody.workflows.pages import task_panel
from custody.workflows.plan.job import plan_revision
from custody.workflows.tasks import client
from custody.workflows.tasks.socket import Window
from rig.need import need
from workflows.desk import Desk, until
from workflows.repositories import GitRepository, SvnRepository
from workflows.shown import site_over

MAKES = """
- name: publish
  script: |
    mkdir -p site
    echo "page of r$CUSTODY_REVISION" > site/index.html
    custody archive commit -m "Pages" site
- name: check
  script: cat site/index.html || echo none
"""


def test_a_task_commits_from_inside_and_its_commit_runs_the_other_tasks(desk: Desk) -> None:
    first = desk.commit({"_workflows/a.yaml": MAKES})
    desk.notify(first)
    desk.run()
    assert desk.states("publish", first) == ["done"], desk.log(first, "publish")
    assert "committed revision 2" in desk.log(first, "publish")
    assert desk.repository.look("cat", "site/index.html") == "page of r1\n"
    assert Archives(desk.store).get("proj").last == 2
    assert desk.log(2, "check") == "page of r1\n"
    assert desk.states("publish", 2) == ["skipped"], "it would go round and round"
    (reason,) = desk.store.queue.why(desk.task(2, "publish").id)
    assert "this commit was made by publish; publish is not reentrant" in reason.text
    assert desk.store.records.latest("proj@2")["planned"].outcome == "success"


def test_lineage_that_somebody_else_has_written_means_nothing(one_desk: Desk) -> None:
    """Whoever can commit can write any property; only what a task of ours began counts."""
    one_desk.commit({"_workflows/a.yaml": MAKES})
    one_desk.notify(1)
    one_desk.run()
    key = one_desk.repository.look("propget", "--revprop", "-r", "2", COMMIT_KEY)
    for number, said in enumerate(("1.0.0", "999999.0.0.word", key, "x", f"{'9' * 40}.0.0"), 3):
        options = ["--with-revprop", f"{LINEAGE}=publish", "--with-revprop", f"{COMMIT_KEY}={said}"]
        folder = f"d{number}"
        one_desk.repository.svn(
            "-U", one_desk.repository.url, "-m", "forged", *options, "mkdir", folder, client="svnmucc"
        )
        outlook = plan_revision(one_desk.store, Archives(one_desk.store).opened("proj"), "proj", number)
        assert outlook.plan.lineage == (), f"{said} is no commit of a task"
    outlook = plan_revision(one_desk.store, Archives(one_desk.store).opened("proj"), "proj", 2)
    assert outlook.plan.lineage == ("publish",)


@pytest.mark.parametrize(
    "path",
    [
        "x/.git/hooks/h",
        ".Git/config",
        "x/git~1/h",
        ".git./h",
        "x/.svn/entries",
        ".GIT",
        "x/.g\u200cit/h",
        ".ｇit/h",
        ".git::$INDEX_ALLOCATION/h",
    ],
)
def test_what_a_tool_would_take_for_its_own_is_not_committed(archive: Archive, tmp_path: Path, path: str) -> None:
    work = tmp_path / "work"
    (work / path).parent.mkdir(parents=True)
    (work / path).write_text("#!/bin/sh\n")
    for asked in (path, path.partition("/")[0]):
        with pytest.raises(BadInput) as caught:
            gather(work, [asked], archive, 1, tmp_path / "drafts")
        assert caught.value.code in ("commit.path", "name.unsafe")


def test_a_chain_of_commits_ends_after_so_many_and_the_history_says_why(one_desk: Desk) -> None:
    text = """
- name: again
  reentrant: true
  script: |
    echo "$CUSTODY_REVISION" > count.txt
    custody archive commit -m "one more" count.txt
"""
    one_desk.commit({"_workflows/a.yaml": text})
    one_desk.notify(1)
    one_desk.run()
    last = Archives(one_desk.store).get("proj").last
    assert last == 1 + 9, "eight steps run, the ninth commit starts nothing"
    events = one_desk.store.records.events(f"item/proj@{last}")
    assert any("9 tasks have started each other" in str(event.detail.get("why")) for event in events)
    assert one_desk.repository.look("propget", "--revprop", "-r", str(last), LINEAGE) == ",".join(["again"] * 9)


def test_nobody_else_on_the_machine_reaches_the_window_of_a_task(one_desk: Desk) -> None:
    one_desk.commit({"_workflows/a.yaml": "- name: long\n  script: sleep 600\n"})
    one_desk.notify(1)
    with one_desk.working(grace=0.1):
        until(lambda: list(one_desk.shop.work.glob(".task-*/desk/socket")))
        (folder,) = one_desk.shop.work.glob(".task-*")
        assert folder.stat().st_mode & 0o777 == 0o700
        one_desk.operator.cancel(one_desk.task(1, "long").id, "seen")
        until(lambda: one_desk.task(1, "long").ended)
    assert not list(one_desk.shop.work.glob(".task-*")), "and it goes with its task"


def test_a_commit_that_says_so_starts_nothing(one_desk: Desk) -> None:
    one_desk.repository.commit("quiet [skip custody]", {"_workflows/a.yaml": MAKES})
    one_desk.notify(1)
    one_desk.run()
    assert one_desk.states("COMMIT", 1) == ["done"]
    assert one_desk.store.queue.by_key(TASK_KIND, task_key("proj", 1, "commit", "publish")) is None


def test_a_repeated_attempt_finds_what_the_one_before_has_committed(one_desk: Desk) -> None:
    text = """
- name: once
  retries: 1
  script: |
    echo "attempt $CUSTODY_ATTEMPT" > made.txt
    custody archive commit -m "made" made.txt
    test "$CUSTODY_ATTEMPT" = 2
"""
    one_desk.commit({"_workflows/a.yaml": text})
    one_desk.notify(1)
    with one_desk.working():
        until(lambda: one_desk.task(1, "once").ended)
    assert one_desk.states("once", 1) == ["done"]
    assert one_desk.repository.look("youngest").strip() == "2", "two attempts, one commit"
    assert one_desk.repository.look("cat", "made.txt") == "attempt 1\n"


@pytest.mark.kills
def test_a_worker_killed_right_after_the_commit_does_not_make_it_twice(one_desk: Desk) -> None:
    """The hook takes its time: the commit is there, and nobody has written down that it is."""
    one_desk.commit(
        {"_workflows/a.yaml": "- name: once\n  script: date > made.txt; custody archive commit -m made made.txt\n"}
    )
    one_desk.notify(1)
    (one_desk.home / "custody.toml").write_text("")
    (one_desk.home / "profiles").mkdir()
    one_desk.repository.hook("post-commit", "#!/bin/sh\n/bin/sleep 15\n")
    command = [sys.executable, "-m", "custody", "worker", "run", "--lease", "2", "--no-log"]
    environment = {**os.environ, "CUSTODY_STORE": one_desk.store.url}
    environment["CUSTODY_CONFIG"] = str(one_desk.home / "custody.toml")
    worker = subprocess.Popen(command, env=environment, cwd=one_desk.home)
    until(lambda: one_desk.repository.look("youngest").strip() == "2")
    worker.kill()
    assert worker.wait(60) == -signal.SIGKILL
    with one_desk.working():
        until(lambda: one_desk.task(1, "once").ended)
    assert one_desk.states("once", 1) == ["done"], one_desk.log(1, "once")
    assert one_desk.repository.look("youngest").strip() == "2"
    assert one_desk.task(1, "once").facts["commits"] == {f"{one_desk.task(1, 'once').id}.0.0": 2}


def test_a_task_in_git_commits_to_the_branch_it_ran_for(tmp_path: Path, proj_git: GitRepository) -> None:
    need("bubblewrap")
    proj_git.commit("_workflows/a.yaml", MAKES)
    proj_git.push()
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        kept = Archives(store).add("book", "git", str(proj_git.path), "ada")
        shop = open_shop(store, WorkflowConfig(), tmp_path)
        reconcile(store, kept)
        from custody.kernel.engine import Serving, Settings, Worker

        Worker(store, Serving(tuple(kinds(shop))), Settings(lease=30.0)).run_until_quiet()
        shop.sandboxes.__exit__(None, None, None)
        assert Archives(store).get("book").last == 2
        job = store.queue.by_key(TASK_KIND, task_key("book", 2, "commit", "publish"))
        assert job is not None
        assert job.state == "skipped"
        assert "made by publish" in store.queue.why(job.id)[0].text
    proj_git.git("pull", "-q", "origin", "main")
    assert (proj_git.clone / "site/index.html").read_text() == "page of r1\n"
    assert proj_git.git("log", "-1", "--format=%an %s") == "custody Pages"


@pytest.fixture(params=["svn", "git", "folder"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    """With a.txt and b/c.txt at revision 1."""
    if request.param == "folder":
        source = tmp_path / "source"
        (source / "b").mkdir(parents=True)
        (source / "a.txt").write_text("a")
        (source / "b/c.txt").write_text("c")
        kept = FolderArchive.make(tmp_path / "kept")
        assert kept.keep(source, "first", "ada") == 1
        return kept
    if request.param == "git":
        repository: GitRepository = request.getfixturevalue("proj_git")
        (repository.clone / "b").mkdir()
        (repository.clone / "b/c.txt").write_text("c")
        repository.commit("a.txt", "a")
        repository.push()
        found = GitArchive(repository.path, request.getfixturevalue("own_store"))
        assert found.youngest() == 1
        return found
    subversion: SvnRepository = request.getfixturevalue("proj_svn")
    for name, text in (("a", "a"), ("c", "c")):
        (subversion.path.parent / name).write_text(text)
    base = subversion.path.parent
    subversion.mucc("first", "put", f"{base}/a", "a.txt", "mkdir", "b", "put", f"{base}/c", "b/c.txt")
    return SvnArchive(str(subversion.path))


def drafted(archive: Archive, work: Path, paths: list[str], base: int = 1, key: str = "1.0.0") -> Draft:
    found = gather(work, paths, archive, base, work.parent / f"draft-{key}-{base}")
    return Draft("made by a task", base, found.put, found.gone, ["build"], key)


def test_paths_that_overlap_are_committed_once_and_none_gets_the_content_of_another(
    archive: Archive, tmp_path: Path
) -> None:
    work = tmp_path / "task"
    (work / "b").mkdir(parents=True)
    (work / "b/one.txt").write_text("one")
    (work / "b/two.txt").write_text("two")
    revision = archive.commit(drafted(archive, work, ["b/one.txt", "b", "b", "b/c.txt"]), 60)
    assert archive.read(revision, "b/one.txt") == b"one"
    assert archive.read(revision, "b/two.txt") == b"two"
    left = {entry.path for entry in archive.tree(revision, "b") if not entry.is_folder}
    assert left == {"b/one.txt", "b/two.txt"}


@pytest.mark.parametrize(("renewed", "made"), [(True, 2), (False, None)])
def test_a_commit_may_take_as_long_as_the_task_is_ours(
    proj_svn: SvnRepository, tmp_path: Path, renewed: bool, made: int | None
) -> None:
    """Not only as long as the lease lasted when it began: a server may take its time, and leases are renewed."""
    proj_svn.put("a.txt", b"a")
    hook = proj_svn.path / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\nsleep 1\n")
    hook.chmod(0o755)
    archive, work = SvnArchive(str(proj_svn.path)), tmp_path / "task"
    work.mkdir()
    (work / "b.txt").write_text("b")
    answers = iter([0.1, 0.1 if renewed else 0.0])
    draft = drafted(archive, work, ["b.txt"])
    if made is None:
        with pytest.raises(Unavailable):
            archive.commit(draft, lambda: next(answers, 0.0))
    else:
        assert archive.commit(draft, lambda: next(answers, 60.0)) == made


def test_a_tool_that_is_waited_for_again_and_again_is_told_the_password_once() -> None:
    assert call(["sh", "-c", "sleep 0.4; cat"], seconds=lambda: 0.1, given=b"open sesame") == b"open sesame"


def test_more_is_committed_at_once_than_a_command_line_can_hold(proj_svn: SvnRepository, tmp_path: Path) -> None:
    proj_svn.put("a.txt", b"a")
    archive, work = SvnArchive(str(proj_svn.path)), tmp_path / "task"
    deep = Path("pages", *(letter * 200 for letter in "abcdefgh"))
    (work / deep).mkdir(parents=True)
    for number in range(1_300):
        (work / deep / f"{number}.html").touch()
    revision = archive.commit(drafted(archive, work, ["pages"]), 300)
    assert len([entry for entry in archive.tree(revision, "pages") if not entry.is_folder]) == 1_300


def test_the_beginning_of_a_file_can_be_had_without_the_rest(archive: Archive) -> None:
    assert archive.head(1, "a.txt", 10) == (b"a", 1)
    assert archive.head(1, "b/c.txt", 0) == (b"", 1)
    for path in ("nothing", "b"):
        with pytest.raises(NotFound):
            archive.head(1, path, 10)


def test_a_folder_is_committed_as_it_stands(archive: Archive, tmp_path: Path) -> None:
    work = tmp_path / "task"
    (work / "b" / "deep er").mkdir(parents=True)
    (work / "a.txt").write_text("a")
    (work / "b" / "deep er" / "ü@1.txt").write_text("new")
    revision = archive.commit(drafted(archive, work, ["a.txt", "b"]), 60)
    assert revision == 2
    assert {entry.path for entry in archive.tree(2, "b") if not entry.is_folder} == {"b/deep er/ü@1.txt"}
    assert archive.read(2, "b/deep er/ü@1.txt") == b"new"
    assert archive.meta(2).properties[LINEAGE] == "build"
    assert [change.path for change in archive.changed(2) if change.path == "a.txt"] == [], "it has not changed"
    assert archive.committed("1.0.0", since=1) == 2
    assert archive.committed("1.0.0", since=2) is None
    assert archive.committed("1.0", since=0) is None


def test_what_somebody_else_has_changed_since_is_not_undone(archive: Archive, tmp_path: Path) -> None:
    work = tmp_path / "task"
    work.mkdir()
    (work / "a.txt").write_text("theirs")
    assert archive.commit(drafted(archive, work, ["a.txt"]), 60) == 2
    (work / "a.txt").write_text("ours")
    with pytest.raises(CustodyError) as refused:
        archive.commit(drafted(archive, work, ["a.txt"], base=1, key="2.0.0"), 60)
    assert refused.value.code == "archive.conflict"
    assert archive.youngest() == 2
    (work / "d.txt").write_text("beside it")
    assert archive.commit(drafted(archive, work, ["d.txt"], base=1, key="3.0.0"), 60) == 3
    assert archive.read(3, "a.txt") == b"theirs"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../outside.txt", "name.unsafe"),
        ("link.txt", "name.blocked"),
        ("folder/x.txt", "name.blocked"),
        ("pipe", "name.blocked"),
        ("nothing.txt", "commit.path"),
        (".git/config", "commit.path"),
        ("", "name.unsafe"),
    ],
)
def test_nothing_outside_the_work_folder_can_be_committed(
    archive: Archive, tmp_path: Path, path: str, code: str
) -> None:
    work = tmp_path / "task"
    work.mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "x.txt").write_text("secret")
    (work / "link.txt").symlink_to(tmp_path / "outside.txt")
    (work / "folder").symlink_to(tmp_path)
    os.mkfifo(work / "pipe")
    with pytest.raises(CustodyError) as refused:
        drafted(archive, work, [path])
    assert refused.value.code == code


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Window]:
    with Window(tmp_path / "socket", lambda asked: {"echo": dict(asked)}) as opened:
        yield opened


def told(window: Window, line: bytes) -> Any:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(str(window.place))
        wire.sendall(line)
        wire.shutdown(socket.SHUT_WR)
        with wire.makefile("rb") as answers:
            return json.loads(answers.readline())


@pytest.mark.parametrize("line", [b"", b"\n", b"nonsense\n", b"[]\n", b"[" * 100_000 + b"\n", b"\xff\xfe\n"])
def test_nonsense_through_the_window_is_answered_and_the_next_question_too(window: Window, line: bytes) -> None:
    assert told(window, line)["ok"] is False
    assert told(window, b'{"do": "commit"}\n') == {"ok": True, "echo": {"do": "commit"}}


@pytest.mark.parametrize("trouble", [ValueError("half a character"), OSError(7, "the argument list is too long")])
def test_whatever_goes_wrong_behind_the_window_is_answered_and_the_next_question_too(
    tmp_path: Path, trouble: Exception
) -> None:
    def answer(asked: Any) -> dict[str, Any]:
        if asked.get("bad"):
            raise trouble
        return {"echo": dict(asked)}

    with Window(tmp_path / "socket", answer) as opened:
        first = told(opened, b'{"bad": true}\n')
        assert first["ok"] is False
        assert str(trouble) in first["error"]
        assert told(opened, b'{"do": "commit"}\n')["ok"], "it would have waited for an answer for ever"


def test_a_window_is_closed_at_once_when_nobody_is_at_it(tmp_path: Path) -> None:
    took = []
    for number in range(40):
        begun = time.monotonic()
        with Window(tmp_path / f"socket{number}", lambda asked: {}):
            pass
        took.append(time.monotonic() - begun)
    assert sorted(took)[10] < 0.15, "it was a fifth of a second for each task"


@pytest.mark.parametrize(("state", "told"), [("", "has not ended"), ("done", "has passed")])
def test_a_task_that_did_not_fail_is_not_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, told: str
) -> None:
    monkeypatch.setenv("CUSTODY_STORE", f"sqlite:///{tmp_path / 'custody.db'}")
    key = task_key("proj", 1, "commit", "index")
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        store.queue.submit_one(NewJob(TASK_KIND, key=key, state=state, line="proj", task="index", position=1))
    done = CliRunner().invoke(app, ["retry", "proj", "1", "index"])
    assert isinstance(done.exception, Refused)
    assert told in done.exception.message
    assert done.exception.hint.startswith("`custody archive ")


@pytest.mark.parametrize(("run", "option"), [("commit", ""), ("manual-1", " --run manual-1")])
def test_why_of_a_failed_task_names_the_command_that_runs_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str, option: str
) -> None:
    monkeypatch.setenv("CUSTODY_STORE", f"sqlite:///{tmp_path / 'custody.db'}")
    key = task_key("proj", 1, run, "index")
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        store.queue.submit_one(NewJob(TASK_KIND, key=key, state="failed", line="proj", task="index", position=1))
    done = CliRunner().invoke(app, ["why", "proj", "1", "index", "--run", run])
    assert f"until: `custody archive retry proj 1 index{option}`" in done.output


def test_outside_a_task_nothing_is_committed_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUSTODY_SOCKET", raising=False)
    done = CliRunner().invoke(app, ["commit", "-m", "x", "a.txt"])
    assert done.exit_code == 3
    assert client.ask("x", ["a.txt"])["error"] == "only a task can commit this way"


@pytest.mark.parametrize(
    "words", ["archive commit", "archive commit -m", "archive commit a.txt", "archive commit -x a", "archive list", ""]
)
def test_what_is_not_a_commit_is_answered_with_how_to_make_one(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert client.main(words.split()) == 2
    assert "usage: custody archive commit" in capsys.readouterr().err


def test_a_task_that_is_retried_keeps_what_it_printed_before(one_desk: Desk) -> None:
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": "- {name: a, script: date +%N; exit 1}\n"}))
    one_desk.run()
    printed = [one_desk.log(1, "a")]
    for _ in range(2):
        one_desk.operator.resume(one_desk.task(1, "a").id, "again")
        one_desk.run()
        printed.append(one_desk.log(1, "a"))
    job = one_desk.task(1, "a")
    assert [task_panel.log(site_over(one_desk.shop), job, number).decode() for number in (1, 2, 3)] == printed
    assert [attempt.number for attempt in task_panel.attempts(site_over(one_desk.shop), job)] == [1, 2, 3]


def test_a_retry_that_is_repeated_after_a_crash_makes_its_commit_once(one_desk: Desk) -> None:
    """The first run has committed too: what it counted must not be taken for what the retry has done."""
    script = "test $CUSTODY_REVISION = 1 || exit 0; echo $CUSTODY_ATTEMPT > f; custody archive commit -m m f; exit 1"
    one_desk.notify(one_desk.commit({"_workflows/a.yaml": f"- {{name: a, script: {script!r}}}\n"}))
    one_desk.run()
    job = one_desk.task(1, "a")
    assert list(job.facts["commits"]) == [f"{job.id}.0.0"]
    one_desk.operator.resume(job.id, "again")
    one_desk.run()
    assert list(one_desk.task(1, "a").facts["committing"]) == [f"{job.id}.0.0", f"{job.id}.1.0"]
