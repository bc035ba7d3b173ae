"""A hook that somebody may run is asked, or no commit is made: whoever may run it, and whoever owns the repository."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import custody
from custody.border.sandbox import host_tool as outside
from custody.cli.doctor.report import app as doctor
from custody.errors import CustodyError, Refused
from custody.kernel.stores import Store
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.ownership import commit_gates as gates
from custody.workflows.archives.port import Archive
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.archives.working_copy.draft import Draft
from custody.workflows.commands.archive import app
from rig.need import need as need_service
from rig.program import room
from workflows.repositories import GitRepository, SvnRepository

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs owners of its own")
NO = "#!/bin/sh\necho GATE-SAYS-NO >&2\nexit 1\n"
OWNER, SHARED, OTHER = 54321, 54322, 54323  # the owner, a group that he is in, one that he is not in


@pytest.fixture(autouse=True)
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner is known to the system, with one more group."""
    need_service("bubblewrap")
    somebody = pwd.struct_passwd(("ada", "x", OWNER, OWNER, "", str(tmp_path / "nowhere"), ""))
    real, real_groups = pwd.getpwuid, os.getgrouplist
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: somebody if uid == OWNER else real(uid))
    monkeypatch.setattr(
        os, "getgrouplist", lambda name, gid: [gid, SHARED] if name == "ada" else real_groups(name, gid)
    )


@pytest.fixture(params=["git", "svn"])
def archive(request: pytest.FixtureRequest, own_store: Store) -> Archive:
    """Of the owner, with one revision."""
    if request.param == "git":
        git: GitRepository = request.getfixturevalue("proj_git")
        git.commit("a.txt", "one")
        git.push()
        give(git.path)
        return GitArchive(git.path, own_store)
    svn: SvnRepository = request.getfixturevalue("proj_svn")
    svn.put("a.txt", b"one")
    give(svn.path)
    return SvnArchive(str(svn.path))


def give(path: Path, uid: int = OWNER, gid: int = OWNER) -> None:
    for folder, folders, files in os.walk(path):
        for name in (folder, *(os.path.join(folder, name) for name in (*folders, *files))):
            os.chown(name, uid, gid, follow_symlinks=False)


def gate(archive: Archive) -> Path:
    name = "pre-receive" if isinstance(archive, GitArchive) else "pre-commit"
    return Path(archive.where) / "hooks" / name


def put_gate(file: Path, mode: int, uid: int, gid: int) -> Path:
    file.write_text(NO)
    os.chown(file, uid, gid)
    file.chmod(mode)
    return file


def put(archive: Archive, tmp_path: Path) -> int:
    assert archive.youngest() == 1
    file = tmp_path / "made"
    file.write_text("made")
    return archive.commit(Draft("made", 1, {"made": file}, [], ["task"], "1.0.0.word"), 30)


@pytest.mark.parametrize(
    ("mode", "uid", "gid"),
    [
        (0o700, OWNER, OWNER),
        (0o755, 0, 0),
        (0o750, 0, OWNER),
        (0o750, 0, SHARED),
        (0o550, OTHER, SHARED),
        (0o710, OWNER, OTHER),
    ],
)
def test_a_hook_that_its_owner_may_run_by_whichever_group_is_asked(
    archive: Archive, tmp_path: Path, mode: int, uid: int, gid: int
) -> None:
    put_gate(gate(archive), mode, uid, gid)
    with pytest.raises(Refused, match="GATE-SAYS-NO"):
        put(archive, tmp_path)
    assert archive.youngest() == 1


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "whose"),
    [
        (0o700, 0, 0, "root:root"),
        (0o100, 0, 0, "root:root"),
        (0o750, 0, OTHER, f"root:gid {OTHER}"),
        (0o070, OWNER, SHARED, f"ada:gid {SHARED}"),
        (0o677, OWNER, SHARED, f"ada:gid {SHARED}"),
        (0o745, OTHER, SHARED, f"uid {OTHER}:gid {SHARED}"),
    ],
)
def test_a_hook_that_others_may_run_and_its_owner_may_not_is_no_leave_to_commit(
    archive: Archive, tmp_path: Path, mode: int, uid: int, gid: int, whose: str
) -> None:
    hook = put_gate(gate(archive), mode, uid, gid)
    with pytest.raises(Refused) as refused:
        put(archive, tmp_path)
    assert refused.value.code == "archive.gate"
    for word in (hook.name, f"{mode:04o}", whose, "ada"):
        assert word in refused.value.message, refused.value.message
    assert "chmod" in refused.value.hint
    assert archive.youngest() == 1
    hook.chmod(0o755)
    with pytest.raises(Refused, match="GATE-SAYS-NO"):
        put(archive, tmp_path)


