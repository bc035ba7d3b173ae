"""ZooKeeper as the queue, through crashes: at every `multi`, before it and after it, and again while recovering; and with
the server killed and sessions ended while workers are at it. Nothing lost, nothing twice, nothing left over."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from custody.engine import Backoff, Serving, Settings, Worker
from custody.ingest.serving import kinds
from custody.ingest.setup import IngestConfig, open_world
from custody.ingest.zookeeper import open_tree
from custody.ingest.zookeeper.operations import Op
from custody.model.job import Fold, fold
from custody.stores import Store
from custody.stores.recount import recount
from ingest.bench import Archive, archive, quick
from ingest.test_end_to_end import objects, ocfl_is_valid
from ingest.test_mixed_fleet import expire, orphans, tree_url, wait_for_end, working
from rig.zookeeper import ZooKeeper


class Killed(BaseException):
    """The process is gone: no handler of ours may catch it."""


def crash_at(store: Store, number: int, before: bool) -> None:
    """Let the n-th `multi` that writes be the last: never sent, or sent and its answer never seen."""
    session: Any = store.queue._at.session  # type: ignore[attr-defined]
    send, count = session.commit_many, itertools.count(1)

    def commit_many(given: Iterable[Sequence[Op]]) -> Any:
        moves = list(given)
        if not moves or next(count) != number:
            return send(moves)
        if not before:
            send(moves)
        raise Killed

    session.commit_many = commit_many


def work(home: Archive, url: str, crash: tuple[int, bool] | None = None) -> bool:
    """A process of its own, as far as the tree can tell; False when it was killed."""
    with open_tree(url, 10) as store:
        if crash:
            crash_at(store, *crash)
        world = quick(open_world(store, IngestConfig(threshold=0.0), home.home))
        worker = Worker(store, Serving(tuple(kinds(world, Backoff(first=0.01)))), Settings(threads=1))
        try:
            worker.run_until_idle()
        except Killed:
            return False
    return True


@pytest.mark.slow
def test_a_crash_at_any_move_and_another_while_recovering_lose_and_double_nothing(
    zookeeper_hosts: str, tmp_path: Path
) -> None:
    url = tree_url(zookeeper_hosts, tmp_path)
    with archive(tmp_path, url) as home:
        address = home.put("letter.txt", b"Dear sister")
        batches = []
        for number in itertools.count(1, 2):
            batches.append(home.submit(address, type="file", filename="letter.txt", local_id=f"l{number}"))
            crash = (number, number % 4 == 1)
            if work(home, url, crash):
                break  # there was nothing left to crash at
            work(home, url, (1 + number % 5, number % 3 == 0))
            assert work(home, url)
        assert len(batches) > 8
        arks = set()
        for batch in batches:
            assert home.batch(batch).state == "completed"
            (job,) = home.jobs(batch)
            events = list(home.store.records.all_events(job.subject))
            assert fold(events) == Fold.of(job)
            steps = [event.detail["from"] for event in events if event.type == "passed"]
            assert len(steps) == len(set(steps)) == 8, "each step passed once"
            arks.add(job.facts["primary"])
            assert [version.job for version in home.world.inventory.versions(job.facts["primary"])] == [job.id]
            item = home.store.records.events(f"item/{job.facts['primary']}")
            assert [event.type for event in item] == ["changed", "ingested"]
            reports = [e for e in home.store.records.all_events(f"job/{batch}") if e.detail.get("from") == "reporting"]
            assert len(reports) == 1
        assert len(arks) == len(batches)
        assert home.mails() == sorted(f"batch-{batch}-report-1@localhost.eml" for batch in batches)
        assert not list(home.world.disk.folders())
        assert recount(home.store) == []
    assert orphans(url) == []


@pytest.mark.slow
def test_with_the_server_killed_and_sessions_ended_everything_arrives_once(
    zookeeper: ZooKeeper, zookeeper_hosts: str, tmp_path: Path
) -> None:
    url = tree_url(zookeeper_hosts, tmp_path)
    with archive(tmp_path, url) as home:
        batch = home.submit(home.batch_manifest("batch.checkm", objects(home, 10)))
        trouble = threading.Thread(target=cause_trouble, args=(home, zookeeper))
        with working(home):
            trouble.start()
            found = wait_for_end(home, batch)
            trouble.join(60)
        home.run()
        assert found.state == "completed"
        jobs = home.jobs(batch)
        assert sorted(job.payload["row"] for job in jobs) == list(range(1, 11))
        assert {job.state for job in jobs} == {"completed"}
        assert len({job.facts["primary"] for job in jobs}) == 10
        for job in jobs:
            events = list(home.store.records.all_events(job.subject))
            steps = [event.detail["from"] for event in events if event.type == "passed"]
            assert len(steps) == len(set(steps)) == 8
            assert fold(events) == Fold.of(job)
        assert home.mails() == [f"batch-{batch}-report-1@localhost.eml"]
        assert ocfl_is_valid(home.home / "storage")
        assert recount(home.store) == []
    assert orphans(url) == []


def cause_trouble(home: Archive, zookeeper: ZooKeeper) -> None:
    for turn in range(3):
        time.sleep(0.5)
        if turn == 1:
            expire(home)
        else:
            zookeeper.stop("kill")
            zookeeper.start()
