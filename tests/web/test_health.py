"""Health is asked by whoever switches traffic: a process that cannot keep anything is not well, although it answers."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from starlette.testclient import TestClient

from custody.kernel.model.machine import PLAIN
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.recovery import trial
from custody.web.app import build_app
from custody.web.metrics import Telling
from custody.web.metrics_server import Scraped
from custody.web.site import Options
from rig.postgres import Postgres


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with open_store(f"{postgres_url}?notify=0&patience=0") as store:
        yield store


def read_only(url: str, said: str) -> None:
    with psycopg.connect(url, autocommit=True, options="-c default_transaction_read_only=off") as db:
        db.execute(f'alter database "{db.info.dbname}" set default_transaction_read_only = {said}')  # type: ignore[call-overload]
        db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        )


def answer(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=20) as said:
            return int(said.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_store_that_takes_no_writes_is_not_well(
    store: Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "PAUSE", 0.0)
    client = TestClient(build_app(store, Options(b"s" * 32)), client=("127.0.0.1", 1))
    with Scraped("127.0.0.1:0", store, PLAIN, Telling()) as scraped:
        worker = scraped.url.replace("/metrics", "/health")
        assert client.get("/api/v1/health").status_code == 200
        assert answer(worker) == 200
        monkeypatch.setattr(trial.time, "monotonic", lambda: 1e9)  # the next look is due
        read_only(postgres_url, "on")
        refused = client.get("/api/v1/health")
        assert refused.status_code == 503
        assert refused.json()["code"] == "store.writes"
        assert "read-only" not in refused.text, "what is wrong is told to operators"
        assert answer(worker) == 503
        read_only(postgres_url, "off")
        assert client.get("/api/v1/health").status_code == 200
        assert answer(worker) == 200


def test_a_role_that_lost_its_rights_on_numbers_is_not_well(
    store: Store, postgres: Postgres, postgres_url: str
) -> None:
    """Rows can be changed, and no job can be submitted."""
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("create role numberless login password 'secret'")
        try:
            db.execute("grant select, insert, update, delete on all tables in schema public to numberless")
            theirs = urlsplit(postgres_url)
            host = theirs.netloc.rpartition("@")[2]
            url = theirs._replace(netloc=f"numberless:secret@{host}", query="notify=0&patience=0").geturl()
            db.execute("grant usage on all sequences in schema public to numberless")
            with open_store(url) as other:
                assert trial.Trial(other).refusal() is None
                db.execute("revoke usage on all sequences in schema public from numberless")
                assert (found := trial.Trial(other).refusal())
                assert found.code == "store.rights"
        finally:
            db.execute("drop owned by numberless")
            db.execute("drop role numberless")


def test_a_server_that_is_gone_is_heard_between_two_trials(store: Store, postgres: Postgres) -> None:
    look = trial.Trial(store, every=3600)
    assert look.refusal() is None
    postgres.stop("immediate")
    try:
        assert look.refusal() is not None
    finally:
        postgres.start()


def test_many_questions_are_one_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Store] = []
    monkeypatch.setattr(trial, "refusal", tried.append)
    with open_store("sqlite://:memory:") as store:
        look = trial.Trial(store)
        assert [look.refusal() for _ in range(20)] == [None] * 20
    assert len(tried) == 1
