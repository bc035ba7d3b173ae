"""Whose a repository is: one that is not ours is refused, unless an operator agrees, and only for the owner it has."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from custody.cli.doctor.ownership import _repositories
from custody.errors import Refused
from custody.kernel.model.authority.grant import REPOSITORY
from custody.kernel.stores import Store, open_store
from custody.workflows.archives import hooks
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.git.git_folder import GitFolder
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.ownership import owned
from custody.workflows.archives.ownership.standing import Standing
from custody.workflows.archives.svn.svn_folder import SvnFolder
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.findings import all_amiss, stands_still
from custody.workflows.kinds import reconcile_all
from hostile.stage import ENV, NOBODY
from prove.plugin import Tell

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs owners of its own")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as opened:
        yield opened


@pytest.fixture(params=["git", "svn"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"theirs.{request.param}"
    make = ["git", "init", "-q", "--bare"] if request.param == "git" else ["svnadmin", "create"]
    subprocess.run([*make, str(path)], check=True, env=ENV)
    own(path, NOBODY)
    return path


def own(path: Path, uid: int) -> None:
    for folder, folders, files in os.walk(path):
        for name in (folder, *(os.path.join(folder, name) for name in (*folders, *files))):
            os.chown(name, uid, uid, follow_symlinks=False)


def archive(store: Store, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--store", store.url])


def helps(store: Store, name: str = "proj") -> str:
    """What is told to be done about an archive that stands still."""
    found = stands_still(store, Archives(store).get(name))
    return found.do if found else ""


@pytest.mark.proves("P5")
def test_it_is_refused_until_an_operator_agrees_and_that_is_on_record(store: Store, theirs: Path, tell: Tell) -> None:
    refused = archive(store, "add", "proj", str(theirs))
    assert isinstance(refused.exception, Refused)
    assert refused.exception.code == "archive.foreign"
    assert "belongs to nobody" in refused.exception.message
    assert "--foreign" in refused.exception.hint
    assert Archives(store).list() == ()
    assert archive(store, "add", "proj", str(theirs), "--foreign").exit_code != 0, "without a reason"
    done = archive(store, "add", "proj", str(theirs), "--foreign", "--why", "the press keeps it")
    assert done.exit_code == 0, done.output
    assert f"agreed to uid:{NOBODY}" in done.output
    (grant,) = store.grants.list("archive/proj")
    assert (grant.what, grant.value, grant.why) == (REPOSITORY, f"uid:{NOBODY}", "the press keeps it")
    assert not hooks.is_installed(theirs), "nothing is written there"
    assert [path for path in theirs.rglob("*") if path.lstat().st_uid != NOBODY] == []
    tell("", tries=1, got_through=0)


@pytest.mark.proves("P5")
def test_another_owner_ends_what_was_granted_and_nothing_more_is_taken_in(
    store: Store, theirs: Path, tell: Tell
) -> None:
    archive(store, "add", "proj", str(theirs), "--foreign", "--why", "agreed")
    own(theirs, 12345)
    reconcile_all(store)
    kept = Archives(store).get("proj")
    assert "uid 12345" in kept.frozen
    assert store.grants.of("archive/proj", REPOSITORY) == []
    assert "is frozen" in str(Archives(store).workable("proj"))
    assert archive(store, "thaw", "proj", "--why", "x").exit_code != 0
    wrong = archive(store, "grant", "proj", "repository", f"uid:{NOBODY}", "--why", "x")
    assert wrong.exit_code != 0, "it is not theirs any more"
    assert archive(store, "grant", "proj", "repository", "uid:12345", "--why", "they moved").exit_code == 0
    assert archive(store, "thaw", "proj", "--why", "they moved").exit_code == 0
    assert reconcile(store, Archives(store).get("proj")) == 0
    tell("", tries=1, got_through=0)


def test_what_was_withdrawn_is_asked_for_again_in_words(store: Store, theirs: Path) -> None:
    archive(store, "add", "proj", str(theirs), "--foreign", "--why", "agreed")
    assert archive(store, "withdraw", "proj", "repository", f"uid:{NOBODY}", "--why", "no more").exit_code == 0
    reconcile_all(store)
    assert "belongs to nobody" in Archives(store).out_of_reach("proj")


@pytest.mark.proves("P5")
@pytest.mark.parametrize("part", ["hooks", "config", "objects"])
def test_one_that_is_ours_but_for_a_part_is_not_ours(store: Store, tmp_path: Path, part: str, tell: Tell) -> None:
    path = tmp_path / "ours.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True, env=ENV)
    os.chown(path / part, NOBODY, NOBODY)
    with pytest.raises(Refused) as caught:
        Archives(store).add("proj", "git", str(path), "ada")
    assert caught.value.code == "archive.foreign"
    os.chown(path / part, 0, 0)
    (path / part).chmod(0o777)
    with pytest.raises(Refused, match="everybody may write"):
        Archives(store).add("proj", "git", str(path), "ada")
    (path / part).chmod(0o755)
    assert Archives(store).add("proj", "git", str(path), "ada")
    tell("", tries=2, got_through=0)


@pytest.mark.proves("P5")
def test_plain_folders_of_somebody_else_are_not_read_at_all(store: Store, tmp_path: Path, tell: Tell) -> None:
    kept = FolderArchive.make(tmp_path / "kept")
    content = kept.folder / "1" / "content"
    content.mkdir(parents=True)
    (content / "taken").symlink_to("/etc/shadow")
    (content.parent / "about.json").write_text('{"author": "x", "message": "x", "properties": {}}')
    own(kept.folder, NOBODY)
    with pytest.raises(Refused) as caught:
        Archives(store).add("proj", "folder", str(kept.folder), "ada", foreign="agreed")
    assert caught.value.code == "archive.foreign"
    tell("", tries=1, got_through=0)


@pytest.mark.proves("P5")
def test_a_hook_is_installed_by_the_owner_alone(theirs: Path, tmp_path: Path, tell: Tell) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    for file in (theirs / "hooks").iterdir():
        file.unlink()
    (theirs / "hooks").rmdir()
    (theirs / "hooks").symlink_to(place)
    for install in (
        lambda: hooks.install(theirs, ["/bin/true"]),
        lambda: hooks.install_for_store(theirs, ["/bin/true"], "proj", "sqlite:///x"),
        lambda: hooks.install_for_api(theirs, "http://127.0.0.1", "proj", "token"),
        lambda: hooks.uninstall(theirs),
    ):
        with pytest.raises(Refused):
            install()
    assert list(place.iterdir()) == []
    tell("", tries=4, got_through=0)


@pytest.mark.parametrize("system", ["git", "svn"])
def test_a_grant_for_mixed_ownership_names_whoever_else_owns_a_part_and_never_ourselves(
    store: Store, tmp_path: Path, system: str
) -> None:
    path = tmp_path / "mixed"
    make = ["git", "init", "-q", "--bare"] if system == "git" else ["svnadmin", "create"]
    subprocess.run([*make, str(path)], check=True, env=ENV)
    os.chown(path / "hooks", NOBODY, NOBODY)
    with pytest.raises(Refused, match="its hooks belongs to nobody") as caught:
        Archives(store).add("proj", system, str(path), "ada")
    assert f"repository uid:{NOBODY} " in caught.value.hint
    Archives(store).add("proj", system, str(path), "ada", foreign="agreed")
    assert store.grants.of("archive/proj", REPOSITORY) == [f"uid:{NOBODY}"]
    os.chown(path / ("objects" if system == "git" else "db"), 12345, 12345)
    reconcile_all(store)
    frozen = Archives(store).get("proj").frozen
    assert "uid 12345" in frozen, "one more owner is somebody nobody has agreed to"
    assert Archives(store).found(system, str(path))[1].value == f"uid:12345+{NOBODY}"  # type: ignore[union-attr]


def test_a_grant_for_what_others_may_write_to_names_them(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "shared.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True, env=ENV)
    os.chown(path / "refs", 0, 4242)
    (path / "refs").chmod(0o775)
    with pytest.raises(Refused, match="the group gid 4242 may write to its refs") as caught:
        Archives(store).add("proj", "git", str(path), "ada")
    assert "repository gid:4242 " in caught.value.hint
    (path / "refs").chmod(0o777)
    with pytest.raises(Refused) as caught:
        Archives(store).add("proj", "git", str(path), "ada")
    assert "repository anyone " in caught.value.hint


def test_root_beside_the_owner_needs_nobodys_agreement(store: Store, theirs: Path) -> None:
    os.chown(theirs / "hooks", 0, 0)
    Archives(store).add("proj", "git" if theirs.suffix == ".git" else "svn", str(theirs), "ada", foreign="agreed")
    assert store.grants.of("archive/proj", REPOSITORY) == [f"uid:{NOBODY}"]


THIRD = 12346
"""Somebody who was not agreed to."""


def committed(path: Path) -> Path:
    """A repository of nobody's with a revision."""
    own(path, 0)
    if path.suffix == ".svn":
        subprocess.run(["svn", "mkdir", "-q", "-m", "one", f"file://{path}/trunk"], check=True, env=ENV)
    else:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        tree = subprocess.run(["git", "-C", str(path), "mktree"], input=b"", capture_output=True, check=True).stdout
        make = ["git", *who, "-C", str(path), "commit-tree", tree.decode().strip(), "-m", "one"]
        tip = subprocess.run(make, capture_output=True, check=True).stdout.decode().strip()
        subprocess.run(["git", "-C", str(path), "update-ref", "refs/heads/deep/er", tip], check=True)
        subprocess.run(["git", "-C", str(path), "symbolic-ref", "HEAD", "refs/heads/deep/er"], check=True)
    own(path, NOBODY)
    return path


