"""Notices over HTTP: durable, for those who may, and from a hook that knows nothing and never fails a committer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from custody.errors import BadInput
from custody.kernel.access.tokens import Tokens
from custody.kernel.model.machine import PLAIN
from custody.kernel.stores import Store, open_store
from custody.web.app import Options, build_app
from custody.workflows.archives import hook_spool, hooks
from custody.workflows.archives.git.git import GitArchive
from custody.workflows.archives.notices import reconcile
from custody.workflows.archives.table import Archives
from rig.program import free_port
from rig.svn import Repository
from workflows.desk import until
from workflows.repositories import GitRepository


@pytest.fixture
def store(tmp_path: Path, repository: Repository) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as opened:
        Archives(opened).add("proj", "svn", str(repository.path), "ada")
        yield opened


def client(store: Store, role: str, collection: str = "proj") -> TestClient:
    archives = [collection] if role == "hook" else []
    secret = Tokens(store).create(f"{role}-{collection}", [role], [collection], 1, "ada", archives)[1]
    headers = {"Authorization": f"Bearer {secret}"}
    return TestClient(
        build_app(store, Options(b"0" * 32, machines=PLAIN)), base_url="http://127.0.0.1", headers=headers
    )


@pytest.mark.parametrize(
    ("role", "collection", "body", "status", "last"),
    [
        ("hook", "proj", {"revision": 3}, 202, 3),
        ("operator", "proj", {"revision": 3}, 202, 3),
        ("hook", "other", {"revision": 3}, 404, 0),
        ("reader", "proj", {"revision": 3}, 403, 0),
        ("depositor", "proj", {"revision": 3}, 403, 0),
        ("hook", "proj", {"revision": 0}, 422, 0),
        ("hook", "proj", {"revision": "x"}, 422, 0),
        ("hook", "proj", {"revision": 1, "more": 1}, 422, 0),
        ("hook", "proj", {}, 202, 2),
    ],
)
def test_who_may_tell_of_what(
    store: Store, repository: Repository, role: str, collection: str, body: dict[str, Any], status: int, last: int
) -> None:
    for name in ("a", "b", "c") if "revision" in body else ("a", "b"):
        repository.commit(name, {name: name})
    answer = client(store, role, collection).post("/api/v1/archives/proj/notify", json=body)
    assert (answer.status_code, Archives(store).get("proj").last) == (status, last)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({}, 202),
        ({"content": b""}, 202),
        ({"content": b"", "headers": {"Content-Type": "application/json"}}, 202),
        ({"content": b"", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}, 202),  # curl -d ''
        ({"json": {}}, 202),
        ({"json": {"revision": None}}, 202),
        ({"json": []}, 422),
        ({"content": b"look"}, 422),
        ({"content": b" ", "headers": {"Content-Type": "application/json"}}, 400),
        ({"data": {"revision": "1"}}, 422),
    ],
)
def test_a_hook_that_sends_nothing_asks_to_look(
    store: Store, repository: Repository, how: dict[str, Any], status: int
) -> None:
    """`curl -X POST` from a hook of one's own says all there is to say; what says something odd is not taken for it."""
    repository.commit("a", {"a": "a"})
    answer = client(store, "hook").post("/api/v1/archives/proj/notify", **how)
    assert (answer.status_code, Archives(store).get("proj").last) == (status, int(status == 202)), answer.text


def test_late_and_repeated_notices_have_nothing_left_to_do(store: Store, repository: Repository) -> None:
    for number in range(4):
        repository.commit("more", {"n": str(number)})
    asking = client(store, "hook")
    told = [asking.post("/api/v1/archives/proj/notify", json={"revision": n}).json()["new"] for n in (3, 1, 2, 3, 4)]
    assert told == [3, 0, 0, 0, 1]


@pytest.mark.kills
def test_the_hook_tells_the_api_with_an_empty_environment_and_spools_while_it_is_down(
    store: Store, repository: Repository, tmp_path: Path
) -> None:
    secret = Tokens(store).create("hook", ["hook"], ["proj"], 1, "ada", ["proj"])[1]
    hook = hooks.install_for_api(repository.path, f"http://127.0.0.1:{free_port()}", "proj", secret)
    assert secret not in hook.read_text()
    assert (repository.path / hooks.API).stat().st_mode & 0o777 == 0o600
    assert repository.commit("nobody listens", {"a.txt": "a"}) == 1
    until(lambda: [note.words for note in hook_spool.spooled(repository.path)] == [("1",)])
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "CUSTODY_STORE": store.url}
    command = [sys.executable, "-m", "custody", "serve", "--port", "0", "--no-workers", "--no-log"]
    server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        told = (re.search(r"(http://127\.0\.0\.1:\d+)/", line) for line in server.stdout)
        address = next(match[1] for match in told if match)
        hooks.install_for_api(repository.path, address, "proj", secret)
        # As Subversion calls it: no environment at all, from wherever the server stands.
        subprocess.run([str(hook), str(repository.path), "1", "0-0"], env={}, cwd="/", check=True)
        until(lambda: Archives(store).get("proj").last == 1)
        assert repository.commit("somebody listens", {"b.txt": "b"}) == 2
        until(lambda: Archives(store).get("proj").last == 2)
        until(lambda: len(hook_spool.spooled(repository.path)) == 1)
    finally:
        server.terminate()
        server.communicate(timeout=60)


def test_a_hook_never_waits_for_an_api_that_does_not_answer(repository: Repository) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        api = f"http://127.0.0.1:{silent.getsockname()[1]}"
        hooks.install_for_api(repository.path, api, "proj", "secret")
        begun = time.monotonic()
        subprocess.run(
            [str(repository.path / "hooks/post-commit"), str(repository.path), "1", "0-0"], env={}, check=True
        )
        assert time.monotonic() - begun < 15, "the hook gives itself twenty seconds; the committer does not wait them"
        until(lambda: hook_spool.spooled(repository.path))


@pytest.mark.parametrize(
    ("api", "token"),
    [("ftp://x", "t"), ("http://user@x", "t"), ("nonsense", "t"), ("http://x", ""), ("http://x", 'a"\nurl = "evil')],
)
def test_an_address_or_token_that_would_not_work_is_refused(repository: Repository, api: str, token: str) -> None:
    with pytest.raises(BadInput):
        hooks.install_for_api(repository.path, api, "proj", token)
    assert not (repository.path / hooks.API).exists()


def test_what_the_api_answers_names_no_path_of_its_machine(tmp_path: Path, proj_git: GitRepository) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        Archives(store).add("book", "git", str(proj_git.path), "ada")
        asking = client(store, "hook", "book")
        answers = [asking.post("/api/v1/archives/book/notify", json={"revision": 7})]
        (proj_git.path / "config").chmod(0o666)  # not ours alone any more
        answers.append(asking.post("/api/v1/archives/book/notify", json={}))
        assert [answer.json()["code"] for answer in answers] == ["archive.revision", "archive.foreign"]
        assert all(str(tmp_path) not in answer.text for answer in answers)


def test_a_git_push_makes_the_api_ask_the_repository(tmp_path: Path, proj_git: GitRepository) -> None:
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        Archives(store).add("book", "git", str(proj_git.path), "ada")
        proj_git.commit("a.txt", "a")
        proj_git.push()
        answer = client(store, "hook", "book").post("/api/v1/archives/book/notify", json={})
        assert answer.json() == {"archive": "book", "new": 1}
        assert GitArchive(proj_git.path, store).youngest() == 1
        assert reconcile(store, Archives(store).get("book")) == 0
