"""A deterministic simulation: several workers, a client, an operator, one store, and a seed.

Everything runs in one thread, step by step: to claim, to work and to settle are separate steps, so anything may
happen in between (a pause longer than the lease, a lost answer, a crash, a jump of the clock, a cancel). The engine
is the real one; its clock, its chance and its move ids come from the seed, so the same seed gives the same history
to the last byte. After every step the invariants are checked (see audit.py).

    PYTHONPATH=src:tests python -m faults.simulator SEED [LAST]     replays one seed, or all up to another
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from custody.errors import CustodyError, Unavailable
from custody.kernel.engine import Settings, Work, Worker
from custody.kernel.engine.pipe.settler import Said, Settler
from custody.kernel.engine.pipe.values import Finished, Lost
from custody.kernel.model.authority.acting import system
from custody.kernel.model.job import Answer, Change, Fold, Job, fold
from custody.kernel.model.schedule import Schedule
from custody.kernel.model.trigger import Trigger
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.fsck import recount
from custody.kernel.stores.rows import Row, job_from
from custody.kernel.stores.sql.database import Database
from custody.kernel.stores.sqlite.database import SqliteDatabase
from faults.actors import MACHINES, Client, Handlers, Meddler
from faults.audit import of_events, of_row
from faults.crash import Crash
from faults.verbs import VerbDatabase
from kernel.stores.acts import subscribe
from kernel.stores.clock import HandClock

T = TypeVar("T")
LEASE = 30.0
NIGHT = 8 * 3600.0  # in which nobody works, and every lease ends
STEPS = 150
ROUNDS = 12  # a clock that was set back keeps leases alive for so much longer
JUMPS = (-120, -20, 20, 120, 3600)
FAR = (-86_400, -3_600, 3_600, 86_400)
WAITING = frozenset({"held", "blocked", "needs", "open", "ended"})
"""Reasons for which a job may still be there at the end: it waits for a person, or for one that does."""


class LossyDatabase(VerbDatabase):
    """One process's way to the store: now and then nothing arrives, or the answer gets lost."""

    def __init__(self, db: Database, rng: random.Random) -> None:
        super().__init__(db)
        self._rng = rng
        self.loss = 0.0

    def verb(self, act: Callable[[], T]) -> T:
        chance = self._rng.random()
        if chance < self.loss / 2:
            raise Unavailable("it did not arrive")
        value = act()
        if chance < self.loss:
            raise Unavailable("it was done, and nobody heard")
        return value

    def seen(self, act: Callable[[], T]) -> T:
        if self._rng.random() < self.loss / 4:
            raise Unavailable("it did not arrive")
        return act()


@dataclass
class Desk:
    """A worker between two steps: what it has claimed, and what it has finished and not yet said."""

    worker: Worker
    finished: list[Finished] = field(default_factory=list)

    @property
    def ready(self) -> deque[Work]:
        return self.worker._threads.ready


class Violation(AssertionError):
    pass