READ = {
    "git": ["HEAD", "config", "refs", "refs/heads", "refs/heads/deep", "refs/heads/deep/er", "objects", "objects/pack"],
    "svn": ["format", "db", "db/current", "db/revs", "db/revs/0", "db/revs/0/1", "db/revprops/0/1"],
}


def test_whoever_owns_a_part_that_is_read_is_named_and_refused_and_freezes_what_was_granted_before(
    store: Store, theirs: Path
) -> None:
    path, system = committed(theirs), theirs.suffix[1:]
    for number, part in enumerate(READ[system]):
        name = f"proj{number}"
        os.chown(path / part, THIRD, THIRD)
        with pytest.raises(Refused, match=f"to uid {THIRD}") as caught:
            Archives(store).add(name, system, str(path), "ada")
        assert f"repository uid:{THIRD}+{NOBODY} " in caught.value.hint
        os.chown(path / part, NOBODY, NOBODY)
        Archives(store).add(name, system, str(path), "ada", foreign="agreed")
        assert store.grants.of(f"archive/{name}", REPOSITORY) == [f"uid:{NOBODY}"]
        os.chown(path / part, THIRD, THIRD)
        reconcile_all(store)
        assert f"`custody archive grant {name} repository uid:{THIRD} --why '" in helps(store, name), part
        assert store.grants.of(f"archive/{name}", REPOSITORY) == [f"uid:{NOBODY}"], "he is agreed to as before"
        assert archive(store, "thaw", name, "--why", "x").exit_code != 0
        assert archive(store, "grant", name, "repository", f"uid:{THIRD}", "--why", "they know him").exit_code == 0
        assert archive(store, "thaw", name, "--why", "they know him").exit_code == 0
        reconcile_all(store)
        assert Archives(store).get(name).frozen == ""
        os.chown(path / part, NOBODY, NOBODY)
        assert archive(store, "remove", name, "--why", "the next").exit_code == 0


