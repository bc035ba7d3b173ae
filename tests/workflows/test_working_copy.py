"""What a task finds in its working copy: the bytes that were committed, compared with what git and Subversion write."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest

from custody.kernel.stores import Store
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.definition.task import SHELLS
from workflows.repositories import GitRepository, SvnRepository

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "tasks.md"
KEYWORDS = b"$Id$ $Rev: 0 $ $Author$ $Format:%H$\n"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1234\n"
ATTRIBUTES = (
    b"crlf.txt text eol=crlf\nlf.txt text eol=lf\nauto.txt text=auto\nid.txt ident\nsubst.txt export-subst\n"
    b"left-out.txt export-ignore\n*.big filter=lfs diff=lfs merge=lfs -text\nutf16.txt working-tree-encoding=UTF-16\n"
)


def table(title: str) -> dict[str, list[str]]:
    """A table of the page: its first column, and the others."""
    text = PAGE.read_text().split(f"| {title} |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    return {re.sub(r"`", "", row[0]): row[1:] for row in rows}


def told(found: dict[str, object], theirs: dict[str, object], name: str) -> str:
    return "the same" if found.get(name) == theirs.get(name) else "differs"


def content(folder: Path) -> dict[str, object]:
    """Every path: a link's target, a file's bytes and whether it is a program, or a folder."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if ".git" in path.relative_to(folder).parts and path.name != ".gitattributes":
            continue
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_dir():
            found[name] = "folder"
        else:
            found[name] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found


def git(*words: str, given: bytes | None = None) -> bytes:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *words], capture_output=True, check=True, input=given, env=env).stdout


@pytest.fixture
def committed(proj_git: GitRepository) -> dict[str, object]:
    """What is put into a commit, byte for byte, whatever the attributes would have made of it."""
    files: dict[str, tuple[str, bytes]] = {
        ".gitattributes": ("100644", ATTRIBUTES),
        "crlf.txt": ("100644", b"one\ntwo\n"),
        "lf.txt": ("100644", b"one\r\n"),
        "auto.txt": ("100644", b"one\r\ntwo\n"),
        "id.txt": ("100644", KEYWORDS),
        "subst.txt": ("100644", KEYWORDS),
        "left-out.txt": ("100644", b"x"),
        "film.big": ("100644", POINTER),
        "utf16.txt": ("100644", "é\n".encode()),
        "program": ("100755", b"#!/bin/sh\n"),
        "link": ("120000", b"lf.txt"),
        "nowhere": ("120000", b"../../etc/passwd"),
    }
    lines = []
    for name, (mode, data) in files.items():
        id_ = (
            git("-C", str(proj_git.clone), "hash-object", "-w", "--stdin", "--no-filters", given=data).decode().strip()
        )
        lines.append(f"{mode} {id_}\t{name}\n")
    lines.append(f"160000 {'1' * 40}\tmodule\n")
    proj_git.git("read-tree", "--empty")
    git("-C", str(proj_git.clone), "update-index", "--index-info", given="".join(lines).encode())
    tree = proj_git.git("write-tree")
    proj_git.git("update-ref", "refs/heads/main", proj_git.git("commit-tree", tree, "-m", "odd"))
    proj_git.push("origin", "main")
    found: dict[str, object] = {}
    for name, (mode, data) in files.items():
        found[name] = f"-> {data.decode()}" if mode == "120000" else (data, mode == "100755")
    return found | {"module": "folder"}


def test_a_working_copy_of_git_is_what_was_committed_byte_for_byte(
    own_store: Store, proj_git: GitRepository, committed: dict[str, object], tmp_path: Path
) -> None:
    archive = GitArchive(proj_git.path, own_store)
    archive.export(archive.youngest(), tmp_path / "ours")
    assert content(tmp_path / "ours") == committed


def test_the_page_says_where_git_writes_something_else(
    own_store: Store, proj_git: GitRepository, committed: dict[str, object], tmp_path: Path
) -> None:
    settings = ("-c", "filter.lfs.smudge=", "-c", "filter.lfs.required=false")
    git(*settings, "clone", "-q", str(proj_git.path), str(tmp_path / "checkout"))
    packed = git("-C", str(proj_git.path), "archive", "main")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(tmp_path / "archive", filter="fully_trusted")
    checkout, archived = content(tmp_path / "checkout"), content(tmp_path / "archive")
    names = {
        "eol=crlf": "crlf.txt",
        "eol=lf": "lf.txt",
        "text=auto": "auto.txt",
        "ident": "id.txt",
        "working-tree-encoding": "utf16.txt",
        "export-subst": "subst.txt",
        "export-ignore": "left-out.txt",
        "LFS pointer": "film.big",
        "submodule": "module",
        "program": "program",
        "link": "link",
        "link that leads elsewhere": "nowhere",
    }
    found = {what: [told(committed, checkout, name), told(committed, archived, name)] for what, name in names.items()}
    assert {what: row[1:3] for what, row in table("git").items()} == found