def test_a_folder_of_hooks_that_its_owner_may_not_enter_is_no_leave_to_commit(archive: Archive, tmp_path: Path) -> None:
    hook = put_gate(gate(archive), 0o755, OWNER, OWNER)
    os.chown(hook.parent, 0, OTHER)
    hook.parent.chmod(0o750)
    with pytest.raises(Refused) as refused:
        put(archive, tmp_path)
    assert refused.value.code == "archive.gate"
    assert hook.name in refused.value.message
    os.chown(hook.parent, 0, SHARED)
    with pytest.raises(Refused, match="GATE-SAYS-NO"):
        put(archive, tmp_path)


@pytest.mark.parametrize(("named", "answer"), [(OWNER, "archive.refused"), (OTHER, "archive.gate")])
def test_an_access_control_list_is_heeded_as_the_system_does(
    archive: Archive, tmp_path: Path, named: int, answer: str
) -> None:
    """The owner of the hook may do all, whom the list names may run it, others may not."""
    hook = put_gate(gate(archive), 0o750, 0, 0)
    entries = [(0x01, 7, 0), (0x02, 5, named), (0x04, 0, 0), (0x10, 5, 0), (0x20, 0, 0)]
    given = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHi", tag, allowed, who or -1) for tag, allowed, who in entries
    )
    try:
        os.setxattr(hook, "system.posix_acl_access", given)
    except OSError:
        pytest.skip("this file system has no such lists")
    with pytest.raises(Refused) as refused:
        put(archive, tmp_path)
    assert ("GATE-SAYS-NO" in refused.value.message) == (answer == "archive.refused")
    assert (refused.value.code == "archive.gate") == (answer == "archive.gate")


def test_a_hook_that_nobody_at_all_may_run_is_left_out_by_git_and_fails_in_subversion(
    archive: Archive, tmp_path: Path
) -> None:
    put_gate(gate(archive), 0o640, 0, OTHER)
    if isinstance(archive, GitArchive):
        assert put(archive, tmp_path) == 2
    else:
        with pytest.raises(CustodyError):
            put(archive, tmp_path)
        assert archive.youngest() == 1


@pytest.mark.parametrize(("mode", "uid"), [(0o700, OTHER), (0o070, 0)])
def test_roots_own_repository_has_no_gate_that_only_roots_rights_would_open(
    archive: Archive, tmp_path: Path, mode: int, uid: int
) -> None:
    """Outside, root may run whatever anybody may; inside it has no such rights."""
    give(Path(archive.where), 0, 0)
    put_gate(gate(archive), mode, uid, uid)
    with pytest.raises(Refused) as refused:
        put(archive, tmp_path)
    assert refused.value.code == "archive.gate"


def test_its_own_folder_by_way_of_a_link_elsewhere_is_no_leave_to_commit(
    proj_git: GitRepository, own_store: Store, tmp_path: Path
) -> None:
    """Which is not there where git would look."""
    proj_git.commit("a.txt", "one")
    proj_git.push()
    archive = GitArchive(proj_git.path, own_store)
    put_gate(gate(archive), 0o755, 0, 0)
    (tmp_path / "elsewhere").symlink_to(proj_git.path)
    subprocess.run(
        ["git", "--git-dir", archive.where, "config", "core.hooksPath", str(tmp_path / "elsewhere/hooks")], check=True
    )
    with pytest.raises(Refused, match="reached by a link") as refused:
        put(archive, tmp_path)
    assert refused.value.code == "archive.gate"
    assert "core.hooksPath" in refused.value.hint


def test_a_file_system_on_which_nothing_may_be_run_is_named(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = put_gate(gate(archive), 0o755, OWNER, OWNER)
    monkeypatch.setattr(gates, "LOOK", ["sh", "-c", 'printf "%s\\0." "$2"', "look"])  # as it looks there
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((0, 0, 0, 0, 0, 0, 0, 0, os.ST_NOEXEC, 255)))
    told = (gates.git_unasked if isinstance(archive, GitArchive) else gates.svn_unasked)(Path(archive.where))
    assert hook.name in told
    assert "noexec" in told


