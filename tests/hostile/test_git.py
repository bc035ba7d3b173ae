"""git repositories whose owner is hostile, as root reads them and as an ordinary user does.

Each try is the owner's, made with the real git: nothing of his runs as the worker, nothing of ours is read.
"""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from hostile.stage import ENV, NOBODY, SECRET, Stage
from prove.plugin import Tell

FILES = {"a.txt": "one", "_workflows/a.yaml": "- {name: a, script: 'true'}\n"}


@pytest.fixture
def theirs(stage: Stage) -> Stage:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(stage.repository)], check=True, env=ENV)
    return stage


def config(stage: Stage, name: str, value: str) -> None:
    stage.git("config", name, value)


def smudge(stage: Stage) -> None:
    program = stage.program("smudge")
    config(stage, "filter.evil.smudge", str(program))
    config(stage, "filter.evil.required", "true")
    stage.put({**FILES, ".gitattributes": "*.txt filter=evil\n"})


def process(stage: Stage) -> None:
    config(stage, "filter.evil.process", str(stage.program("process")))
    (stage.repository / "info").mkdir(exist_ok=True)
    (stage.repository / "info/attributes").write_text("* filter=evil\n")
    stage.put(FILES)


def monitor(stage: Stage) -> None:
    config(stage, "core.fsmonitor", str(stage.program("monitor", "echo")))
    stage.put(FILES)


def hooks(stage: Stage) -> None:
    stage.put(FILES)
    for name in ("post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc", "update", "pre-receive"):
        stage.program(f"hooks/{name}", "true")


def worktree(stage: Stage) -> None:
    stage.put(FILES)
    config(stage, "core.bare", "false")
    config(stage, "core.worktree", str(stage.secret.parent))


def included(stage: Stage) -> None:
    stage.put(FILES)
    more = stage.repository / "more"
    more.write_text(f"[core]\n\tfsmonitor = {stage.program('monitor', 'echo')}\n\tpager = {stage.program('pager')}\n")
    config(stage, "include.path", str(more))
    config(stage, "core.alternateRefsCommand", str(stage.program("alternate")))


def textconv(stage: Stage) -> None:
    config(stage, "diff.evil.textconv", str(stage.program("textconv")))
    config(stage, "diff.external", str(stage.program("external")))
    stage.put({**FILES, ".gitattributes": "* diff=evil\n"})
    stage.put({**FILES, "b.txt": "two", ".gitattributes": "* diff=evil\n"})


def untouched(stage: Stage) -> Path:
    """A file that root alone may change."""
    file = stage.folder / "important"
    file.write_text("as it was")
    return file


def journal(stage: Stage) -> None:
    stage.put(FILES)
    (stage.repository / "custody-journal").symlink_to(untouched(stage))


def spool(stage: Stage) -> None:
    stage.put(FILES)
    untouched(stage)
    place = stage.folder / "notes"
    place.mkdir()
    (place / "note").write_text("as it was")
    (stage.repository / "custody-spool").symlink_to(place)


def hook_folder(stage: Stage) -> None:
    stage.put(FILES)
    place = stage.folder / "elsewhere"
    place.mkdir()
    for file in (stage.repository / "hooks").iterdir():
        file.unlink()
    (stage.repository / "hooks").rmdir()
    (stage.repository / "hooks").symlink_to(place)


RUN_NOTHING = [smudge, process, monitor, hooks, worktree, included, textconv, journal, spool, hook_folder]


@pytest.mark.proves("P5")
@pytest.mark.parametrize("prepare", RUN_NOTHING, ids=lambda each: each.__name__)
def test_what_it_says_to_run_is_not_run_and_where_it_leads_is_not_gone(
    theirs: Stage, prepare: Callable[[Stage], None], tell: Tell
) -> None:
    prepare(theirs)
    told = theirs.act()
    assert told["errors"] == []
    assert told["content"]["1"]["a.txt"] == "one"
    for name in ("important", "notes/note"):
        file = theirs.folder / name
        assert not file.exists() or (file.read_text(), file.stat().st_uid) == ("as it was", 0)
    assert not (theirs.folder / "elsewhere").exists() or list((theirs.folder / "elsewhere").iterdir()) == []
    tell("", tries=1, got_through=0)


