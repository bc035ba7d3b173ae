"""Secrets reach the tasks that ask for them and may have them, and nobody else, and no record of anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.errors import BadInput, CustodyError, Refused
from custody.kernel.stores import open_store
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.tasks.secrets import Secrets, check_grant
from workflows.desk import Desk, until
from workflows.repositories import GitRepository

VALUE = "correct horse battery staple"
ASKS = """
- name: signs
  secrets: [key]
  script: |
    cat /run/secrets/key
    base64 /run/secrets/key
- name: spies
  script: |
    ls -A /run/secrets 2>/dev/null && exit 1
    cat {folder}/key 2>/dev/null && exit 1
    cat /proc/*/environ 2>/dev/null | tr '\\\\0' '\\\\n' | grep -c horse && exit 1
    echo saw nothing
"""


@pytest.fixture
def secrets(one_desk: Desk) -> Secrets:
    folder = one_desk.home / "secrets"
    folder.mkdir(mode=0o700)
    for name in ("key", "other"):
        (folder / name).write_text(f"{VALUE} {name}\n")
        (folder / name).chmod(0o600)
    return Secrets(one_desk.store, folder)


def granted(one_desk: Desk, value: str, why: str = "it may") -> None:
    one_desk.store.grants.grant("archive/proj", "secret", value, "ada", why)


def asks(one_desk: Desk) -> int:
    revision = one_desk.commit({"_workflows/a.yaml": ASKS.format(folder=one_desk.home / "secrets")})
    one_desk.notify(revision)
    return revision


def test_a_secret_reaches_who_asks_and_may_and_is_masked_in_what_it_prints(one_desk: Desk, secrets: Secrets) -> None:
    granted(one_desk, "key", "to sign releases")
    revision = asks(one_desk)
    one_desk.run()
    assert one_desk.states("signs", revision) == ["done"]
    assert set(one_desk.log(revision, "signs").splitlines()[0]) == {"*"}
    assert one_desk.states("spies", revision) == ["done"], one_desk.log(revision, "spies")
    kept = b"".join(
        path.read_bytes() for path in one_desk.home.rglob("*") if path.is_file() and "secrets" not in path.parts
    )
    assert b"correct horse" not in kept, "no log, event, payload or state folder has it"


def test_a_secret_that_is_not_granted_fails_the_task_and_says_what_to_do(one_desk: Desk, secrets: Secrets) -> None:
    granted(one_desk, "other", "for something else")
    revision = asks(one_desk)
    one_desk.run()
    job = one_desk.task(revision, "signs")
    assert (job.state, job.code) == ("failed", "secret.refused")
    events = one_desk.store.records.events(job.subject)
    assert "custody archive grant proj secret key" in json.dumps([dict(event.detail) for event in events])
    granted(one_desk, "key", "it may")
    one_desk.operator.resume(job.id)
    one_desk.run()
    assert one_desk.states("signs", revision) == ["done"]


def test_withdrawing_a_secret_takes_effect_for_the_next_task_and_is_in_the_history(
    one_desk: Desk, secrets: Secrets
) -> None:
    granted(one_desk, "key", "for now")
    assert one_desk.store.grants.withdraw("archive/proj", "secret", "key", "bo", "it leaked")
    revision = asks(one_desk)
    one_desk.run()
    assert one_desk.task(revision, "signs").code == "secret.refused"
    told = [(event.type, event.agent) for event in one_desk.store.records.events("archive/proj")]
    assert told[-2:] == [("granted", "ada"), ("withdrawn", "bo")]


def test_a_missing_secret_is_waited_for_visibly(one_desk: Desk, secrets: Secrets) -> None:
    (one_desk.home / "secrets" / "key").unlink()
    granted(one_desk, "key", "soon")
    revision = asks(one_desk)
    with one_desk.working():
        until(
            lambda: (
                "no secret key on this machine"
                in str(
                    [event.detail for event in one_desk.store.records.events(one_desk.task(revision, "signs").subject)]
                )
            )
        )


def test_a_secret_that_others_can_read_is_given_to_nobody(one_desk: Desk, secrets: Secrets) -> None:
    (one_desk.home / "secrets" / "key").chmod(0o644)
    granted(one_desk, "key", "careless")
    with pytest.raises(CustodyError, match="others can read"):
        secrets.given("proj", ["key"], "")


def test_a_branch_that_was_not_granted_it_gets_nothing(tmp_path: Path, proj_git: GitRepository) -> None:
    (tmp_path / "key").write_text(VALUE)
    (tmp_path / "key").chmod(0o600)
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        Archives(store).add("book", "git", str(proj_git.path), "ada")
        secrets = Secrets(store, tmp_path)
        store.grants.grant("archive/book", "secret", "key@release/*", "ada", "releases only")
        assert secrets.given("book", ["key"], "refs/heads/release/1") == {"key": VALUE.encode()}
        for ref in ("refs/heads/main", "refs/heads/feature", "", "refs/heads/release"):
            with pytest.raises(Refused, match="not granted"):
                secrets.given("book", ["key"], ref)


def test_subversion_has_no_branches_to_grant_by_themselves(one_desk: Desk) -> None:
    with pytest.raises(Refused, match="only git has branches"):
        check_grant(one_desk.store, "proj", "key@trunk")
    for wrong in ("key@", "@main", "../key", ""):
        with pytest.raises(BadInput):
            check_grant(one_desk.store, "proj", wrong)


def test_the_list_of_secrets_never_shows_a_value(one_desk: Desk, secrets: Secrets) -> None:
    url = ["--store", one_desk.store.url]
    allowed = CliRunner().invoke(app, ["grant", "proj", "secret", "key", "--why", "x", *url])
    assert allowed.exit_code == 0, allowed.output
    shown = CliRunner().invoke(app, ["grants", "proj", *url])
    assert "key" in shown.output
    assert VALUE not in shown.output
