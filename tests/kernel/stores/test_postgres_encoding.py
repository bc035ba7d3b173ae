"""Every text is kept as it is, whatever encoding the address, the environment, the role or the database ask for."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from custody.kernel.model.job import NewJob
from custody.kernel.stores import open_store
from custody.kernel.stores.fsck import recount
from rig.need import need
from rig.pgbouncer import PgBouncer
from rig.postgres import Postgres

NAMES = ["Grüße", "Łódź", "東京", "😀", "é", "‘quoted’ €"]  # of Latin-1, and not


@pytest.fixture
def database(quick_postgres: Postgres) -> Iterator[str]:
    made = quick_postgres.fresh_database()
    yield made
    quick_postgres.give_back(made)


@pytest.mark.parametrize("through", ["direct", "pooled"])
@pytest.mark.parametrize(
    "said", ["in the address", "as an option", "in the environment", "for the database", "for the role"]
)
def test_texts_outside_of_latin_1_are_kept_though_it_is_asked_for(
    request: pytest.FixtureRequest, database: str, said: str, through: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{database}?unsafe=1"
    if through == "pooled":
        need("pgbouncer")
        pooler: PgBouncer = request.getfixturevalue("pooler")
        url = pooler.url(url)
    with psycopg.connect(database, autocommit=True) as db:
        name, role = db.execute("select current_database(), current_user").fetchall()[0]
        if said == "for the database":
            db.execute(f'alter database "{name}" set client_encoding = latin1')
        if said == "for the role":
            db.execute(f'alter role "{role}" in database "{name}" set client_encoding = latin1')
    if said == "in the environment":
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    if said == "in the address":
        url += "&client_encoding=LATIN1"
    if said == "as an option":
        if through == "pooled":
            url += "&pooler=yes"  # which takes no options
        else:
            url += "&options=-c%20client_encoding%3DLATIN1"
    with open_store(url) as store:
        made = store.queue.submit([NewJob("parcel", {"name": name}, key=name) for name in NAMES])
        alone = [store.queue.submit_one(NewJob("parcel", {"name": name}, key=f"alone {name}")) for name in NAMES]
        for name in NAMES:
            store.records.note("worker/ada", "noted", "ada", name=name)
        kept = {job.id: (job.key, job.payload["name"]) for job in store.queue.every()}
        assert [kept[one.id] for one in made] == [(name, name) for name in NAMES]
        assert [kept[one.id] for one in alone] == [(f"alone {name}", name) for name in NAMES]
        assert [event.detail["name"] for event in store.records.events("worker/ada")] == NAMES
        assert store.queue.submit_one(NewJob("parcel", {"name": "Łódź"}, key="Łódź")).id == made[1].id
        assert recount(store) == []
    with psycopg.connect(database, client_encoding="UTF8") as db:  # as anybody else reads it
        assert {key for (key,) in db.execute("select key from job")} >= set(NAMES)