@pytest.mark.proves("P5")
def test_a_replaced_or_grafted_commit_says_what_its_name_says(theirs: Stage, tell: Tell) -> None:
    first = theirs.put(FILES)
    second = theirs.put({**FILES, "a.txt": "two"})
    lie = theirs.put({"a.txt": "lie"}, "refs/heads/lie")
    theirs.git("replace", second, lie)
    (theirs.repository / "info").mkdir(exist_ok=True)
    (theirs.repository / "info/grafts").write_text(f"{second} {lie}\n")
    told = theirs.act()
    assert [found["a.txt"] for found in told["content"].values()] == ["lie", "two"]
    assert first
    tell("", tries=2, got_through=0)


def private(stage: Stage) -> tuple[Path, str]:
    """A repository that is ours alone, and a commit in it that has the secret."""
    place = stage.secret.parent / "private.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(place)], check=True, env=ENV)
    commit = stage.put({"secret.txt": SECRET}, at=place)
    owner = stage.secret.stat()
    for folder, folders, files in os.walk(place):
        for name in (folder, *(os.path.join(folder, name) for name in (*folders, *files))):
            os.chown(name, owner.st_uid, owner.st_gid)
    return place, commit


def borrowed(stage: Stage, place: Path) -> None:
    (stage.repository / "objects/info").mkdir(exist_ok=True)
    (stage.repository / "objects/info/alternates").write_text(f"{place}/objects\n")


def linked(stage: Stage, place: Path) -> None:
    for folder in (place / "objects").iterdir():
        mine = stage.repository / "objects" / folder.name
        if len(folder.name) == 2:
            for file in folder.iterdir():
                mine.mkdir(exist_ok=True)
                (mine / file.name).symlink_to(file)


def linked_folders(stage: Stage, place: Path) -> None:
    for folder in (place / "objects").iterdir():
        mine = stage.repository / "objects" / folder.name
        if len(folder.name) == 2 and not mine.exists():
            mine.symlink_to(folder)


def linked_pack(stage: Stage, place: Path) -> None:
    stage.git("repack", "-adq", at=place)
    for file in (place / "objects/pack").iterdir():
        (stage.repository / "objects/pack" / file.name).symlink_to(file)


def linked_objects(stage: Stage, place: Path) -> None:
    os.rename(stage.repository / "objects", stage.repository / "before")
    (stage.repository / "objects").symlink_to(place / "objects")


def linked_refs(stage: Stage, place: Path) -> None:
    linked(stage, place)
    (stage.repository / "refs/heads/linked").symlink_to(stage.secret)
    (stage.repository / "refs/heads/below").symlink_to(place / "refs/heads")
    (stage.repository / "packed-refs").symlink_to(stage.secret)


def linked_head(stage: Stage, place: Path) -> None:
    (stage.repository / "HEAD").unlink()
    (stage.repository / "HEAD").symlink_to(stage.secret)


BORROW = [borrowed, linked, linked_folders, linked_pack, linked_objects, linked_refs, linked_head]


@pytest.mark.proves("P5")
@pytest.mark.parametrize("borrow", BORROW, ids=lambda each: each.__name__)
def test_nothing_is_read_of_what_is_not_its_own(
    theirs: Stage, borrow: Callable[[Stage, Path], None], tell: Tell
) -> None:
    theirs.put(FILES)
    place, commit = private(theirs)
    borrow(theirs, place)
    (theirs.repository / "refs/heads/taken").write_text(f"{commit}\n")
    told = theirs.act()  # which looks for the secret in all that was told
    assert told["errors"]
    assert all("secret.txt" not in found for found in told["content"].values())
    tell("", tries=1, got_through=0)


def forged(stage: Stage) -> str:
    """A loose object whose name says something else."""
    commit = stage.put(FILES)
    blob = stage.git("rev-parse", f"{commit}:a.txt")
    file = stage.repository / "objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(zlib.compress(b"blob 3\0lie"))
    return "archive.corrupt"


