"""Real repositories for the workflow tests; a missing tool is a skip on a laptop and an error in CI."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.kernel.stores import Store, open_store
from rig.need import need as need_service
from rig.svn import Repository
from workflows.desk import Desk, sitting_at
from workflows.repositories import GitRepository, SvnRepository, need, wait_for

SEED = b"""\
- name: indexing
  depends:
    - PREV
    # * PREV = this task in the previous revision.
    # * PREV:task-name = the named task in the previous revision
- name: build-PDF
  depends:
    - indexing
  cancels:
    - PREV
"""


@pytest.fixture(scope="session")
def seed_workflow() -> bytes:
    """The worked example of the document this application comes from, word for word."""
    return SEED


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[Store]:
    """For tests that look at an archive without anybody who works."""
    with open_store(f"sqlite:///{tmp_path / 'own.db'}") as store:
        yield store


@pytest.fixture
def proj_svn(tmp_path: Path) -> SvnRepository:
    need("svn", "subversion")
    path = tmp_path / "repos" / "proj"
    path.parent.mkdir()
    subprocess.run(["svnadmin", "create", str(path)], check=True)
    return SvnRepository(path)


@pytest.fixture
def svn_server(proj_svn: SvnRepository) -> Iterator[str]:
    """The same repository behind svnserve, for ann with the password `open sesame`."""
    settings = "[general]\nanon-access = none\nauth-access = write\npassword-db = passwd\n"
    (proj_svn.path / "conf" / "svnserve.conf").write_text(settings)
    (proj_svn.path / "conf" / "passwd").write_text("[users]\nann = open sesame\n")
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    argv = ["svnserve", "-d", "--foreground", "--listen-host", "127.0.0.1", "--listen-port", str(port)]
    server = subprocess.Popen([*argv, "-r", str(proj_svn.path.parent)])
    try:
        wait_for(port)
        yield f"svn://127.0.0.1:{port}/proj"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def proj_git(tmp_path: Path) -> GitRepository:
    need("git", "git")
    bare, clone = tmp_path / "bare.git", tmp_path / "clone"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    subprocess.run(["git", "clone", "-q", str(bare), str(clone)], check=True, capture_output=True)
    repository = GitRepository(bare, clone)
    for name, value in (("user.name", "Ann"), ("user.email", "ann@example.org"), ("push.default", "current")):
        repository.git("config", name, value)
    repository.git("checkout", "-q", "-b", "main")
    return repository


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest, tmp_path: Path, repository: Repository) -> Iterator[Desk]:
    """With each store."""
    need_service("bubblewrap")
    local = f"sqlite:///{tmp_path / 'custody.db'}"
    url = local if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with sitting_at(url, repository, tmp_path) as made:
        yield made


@pytest.fixture
def one_desk(tmp_path: Path, repository: Repository) -> Iterator[Desk]:
    """Where the store makes no difference."""
    need_service("bubblewrap")
    with sitting_at(f"sqlite:///{tmp_path / 'custody.db'}", repository, tmp_path) as made:
        yield made