def test_where_that_cannot_be_looked_at_nothing_is_committed(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_gate(gate(archive), 0o755, OWNER, OWNER)
    monkeypatch.setattr(gates, "LOOK", ["false"])
    with pytest.raises(Refused) as refused:
        put(archive, tmp_path)
    assert refused.value.code == "archive.gate"


def test_hooks_that_refuse_nothing_may_be_closed(archive: Archive, tmp_path: Path) -> None:
    name = "post-receive" if isinstance(archive, GitArchive) else "post-lock"
    put_gate(gate(archive).with_name(name), 0o700, 0, 0)
    assert put(archive, tmp_path) == 2


def test_it_is_told_beforehand(archive: Archive, own_store: Store) -> None:
    put_gate(gate(archive), 0o700, 0, 0)
    run, words = CliRunner(), ["--store", own_store.url]
    added = run.invoke(app, ["add", "book", archive.where, "--foreign", "--why", "known", *words])
    assert "commits of its tasks will be refused: its hook" in added.output
    (listed,) = json.loads(run.invoke(app, ["list", "--json", *words]).output)
    assert "0700" in listed["unasked"]
    assert "archive book: commits of its tasks are refused" in run.invoke(doctor, words).output


SCRIPT = """
import sys
from pathlib import Path
from custody.errors import CustodyError
from custody.kernel.stores import open_store
from custody.workflows.archives.working_copy.draft import Draft
from custody.workflows.archives.git.git import GitArchive

folder = Path(sys.argv[1])
(folder / "made").write_text("made")
with open_store(f"sqlite:///{folder / 'own.db'}") as store:
    archive = GitArchive(folder / "theirs", store)
    assert archive.youngest() == 1
    try:
        print(archive.commit(Draft("made", 1, {"made": folder / "made"}, [], ["task"], "1.0.0.word"), 30))
    except CustodyError as error:
        print(error.code, error.message, error.hint)
"""


@pytest.fixture
def open_room() -> Iterator[Path]:
    folder = room("gates")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(("groups", "told"), [((SHARED,), "GATE-SAYS-NO"), ((), "archive.gate")])
def test_an_ordinary_worker_asks_with_the_groups_it_has(
    proj_git: GitRepository, open_room: Path, groups: tuple[int, ...], told: str
) -> None:
    proj_git.commit("a.txt", "one")
    proj_git.push()
    shutil.copytree(proj_git.path, open_room / "theirs")
    give(open_room)
    put_gate(open_room / "theirs/hooks/pre-receive", 0o750, 0, SHARED)
    words = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}"]
    words += [f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups", "--"]
    env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(open_room)}
    env["PYTHONPATH"] = f"{Path(custody.__file__).parents[1]}:{sysconfig.get_path('purelib')}"
    done = subprocess.run(
        [*words, sys.executable, "-c", SCRIPT, str(open_room)], env=env, cwd="/", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert told in done.stdout


def test_nobody_gets_groups_whom_the_system_does_not_know() -> None:
    argv = outside.command(["true"], outside.Owner(OTHER, OTHER), outside.Sight())
    assert "--clear-groups" in argv
    assert not [word for word in argv if word.startswith("--groups")]


STRICT = '#!/bin/sh\n[ "$LENIENT" = "" ] || exit 0\necho "GATE-SAYS-NO to $STRICT" >&2\nexit 1\n'


@pytest.fixture
def svn(proj_svn: SvnRepository) -> SvnArchive:
    proj_svn.put("a.txt", b"one")
    hook = proj_svn.path / "hooks/pre-commit"
    hook.write_text(STRICT)
    hook.chmod(0o755)
    return SvnArchive(str(proj_svn.path))


def variables(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"[pre-commit]\n{text}\n")
    return file


@pytest.mark.parametrize("said", ["hooks-env = other", "Hooks-Env: ./other", "hooks-env=\n  other", "hooks-env = {}"])
def test_the_hooks_of_subversion_get_the_variables_that_its_owner_has_named(
    svn: SvnArchive, tmp_path: Path, said: str
) -> None:
    conf = Path(svn.where) / "conf"
    variables(conf / "hooks-env", "STRICT = one")
    with pytest.raises(Refused, match="GATE-SAYS-NO to one"):
        put(svn, tmp_path)
    other = variables(conf / "other", "STRICT = other")
    (conf / "svnserve.conf").write_text(f"# [general]\n[general]\nanon-access = none\n{said.format(other)}\n")
    with pytest.raises(Refused, match="GATE-SAYS-NO to other"):
        put(svn, tmp_path)


@pytest.mark.parametrize("way", ["linked", "named", "unreadable"])
def test_variables_from_elsewhere_are_no_leave_to_commit(svn: SvnArchive, tmp_path: Path, way: str) -> None:
    """Without them the hook may say something else."""
    elsewhere, conf = variables(tmp_path / "shared/env", "LENIENT = yes"), Path(svn.where) / "conf"
    if way == "linked":
        (conf / "hooks-env").symlink_to(elsewhere)
    elif way == "named":
        (conf / "svnserve.conf").write_text(f"[general]\nhooks-env = {elsewhere}\n")
    else:
        (conf / "svnserve.conf").write_text("hooks-env = nobody knows in which section\n")
    with pytest.raises(Refused) as refused:
        put(svn, tmp_path)
    assert refused.value.code == "archive.gate"
    assert ("svnserve.conf" if way == "unreadable" else "shared/env") in refused.value.message
    assert "conf/hooks-env" in refused.value.hint
    (Path(svn.where) / "hooks/pre-commit").unlink()
    assert put(svn, tmp_path) == 2, "nobody asks for them"
