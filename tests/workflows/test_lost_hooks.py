"""Hooks that never told: their revisions are found by asking the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from custody.kernel.stores import open_store
from custody.workflows.archives import hooks
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from rig.program import tool
from rig.svn import Repository, Subversion


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'custody.db'}"


def told(repository: Repository, tmp_path: Path) -> Path:
    """A hook that notes what it was told of."""
    file = tmp_path / "told"
    script = tmp_path / "note"
    script.write_text(f'#!/bin/sh\necho "$@" >> {file}\n')
    script.chmod(0o755)
    hooks.install(repository.path, [str(script)])
    return file


def test_revisions_that_were_loaded_are_found_although_no_hook_ran(
    svn: Subversion, repository: Repository, tmp_path: Path, url: str
) -> None:
    for number in range(5):
        repository.commit(f"r{number}", {"a.txt": str(number)})
    dump = subprocess.run([tool("svnadmin"), "dump", "-q", str(repository.path)], capture_output=True, check=True)
    copy = svn.fresh_repository()
    file = told(copy, tmp_path)
    subprocess.run([tool("svnadmin"), "load", "-q", str(copy.path)], input=dump.stdout, check=True)
    assert not file.exists(), "Subversion runs no hooks while loading"
    with open_store(url) as store:
        Archives(store).add("copy", "svn", str(copy.path), "ada")
        assert reconcile(store, Archives(store).get("copy")) == 5


def test_a_hook_killed_before_it_could_tell_costs_nothing_but_time(
    repository: Repository, tmp_path: Path, url: str
) -> None:
    """As when the server's process is killed after the commit: the revision is there, and nobody was told."""
    with open_store(url) as store:
        Archives(store).add("proj", "svn", str(repository.path), "ada")
        repository.hook("post-commit", "#!/bin/sh\nkill -KILL $PPID\n")
        file = told(repository, tmp_path)
        try:
            repository.commit("first", {"a.txt": "a"})
        except RuntimeError:
            pass  # the committer may be told that something went wrong; the revision stands
        assert repository.look("youngest").strip() == "1"
        assert not file.exists()
        assert reconcile(store, Archives(store).get("proj")) == 1
