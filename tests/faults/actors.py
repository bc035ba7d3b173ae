"""Those who act in a simulation: handlers, a client and an operator, all guided by one source of chance."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from custody.errors import CustodyError, Unavailable
from custody.kernel.engine import Backoff, Kind, Serving, Work
from custody.kernel.model.authority.acting import system
from custody.kernel.model.event import NewEvent
from custody.kernel.model.graph import Edge
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.machine import Machines
from custody.kernel.model.outcome import Failed, Hold, Outcome, Passed, Wait
from custody.kernel.operations.jobs import Operator
from custody.kernel.stores import Store
from faults.crash import Crash
from faults.machines import RESUMABLE

MACHINES = Machines({"batch": RESUMABLE})
LANES, COLLECTIONS, LINES = ("", "", "north", "south"), ("", "", "maps"), ("atlas", "almanac")
BACKOFF = Backoff(first=1, most=30)
CRASHES = Kind("parcel").crashes


@dataclass
class Handlers:
    """What happens when a job is worked on: anything that may happen to honest work, and to dishonest work too."""

    rng: random.Random
    calm: bool = False  # faults have stopped: work succeeds
    bodies: int = 0
    wrong: list[str] = field(default_factory=list)  # said here, because an exception would be the handler's own

    def serving(self) -> Serving:
        return Serving(
            (
                Kind("parcel", self.parcel, tries=3, backoff=BACKOFF, onward=True),
                Kind("robot/*", self.robot, tries=3, backoff=BACKOFF),
                Kind("batch", self.fan_out, state="pending", machine=RESUMABLE, tries=3, backoff=BACKOFF),
                Kind("batch", self.report, state="reporting", machine=RESUMABLE),
                Kind("space", decide=self.decide, every=20),
            )
        )

    def parcel(self, work: Work) -> Outcome:
        self.bodies += 1
        if work.job.crashes >= CRASHES:
            self.wrong.append(f"E6 {work.job.crashes} workers died alone with job {work.job.id}, and it is tried again")
        if work.payload.get("poison"):
            raise Crash
        if self.calm:
            return Passed()
        chosen: Callable[[Work], Outcome] = self.rng.choices(*zip(*BEHAVIOURS, strict=True))[0]
        return chosen(work)

    def robot(self, work: Work) -> Outcome:
        self.bodies += 1
        return Passed(events=[NewEvent(work.payload["item"], "checked")])

    def fan_out(self, work: Work) -> Outcome:
        self.bodies += 1
        if not self.calm and self.rng.random() < 0.2:
            return Failed("manifest", transient=self.rng.random() < 0.5)
        for row in range(int(work.facts.get("rows", 0)), work.payload["rows"]):
            work.spawn([NewJob("parcel", {"row": row}, parent=work.job.id)], rows=row + 1)
        return Passed()

    def report(self, work: Work) -> Outcome:
        self.bodies += 1
        return Passed(detail={"rows": work.payload["rows"]})

    def decide(self, jobs: Sequence[Job]) -> Mapping[int, Outcome]:
        if not self.calm and self.rng.random() < 0.1:
            raise ZeroDivisionError("the pass fell over")
        return {job.id: Passed(keep={"room": True}) for job in jobs if self.calm or self.rng.random() < 0.5}


def _raise(error: BaseException) -> Outcome:
    raise error


def _see(item: str) -> Outcome:
    return Passed(items=[NewItem(item)], events=[NewEvent(item, "seen")])


def _keep(work: Work) -> Outcome:
    work.keep(minted=len(work.facts))
    return Passed()


BEHAVIOURS: list[tuple[Callable[[Work], Any], int]] = [
    (lambda work: Passed(), 40),
    (lambda work: Passed(keep={"done": work.job.attempts}, priority=20), 6),
    (lambda work: Passed(then=[NewJob("parcel", {"after": work.job.id})]), 5),
    (lambda work: Passed(then=[NewJob("parcel", {}, key=f"mail {work.job.id}")]), 4),
    (lambda work: _see(f"item-{work.job.id % 3}"), 6),
    (_keep, 6),
    (lambda work: Failed("busy", transient=True, keep={"tries": work.job.attempts}), 8),
    (lambda work: Failed("torn"), 5),
    (lambda work: Wait(12, "drying"), 5),
    (lambda work: Hold("look first"), 2),
    (lambda work: _raise(Unavailable("the disk sulks")), 2),
    (lambda work: _raise(ValueError("surprise")), 2),
    (lambda work: _raise(SystemExit(3)), 1),
    (lambda work: None, 1),
    (lambda work: Passed(then=[NewJob("no|such")]), 2),
    (lambda work: Passed(keep={"thing": object()}), 2),
    (lambda work: Passed(events=[NewEvent("nobody", "seen")]), 2),
]


@dataclass
class Client:
    """Submits what comes to mind, and remembers what was acknowledged."""

    store: Store
    rng: random.Random
    acknowledged: set[int] = field(default_factory=set)
    keys: dict[str, int] = field(default_factory=dict)
    unsure: list[NewJob] = field(default_factory=list)  # keyed, and no answer came: asked again later

    def submit(self, jobs: Sequence[Job]) -> None:
        new = self.unsure.pop() if self.unsure and self.rng.random() < 0.5 else self._invent(jobs)
        try:
            made = self.store.queue.submit_one(new, system("client"))
        except Unavailable:
            if new.key:
                self.unsure.append(new)
            return
        except CustodyError:
            return  # a need was deleted meanwhile
        self.acknowledged.add(made.id)
        if new.key and not new.key.startswith("mail"):
            assert self.keys.setdefault(f"{new.collection} {new.key}", made.id) == made.id, (
                f"E7 two jobs for the key {new.key}"
            )

    def _invent(self, jobs: Sequence[Job]) -> NewJob:
        rng, fields = self.rng, dict[str, Any]()
        what = rng.random()
        if what < 0.12:
            return NewJob("batch", {"rows": rng.randrange(4)}, machine=RESUMABLE, open=1, when_empty="reporting")
        if what < 0.2:
            return NewJob("space")
        if what < 0.24:
            return NewJob("parcel", {"poison": True})
        if what < 0.4:
            fields |= {"line": rng.choice(LINES), "task": "build", "supersedes": rng.random() < 0.7}
            fields["position"] = rng.randrange(20)
        if jobs and rng.random() < 0.4:
            on = {job.id for job in rng.choices(jobs, k=rng.randrange(1, 3))}
            fields["needs"] = [Edge(each, rng.choice(WANTS), rng.choice(("wait", "skip"))) for each in sorted(on)]
        if rng.random() < 0.2:
            fields["delay"] = rng.choice((5, 50))
        if rng.random() < 0.3:
            fields["key"] = f"key {len(self.keys)}"
        fields |= {"lane": rng.choice(LANES), "collection": rng.choice(COLLECTIONS), "priority": rng.randrange(100)}
        return NewJob("parcel", **fields)


WANTS: tuple[Any, ...] = ("success", "success", "finished", "failure", "passable")


@dataclass
class Meddler:
    """An operator who does all that operators may do, whether or not it makes sense."""

    store: Store
    rng: random.Random

    def act(self, jobs: Sequence[Job]) -> None:
        operator, rng = Operator(self.store, MACHINES, "meddler"), self.rng
        if rng.random() < 0.15 or not jobs:
            self._holds()
            return
        job = rng.choice(jobs).id
        acts: list[Callable[[], object]] = [
            lambda: operator.cancel(job, "no"),
            lambda: operator.hold(job, "wait"),
            lambda: operator.release(job),
            lambda: operator.resume(job),
            lambda: operator.accept(job, "fine"),
            lambda: operator.delete(job, "away"),
            lambda: operator.prioritise(job, rng.randrange(100)),
        ]
        try:
            rng.choice(acts)()
        except CustodyError:
            pass  # refused, or no answer

    def _holds(self) -> None:
        scope, name = self.rng.choice((("lane", "north"), ("collection", "maps"), ("kind", "space")))
        try:
            if self.rng.random() < 0.5:
                self.store.queue.hold(scope, name, "meddler", "why not")
            else:
                self.store.queue.lift(scope, name, "meddler")
        except CustodyError:
            pass
