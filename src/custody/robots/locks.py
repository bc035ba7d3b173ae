"""The seed's locks: one for each robot while a process runs it, one for each item while that robot works on it.

With SQL the item's lock is the lease of its job, so only the robot's own lock is kept here. With ZooKeeper both are
named leases there. Either way a lock is not what protects the history: every event is written under its job's token.

Losing the lock server stops the work before anyone else can hold the lock: trust is measured from before each
renewal was sent, by a watch that does not wait for an answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from custody.errors import CustodyError, LeaseLost, Refused
from custody.kernel.engine.work import Work
from custody.kernel.model.lease import Lease, Trust
from custody.kernel.ports import Leases
from custody.robots.declaration import Robot

LOOK_SECONDS = 0.05


class Locks:
    def __init__(self, leases: Leases, holder: str, seconds: float, items: Leases | None = None) -> None:
        self._leases, self._holder, self._seconds = leases, holder, seconds
        self._items = items  # where items are locked, if they are
        self._held: list[Lease] = []
        self._works: set[Work] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._confirmed = time.monotonic()
        self._threads: list[threading.Thread] = []
        self.lost = ""  # why, once they are

    def take(self, robots: Sequence[Robot]) -> None:
        """The robots' own locks, all or none; a robot that may run in several processes has none."""
        self._confirmed = time.monotonic()
        try:
            for robot in robots:
                if robot.hosts == 1:
                    self._held.append(self._component(robot))
        except CustodyError:
            self.release()
            raise

    def _component(self, robot: Robot) -> Lease:
        name = f"robot/{robot.name}"
        lease = self._leases.claim(name, self._holder, self._seconds)
        if lease is None:
            held = self._leases.get(name)
            who = held.holder if held else "another process"
            raise Refused(
                f"{robot.name} is run by {who}", code="robot.busy", hint="it ends by itself; or `custody lease break`"
            )
        return lease

    def keep(self, on_lost: Callable[[], None]) -> None:
        """Renew them from now on; `on_lost` is called once, when they can no longer be trusted."""
        if not self._held and not self._items:
            return
        for work in (self._renew_all, lambda: self._watch(on_lost)):
            self._threads.append(threading.Thread(target=work, name="custody-locks", daemon=True))
            self._threads[-1].start()

    def release(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(2)
        for lease in [] if self.lost else self._held:  # nobody may be there to answer, and they end by themselves
            try:
                self._leases.settle(lease)
            except CustodyError:
                pass  # it ends by itself
        self._held = []

    @contextmanager
    def item(self, work: Work, robot: Robot, item_id: str) -> Iterator[str]:
        """Hold an item for a robot while it works; what is yielded says who else holds it, if someone does."""
        name = f"robot/{robot.name}/{item_id}"
        lease = self._items.claim(name, self._holder, self._seconds) if self._items else None
        if self._items and lease is None:
            held = self._items.get(name)
            yield held.holder if held else "someone who has just left"
            return
        with self._lock:
            self._works.add(work)
        if self.lost:
            work.stop("unconfirmed")
        try:
            yield ""
        finally:
            with self._lock:
                self._works.discard(work)
            if self._items and lease and not self.lost:
                self._give_back(self._items, work, lease)

    def _give_back(self, items: Leases, work: Work, lease: Lease) -> None:
        try:
            if not items.settle(lease):
                work.stop("lost")  # someone else may hold it: what was found is not ours to record
        except CustodyError:
            work.stop("unconfirmed")

    def _renew_all(self) -> None:
        while not self._ended.wait(self._seconds / 6):
            asked_at = time.monotonic()
            try:
                self._held = [self._leases.renew(lease, self._seconds) for lease in self._held]
                if not self._held:
                    self._leases.get("robot")  # only items are locked: is the server there?
            except LeaseLost as lost:
                self.lost = str(lost)
                return
            except CustodyError:
                continue  # unknown: trust simply runs out
            self._confirmed = asked_at

    def _watch(self, on_lost: Callable[[], None]) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            if time.monotonic() >= Trust(self._confirmed, self._seconds).must_stop_at():
                self.lost = self.lost or "the lock server has not answered for too long"
            if self.lost:
                with self._lock:
                    works = list(self._works)
                for work in works:
                    work.stop("unconfirmed")
                on_lost()
                return
