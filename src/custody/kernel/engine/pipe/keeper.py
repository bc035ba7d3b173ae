"""The keeper: renews what this worker holds, and stops work whose lease is gone. See kernel/model/lease.py.

The only place where a lease is found lost. Trust is measured from *before* the renewal was sent, on this
process's own monotonic clock, so a slow answer shortens it; after two thirds of the lease without a confirmed
renewal the work is stopped, before anyone else can hold it. That is watched by a thread of its own: a store that does
not say a word may keep whoever asks it waiting for hours.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence

from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.work import Work
from custody.kernel.model.lease import Trust
from custody.kernel.ports import Queue

RETRY_SECONDS = 0.2
CLOSE_SECONDS = 5.0


class Keeper:
    def __init__(self, queue: Queue, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._queue, self._seconds, self._clock = queue, seconds, clock
        self._pid = os.getpid()
        self._held: dict[int, tuple[Work, Trust]] = {}
        self._lock = threading.Lock()
        self._renewing = threading.Thread(target=self._renew_on, name="custody-keeper", daemon=True)
        self._watching = threading.Thread(target=self._watch_on, name="custody-watch", daemon=True)
        self._closed = threading.Event()
        self._waits_since: float | None = None  # when the renewal was sent that is under way
        self.losses = 0

    def start(self) -> None:
        self._renewing.start()
        self._watching.start()

    def close(self) -> None:
        """A renewal that is not answered is not waited for: nothing is held any more."""
        self._closed.set()
        for thread in (self._renewing, self._watching):
            if thread.is_alive():
                thread.join(CLOSE_SECONDS)

    def add(self, works: list[Work], asked_at: float) -> None:
        """Start keeping; `asked_at` is when the claim was sent."""
        trust = Trust(asked_at, self._seconds)
        stop_at = trust.must_stop_at()
        with self._lock:
            for work in works:
                work.trusted_until = stop_at
                self._held[work.job.id] = (work, trust)

    def drop(self, works: Sequence[Work]) -> None:
        with self._lock:
            for work in works:
                held = self._held.get(work.job.id)
                if held and held[0] is work:
                    del self._held[work.job.id]

    def count(self) -> int:
        return len(self._held)

    def held(self) -> list[Work]:
        with self._lock:
            return [work for work, _ in self._held.values()]

    def beat(self) -> float:
        """Renew what is due, stop what is lost; answers the seconds until the next look."""
        stay(self._pid, "renewing")
        now = self._clock()
        with self._lock:
            due = [(work, trust) for work, trust in self._held.values() if trust.renew_at() <= now]
        if due:
            self._renew([work for work, _ in due])
        self._stop_unconfirmed()
        return self._pause()

    def _renew(self, works: list[Work]) -> None:
        asked_at = self._waits_since = self._clock()
        try:
            answers = self._queue.renew([work.claim for work in works], self._seconds)
        except Exception:
            return  # unknown: trust simply goes on running out, and the next beat asks again
        finally:
            self._waits_since = None
        for work in works:
            answer = answers.get(work.claim.id)
            if answer == "lost":
                self._lose(work, "lost")
                continue
            self._confirm(work, asked_at)
            if answer is not None:
                work.stop(answer)  # revoked: the work must die, and its holder must say so

    def _confirm(self, work: Work, asked_at: float) -> None:
        with self._lock:
            held = self._held.get(work.claim.id)
            if held and held[0] is work:  # else it was given back meanwhile, and perhaps claimed anew
                trust = Trust(asked_at, self._seconds)
                work.trusted_until = trust.must_stop_at()
                self._held[work.claim.id] = (work, trust)

    def _stop_unconfirmed(self) -> None:
        now = self._clock()
        with self._lock:
            late = [work for work, trust in self._held.values() if trust.must_stop_at() <= now]
        for work in late:
            self._lose(work, "unconfirmed")

    def _lose(self, work: Work, reason: str) -> None:
        self.losses += 1
        self.drop([work])
        work.stop(reason)

    def _pause(self) -> float:
        with self._lock:
            if not self._held:
                return self._seconds / 3
            soonest = min(min(trust.renew_at(), trust.must_stop_at()) for _, trust in self._held.values())
        return max(RETRY_SECONDS / 4, min(soonest - self._clock(), RETRY_SECONDS if soonest < self._clock() else 60.0))

    def _renew_on(self) -> None:
        while not self._closed.is_set():
            self._closed.wait(min(self.beat(), self._seconds / 6))

    def _watch_on(self) -> None:
        seen = None
        while not self._closed.wait(min(self._seconds / 30, 1.0)):
            seen = self.watch(seen)

    def watch(self, seen: float | None) -> float | None:
        """Stop what is late, if the same renewal is still waited for as when we looked before. In any other case
        whoever renews will do so: after a long sleep it asks first, and then it is known who has the job."""
        stay(self._pid, "watching over leases")
        waits_since = self._waits_since
        if waits_since is not None and waits_since == seen:
            self._stop_unconfirmed()
        return waits_since
