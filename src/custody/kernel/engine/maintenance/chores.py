"""Chores: what must be looked after every now and then, by one process at a time, beside the work.

Each runs under a named lease, in a thread of its own, so that a repository that does not answer delays nobody's jobs.
The worker's loop renews the leases of those that take long.
A chore is level-triggered: it looks at how things are, so a missed turn costs nothing but time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

from custody.errors import CustodyError, LeaseLost, Unavailable
from custody.kernel.engine.kinds import Chore
from custody.kernel.engine.listeners import Listener
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.model.lease import Lease
from custody.kernel.ports import Store

LEASE_SECONDS = 60.0


class Chores:
    def __init__(self, store: Store, chores: Sequence[Chore], holder: str, listener: Listener) -> None:
        self._store, self._chores, self._holder, self._listener = store, chores, holder, listener
        self._pid = os.getpid()
        self._next = dict.fromkeys((chore.name for chore in chores), 0.0)
        self._running: dict[str, threading.Thread] = {}
        self._leases: dict[str, tuple[Lease, float]] = {}  # of those under way, and when each is to be renewed

    def run_due(self) -> None:
        """Begin those whose time has come and that are not still running."""
        stay(self._pid, "the chores")
        now = time.monotonic()
        for name, (lease, renew_at) in [*self._leases.items()]:
            if now >= renew_at:
                self._renew(name, lease, now)
        for chore in self._chores:
            thread = self._running.get(chore.name)
            if now >= self._next[chore.name] and not (thread and thread.is_alive()):
                self._next[chore.name] = now + chore.every
                self._running[chore.name] = threading.Thread(target=self.run, args=(chore,), daemon=True)
                self._running[chore.name].start()

    def look_again(self) -> bool:
        """Let those that may find work have their turn now; whether there are any."""
        finding = [chore.name for chore in self._chores if chore.finds]
        self._next |= dict.fromkeys(finding, 0.0)
        return bool(finding)

    @property
    def are_looking(self) -> bool:
        """Whether one that may find work is under way."""
        running = (self._running.get(chore.name) for chore in self._chores if chore.finds)
        return any(thread is not None and thread.is_alive() for thread in running)

    def run(self, chore: Chore) -> bool:
        """Do it now, unless another process is at it."""
        try:
            lease = self._store.leases.claim(f"chore/{chore.name}", self._holder, LEASE_SECONDS)
            if lease is None:
                return False
            self._leases[chore.name] = lease, time.monotonic() + LEASE_SECONDS / 3
            try:
                chore.do()
            finally:
                stay(self._pid, "the chore {}", chore.name)
                self._leases.pop(chore.name, None)
                self._store.leases.settle(lease)
        except CustodyError as error:
            self._listener.trouble(error)
        except Exception as error:
            self._listener.trouble(Unavailable(f"the chore {chore.name} failed: {error!r}", code="chore"))
        return True

    def _renew(self, name: str, lease: Lease, now: float) -> None:
        """A chore whose lease was lost is not stopped: as it only looks at how things are, two do no harm."""
        if name in self._leases:  # whatever the answer will be: it is not asked for at every look
            self._leases[name] = lease, now + LEASE_SECONDS / 3
        try:
            self._store.leases.renew(lease, LEASE_SECONDS)
        except LeaseLost:
            self._leases.pop(name, None)
        except CustodyError as error:
            self._listener.trouble(error)

    def close(self) -> None:
        for thread in self._running.values():
            thread.join(5)