def forged_index(stage: Stage) -> str:
    """A pack whose index leads from one name to the other's content."""
    commit = stage.put({"a.txt": "one", "b.txt": "lie"})
    names = sorted(stage.git("rev-parse", f"{commit}:{name}") for name in ("a.txt", "b.txt"))
    stage.git("repack", "-adq")
    (file,) = (stage.repository / "objects/pack").glob("*.idx")
    data = bytearray(file.read_bytes())
    count = struct.unpack(">I", data[8 + 255 * 4 : 8 + 256 * 4])[0]
    ids = [data[1032 + at * 20 : 1052 + at * 20].hex() for at in range(count)]
    places = [1032 + count * 24 + ids.index(name) * 4 for name in names]
    one, other = (bytes(data[place : place + 4]) for place in places)
    data[places[0] : places[0] + 4], data[places[1] : places[1] + 4] = other, one
    data[-20:] = hashlib.sha1(data[:-20]).digest()
    file.chmod(0o644)
    file.write_bytes(data)
    return "archive.corrupt"


def forged_commit(stage: Stage) -> str:
    commit = stage.put(FILES)
    file = stage.repository / "objects" / commit[:2] / commit[2:]
    tree = stage.git("rev-parse", f"{commit}^{{tree}}")
    text = f"tree {tree}\nauthor x <x> 1 +0000\ncommitter x <x> 1 +0000\n\nlie\n".encode()
    file.chmod(0o644)
    file.write_bytes(zlib.compress(b"commit %d\0" % len(text) + text))
    return "archive.corrupt"


def reftable(stage: Stage) -> str:
    stage.put(FILES)
    (stage.repository / "reftable").mkdir()
    return "archive.kind"


def partial(stage: Stage) -> str:
    stage.put(FILES)
    config(stage, "remote.origin.promisor", "true")
    config(stage, "remote.origin.url", f"ext::{stage.program('fetch')}")
    config(stage, "extensions.partialClone", "origin")
    return "archive.kind"


def shallow(stage: Stage) -> str:
    (stage.repository / "shallow").write_text(stage.put(FILES) + "\n")
    return "archive.kind"


def common(stage: Stage) -> str:
    stage.put(FILES)
    (stage.repository / "commondir").write_text(str(stage.secret.parent))
    return "archive.kind"


@pytest.mark.proves("P5")
@pytest.mark.parametrize(
    "lie", [forged, forged_index, forged_commit, reftable, partial, shallow, common], ids=lambda each: each.__name__
)
def test_what_is_not_what_it_says_or_is_elsewhere_is_refused_in_words(
    theirs: Stage, lie: Callable[[Stage], str], tell: Tell
) -> None:
    code = lie(theirs)
    told = theirs.act()
    assert code in told["errors"]
    assert "lie" not in str(told["content"].get("1", {}).get("a.txt", ""))
    tell("", tries=1, got_through=0)


@pytest.mark.proves("P5")
def test_a_commit_graph_tells_no_parents(theirs: Stage, tell: Tell) -> None:
    theirs.put(FILES)
    theirs.put({**FILES, "b": "2"}, "refs/heads/side")
    theirs.put({**FILES, "c": "3"})
    theirs.git("commit-graph", "write", "--reachable")
    file = theirs.repository / "objects/info/commit-graph"
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    data[200:260] = os.urandom(60)
    file.write_bytes(data)
    told = theirs.act()
    assert told["errors"] == []
    assert len(told["content"]) == 2
    tell("", tries=1, got_through=0)


NAMES = [
    b"..",
    b".",
    b"",
    b"a/b",
    b"/etc/x",
    b".git",
    b".GIT",
    b"git~1",
    b".git.",
    b".git ",
    b".g\xe2\x80\x8cit",
    b".svn",
    b"x" * 300,
]


@pytest.mark.proves("P5")
def test_names_that_lead_elsewhere_make_no_working_copy(theirs: Stage, tell: Tell) -> None:
    theirs.put(FILES)
    blob = theirs.git("hash-object", "-w", "--stdin", given=b"out")
    for number, name in enumerate(NAMES):
        entry = b"100644 " + name + b"\0" + bytes.fromhex(blob)
        tree = theirs.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", given=entry)
        top = b"40000 in\0" + bytes.fromhex(tree)
        theirs.commit(
            theirs.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", given=top), f"refs/heads/n{number}"
        )
    told = theirs.act()
    assert told["errors"] == ["archive.name"] * len(NAMES), "each of them, and nothing else"
    assert [found for found in told["content"].values() if found] == [FILES]
    tell("", tries=len(NAMES), got_through=0)


