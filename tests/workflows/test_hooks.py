"""The hook tells of revisions, never delays or fails a commit, and leaves other people's hooks alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

import custody
from custody.errors import BadInput, NotFound, Refused, Unavailable
from custody.kernel.stores import open_store
from custody.workflows.archives import hook_spool, hooks
from custody.workflows.archives.table import Archives
from workflows.repositories import GitRepository, SvnRepository


class Listener:
    """A command that writes down what it is told; or fails, or takes its time."""

    def __init__(self, folder: Path, then: str = "exit 0") -> None:
        self.heard = folder / "heard"
        self.script = folder / "it's a listener"
        self.script.write_text(
            f'#!/bin/sh\nenv > "{folder}/env"\n{then}\n'
            if then != "exit 0"
            else f'#!/bin/sh\nenv > "{folder}/env"\necho "$@" >> "{self.heard}"\n'
        )
        self.script.chmod(0o755)
        self.command = (str(self.script), "proj")

    def wait_for(self, count: int) -> list[str]:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            lines = self.heard.read_text().splitlines() if self.heard.exists() else []
            if len(lines) >= count:
                return lines
            time.sleep(0.005)
        raise AssertionError(f"heard only {lines}")


def test_a_commit_is_told_with_its_revision(proj_svn: SvnRepository, tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    hooks.install(proj_svn.path, listener.command)
    proj_svn.mucc("one", "mkdir", "a")
    proj_svn.mucc("two", "mkdir", "b")
    assert sorted(listener.wait_for(2)) == ["proj 1", "proj 2"]
    _until(lambda: hook_spool.spooled(proj_svn.path) == [])


def test_the_hook_works_with_an_empty_environment(proj_svn: SvnRepository, tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    hook = hooks.install(proj_svn.path, listener.command)
    subprocess.run([str(hook), str(proj_svn.path), "7", "7-1"], env={}, cwd="/", check=True)
    assert listener.wait_for(1) == ["proj 7"]
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert names <= {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}


def test_a_committer_never_waits_for_the_listener(proj_svn: SvnRepository, tmp_path: Path) -> None:
    listener = Listener(tmp_path, then=f"echo $$ > '{tmp_path}/pid'; exec sleep 300")
    hook = hooks.install(proj_svn.path, listener.command)
    began = time.monotonic()
    done = subprocess.run([str(hook), str(proj_svn.path), "1", "1-1"], env={}, capture_output=True)
    assert time.monotonic() - began < 60, "the listener takes five minutes"
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    _until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_listener_that_fails_leaves_a_note_and_the_commit_stands(proj_svn: SvnRepository, tmp_path: Path) -> None:
    hooks.install(proj_svn.path, Listener(tmp_path, then="exit 1").command)
    assert proj_svn.mucc("one", "mkdir", "a") == 1
    _until(lambda: [note.words for note in hook_spool.spooled(proj_svn.path)] == [("1",)])
    (note,) = hook_spool.spooled(proj_svn.path)
    note.forget()
    assert hook_spool.spooled(proj_svn.path) == []


def test_a_listener_that_is_gone_leaves_a_note_too(proj_svn: SvnRepository) -> None:
    hooks.install(proj_svn.path, ("/nonexistent/python", "-m", "custody"))
    assert proj_svn.mucc("one", "mkdir", "a") == 1
    _until(lambda: [note.words for note in hook_spool.spooled(proj_svn.path)] == [("1",)])


def test_a_full_disk_does_not_fail_a_commit(proj_svn: SvnRepository, tmp_path: Path) -> None:
    (proj_svn.path / hook_spool.SPOOL).write_text("a file where the folder should be")
    listener = Listener(tmp_path)
    hooks.install(proj_svn.path, listener.command)
    assert proj_svn.mucc("one", "mkdir", "a") == 1
    assert listener.wait_for(1) == ["proj 1"]


def test_half_a_note_is_never_left_where_the_disk_is_full(proj_svn: SvnRepository, tmp_path: Path) -> None:
    """No file may grow: what a full disk does to whoever writes."""
    listener = Listener(tmp_path)
    hook = hooks.install(proj_svn.path, ["/bin/false", *listener.command])
    full = 'trap "" XFSZ; ulimit -f 0; exec "$@"'
    done = subprocess.run(["/bin/sh", "-c", full, "sh", str(hook), str(proj_svn.path), "7", "7-1"], env={})
    assert done.returncode == 0
    assert list((proj_svn.path / hook_spool.SPOOL).iterdir()) == []


def test_notes_that_are_for_nobody_else_are_left_alone(
    proj_svn: SvnRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of a repository is often another user than the worker."""
    (proj_svn.path / hook_spool.SPOOL).mkdir()

    def forbidden(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", forbidden)
    assert hook_spool.spooled(proj_svn.path) == []


def test_a_hook_from_before_is_called_first_and_put_back(proj_svn: SvnRepository, tmp_path: Path) -> None:
    old = proj_svn.path / "hooks" / "post-commit"
    old.write_text(f'#!/bin/sh\necho "old $2 $#" >> "{tmp_path}/old"\necho "from old" >&2\nexit 3\n')
    old.chmod(0o755)
    before = old.read_bytes()
    listener = Listener(tmp_path)
    hook = hooks.install(proj_svn.path, listener.command)
    hooks.install(proj_svn.path, listener.command)  # again: nothing piles up
    done = subprocess.run([str(hook), str(proj_svn.path), "4", "4-1"], env={}, capture_output=True)
    assert (done.returncode, done.stderr) == (3, b"from old\n")
    assert listener.wait_for(1) == ["proj 4"]
    assert (tmp_path / "old").read_text() == "old 4 3\n"
    hooks.uninstall(proj_svn.path)
    assert old.read_bytes() == before
    assert os.access(old, os.X_OK)
    assert not hooks.is_installed(proj_svn.path)
    assert [path.name for path in old.parent.iterdir() if "custody" in path.name] == []


def test_installing_twice_changes_the_command_and_uninstalling_twice_is_no_fault(
    proj_svn: SvnRepository, tmp_path: Path
) -> None:
    hooks.install(proj_svn.path, ("/old/command",))
    hooks.install(proj_svn.path, Listener(tmp_path).command)
    assert "/old/command" not in (proj_svn.path / "hooks/post-commit").read_text()
    assert hooks.is_installed(proj_svn.path)
    hooks.uninstall(proj_svn.path)
    hooks.uninstall(proj_svn.path)
    assert not (proj_svn.path / "hooks/post-commit").exists()


def test_a_hook_that_replaced_ours_is_not_taken_away(proj_svn: SvnRepository, tmp_path: Path) -> None:
    hook = hooks.install(proj_svn.path, Listener(tmp_path).command)
    hook.write_text("#!/bin/sh\n# mine\n")
    with pytest.raises(Refused):
        hooks.uninstall(proj_svn.path)
    assert "mine" in hook.read_text()


def test_two_hooks_from_before_are_for_a_person_to_sort_out(proj_svn: SvnRepository, tmp_path: Path) -> None:
    hook = proj_svn.path / "hooks" / "post-commit"
    hook.write_text("#!/bin/sh\n# first\n")
    hooks.install(proj_svn.path, Listener(tmp_path).command)
    hook.write_text("#!/bin/sh\n# second\n")
    with pytest.raises(Refused):
        hooks.install(proj_svn.path, Listener(tmp_path).command)
    assert "second" in hook.read_text()


def test_a_push_tells_each_branch_with_its_commits(proj_git: GitRepository, tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    old = proj_git.path / "hooks" / "post-receive"
    old.write_text(f'#!/bin/sh\ncat >> "{tmp_path}/old"\n')
    old.chmod(0o755)
    hooks.install(proj_git.path, listener.command)
    tip = proj_git.commit("a", "1")
    proj_git.push("origin", "HEAD:main", "HEAD:side")
    zero = "0" * 40
    assert listener.wait_for(1) == [f"proj {zero} {tip} refs/heads/main {zero} {tip} refs/heads/side"]
    assert (tmp_path / "old").read_text() == f"{zero} {tip} refs/heads/main\n{zero} {tip} refs/heads/side\n"
    assert "GIT_DIR" not in (tmp_path / "env").read_text()


def test_a_failed_push_notice_is_kept_word_by_word(proj_git: GitRepository, tmp_path: Path) -> None:
    hooks.install(proj_git.path, Listener(tmp_path, then="exit 1").command)
    tip = proj_git.commit("a", "1")
    proj_git.push()
    _until(lambda: [note.words for note in hook_spool.spooled(proj_git.path)] == [("0" * 40, tip, "refs/heads/main")])


def test_a_path_with_awkward_characters_is_only_a_path(tmp_path: Path) -> None:
    repository = tmp_path / 'it\'s $(touch pwned) "x"'
    subprocess.run(["svnadmin", "create", str(repository)], check=True)
    listener = Listener(tmp_path)
    hook = hooks.install(repository, listener.command)
    subprocess.run([str(hook), str(repository), "1", "1-1"], env={}, check=True, cwd=tmp_path)
    assert listener.wait_for(1) == ["proj 1"]
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("command", [(), ("custody",), ("./custody",), ("/bin/x\nrm",)])
def test_a_command_must_be_found_without_a_path(proj_svn: SvnRepository, command: tuple[str, ...]) -> None:
    with pytest.raises(BadInput):
        hooks.install(proj_svn.path, command)


def test_a_folder_that_is_no_repository_gets_no_hook(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        hooks.install(tmp_path, ("/bin/true",))


def test_hooks_of_parallel_commits_lose_nothing(proj_svn: SvnRepository, svn_server: str, tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    hooks.install(proj_svn.path, listener.command)
    argv = [
        "svnmucc",
        "--non-interactive",
        "--no-auth-cache",
        "--username",
        "ann",
        "--password",
        "open sesame",
    ]
    commits = [
        subprocess.Popen([*argv, "-U", svn_server, "-m", "m", "mkdir", f"d{number}"], stdout=subprocess.DEVNULL)
        for number in range(12)
    ]
    assert [commit.wait(120) for commit in commits] == [0] * 12
    assert sorted(listener.wait_for(12), key=lambda line: int(line.split()[1])) == [f"proj {n}" for n in range(1, 13)]


def interpreter_without_a_script(folder: Path, knows: str) -> Path:
    """An environment in which nobody has installed the script `custody`; it may know the module."""
    real = Path(sys._base_executable)  # type: ignore[attr-defined]
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(real)
    packages = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "known.pth").write_text(knows)
    return python


@pytest.mark.parametrize("how", ["known to the interpreter", "by PYTHONPATH"])
def test_where_there_is_no_script_the_hook_calls_the_interpreter_with_the_module(
    proj_svn: SvnRepository, proj_git: GitRepository, tmp_path: Path, how: str
) -> None:
    folders = [str(Path(custody.__file__).parents[1]), *(entry for entry in sys.path if entry.endswith("-packages"))]
    home = tmp_path / "it's here"
    home.mkdir()
    python = interpreter_without_a_script(home, "\n".join(folders) if how == "known to the interpreter" else "")
    env = {"PATH": "/usr/bin:/bin", "CUSTODY_STORE": f"sqlite:///{tmp_path / 'custody.db'}"}
    env |= {"PYTHONPATH": os.pathsep.join(folders)} if how == "by PYTHONPATH" else {}
    for name, repository in (("slow", proj_svn.path), ("quick", proj_git.path)):
        words = [str(python), "-m", "custody", "archive", "add", name, str(repository)]
        added = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert "the hook is installed" in added.stdout, added.stderr
        (repository / "custody.py").write_text(f"open({str(tmp_path / 'stranger')!r}, 'w')")  # where hooks are called
    proj_svn.mucc("one", "mkdir", "a")
    proj_git.commit("a", "1")
    proj_git.push()
    with open_store(env["CUSTODY_STORE"]) as store:
        _until(lambda: [kept.last for kept in Archives(store).list()] == [1, 1])
    assert not (tmp_path / "stranger").exists(), "what lies in a repository is nobody's module"


def test_an_interpreter_that_does_not_find_us_without_variables_is_not_named_in_a_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no module of that name >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(Unavailable) as refused:
        hooks.ourselves()
    assert "no module of that name" in refused.value.hint
    python.with_name("custody").symlink_to("/bin/true")
    assert hooks.ourselves() == [str(tmp_path / "custody")], "a script beside it is taken at its word"


def _until(true: object) -> None:
    until = time.monotonic() + 60
    while not true():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.005)
