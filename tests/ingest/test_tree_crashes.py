"""ZooKeeper as the queue, through crashes: at every `multi`, before it and after it, and again while recovering; and with
the server killed and sessions ended while workers are at it. Nothing lost, nothing twice, nothing left over."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from custody.formats.checkm.form import BATCH_OF_FILES, Row
from custody.formats.checkm.writer import write
from custody.ingest.config import IngestConfig
from custody.ingest.kinds import kinds
from custody.ingest.states import BATCH_KIND, JOB
from custody.ingest.world import open_world
from custody.ingest.zookeeper.client.multi import Op
from custody.ingest.zookeeper.queue import TreeQueue
from custody.ingest.zookeeper.store import open_tree
from custody.kernel.engine import Backoff, Serving, Settings, Worker
from custody.kernel.model.job import FanOut, Filter, Fold, Job, fold
from custody.kernel.stores import Store
from custody.kernel.stores.fsck import recount
from faults.processes import until
from ingest.bench import Archive, archive, quick
from ingest.test_end_to_end import objects, ocfl_is_valid
from ingest.test_mixed_fleet import expire, orphans, tree_url, wait_for_end, working
from prove.plugin import Scaled, Tell
from rig.zookeeper import ZooKeeper


class Killed(BaseException):
    """The process is gone: no handler of ours may catch it."""


@dataclass(frozen=True)
class Crash:
    """At so many a `multi` that writes: never sent, or sent and its answer never seen."""

    number: int
    before: bool


def crash_at(store: Store, crash: Crash) -> None:
    session: Any = store.queue._at.session  # type: ignore[attr-defined]
    send, left = session.commit_many, crash.number

    def commit_many(given: Iterable[Sequence[Op]]) -> Any:
        nonlocal left
        moves = list(given)
        if len(moves) < left:
            left -= len(moves)
            return send(moves)
        send(moves[: left - crash.before])
        raise Killed

    session.commit_many = commit_many


def work(home: Archive, url: str, crash: Crash | None = None) -> bool:
    """A process of its own, as far as the tree can tell; False when it was killed."""
    with open_tree(url, 10) as store:
        if crash:
            crash_at(store, crash)
        world = quick(open_world(store, IngestConfig(threshold=0.0), home.home))
        worker = Worker(store, Serving(tuple(kinds(world, Backoff(first=0.01)))), Settings(threads=1))
        try:
            worker.run_until_idle()
        except Killed:
            return False
    return True


class Story:
    """A deposit of two objects, made into jobs one by one; again for every crash, all in one tree."""

    def __init__(self, home: Archive, url: str) -> None:
        self.home, self.url = home, url
        self.batches: list[int] = []
        self._letter = home.put("letter.txt", b"Dear sister")

    def play(self, *crashes: Crash) -> bool:
        """Killed at each of these in turn, then worked to its end; False when it was never killed."""
        rows = [Row(n, self._letter, f"{n}.txt", local_ids=(f"l{len(self.batches)}-{n}",)) for n in (1, 2)]
        listed = self.home.put(f"{len(self.batches)}.checkm", "".join(write(BATCH_OF_FILES, rows)).encode())
        self.batches.append(self.home.submit(listed, type="single-file-batch-manifest"))
        killed = not all([work(self.home, self.url, crash) for crash in crashes])
        until(self._has_ended, why="it is worked to its end")
        return killed

    def _has_ended(self) -> bool:
        work(self.home, self.url)
        return self.home.batch(self.batches[-1]).ended is not None

    def check(self) -> None:
        """Nothing lost, nothing twice, nothing left over."""
        home, arks = self.home, set()
        for batch in self.batches:
            assert home.batch(batch).state == "completed"
            jobs = home.jobs(batch)
            assert [job.payload["row"] for job in jobs] == [1, 2]
            arks |= {self._check_job(job) for job in jobs}
            reports = [e for e in home.store.records.all_events(f"job/{batch}") if e.detail.get("from") == "reporting"]
            assert len(reports) == 1
        assert len(arks) == 2 * len(self.batches)
        assert home.letters() == sorted(f"batch-{batch}-report-1@localhost.eml" for batch in self.batches)
        assert not list(home.world.disk.folders())
        assert recount(home.store) == []
        assert orphans(self.url) == []

    def _check_job(self, job: Job) -> str:
        home, ark = self.home, str(job.facts["primary"])
        events = list(home.store.records.all_events(job.subject))
        assert fold(events) == Fold.of(job)
        steps = [event.detail["from"] for event in events if event.type == "passed"]
        assert len(steps) == len(set(steps)) == 8, "each step passed once"
        assert [version.job for version in home.world.inventory.versions(ark)] == [job.id]
        assert [event.type for event in home.store.records.events(f"item/{ark}")] == ["changed", "ingested"]
        return ark


@pytest.fixture
def story(zookeeper_hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    monkeypatch.setattr(TreeQueue, "fan_out", FanOut(at_once=1, most=10_000))
    url = tree_url(zookeeper_hosts, tmp_path)
    with archive(tmp_path, url) as home:
        yield Story(home, url)


@pytest.mark.slow
@pytest.mark.proves("G2")
def test_a_crash_at_any_move_loses_and_doubles_nothing(story: Story, scaled: Scaled[int], tell: Tell) -> None:
    """In the test run at some of them; in a proof at every `multi`, before and after it."""
    step = scaled(17, 1, 1)
    for place in itertools.count(0, step):
        if not story.play(Crash(1 + place // 2, before=place % 2 == 0)):
            break  # there was nothing left to crash at
    crashes = len(story.batches) - 1
    assert crashes > 60 // step
    story.check()
    tell(f"{crashes} crashes of a deposit on ZooKeeper", stories=1, crashes=crashes)


@pytest.mark.slow
@pytest.mark.proves("G2")
def test_a_crash_while_recovering_from_one_changes_nothing_either(
    story: Story, scaled: Scaled[int], tell: Tell
) -> None:
    chance, count = random.Random("twice on ZooKeeper"), scaled(3, 60, 600)
    for _ in range(count):
        assert story.play(
            Crash(chance.randint(1, 30), chance.random() < 0.5), Crash(chance.randint(1, 12), chance.random() < 0.5)
        )
    story.check()
    tell("", double_crashes=count)


@pytest.mark.slow
@pytest.mark.proves("G4")
def test_with_the_server_killed_and_sessions_ended_everything_arrives_once(
    zookeeper: ZooKeeper, zookeeper_hosts: str, tmp_path: Path, scaled: Scaled[int], tell: Tell
) -> None:
    url = tree_url(zookeeper_hosts, tmp_path)
    wanted, restarts, batches = scaled(2, 20, 2_000), 0, 0
    with archive(tmp_path, url) as home:
        rows = objects(home, 10)
        with working(home):
            while restarts < wanted:
                fresh = [replace(row, local_ids=(f"{batches}-{row.line}",)) for row in rows]
                batch = home.submit(home.batch_manifest(f"batch-{batches}.checkm", fresh))
                restarts += cause_trouble(home, batch, zookeeper)
                wait_for_end(home, batch)
                batches += 1
        home.run()
        arks = {ark for batch in home.store.queue.every(Filter(kind=BATCH_KIND)) for ark in arrived(home, batch.id)}
        assert len(arks) == 10 * batches
        assert len(home.mails()) == batches
        assert ocfl_is_valid(home.home / "storage")
        assert recount(home.store) == []
    assert orphans(url) == []
    told = {"zookeeper restarts": restarts}
    tell(f"{restarts} restarts of ZooKeeper under work: {10 * batches} objects", jobs=10 * batches, **told)


def arrived(home: Archive, batch: int) -> set[str]:
    jobs = home.jobs(batch)
    assert sorted(job.payload["row"] for job in jobs) == list(range(1, 11))
    assert (home.batch(batch).state, {job.state for job in jobs}) == ("completed", {"completed"})
    for job in jobs:
        events = list(home.store.records.all_events(job.subject))
        steps = [event.detail["from"] for event in events if event.type == "passed"]
        assert len(steps) == len(set(steps)) == 8
        assert fold(events) == Fold.of(job)
    return {job.facts["primary"] for job in jobs}


def cause_trouble(home: Archive, batch: int, zookeeper: ZooKeeper) -> int:
    """Crash the server, end a session, crash again, each time under work; how often it was crashed."""
    crashes = 0
    for state in ("pending", "downloading", "storing"):
        until(partial(is_so_far, home, batch, state), why="there is work to be troubled")
        if home.batch(batch).ended:
            break
        if state == "downloading":
            expire(home)
            continue
        zookeeper.stop("kill")
        zookeeper.start()
        crashes += 1
    return crashes


def is_so_far(home: Archive, batch: int, state: str) -> bool:
    """One of its jobs is, or is further, or all is over."""
    order = [*JOB.working, "completed"]
    found = [order.index(each) for each, _ in home.store.queue.children(batch) if each in order]
    return bool(home.batch(batch).ended) or max(found, default=-1) >= order.index(state)