def test_packed_branches_of_a_third_user_are_not_read_either(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "theirs.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True, env=ENV)
    (path / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted \n")
    own(committed(path), NOBODY)
    Archives(store).add("proj", "git", str(path), "ada", foreign="agreed")
    os.chown(path / "packed-refs", THIRD, THIRD)
    reconcile_all(store)
    assert f"its packed-refs to uid {THIRD}" in Archives(store).get("proj").frozen


def test_a_branch_whose_name_is_no_text_freezes_like_any_other(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "theirs.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True, env=ENV)
    committed(path)
    Archives(store).add("proj", "git", str(path), "ada", foreign="agreed")
    odd = os.fsencode(path) + b"/refs/heads/caf\xe9\x1b[31m"
    with open(odd, "wb") as file:
        file.write(b"x\n")
    os.chown(odd, THIRD, THIRD)
    reconcile_all(store)
    frozen = Archives(store).get("proj").frozen
    assert f"repository uid:{THIRD} " in helps(store)
    assert "caf\\xe9" in frozen
    assert "\x1b" not in frozen


@pytest.mark.parametrize("owner", [0, NOBODY], ids=["ours", "theirs"])
def test_what_members_of_a_group_that_was_granted_put_there_is_theirs_to_put(
    store: Store, tmp_path: Path, owner: int
) -> None:
    path, member, group = tmp_path / "shared.git", pwd.getpwnam("daemon").pw_uid, pwd.getpwnam("daemon").pw_gid
    subprocess.run(["git", "init", "-q", "--bare", "--shared=group", str(path)], check=True, env=ENV)
    committed(path)
    for folder, folders, files in os.walk(path):
        for name in (folder, *(os.path.join(folder, name) for name in (*folders, *files))):
            os.chown(name, owner, group)
    Archives(store).add("proj", "git", str(path), "ada", foreign="our group")
    assert store.grants.of("archive/proj", REPOSITORY) == [f"uid:{owner}+gid:{group}" if owner else f"gid:{group}"]
    for name in (path / "refs/heads/deep", path / "refs/heads/deep/er"):
        os.chown(name, member, group)
    assert reconcile(store, Archives(store).get("proj")) == 1
    assert Archives(store).get("proj").frozen == ""
    os.chown(path / "refs/heads/deep/er", THIRD, group)
    reconcile_all(store)
    assert f"repository uid:{THIRD} " in helps(store), "he is no member"


LOOKED_AT = {
    "git": [
        "config",
        "HEAD",
        "packed-refs",
        "objects",
        "objects/pack",
        "objects/pack/*.pack",
        "objects/pack/*.idx",
        "objects/info",
        "objects/info/packs",
        "refs",
        "refs/heads",
        "refs/heads/deep",
        "refs/heads/deep/er",
        "hooks",
    ],
    "svn": [
        "conf",
        "db",
        "hooks",
        "locks",
        "format",
        "db/current",
        "db/uuid",
        "db/fs-type",
        "db/format",
        "db/revs",
        "db/revprops",
        "db/revs/0",
        "db/revprops/0",
        "db/revs/0/1",
        "db/revprops/0/1",
    ],
}


def test_every_part_that_is_read_counts_for_whose_it_is(theirs: Path) -> None:
    """Each by itself, in a repository that is all ours but for it."""
    path, system = committed(theirs), theirs.suffix[1:]
    if system == "git":
        for words in (["repack", "-adq"], ["pack-refs", "--all"], ["update-server-info"]):
            subprocess.run(["git", "-c", "safe.directory=*", "-C", str(path), *words], check=True, env=ENV)
        tip = (path / "packed-refs").read_text().split()[-2]
        (path / "refs/heads/deep").mkdir(parents=True, exist_ok=True)
        (path / "refs/heads/deep/er").write_text(f"{tip}\n")
    own(path, os.geteuid())

    def look() -> Standing:
        if system == "svn":
            return SvnFolder(path).standing()
        with GitFolder(path) as folder:
            return folder.standing()

    assert look().who == []
    for part in LOOKED_AT[system]:
        (place,) = path.glob(part)
        os.chown(place, THIRD, THIRD)
        assert look().who == [f"uid:{THIRD}"], part
        assert f"its {place.relative_to(path)} belongs to" in look().foreign, part
        os.chown(place, os.geteuid(), os.getegid())
        mode = place.stat().st_mode
        for more, whose in ((0o020, f"gid:{os.getegid()}"), (0o002, "anyone")):
            place.chmod(mode | more)
            assert whose in look().who, part
        place.chmod(mode)
    assert look().who == []


WRITABLE = {
    "git": [
        ".",
        "HEAD",
        "config",
        "refs",
        "refs/heads",
        "refs/heads/deep",
        "refs/heads/deep/er",
        "objects",
        "objects/pack",
        "objects/??",
        "hooks",
        "hooks/*.sample",
    ],
    "svn": [
        ".",
        "format",
        "conf",
        "conf/svnserve.conf",
        "hooks",
        "hooks/*.tmpl",
        "db",
        "db/current",
        "db/revs",
        "db/revs/0",
        "db/revs/0/1",
        "db/revprops",
        "db/revprops/0",
        "db/revprops/0/1",
    ],
}
RIGHTS = {"a group": (0o020, "gid:4242"), "everybody": (0o002, "anyone")}


@pytest.mark.proves("P5")
@pytest.mark.parametrize("right", RIGHTS)
def test_whoever_may_write_to_a_part_of_somebody_elses_repository_must_be_granted_too(
    store: Store, theirs: Path, right: str, tell: Tell
) -> None:
    path, system, (bits, whose) = committed(theirs), theirs.suffix[1:], RIGHTS[right]
    for number, pattern in enumerate(WRITABLE[system]):
        part, name = next(iter(path.glob(pattern))) if pattern != "." else path, f"proj{number}"
        os.chown(part, NOBODY, 4242)
        mode = part.stat().st_mode
        part.chmod(mode | bits)
        with pytest.raises(Refused, match="may write to it") as caught:
            Archives(store).add(name, system, str(path), "ada")
        assert f"repository uid:{NOBODY}+{whose} " in caught.value.hint, pattern
        part.chmod(mode)
        Archives(store).add(name, system, str(path), "ada", foreign="agreed")
        assert store.grants.of(f"archive/{name}", REPOSITORY) == [f"uid:{NOBODY}"]
        part.chmod(mode | bits)
        with pytest.raises(Refused, match="may write to it"):
            Archives(store).opened(name)
        reconcile_all(store)
        assert f"`custody archive grant {name} repository {whose} --why '" in helps(store, name), pattern
        assert archive(store, "thaw", name, "--why", "x").exit_code != 0
        assert archive(store, "grant", name, "repository", whose, "--why", "all of us").exit_code == 0
        assert archive(store, "thaw", name, "--why", "all of us").exit_code == 0
        reconcile_all(store)
        assert Archives(store).get(name).frozen == ""
        part.chmod(mode)
        os.chown(part, NOBODY, NOBODY)
        assert archive(store, "remove", name, "--why", "the next").exit_code == 0
    tell("", tries=len(WRITABLE[system]), got_through=0)


def commands(said: str) -> list[list[str]]:
    return [shlex.split(words)[1:] for words in re.findall(r"custody archive (?:grant|thaw) [^`]*?'[^']*'", said)]


@pytest.mark.parametrize("granted", [True, False], ids=["granted before", "ours before"])
def test_what_is_told_of_a_repository_that_others_may_write_to_is_what_helps_now(
    store: Store, theirs: Path, granted: bool
) -> None:
    """In its order, and only while it is so."""
    path = committed(theirs)
    if not granted:
        own(path, 0)
    Archives(store).add("proj", path.suffix[1:], str(path), "ada", foreign="agreed")
    mode = path.stat().st_mode
    path.chmod(mode | 0o002)
    reconcile_all(store)
    ((kept, said),) = all_amiss(store)
    assert bool(kept.frozen) is granted
    (told,) = [each for each in _repositories(store) if "archive proj" in each.what]
    wanted = ["grant", "thaw"] if granted else ["grant"]
    assert [[words[1] for words in commands(each)] for each in (said, told.do)] == [wanted, wanted]
    path.chmod(mode)
    ((_, said),) = all_amiss(store)
    does = " ".join(each.do for each in _repositories(store) if "archive proj" in each.what)
    assert "anyone" not in f"{said.partition(': custody')[2]} {does}"
    assert [[words[1] for words in commands(each)] for each in (said, does)] == [wanted[1:], wanted[1:]]
    path.chmod(mode | 0o002)
    for words in commands(helps(store)):
        assert archive(store, *words[1:]).exit_code == 0, words
    reconcile_all(store)
    assert [said for _, said in all_amiss(store)] == [""]


def test_advice_that_an_earlier_version_wrote_down_is_told_no_more(store: Store, theirs: Path) -> None:
    Archives(store).add("proj", theirs.suffix[1:], str(theirs), "ada", foreign="agreed")
    was = "its repository is not ours: x; if an operator agrees: `custody archive grant proj repository anyone --why …`"
    Archives(store).freeze("proj", was, Archives(store).get("proj").uuid, "ada")
    ((_, said),) = all_amiss(store)
    assert "anyone" not in said
    assert [words[1] for words in commands(said)] == ["thaw"]


def looked_at(path: Path) -> Standing:
    if path.suffix == ".svn":
        return SvnFolder(path).standing()
    with GitFolder(path) as folder:
        return folder.standing()


@pytest.mark.proves("P5")
def test_whoever_may_put_another_in_its_place_must_be_granted(theirs: Path, tmp_path: Path, tell: Tell) -> None:
    """By the folders on the way there; where those are sticky, a stranger can add to them and not rename."""
    far, near = tmp_path / "far", tmp_path / "far" / "near"
    near.mkdir(parents=True)
    path = theirs.rename(near / theirs.name)
    assert looked_at(path).who == [f"uid:{NOBODY}"]
    for folder, name in ((near, ".."), (far, "../..")):
        for mode, whose in ((0o777, ["anyone"]), (0o1777, []), (0o775, ["gid:4242"]), (0o1775, [])):
            os.chown(folder, 0, 4242)
            folder.chmod(mode)
            found = looked_at(path)
            assert found.who == [f"uid:{NOBODY}", *whose], (folder, oct(mode))
            assert not whose or f"may write to the folder {name} from there" in found.foreign
        folder.chmod(0o755)
        os.chown(folder, THIRD, THIRD)
        assert looked_at(path).who == [f"uid:{THIRD}", f"uid:{NOBODY}"]
        os.chown(folder, 0, 0)
    link = tmp_path / "open" / "link"
    link.parent.mkdir()
    link.parent.chmod(0o777)
    link.symlink_to(near)
    assert looked_at(link / path.name).who == [f"uid:{NOBODY}", "anyone"], "a link on the way is anybody's to turn"
    tell("", tries=11, got_through=0)


def listed(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NONE = 0xFFFFFFFF
LISTS = {
    "somebody": (listed((1, 6, NONE), (2, 6, 777), (4, 4, NONE), (16, 6, NONE), (32, 4, NONE)), ["uid:777"]),
    "a group": (listed((1, 6, NONE), (4, 4, NONE), (8, 6, 888), (16, 6, NONE), (32, 4, NONE)), ["gid:888"]),
    "masked": (listed((1, 6, NONE), (2, 6, 777), (4, 4, NONE), (16, 4, NONE), (32, 4, NONE)), []),
    "only reads": (listed((1, 6, NONE), (2, 4, 777), (4, 4, NONE), (16, 6, NONE), (32, 4, NONE)), []),
    "its group": (listed((1, 6, NONE), (2, 4, 777), (4, 6, NONE), (16, 6, NONE), (32, 4, NONE)), [f"gid:{NOBODY}"]),
}


@pytest.mark.proves("P5")
@pytest.mark.parametrize("which", LISTS)
def test_whom_an_access_control_list_lets_write_must_be_granted(theirs: Path, which: str, tell: Tell) -> None:
    given, whose = LISTS[which]
    part = theirs / ("HEAD" if theirs.suffix == ".git" else "db/current")
    try:
        os.setxattr(part, "system.posix_acl_access", given)
    except OSError as error:
        pytest.skip(f"no access control lists here: {error.strerror}")
    assert sorted(looked_at(theirs).who) == sorted([f"uid:{NOBODY}", *whose])
    tell("", tries=1, got_through=0)


def test_old_revisions_of_subversion_are_looked_at_too_though_not_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.svn"
    subprocess.run(["svnadmin", "create", str(path)], check=True, env=ENV)
    for shard in ("1", "2", "10"):
        for kind in ("revs", "revprops"):
            (path / "db" / kind / shard).mkdir()
            (path / "db" / kind / shard / f"{shard}000").write_text("x")
    assert looked_at(path).who == []
    (path / "db/revs/1/1000").chmod(0o666)
    (path / "db/revs/10/10000").chmod(0o664)
    assert looked_at(path).who == ["gid:0"], "the newest at once"
    monkeypatch.setattr(owned, "OLDER_SECONDS", -1.0)
    assert looked_at(path).who == ["gid:0", "anyone"]


def test_a_hook_that_was_asked_for_is_installed_or_refused(store: Store, theirs: Path) -> None:
    words = ["add", "proj", str(theirs), "--foreign", "--why", "agreed"]
    refused = archive(store, *words, "--hook")
    assert isinstance(refused.exception, Refused)
    assert (refused.exception.code, "leave --hook out" in refused.exception.hint) == ("archive.hook", True)
    assert (Archives(store).list(), hooks.is_installed(theirs)) == ((), False)
    done = archive(store, *words)
    assert done.exit_code == 0
    assert "no hook: it is asked every few seconds" in " ".join(done.output.split())
    assert archive(store, "remove", "proj", "--why", "the next").exit_code == 0
    assert "no hook" not in archive(store, *words, "--no-hook").output
    assert archive(store, "remove", "proj", "--why", "the next").exit_code == 0
    own(theirs, 0)
    assert "the hook is installed" in archive(store, *words, "--hook").output, "it is ours"
    assert hooks.is_installed(theirs)
    served = archive(store, "add", "far", "svn://127.0.0.1:9/x", "--hook")
    assert isinstance(served.exception, Refused)
    assert "on a server" in served.exception.message