@pytest.mark.proves("P5")
def test_a_link_is_written_as_a_link_and_nothing_through_it(theirs: Stage, tell: Tell) -> None:
    """A tree with the same name as a link out of the working copy and as a folder."""
    blob = theirs.git("hash-object", "-w", "--stdin", given=b"out")
    out = theirs.git("hash-object", "-w", "--stdin", given=str(theirs.marks).encode())
    inner = theirs.git("hash-object", "-w", "-t", "tree", "--stdin", given=b"100644 mark\0" + bytes.fromhex(blob))
    for order in ((b"120000 d\0", out), (b"40000 d\0", inner)), ((b"40000 d\0", inner), (b"120000 d\0", out)):
        top = b"".join(head + bytes.fromhex(id_) for head, id_ in order)
        theirs.commit(theirs.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", given=top))
    told = theirs.act()
    assert told["errors"] == ["archive.name"] if len(told["content"]) == 1 else ["archive.name"] * 2
    tell("", tries=2, got_through=0)


# Writing back.


@pytest.mark.proves("P5")
def test_its_hooks_run_as_its_owner_or_not_at_all(theirs: Stage, tell: Tell) -> None:
    theirs.put(FILES)
    names = ("pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive")
    for name in names:
        if name.startswith("post-"):
            theirs.program(f"hooks/{name}", "true")
        else:
            theirs.gate(f"hooks/{name}")
    config(theirs, "core.fsmonitor", str(theirs.program("monitor", "echo")))
    config(theirs, "core.alternateRefsCommand", str(theirs.program("alternate")))
    told = theirs.act(commits=True)
    if theirs.worker == "root":
        assert (told["words"], told["committed"], told["read"]) == ([], 2, "made")
        assert (theirs.repository / "mark").read_text().split() == [str(NOBODY)] * (
            (theirs.repository / "mark").read_text().count("\n")
        )
        assert theirs.git("show", "refs/heads/main:made.txt") == "made"
    else:
        assert told["errors"] == ["archive.owner"]
        assert not (theirs.repository / "mark").exists()
    tell("", tries=len(names), got_through=0)


@pytest.mark.proves("P5")
def test_a_hook_that_refuses_is_heard_and_sees_neither_network_nor_files_of_ours(theirs: Stage, tell: Tell) -> None:
    theirs.put(FILES)
    looks = f"ls /proc/net/tcp /root /home {theirs.secret.parent}; cat /proc/net/dev; exit 1"
    theirs.program("hooks/pre-receive", f"(echo not today; {looks}) >&2; exit 1")
    told = theirs.act(commits=True)
    if theirs.worker == "root":
        assert told["errors"] == ["archive.gate"], "it is ended when it looks for what it is not shown"
        assert "the repository's hook pre-receive looks for " in told["words"][0]
        assert "eth0" not in told["words"][0]
    else:
        assert told["errors"] == ["archive.owner"]
    tell("", tries=3, got_through=0)


@pytest.mark.proves("P5")
def test_branches_that_lie_elsewhere_are_not_written_to(theirs: Stage, tell: Tell) -> None:
    theirs.put(FILES)
    place, _ = private(theirs)
    before = (place / "refs/heads/main").read_text()
    tip = (theirs.repository / "refs/heads/main").read_text()
    (theirs.repository / "packed-refs").write_text(f"# pack-refs with: sorted\n{tip.strip()} refs/heads/main\n")
    (theirs.repository / "refs/heads/main").unlink()
    (theirs.repository / "refs/heads").rmdir()
    (theirs.repository / "refs/heads").symlink_to(place / "refs/heads")
    told = theirs.act(commits=True)
    assert told["errors"]
    assert not told.get("committed")
    assert (place / "refs/heads/main").read_text() == before
    tell("", tries=1, got_through=0)
