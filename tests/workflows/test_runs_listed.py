"""Looking at an archive's runs costs what is shown, however many there have been, here and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.sql.statements import load
from custody.workflows.archives.folder import FolderArchive
from custody.workflows.archives.table import Archives
from custody.workflows.commands.archive import app
from custody.workflows.makers import RUN_KIND
from custody.workflows.plan.requested import newest_runs
from kernel.stores.acts import execute


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    local = f"sqlite:///{tmp_path / 'custody.db'}"
    with open_store(local if request.param == "sqlite" else request.getfixturevalue("postgres_url")) as opened:
        yield opened


def run_of(archive: str, number: int) -> NewJob:
    payload = {"archive": archive, "wanted": f"build-{number}", "by": "ada"}
    return NewJob(RUN_KIND, payload, lane=archive, collection=archive)


def listed(store: Store, *words: str) -> list[str]:
    done = CliRunner().invoke(app, ["runs", "proj", *words, "--store", store.url], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout.splitlines()


def test_runs_are_shown_a_page_at_a_time_the_newest_last(store: Store, tmp_path: Path) -> None:
    Archives(store).add("proj", "folder", str(FolderArchive.make(tmp_path / "kept").folder), "ada")
    made = store.queue.submit([run_of("proj" if n % 3 else "other", n) for n in range(12)] + [NewJob("parcel")])
    ours = [job.id for number, job in enumerate(made[:12]) if number % 3]
    assert [job.id for job in newest_runs(store, "proj", 3)] == ours[-3:]
    head, *rows, more = listed(store, "--last", "5")
    assert head.split()[0] == "run"
    assert [row.split()[0] for row in rows] == [f"manual-{job}" for job in ours[-5:]]
    assert more == f"older ones: custody archive runs proj --before {ours[-5]}"
    _, *rows = listed(store, "--last", "5", "--before", str(ours[-5]))
    assert [row.split()[0] for row in rows] == [f"manual-{job}" for job in ours[:-5]], "and there are no older ones"
    assert listed(store, "--before", str(ours[0])) == [f"nobody has asked for a run before {ours[0]}"]


def test_the_newest_runs_are_found_by_an_index_that_has_them_in_order(store: Store) -> None:
    store.queue.submit([run_of(f"archive-{n % 7}", n) for n in range(700)] + [NewJob("parcel")] * 700)

    def plan(tx: Tx) -> str:
        values = {"lane": "archive-3", "before": 2**63 - 1, "limit": 20, "now": 0}
        if store.db.dialect == "sqlite":
            return "\n".join(row[3] for row in execute(tx, f"explain query plan {load('sqlite')['wf_runs']}", values))
        for way in ("seqscan", "sort"):  # what is small is read whole, and sorted, unless that is forbidden
            execute(tx, f"set local enable_{way} = off")
        return "\n".join(row[0] for row in execute(tx, f"explain {tx.statements['wf_runs']}", values))  # type: ignore[attr-defined]

    told = store.db.write(plan)
    assert "job_runs" in told
    assert "sort" not in told.lower()
    assert "temp b-tree" not in told.lower()
