"""The doctor tries what every submit needs: a store that takes writes, and numbers that are not taken."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from custody.cli.doctor.report import examine
from custody.errors import CustodyError
from custody.kernel.model.job import NewJob
from custody.kernel.stores import open_store
from custody.kernel.stores.recovery.restored import restored
from custody.kernel.stores.recovery.trial import refusal


def unsafe(url: str) -> list[str]:
    return [finding.what for finding in examine(url, None) if finding.grade == "unsafe"]


def submits(url: str, times: int = 1) -> list[int]:
    with open_store(url) as store:
        return [store.queue.submit([NewJob("parcel")])[0].id for _ in range(times)]


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    submits(postgres_url, 3)
    with psycopg.connect(postgres_url, autocommit=True) as db:
        yield db


def test_a_store_that_takes_writes_keeps_nothing_of_the_trial(store_url: str) -> None:
    submits(store_url)
    assert not any("takes no writes" in what for what in unsafe(store_url))
    with open_store(store_url) as store:
        assert refusal(store) is None
        assert store.db.read(lambda tx: tx.run("unplaced", after="", limit=1)) == []


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('kept') / 'custody.db'}"
    return str(request.getfixturevalue("postgres_url"))


def test_a_server_that_was_set_to_read_only_is_unsafe(
    admin: psycopg.Connection[tuple[object, ...]], postgres_url: str
) -> None:
    name = admin.info.dbname
    admin.execute(f'alter database "{name}" set default_transaction_read_only = on')  # type: ignore[call-overload]
    try:
        (what,) = (what for what in unsafe(postgres_url) if "takes no writes" in what)
        assert "read-only" in what
    finally:
        admin.execute("set default_transaction_read_only = off")
        admin.execute(f'alter database "{name}" reset default_transaction_read_only')  # type: ignore[call-overload]


def test_a_copy_without_its_sequences_is_unsafe_and_saying_that_it_was_restored_helps(
    admin: psycopg.Connection[tuple[object, ...]], postgres_url: str
) -> None:
    admin.execute("alter table job alter column id restart")
    admin.execute("alter table event alter column id restart")
    told = [what for what in unsafe(postgres_url) if "its sequence" in what]
    assert [what.split()[1] for what in sorted(told)] == ["event", "job"]
    with pytest.raises(CustodyError):
        submits(postgres_url)
    with open_store(postgres_url) as store:
        restored(store, "a copy without its sequences", "ada")
    assert submits(postgres_url, 3) == [5, 6, 7]
    assert not any("its sequence" in what or "takes no writes" in what for what in unsafe(postgres_url))
