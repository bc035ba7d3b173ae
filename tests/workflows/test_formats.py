"""Repositories of a format, or of a kind, that is not known: refused in words, as git and Subversion themselves do, and
told as long as it is so."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.cli.doctor.report import examine
from custody.errors import CustodyError, Refused
from custody.kernel.stores import Store
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.git.git_format import Unreadable, settings, wrong_format
from custody.workflows.archives.svn.svn import SvnArchive
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.kinds import reconcile_all
from workflows.repositories import GitRepository, SvnRepository


def version(number: str) -> str:
    return f"[core]\n\trepositoryformatversion = {number}\n\tbare = true\n"


def extension(number: int, line: str) -> str:
    return f"[core]\n\trepositoryformatversion = {number}\n[extensions]\n\t{line}\n"


KNOWN = [
    version("0"),
    version("1"),
    version("-1"),
    version("0x1"),
    version(" 1 "),
    version('"1"'),
    version("1 # one"),
    "",
    "[core]\n",
    "core\n",
    extension(0, "noop = x"),
    extension(1, "noop = x"),
    extension(1, "noop-v1 = x"),
    extension(1, "objectformat = sha1"),
    extension(1, "ObjectFormat = sha1"),
    extension(0, "worktreeconfig = true"),
    extension(1, "worktreeconfig = true"),
    extension(0, "preciousobjects = true"),
    extension(1, "preciousobjects = true"),
    extension(0, "unknown = 1"),
    version("99") + version("0"),
    '[remote "repositoryformatversion = 99"]\n\turl = x\n',
    '[core "x"]\n\trepositoryformatversion = 99\n',
    "; repositoryformatversion = 99\n[core]\n",
    '[alias]\n\tx = "a # b" ; c\n\ty = \\\n99\n',
]
UNKNOWN = [
    version("2"),
    version("99"),
    version("abc"),
    version(""),
    version("1k"),
    version("0") + version("99"),
    "[core\n",
    "[core] repositoryformatversion = 99\n",
    "[core]\n\trepositoryformatversion = \\\n99\n",
    "[CORE]\nRepositoryFormatVersion=2",
    '[core]\n\tx = "a\n',
    "[core]\n\tx = a\\q\n",
    extension(0, "noop-v1 = x"),
    extension(0, "objectformat = sha1"),
    extension(0, "objectformat = sha256"),
    extension(1, "objectformat = md5"),
    extension(1, "unknown = 1"),
    extension(1, "unknown"),
    extension(1, "refstorage = reftable"),
    extension(1, "compatobjectformat = sha256"),
]
OURS = {  # where we know better than the git that may be installed
    extension(0, "refstorage = reftable"): "archive.format",  # git before 2.45 does not know it, and reads on
    extension(0, "refstorage = files"): "archive.format",
    extension(0, "compatobjectformat = sha256"): "archive.format",
    extension(0, "relativeworktrees = true"): "archive.format",
    extension(1, "refstorage = files"): "",  # the same does not know it, and refuses
    extension(1, "relativeworktrees = true"): "",  # says nothing of what is read
    extension(1, "partialclone = origin"): "archive.kind",  # git would fetch what is missing
    extension(0, "partialclone = origin"): "archive.kind",
}


def code(ask: Callable[[], object]) -> str:
    try:
        ask()
    except Refused as error:
        return error.code
    return ""


@pytest.fixture
def tip(proj_git: GitRepository) -> str:
    made = proj_git.commit("f", "1")
    proj_git.push()
    return made


@pytest.mark.parametrize("config", [*KNOWN, *UNKNOWN, *OURS], ids=lambda config: repr(config)[:60])
def test_a_repository_is_read_where_git_reads_it(
    own_store: Store, proj_git: GitRepository, tip: str, config: str
) -> None:
    (proj_git.path / "config").write_text(config)
    found = code(GitArchive(proj_git.path, own_store).youngest)
    if config in OURS:
        assert found == OURS[config]
        return
    argv = ["git", f"--git-dir={proj_git.path}", "rev-parse", "refs/heads/main"]
    git = subprocess.run(argv, capture_output=True, text=True)
    reads = git.returncode == 0 and git.stdout.strip() == tip
    assert reads == (config in KNOWN), git.stderr
    assert (found == "") == reads
    if not reads:
        assert found == ("archive.kind" if "reftable" in config else "archive.format")


def test_values_are_what_git_says_they_are(proj_git: GitRepository) -> None:
    text = (
        '[a]\n\tb = "x # y" z ; c\n\tC\n\td = \\\n  e\\"f\n[g]h=i\n[j "k"]\n\tl = m\n[n.o]\n\tp = "q\\n"r\\\\\n'
        "[s]\r\n\tt = u\r\n\tv = w \\\r\n x\r\n"
    )
    (proj_git.path / "odd").write_bytes(text.encode())
    argv = ["git", "config", "--file", str(proj_git.path / "odd"), "--list", "-z"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split("\0")
    told = [one.partition("\n") for one in said if one]
    theirs = [(name, value if mark else "true") for name, mark, value in told if name != "j.k.l"]
    ours = [(name, value) for name, value in settings(text)]
    assert ours == theirs


@pytest.mark.parametrize("text", ["[a]\n= 1\n", "[a]\nb = \\q\n", '[a]\nb = "c\n', "[a\n", "[a]\nb c\n"])
def test_a_line_that_git_does_not_understand_is_named(proj_git: GitRepository, text: str) -> None:
    (proj_git.path / "odd").write_text(text)
    argv = ["git", "config", "--file", str(proj_git.path / "odd"), "--list"]
    assert subprocess.run(argv, capture_output=True).returncode != 0
    with pytest.raises(Unreadable):
        list(settings(text))
    wrong = wrong_format(text.encode())
    assert wrong is not None
    assert "its config cannot be read: line" in wrong[0]


def test_one_that_becomes_unknown_is_told_of_and_taken_up_again(
    own_store: Store, proj_git: GitRepository, tip: str
) -> None:
    Archives(own_store).add("proj", "git", str(proj_git.path), "ada")
    reconcile_all(own_store)
    before = (proj_git.path / "config").read_text()
    (proj_git.path / "config").write_text(version("99"))
    proj_git.commit("f", "2")
    (proj_git.path / "refs/heads/main").write_text(proj_git.git("rev-parse", "HEAD") + "\n")
    reconcile_all(own_store)
    listed = CliRunner().invoke(app, ["list", "--json", "--store", own_store.url]).output
    found = "\n".join(finding.what for finding in examine(own_store.url, None))
    for told in (listed, found):
        assert "its format version is 99, and 1 is the newest that we know" in told
    assert Archives(own_store).get("proj").last == 1
    (proj_git.path / "config").write_text(before)
    shutil.copytree(proj_git.clone / ".git/objects", proj_git.path / "objects", dirs_exist_ok=True)
    reconcile_all(own_store)
    assert (Archives(own_store).get("proj").last, Archives(own_store).out_of_reach("proj")) == (2, "")


def changed(file: str, text: str | None) -> Callable[[Path], None]:
    def change(repository: Path) -> None:
        place = repository / file
        place.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            place.unlink()
        else:
            place.write_text(text.replace("TIP", (repository / "refs/heads/main").read_text().strip()))

    return change


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("HEAD", "TIP\n", ""),
        ("HEAD", "ref: refs/heads/unborn\n", ""),
        ("HEAD", "junk\n", "its HEAD names neither"),
        ("HEAD", "", "its HEAD names neither"),
        ("HEAD", "ref: main\n", "its HEAD names neither"),
        ("HEAD", None, "there is no repository here"),
        ("shallow", "TIP\n", "it is shallow"),
        ("info/grafts", "TIP\n", ""),
        ("refs/replace/TIP", "TIP\n", ""),
        ("objects/info/alternates", "/nowhere\n", "it borrows objects of another repository"),
        ("objects/info/alternates", "../../other.git/objects\n", "it borrows objects of another repository"),
        ("objects/info/alternates", "../objects\n", "it borrows objects of another repository"),
        ("objects/info/http-alternates", "http://127.0.0.1:1/objects\n", ""),
        ("commondir", "../x\n", "it is the folder of a worktree"),
    ],
)
def test_each_state_of_a_git_repository_is_read_or_refused_in_words(
    own_store: Store, proj_git: GitRepository, tip: str, file: str, text: str | None, words: str
) -> None:
    changed(file, text)(proj_git.path)
    done = CliRunner().invoke(app, ["add", "proj", str(proj_git.path), "--no-hook", "--store", own_store.url])
    if words:
        assert isinstance(done.exception, Refused | CustodyError)
        assert words in done.exception.message
        assert done.exception.hint
        assert Archives(own_store).list() == ()
    else:
        assert done.exit_code == 0, done.exception
        archive = Archives(own_store).opened("proj")
        assert (archive.youngest(), archive.main(1), archive.read(1, "f")) == (1, 1, b"1")


def test_working_copies_worktrees_and_bundles_are_no_repositories(
    own_store: Store, proj_git: GitRepository, tip: str, tmp_path: Path
) -> None:
    proj_git.git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "two")
    proj_git.git("bundle", "create", "-q", str(tmp_path / "x.bundle"), "main")
    said = {}
    for place in (proj_git.clone, tmp_path / "tree", tmp_path / "x.bundle", proj_git.clone / ".git/worktrees/tree"):
        done = CliRunner().invoke(app, ["add", "proj", str(place), "--no-hook", "--store", own_store.url])
        assert isinstance(done.exception, CustodyError)
        said[place.name] = f"{done.exception.message}; {done.exception.hint}"
    assert "this is a working copy: name the repository itself" in said["clone"]
    assert "this is a working copy" in said[("tree")] or "no repository" in said["tree"]
    assert "is a file, no repository; of a bundle, `git clone --bare" in said["x.bundle"]
    assert Archives(own_store).list() == ()
    done = CliRunner().invoke(app, ["add", "proj", str(proj_git.clone / ".git"), "--no-hook", "--store", own_store.url])
    assert done.exit_code == 0, "the repository of a working copy is one"


DB = "8\nlayout sharded 1000\naddressing logical\n"


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("format", "99\n", "its format is '99', and we know 3 and 5"),
        ("format", "6\n", "its format is '6'"),
        ("format", "2\n", "its format is '2'"),
        ("format", "abc\n", "its format is 'abc'"),
        ("format", "\n", "its format is ''"),
        ("format", "3\n", ""),
        ("format", "5\n", ""),
        ("db/format", DB, ""),
        ("db/format", DB.replace("8", "99"), "the format of its db is '99', and we know 1 to 8"),
        ("db/format", DB.replace("8", "9"), "the format of its db is '9'"),
        ("db/format", DB.replace("8", "0"), "the format of its db is '0'"),
        ("db/format", DB.replace("8", "abc"), "the format of its db is 'abc'"),
        ("db/format", DB.replace("8", ""), "the format of its db is ''"),
        ("db/format", DB.replace("sharded 1000", "odd"), "its db has an option that we do not know: 'layout odd'"),
        ("db/format", DB.replace("logical", "odd"), "its db has an option that we do not know: 'addressing odd'"),
        ("db/format", "8\nunknown thing\n", "its db has an option that we do not know: 'unknown thing'"),
        ("db/fsfs.conf", "[odd\n", "a setting of the repository cannot be read: db/fsfs.conf"),
        (
            "db/fsfs.conf",
            "[rep-sharing]\nenable-rep-sharing = odd\n",
            "a setting of the repository is none: db/fsfs.conf",
        ),
        ("db/fsfs.conf", "", ""),
        ("db/fs-type", "fsx\n", "its file system is 'fsx'"),
    ],
)
def test_a_subversion_repository_is_read_where_subversion_reads_it(
    own_store: Store, proj_svn: SvnRepository, file: str, text: str, words: str
) -> None:
    proj_svn.mucc("one", "mkdir", "a")
    (proj_svn.path / file).chmod(0o644)
    (proj_svn.path / file).write_text(text)
    theirs = subprocess.run(["svnlook", "tree", str(proj_svn.path)], capture_output=True, text=True)
    assert (theirs.returncode == 0) == (words == ""), theirs.stderr
    done = CliRunner().invoke(app, ["add", "proj", str(proj_svn.path), "--no-hook", "--store", own_store.url])
    if words:
        assert isinstance(done.exception, CustodyError), done.output
        assert words in done.exception.message
        assert done.exception.hint
        if "format" in file:
            assert done.exception.code == "archive.format"
            assert code(SvnArchive(str(proj_svn.path)).youngest) == "archive.format"
    else:
        assert done.exit_code == 0, done.exception
