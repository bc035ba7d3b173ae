"""Archives behind a server that asks who we are: the password is in one file, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.errors import BadInput, CustodyError, NotFound, Unavailable, Unsafe
from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.stores import Store, open_store
from custody.workflows.archives.credentials import read_credentials, with_credentials
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.port import LINEAGE
from custody.workflows.archives.table import SYSTEMS, Archives
from custody.workflows.commands.archive import app
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from custody.workflows.makers import TASK_KIND, task_key
from rig.apache import Apache
from rig.need import need
from rig.svn import Repository, Subversion

PASSWORD = "open sesame, please"
COPIES = """
- name: copy
  script: cp notes.txt copy.txt; custody archive commit -m "a copy" copy.txt
"""
AUTHZ = "[/]\nann = rw\n* =\n\n[/vault]\nann =\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as opened:
        yield opened


def written(folder: Path, text: str = f"ann\n{PASSWORD}\n", mode: int = 0o600) -> Path:
    file = folder / "credentials"
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.fixture(params=["svn", "http"])
def closed(request: pytest.FixtureRequest) -> Repository:
    """A repository for ann alone: behind svnserve with rules for paths, or Apache with a list of users."""
    if request.param == "svn":
        server: Subversion = request.getfixturevalue("svn")
        made = server.fresh_repository()
        (made.path / "conf" / "passwd").write_text(f"[users]\nann = {PASSWORD}\n")
        with (made.path / "conf" / "svnserve.conf").open("a") as settings:
            settings.write("authz-db = authz\n")
        (made.path / "conf" / "authz").write_text(AUTHZ)
        return Repository(made.path, made.url, PASSWORD)
    apache: Apache = request.getfixturevalue("apache")
    apache.let_in("ann", PASSWORD)
    made = apache.fresh_repository()
    return Repository(made.path, made.url.replace("/svn/", "/closed/"), PASSWORD)


def test_a_closed_archive_is_added_planned_run_and_committed_to(
    store: Store, closed: Repository, tmp_path: Path
) -> None:
    need("bubblewrap")
    file = written(tmp_path)
    words = ["add", "closed", closed.url, "--credentials", str(file), "--store", store.url]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    kept = Archives(store).get("closed")
    assert kept.location == f"{closed.url}#credentials={file}"

    closed.commit("first", {"_workflows/a.yaml": COPIES, "notes.txt": "hello"})
    assert reconcile(store, kept) == 1
    shop = open_shop(store, WorkflowConfig(), tmp_path)
    Worker(store, Serving(tuple(kinds(shop))), Settings(lease=30.0)).run_until_quiet()
    shop.sandboxes.__exit__(None, None, None)
    job = store.queue.by_key(TASK_KIND, task_key("closed", 1, "commit", "copy"))
    assert job is not None
    log = (shop.kept / job.facts["log"]).read_text()
    assert job.state == "done", log
    assert closed.look("cat", "copy.txt") == "hello"
    assert closed.look("author", "-r", "2").strip() == "ann", "as whom the file says"
    assert closed.look("propget", "--revprop", "-r", "2", LINEAGE) == "copy"

    told = json.dumps([[event.subject, dict(event.detail)] for event in store.records.since(0, 10_000)], default=str)
    assert PASSWORD not in told + said.output + log + repr(Archives(store).open(kept))
    for file_ in tmp_path.rglob("*"):
        if file_.is_file() and file_ != file:
            assert PASSWORD.encode() not in file_.read_bytes(), f"the password is in {file_}"


def test_without_the_password_or_with_another_it_is_told_as_such_and_nothing_is_given_away(
    closed: Repository, tmp_path: Path, own_store: Store
) -> None:
    with pytest.raises(Unavailable) as nobody:
        SYSTEMS["svn"](closed.url, own_store).youngest()
    assert nobody.value.code in ("archive.forbidden", "archive.unreachable")

    file = written(tmp_path, "ann\nwrong password\n")
    archive = SYSTEMS["svn"](with_credentials(closed.url, file), own_store)
    with pytest.raises(Unavailable) as caught:
        archive.youngest()
    assert caught.value.code == "archive.forbidden"
    assert "wrong password" not in f"{caught.value!r} {caught.value} {caught.value.facts}"

    written(tmp_path)  # a new password needs no restart: it is read when the archive is opened
    assert SYSTEMS["svn"](with_credentials(closed.url, file), own_store).youngest() == 0


def test_paths_that_the_server_keeps_from_us_stay_closed(svn: Subversion, tmp_path: Path, own_store: Store) -> None:
    made = svn.fresh_repository()
    made.commit("both", {"vault/secret.txt": "s", "open.txt": "o"})
    with (made.path / "conf" / "svnserve.conf").open("a") as settings:
        settings.write("authz-db = authz\n")
    (made.path / "conf" / "authz").write_text(AUTHZ)
    file = written(tmp_path, f"ann\n{made.password}\n")
    archive = SYSTEMS["svn"](with_credentials(made.url, file), own_store)
    assert archive.read(1, "open.txt") == b"o"
    with pytest.raises(CustodyError):
        archive.read(1, "vault/secret.txt")


@pytest.mark.parametrize(
    ("text", "mode", "error", "says"),
    [
        (f"ann\n{PASSWORD}\n", 0o644, Unsafe, "others can read"),
        ("ann\n", 0o600, BadInput, "name on its first line"),
        (f"ann\n{PASSWORD}\nmore\n", 0o600, BadInput, "name on its first line"),
        (f"\n{PASSWORD}\n", 0o600, BadInput, "name on its first line"),
        (f"an\0n\n{PASSWORD}\n", 0o600, BadInput, "name on its first line"),
    ],
)
def test_a_file_that_is_not_private_or_not_in_its_form_is_refused_without_telling_what_is_in_it(
    tmp_path: Path, text: str, mode: int, error: type[CustodyError], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        read_credentials(written(tmp_path, text, mode))
    assert PASSWORD not in f"{caught.value!r} {caught.value}"


def test_a_link_is_not_followed_and_a_missing_file_may_still_come(tmp_path: Path, own_store: Store) -> None:
    real = written(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(real)
    with pytest.raises(NotFound):
        read_credentials(link)
    with pytest.raises(Unavailable, match="on this machine"):
        SYSTEMS["svn"](f"svn://127.0.0.1:1/x#credentials={tmp_path / 'nothing'}", own_store)


def test_a_repository_on_this_machine_asks_for_no_password(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="asks for no password"):
        with_credentials(str(tmp_path), written(tmp_path))
