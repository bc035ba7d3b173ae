"""A gate that looks for what it is not shown is not passed by: no commit is made, and what it looked for is told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.border.lookups import watch
from custody.cli.doctor.report import app as doctor
from custody.errors import BadInput, Refused
from custody.kernel.model.authority.grant import HOOKS
from custody.kernel.stores import Store, open_store
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.ownership.hook_sight import HookSight, check_shown
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from rig.need import need as need_service
from workflows.repositories import GitRepository, SvnRepository
from workflows.test_gates import program, put

ASKED_FOR = {
    "a list of those who may not": '! grep -q closed "{list}"',
    "a file that closes it": '[ ! -e "{list}" ]',
    "a helper of another folder": '[ ! -x "{helper}" ] || "{helper}"',
    "a helper that is read": '[ ! -r "{helper}" ] || . "{helper}"',
    "what python finds": "/usr/bin/python3 -c 'import os, sys; sys.exit(os.path.exists(\"{list}\"))'",
    "from where it stands": 'cd / && [ ! -e "{relative}" ]',
    "at home": '[ ! -e "$HOME/list" ]',
    "by a link": '[ ! -e "{repository}/link" ]',
    "in the background": '(if grep -q closed "{list}"; then kill $$; fi) & wait',
    "a socket": "! /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{socket}\")' 2>&-",
}
"""What lets a commit pass where it finds nothing."""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_service("bubblewrap")
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "list").write_text("closed\n")
    program(folder / "helper", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def git_archive(proj_git: GitRepository, own_store: Store) -> GitArchive:
    proj_git.commit("a.txt", "one")
    proj_git.push()
    archive = GitArchive(proj_git.path, own_store)
    assert archive.youngest() == 1
    return archive


@pytest.fixture
def svn_archive(proj_svn: SvnRepository) -> SvnArchive:
    proj_svn.put("a.txt", b"one")
    return SvnArchive(str(proj_svn.path))


def gate(repository: Path, name: str, how: str, elsewhere: Path) -> None:
    place = elsewhere / "socket"
    subprocess.run(
        ["/usr/bin/python3", "-c", f"import socket; socket.socket(socket.AF_UNIX).bind({str(place)!r})"], check=True
    )
    (repository / "link").symlink_to(elsewhere / "list")
    words = ASKED_FOR[how].format(
        list=elsewhere / "list",
        helper=elsewhere / "helper",
        relative=str(elsewhere / "list")[1:],
        repository=repository,
        socket=place,
    )
    program(repository / "hooks" / name, f"#!/bin/sh\n{words}\n")


def is_told(refused: Refused, hook: str, elsewhere: Path) -> bool:
    known = refused.code == "archive.gate" and f"hook {hook} " in refused.message and "archive grant" in refused.hint
    return known and (str(elsewhere) in refused.message or "/link" in refused.message)


@pytest.mark.parametrize(
    ("name", "how"),
    [*(("pre-receive", how) for how in ASKED_FOR), ("update", "at home"), ("reference-transaction", "by a link")],
)
def test_a_gate_of_git_that_looks_elsewhere_is_not_passed_by(
    git_archive: GitArchive, elsewhere: Path, tmp_path: Path, name: str, how: str
) -> None:
    gate(git_archive.repository, name, how, elsewhere)
    with pytest.raises(Refused) as refused:
        put(git_archive, tmp_path)
    assert is_told(refused.value, name, elsewhere), refused.value
    assert git_archive.youngest() == 1
    assert not list(git_archive.repository.rglob("*.lock")), "git has tidied up: its owner can push"
    (git_archive.repository / "hooks" / name).unlink()
    assert put(git_archive, tmp_path) == 2


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("start-commit", "a file that closes it"),
        ("pre-commit", "a list of those who may not"),
        ("pre-commit", "by a link"),
    ],
)
def test_a_gate_of_subversion_that_looks_elsewhere_is_not_passed_by(
    svn_archive: SvnArchive, elsewhere: Path, tmp_path: Path, name: str, how: str
) -> None:
    gate(Path(svn_archive.where), name, how, elsewhere)
    with pytest.raises(Refused) as refused:
        put(svn_archive, tmp_path)
    assert is_told(refused.value, name, elsewhere), refused.value
    assert svn_archive.youngest() == 1


def test_a_gate_that_asks_the_network_is_not_passed_by(
    git_archive: GitArchive, elsewhere: Path, tmp_path: Path
) -> None:
    asks = 'import socket; socket.create_connection(("127.0.0.1", 9), 2)'
    program(git_archive.repository / "hooks/pre-receive", f"#!/bin/sh\n/usr/bin/python3 -c '{asks}'; true\n")
    with pytest.raises(Refused) as refused:
        put(git_archive, tmp_path)
    assert "the network (127.0.0.1, port 9)" in refused.value.message
    assert "no network" in refused.value.hint


@pytest.mark.parametrize("kind", ["git", "svn"])
def test_what_an_operator_shows_is_seen_and_decides(
    git_archive: GitArchive, svn_archive: SvnArchive, elsewhere: Path, tmp_path: Path, kind: str
) -> None:
    archive, name = (git_archive, "pre-receive") if kind == "git" else (svn_archive, "pre-commit")
    archive.hook_sight = HookSight("proj", [str(elsewhere)])
    gate(Path(archive.where), name, "a list of those who may not", elsewhere)
    with pytest.raises(Refused) as refused:
        put(archive, tmp_path)
    assert refused.value.code == "archive.refused"
    (elsewhere / "list").write_text("open\n")
    assert put(archive, tmp_path) == 2


@pytest.mark.parametrize("kind", ["git", "svn"])
def test_ordinary_gates_see_what_they_need(
    git_archive: GitArchive, svn_archive: SvnArchive, elsewhere: Path, tmp_path: Path, kind: str
) -> None:
    """What they find beside themselves, in the repository, among programs and users; and what is nowhere."""
    archive, name = (git_archive, "pre-receive") if kind == "git" else (svn_archive, "pre-commit")
    repository = Path(archive.where)
    (elsewhere / ".gitconfig").write_text("[user]\n\tname = Ada\n")
    (repository / "conf").mkdir(exist_ok=True)
    (repository / "conf" / "list").write_text("ada\n")
    program(repository / "hooks" / "helper", "#!/bin/sh\nexit 0\n")
    asks = (
        "set -e",
        "cat >/dev/null",
        '"$(dirname "$0")/helper"',
        'grep -q ada "$(dirname "$0")/../conf/list"',
        "git --version",
        "id",
        "date",
        "[ ! -e /nowhere/at/all ]",
        "x=$(mktemp); rm $x",
        "python3 -c 'import json'",
        "perl -e 'use strict; print 1'",
        "bash -c true",
        "getent passwd root",
        "git log -1 >&2 || true",
    )
    program(repository / "hooks" / name, "#!/bin/sh\n{}\n".format("\n".join(asks)))
    assert put(archive, tmp_path) == 2


def test_a_hook_that_refuses_nothing_may_look_anywhere(
    git_archive: GitArchive, elsewhere: Path, tmp_path: Path
) -> None:
    program(git_archive.repository / "hooks/post-receive", f"#!/bin/sh\ncat {elsewhere}/list\n")
    assert put(git_archive, tmp_path) == 2


def test_where_lookups_are_not_told_a_gate_is_not_passed_by(
    git_archive: GitArchive, svn_archive: SvnArchive, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(git_archive.repository / "hooks/pre-receive", "#!/bin/sh\nexit 0\n")
    program(Path(svn_archive.where) / "hooks/pre-commit", "#!/bin/sh\nexit 0\n")
    monkeypatch.setattr(watch, "works", lambda: False)
    for archive in (git_archive, svn_archive):
        with pytest.raises(Refused) as refused:
            put(archive, tmp_path)
        assert (refused.value.code, "cannot be seen" in refused.value.message) == ("archive.gate", True)
        assert "Linux 5.6" in refused.value.hint


def test_a_grant_names_one_thing_that_is_there(elsewhere: Path) -> None:
    check_shown("proj", str(elsewhere))
    (elsewhere / "also").symlink_to(elsewhere / "list")
    for wrong in ("lists", "/", "/etc", "//srv", f"{elsewhere}/../lists", f"{elsewhere}/none", f"{elsewhere}/also"):
        with pytest.raises(BadInput) as refused:
            check_shown("proj", wrong)
        assert refused.value.code == "grant.value"


def test_it_is_told_beforehand_and_a_grant_ends_it(
    proj_git: GitRepository, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = f"sqlite:///{tmp_path}/custody.db"
    monkeypatch.setenv("CUSTODY_STORE", store)
    proj_git.commit("a.txt", "one")
    proj_git.push()
    gate(proj_git.path, "pre-receive", "a list of those who may not", elsewhere)
    run = CliRunner().invoke
    said = run(app, ["add", "proj", str(proj_git.path), "--no-hook"]).output
    assert f"names {elsewhere}/list" in said
    assert f"custody archive grant proj hooks {elsewhere}" in said
    assert f"custody archive grant proj hooks {elsewhere}" in run(doctor, ["--store", store]).output.replace("\n", " ")
    granted = run(app, ["grant", "proj", HOOKS, str(elsewhere), "--why", "the list is ours"])
    assert granted.exit_code == 0, granted.output
    assert f"names {elsewhere}/list" not in run(doctor, ["--store", store]).output
    with open_store(store) as handle:
        archive = Archives(handle).opened("proj")
        with pytest.raises(Refused) as refused:
            put(archive, tmp_path)
        assert refused.value.code == "archive.refused", "it has seen the list, and says no"