class Simulation:
    def __init__(self, seed: int, workers: int = 3, jumps: tuple[int, ...] = JUMPS) -> None:
        """With far jumps the clock stands still at times as well, and is set right before everything must end."""
        self.seed, self.rng = seed, random.Random(seed)
        self._jumps, self._furthest, self._stands = jumps, 0, False
        self.clock, self.elapsed = HandClock(), 0.0
        self.truth = open_store("sqlite://:memory:", self.clock, self._new_move)
        assert isinstance(self.truth.db, SqliteDatabase)
        self.db = self.truth.db._writer._db
        self.line = LossyDatabase(self.truth.db, self.rng)
        self.store = Store.over("simulated", self.line)
        self.handlers = Handlers(self.rng)
        self.client, self.meddler = Client(self.store, self.rng), Meddler(self.store, self.rng)
        self.jobs: dict[int, Job] = {}
        self._rows: dict[int, Row] = {}
        self._written = -1
        self.said: set[tuple[int, int]] = set()  # (job, token) of every settle that was acknowledged
        self.names = 0
        self.steps = self.crashes = self.jumps = 0
        self.danger = 4  # how often workers die
        self.desks = [self._desk() for _ in range(workers)]
        subscribe(self.truth, "checker", Trigger(past=frozenset({"seen"}), absent=frozenset({"checked"})))
        self.truth.schedules.put(Schedule("nightly", "every 1h", "parcel"), system("ada"))

    # The life of a simulation

    def run(self, steps: int = STEPS) -> str:
        """All of it: faults, then calm; answers the hash of the whole history."""
        self.line.loss, self.danger = self.rng.choice((0.0, 0.05, 0.2)), self.rng.choice((4, 16, 48))
        for _ in range(steps):
            self.step()
        self.calm_down()
        return self.history()

    def step(self) -> None:
        act = self.rng.choices(*zip(*self._acts(), strict=True))[0]
        try:
            act()
        except Unavailable:
            pass  # as the worker's loop does: look again later
        self.check(recounted=self.steps % 25 == 0)
        self.steps += 1

    def _acts(self) -> list[tuple[Callable[[], None], int]]:
        desk = self.rng.choice(self.desks)
        return [
            (lambda: self._claim(desk), 20),
            (lambda: self._work(desk), 30),
            (lambda: self._settle(desk), 22),
            (lambda: self._beat(desk), 8),
            (lambda: self._pass_time(self.rng.choice((0.5, 2, 8, 15, LEASE + 5))), 14),
            (lambda: self._pass_time(NIGHT), 1),
            (lambda: self._crash(desk), self.danger),
            (lambda: self._leave(desk), 2),
            (self._jump, 1 if self._jumps is JUMPS else 8),
            (lambda: self.client.submit(list(self.jobs.values())), 18),
            (lambda: self.meddler.act(list(self.jobs.values())), 8),
        ]

    def calm_down(self) -> None:
        """Faults stop; whatever can end must end within a bound."""
        if self._jumps is not JUMPS:
            self._stands = False
            self.clock.set(max(self._furthest, self.clock.now()))  # and what was put off by a clock ahead comes due
        self.line.loss, self.handlers.calm = 0.0, True
        for scope, name in (("lane", "north"), ("collection", "maps"), ("kind", "space")):
            self.store.queue.lift(scope, name, "ada")
        for desk in list(self.desks):
            self._whole_cycle(desk)
        for _ in range(ROUNDS):
            if not self._restless():
                break
            self._pass_time(LEASE + 1)
            while self._whole_cycle(self.desks[0]):
                pass  # what was left behind may cost the worker its life
        self.check(recounted=True)
        if stuck := self._restless():
            self._fail(f"E5 after {ROUNDS} rounds of calm: {stuck[:3]}")

    def _whole_cycle(self, desk: Desk) -> bool:
        """Claim, work, settle; False when there was nothing to do."""
        self._beat(desk)
        self._claim(desk)
        self.check()
        busy = bool(desk.ready or desk.finished or desk.worker._quarantine.count)
        while desk.ready or desk.finished or desk.worker._quarantine.count:  # until it is done with them, or dead
            self._work(desk)
            if desk not in self.desks:
                break
            while desk.finished:
                self._settle(desk)
                self.check()
        return busy

    def _restless(self) -> list[str]:
        """Jobs that could go on and do not."""
        found = []
        for job in self.jobs.values():
            if job.ended is None:
                reasons = [reason for reason in self.truth.queue.why(job.id) if reason.code not in WAITING]
                found += [f"job {job.id}: {reason.text}" for reason in reasons]
        return found

    # What a worker does, in pieces

    def _desk(self) -> Desk:
        self.names += 1
        worker = Worker(
            self.store,
            self.handlers.serving(),
            Settings(threads=2, lease=LEASE),
            listener=self,
            rng=self.rng,
            clock=lambda: self.elapsed,
            holder=f"worker-{self.names}",  # the real name holds a process id, which no seed decides
        )
        return Desk(worker)

    def _claim(self, desk: Desk) -> None:
        worker = desk.worker
        worker._maintenance.look(worker.holder)
        worker._fetch(self.rng.randrange(1, 5))
        worker._rescue(self.rng.randrange(1, 5))
        worker._begin_suspects()

    def _work(self, desk: Desk) -> None:
        desk.worker._begin_suspects()
        desk.ready.rotate(self.rng.randrange(max(1, len(desk.ready))))
        work = desk.worker._threads.next_one()
        if work is None:
            return
        try:
            end = desk.worker._runner.run(work)
        except Crash:
            self._crash(desk)
            return
        if isinstance(end, Lost):
            desk.worker._leave([end])
        else:
            desk.finished.append(end)

    def _settle(self, desk: Desk) -> None:
        self.rng.shuffle(desk.finished)
        cut = self.rng.randrange(len(desk.finished) + 1) if not self.handlers.calm else 0
        later, now = desk.finished[:cut], desk.finished[cut:]
        if not now:
            return
        desk.finished = later
        for said in self._attempt(desk.worker._settler, now):
            desk.finished += said.again
            if said.ends:
                desk.worker._leave(said.ends)

    def _attempt(self, settler: Settler, now: list[Finished]) -> Iterator[Said]:
        try:
            yield from settler.attempt(now)
        except Unavailable:
            yield settler.still_trusted(now)

    def _beat(self, desk: Desk) -> None:
        desk.worker._keeper.beat()

    def _crash(self, desk: Desk) -> None:
        self.crashes += 1
        self._replace(desk)

    def _leave(self, desk: Desk) -> None:
        """SIGTERM: what was not begun is given back, what was finished is said; then the next process starts."""
        works = [*desk.worker._threads.stop(), *desk.worker._quarantine.give_back()]
        before = {work.job.id: work.claim for work in works if not work.stopped}
        desk.worker._give_back(works)
        for job in self.truth.queue.every():
            claim = before.get(job.id)
            given = claim is not None and job.holder is None and job.token == claim.token + 1
            if claim and given and job.seq == claim.job.seq and job.attempts >= claim.job.attempts:
                self._fail(f"E12 job {job.id} was charged for a graceful stop")
        desk.ready.clear()
        self._settle(desk)
        self._replace(desk)

    def _replace(self, desk: Desk) -> None:
        """The process is gone, with all it knew; another one starts."""
        desk.ready.clear()
        desk.finished.clear()
        self.desks[self.desks.index(desk)] = self._desk()

    def _pass_time(self, seconds: float) -> None:
        self.elapsed += seconds
        self._tick(0.0 if self._stands else seconds)

    def _tick(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._furthest = max(self._furthest, self.clock.now())

    def _jump(self) -> None:
        """Someone sets the store's clock; the workers' own clocks do not notice."""
        self.jumps += 1
        if self._jumps is not JUMPS:
            self._stands = self.rng.random() < 0.3
        self._tick(self.rng.choice(self._jumps))

    # What must be true

    def check(self, recounted: bool = False) -> None:
        for problem in self.handlers.wrong:
            self._fail(problem)
        written = self.db.total_changes()
        if written != self._written:
            self._written = written
            self._look()
        if recounted and (faults := recount(self.truth)):
            self._fail(f"E13 {faults[0]}")

    def _look(self) -> None:
        """Compare every row with what it was, and look closely at those that changed."""
        rows = {row[0]: row for row in self.truth.db.read(lambda tx: tx.run("next_jobs", after=0, limit=100_000))}
        for id_, row in rows.items():
            if row != self._rows.get(id_):
                old, self.jobs[id_] = self.jobs.get(id_), job_from(row)
                self._check_job(old, self.jobs[id_])
        for id_ in self._rows.keys() - rows.keys():
            del self.jobs[id_]
        for id_ in self.client.acknowledged - rows.keys():
            if not self.truth.records.events(f"job/{id_}"):
                self._fail(f"E3 job {id_} was acknowledged and is not there")
        self._rows = rows

    def _check_job(self, old: Job | None, job: Job) -> None:
        events = self.truth.records.events(job.subject)
        for problem in (*of_row(job, MACHINES), *of_events(events, job.token)):
            self._fail(f"{problem} (job {job.id})")
        if fold(events) != Fold.of(job):
            self._fail(f"E13 job {job.id} is {Fold.of(job)}, its history says {fold(events)}")
        if old is None:
            return
        taken = job.holder is not None and job.holder != old.holder
        if job.token < old.token + taken or job.seq < old.seq:
            self._fail(f"E2 job {job.id} went from token {old.token} to {job.token}")
        for event in events[old.seq :]:
            if old.holder and event.agent.startswith("worker-") and event.agent != old.holder:
                self._fail(f"E2 job {job.id}: {event.agent} said {event.type} while {old.holder} held it")
        if old.holder and old.until > self.clock.now() and job.holder not in (None, old.holder):
            self._fail(f"E18 job {job.id} was taken from {old.holder}, whose lease had not ended")

    def _fail(self, what: str) -> None:
        replay = f"PYTHONPATH=src:tests python -m faults.simulator {self.seed}"
        raise Violation(f"seed {self.seed}, step {self.steps}: {what}\n  {replay}")

    def history(self) -> str:
        digest, after = hashlib.sha256(), 0
        while events := self.truth.records.since(after):
            for event in events:
                digest.update(repr(event).encode())
            after = events[-1].id
        return digest.hexdigest()

    def _new_move(self) -> str:
        return f"{self.rng.getrandbits(64):016x}"

    # A worker's listener: what it raised would stop nobody, so what is wrong is kept for the next check

    def started(self, job: Job) -> None: ...

    def settled(self, job: Job, change: Change, answer: Answer) -> None:
        if not answer.done:
            if change.move in [event.move for event in self.truth.records.events(job.subject)]:
                self.handlers.wrong.append(f"E20 job {job.id}: a move that was written was taken for refused")
            return
        if answer.token != job.token + 1:
            self.handlers.wrong.append(f"E2 job {job.id}: claimed with token {job.token}, settled as {answer.token}")
        if (job.id, job.token) in self.said:
            self.handlers.wrong.append(f"E2 job {job.id} was settled twice with token {job.token}")
        self.said.add((job.id, job.token))

    def lost(self, job: Job, reason: str) -> None: ...

    def trouble(self, error: CustodyError) -> None: ...


def main(first: int, last: int) -> None:
    began = time.monotonic()
    for seed in range(first, last + 1):
        simulation = Simulation(seed)
        print(
            f"seed {seed}: {simulation.run()[:16]}, {simulation.steps} steps, {len(simulation.jobs)} jobs, "
            f"{simulation.crashes} crashes, {simulation.jumps} jumps of the clock"
        )
        simulation.truth.close()
    print(f"{(last - first + 1) / (time.monotonic() - began):.1f} seeds a second")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[-1]))