def test_the_page_says_how_each_shell_is_started() -> None:
    assert {name: row[0] for name, row in table("shell").items()} == {
        name: f"`{shlex.join(argv)}`" for name, argv in SHELLS.items()
    }


@pytest.fixture
def svn_committed(proj_svn: SvnRepository) -> dict[str, object]:
    files = {
        "id.txt": KEYWORDS,
        "native.txt": b"one\ntwo\n",
        "crlf.txt": b"one\r\ntwo\r\n",
        "lf.txt": b"one\n",
        "odd.txt": b"one\ntwo\n",
        "program": b"#!/bin/sh\n",
        "link": b"link id.txt",
        "special.txt": b"no link\n",
        "binary.bin": b"\x00\r\n$Id$\n",
        "locked.txt": b"x",
    }
    words = []
    for name, data in files.items():
        draft = proj_svn.path.parent / f"draft-{name}"
        draft.write_bytes(data)
        words += ["put", str(draft), name]
    properties = {
        "id.txt": [("svn:keywords", "Id Rev Author")],
        "native.txt": [("svn:eol-style", "native")],
        "crlf.txt": [("svn:eol-style", "CRLF")],
        "lf.txt": [("svn:eol-style", "LF")],
        "odd.txt": [("svn:eol-style", "CRLF")],
        "program": [("svn:executable", "*")],
        "link": [("svn:special", "*")],
        "special.txt": [("svn:special", "*")],
        "locked.txt": [("svn:needs-lock", "*")],
        "binary.bin": [("svn:mime-type", "application/octet-stream")],
        "d": [("svn:externals", f"{proj_svn.url}/id.txt there.txt")],
    }
    sets = [
        word for name, every in properties.items() for key, value in every for word in ("propset", key, value, name)
    ]
    proj_svn.mucc("odd", "mkdir", "d", *words, *sets)
    found: dict[str, object] = {name: (data, name == "program") for name, data in files.items()}
    return found | {"link": "-> id.txt", "d": "folder"}


@pytest.mark.parametrize("where", ["here", "server"])
def test_a_working_copy_of_subversion_is_what_was_committed_byte_for_byte(
    request: pytest.FixtureRequest,
    proj_svn: SvnRepository,
    svn_committed: dict[str, object],
    tmp_path: Path,
    where: str,
) -> None:
    if where == "server":
        archive = SvnArchive(request.getfixturevalue("svn_server"), username="ann", password="open sesame")
    else:
        archive = SvnArchive(str(proj_svn.path))
    archive.export(1, tmp_path / "ours")
    if where == "server":  # as the page says: its client knows no other way
        svn_committed["odd.txt"] = (b"one\r\ntwo\r\n", False)
    assert content(tmp_path / "ours") == svn_committed


def test_the_page_says_where_subversion_writes_something_else(
    proj_svn: SvnRepository, svn_committed: dict[str, object], tmp_path: Path
) -> None:
    for verb in ("checkout", "export"):
        argv = ["svn", verb, "-q", "--native-eol", "CRLF"] if verb == "export" else ["svn", verb, "-q"]
        subprocess.run([*argv, proj_svn.url, str(tmp_path / verb)], check=True, capture_output=True)
    checkout, exported = content(tmp_path / "checkout"), content(tmp_path / "export")
    names = {
        "svn:keywords": "id.txt",
        "svn:eol-style native": "native.txt",
        "svn:eol-style CRLF": "crlf.txt",
        "svn:eol-style LF": "lf.txt",
        "svn:eol-style CRLF, committed with others": "odd.txt",
        "svn:executable": "program",
        "svn:special, a link": "link",
        "svn:special, no link": "special.txt",
        "svn:externals": "d/there.txt",
        "svn:needs-lock": "locked.txt",
        "svn:mime-type": "binary.bin",
    }
    found = {
        what: [told(svn_committed, checkout, name), told(svn_committed, exported, name)] for what, name in names.items()
    }
    assert {what: row[1:3] for what, row in table("Subversion").items()} == found
