"""What a git configuration includes under a condition counts as git counts it: where it is met, and nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from custody.border.sandbox import host_tool as outside
from custody.errors import Refused
from custody.kernel.stores import Store
from custody.workflows.archives.git import git_conditions
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.ownership.commit_gates import git_unasked
from custody.workflows.archives.working_copy.draft import Draft
from rig.need import need as need_service
from workflows.repositories import GitRepository

NO = "#!/bin/sh\necho GATE-SAYS-NO >&2\nexit 1\n"
CONDITIONS = [
    ("gitdir:{repository}", True),
    ("gitdir:{repository}/", True),
    ("gitdir:{above}/", True),
    ("gitdir:{above}", False),
    ("gitdir:{above}/*.git", True),
    ("gitdir:**/bare.git", True),
    ("gitdir:bare.git", True),
    ("gitdir:BARE.git", False),
    ("gitdir/i:BARE.git", True),
    ("gitdir:other.git", False),
    ("gitdir:~/", False),
    ("gitdir:~/../", False),
    ("gitdir:./", False),
    ("gitdir:./../", False),
    ("gitdir:/", True),
    ("gitdir:\\\\/", True),
    ("gitdir:~root/", False),
    ("onbranch:main", True),
    ("onbranch:m*", True),
    ("onbranch:other", False),
    ("onbranch:release/", False),
    ("hasconfig:remote.*.url:https://example.org/**", True),
    ("hasconfig:remote.*.url:https://example.com/**", False),
    ("of-tomorrow:main", False),
    ("", False),
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_service("bubblewrap")
    made = tmp_path / "home"
    made.mkdir()
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.setenv("HOME", str(made))
    return made


@pytest.fixture
def archive(proj_git: GitRepository, own_store: Store, tmp_path: Path) -> GitArchive:
    proj_git.commit("a.txt", "one")
    proj_git.push()
    archive = GitArchive(proj_git.path, own_store)
    assert archive.youngest() == 1
    config = ["git", "--git-dir", str(proj_git.path), "config"]
    subprocess.run([*config, "remote.mirror.url", "https://example.org/mirror"], check=True)
    gate = tmp_path / "shared/pre-receive"
    gate.parent.mkdir()
    gate.write_text(NO)
    gate.chmod(0o755)
    (tmp_path / "shared/more").write_text(f"[core]\n\thooksPath = {gate.parent}\n")
    return archive


def put(archive: GitArchive, tmp_path: Path) -> int:
    file = tmp_path / "made"
    file.write_text("made")
    return archive.commit(Draft("made", 1, {"made": file}, [], ["task"], "1.0.0.word"), 30)


def really_pushed(repository: GitRepository) -> bool:
    repository.commit("b.txt", "two")
    env = {**os.environ, "PATH": "/usr/bin:/bin"}
    argv = ["git", "-C", str(repository.clone), "push", "-q", "origin", "HEAD"]
    return subprocess.run(argv, capture_output=True, env=env).returncode == 0


def include(file: Path, condition: str, target: Path | str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as config:
        config.write(f'[includeIf "{condition}"]\n\tpath = {target}\n')


@pytest.mark.parametrize("whose", ["user", "repository"])
@pytest.mark.parametrize(("condition", "is_met"), CONDITIONS)
def test_a_condition_is_met_where_git_says_so(
    archive: GitArchive, proj_git: GitRepository, home: Path, tmp_path: Path, condition: str, is_met: bool, whose: str
) -> None:
    said = condition.format(repository=proj_git.path, above=tmp_path)
    include(home / ".gitconfig" if whose == "user" else proj_git.path / "config", said, tmp_path / "shared/more")
    assert really_pushed(proj_git) == (not is_met), "git itself"
    if is_met:
        with pytest.raises(Refused) as refused:
            put(archive, tmp_path)
        assert refused.value.code == "archive.gate"
    else:
        assert put(archive, tmp_path) > 1


def test_a_condition_counts_from_where_its_file_really_is(
    archive: GitArchive, proj_git: GitRepository, home: Path, tmp_path: Path
) -> None:
    """As git has it: `./` is beside the file that a link leads to, and a file to include is beside the link."""
    include(tmp_path / "dotfiles", "gitdir:./", "more")
    (home / ".gitconfig").symlink_to(tmp_path / "dotfiles")
    (home / "more").write_bytes((tmp_path / "shared/more").read_bytes())
    assert not really_pushed(proj_git)
    with pytest.raises(Refused, match="pre-receive"):
        put(archive, tmp_path)


def test_a_home_that_is_a_link_is_meant_as_git_means_it(
    archive: GitArchive, proj_git: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    include(tmp_path / ".gitconfig", "gitdir:~/bare.git", "shared/more")
    assert not really_pushed(proj_git)
    with pytest.raises(Refused, match="pre-receive"):
        put(archive, tmp_path)


def test_conditions_in_files_that_are_included_count_too(
    archive: GitArchive, proj_git: GitRepository, home: Path, tmp_path: Path
) -> None:
    include(home / ".gitconfig", "onbranch:main", "second")
    include(home / "second", "onbranch:other", tmp_path / "shared/more")
    include(home / "second", "onbranch:ma*", "third")
    assert put(archive, tmp_path) == 2
    include(home / "third", "gitdir:bare.git", tmp_path / "shared/more")
    assert not really_pushed(proj_git)
    with pytest.raises(Refused, match="pre-receive"):
        put(archive, tmp_path)


def test_addresses_of_included_files_are_known_too(
    archive: GitArchive, proj_git: GitRepository, home: Path, tmp_path: Path
) -> None:
    condition = "hasconfig:remote.*.url:ssh://elsewhere/**"
    include(home / ".gitconfig", condition, tmp_path / "shared/more")
    (home / "remotes").write_text('[remote "other"]\n\turl = ssh://elsewhere/x\n')
    assert put(archive, tmp_path) == 2
    with (home / ".gitconfig").open("a") as config:
        config.write("[include]\n\tpath = remotes\n")
    assert not really_pushed(proj_git)
    with pytest.raises(Refused, match="pre-receive"):
        put(archive, tmp_path)


def test_a_section_without_a_condition_includes_nothing(
    archive: GitArchive, proj_git: GitRepository, home: Path, tmp_path: Path
) -> None:
    (home / ".gitconfig").write_text(f"[includeIf]\n\tpath = {tmp_path / 'shared/more'}\n")
    assert really_pushed(proj_git)
    assert put(archive, tmp_path) > 1


@pytest.mark.parametrize("said", ["", "worktreeConfig = false", "worktreeConfig = true", "worktreeConfig"])
def test_the_configuration_of_a_worktree_counts_if_there_is_one(
    archive: GitArchive, proj_git: GitRepository, tmp_path: Path, said: str
) -> None:
    (proj_git.path / "config.worktree").write_bytes((tmp_path / "shared/more").read_bytes())
    with (proj_git.path / "config").open("a") as config:
        config.write(f"[extensions]\n\t{said}\n")
    counts = said in ("worktreeConfig = true", "worktreeConfig")
    assert really_pushed(proj_git) == (not counts)
    if counts:
        with pytest.raises(Refused, match="pre-receive"):
            put(archive, tmp_path)
    else:
        assert put(archive, tmp_path) > 1


def test_what_is_not_met_is_not_looked_for(archive: GitArchive, home: Path, tmp_path: Path) -> None:
    """git does not read it either, so nobody need be able to."""
    include(archive.repository / "config", "onbranch:other", "/outside/of/it")
    (home / "more").mkdir()
    include(home / ".gitconfig", "onbranch:other", "more")
    assert put(archive, tmp_path) == 2


def test_a_setting_that_overrules_under_a_condition_overrules_where_that_is_met(
    archive: GitArchive, proj_git: GitRepository, home: Path, tmp_path: Path
) -> None:
    (home / ".gitconfig").write_bytes((tmp_path / "shared/more").read_bytes())
    (home / "none").write_text(f"[core]\n\thooksPath = {tmp_path}/none\n")
    include(home / ".gitconfig", "onbranch:main", "none")
    assert really_pushed(proj_git)
    assert put(archive, tmp_path) > 1


def test_where_git_cannot_be_asked_a_condition_may_be_met(
    archive: GitArchive, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    include(home / ".gitconfig", "onbranch:other", tmp_path / "shared/more")
    assert git_unasked(archive.repository) == ""
    monkeypatch.setattr(git_conditions, "GIT", ["false"])
    assert "pre-receive" in git_unasked(archive.repository)
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(outside, "works", lambda: False)
    assert "pre-receive" in git_unasked(archive.repository)


def test_git_sees_nothing_of_the_owners_when_it_is_asked(
    archive: GitArchive, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the files that are included nor what else he has set: there is nothing to run and nothing to read."""
    seen = tmp_path / "seen"
    seen.mkdir()
    include(home / ".gitconfig", "onbranch:main", tmp_path / "shared/more")
    with (archive.repository / "config").open("a") as config:
        config.write("[alias]\n\tconfig = !touch /tmp/ran\n[core]\n\tfsmonitor = /bin/false\n")
    told = list[list[str]]()
    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda argv, **how: told.append(argv) or real(argv, **how))
    assert "pre-receive" in git_unasked(archive.repository)
    (asked,) = [argv for argv in told if "git" in argv]
    shown = [
        asked[at + 1] for at, word in enumerate(asked) if word in ("--ro-bind", "--bind", "--ro-bind-fd", "--bind-fd")
    ]
    assert [place for place in shown if not place.startswith(("/usr", "/bin", "/sbin", "/lib"))] == []
