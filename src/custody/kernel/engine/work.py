"""What a handler is given: the claimed job, and the few things it may do besides returning an outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from custody.errors import CustodyError, LeaseLost, Unavailable
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.model.job import Claim, Job, NewJob
from custody.kernel.ports import Queue


class Work:
    """One claim being worked on."""

    __slots__ = (
        "_facts",
        "_on_stop",
        "_queue",
        "_unsure",
        "claim",
        "confirmed",
        "in_a_row",
        "job",
        "prepared",
        "stop_reason",
        "stopped",
        "trusted_until",
    )
    _stopping = threading.Lock()  # one for all: few are ever stopped, and a lock for each would cost each

    def __init__(self, claim: Claim, queue: Queue, in_a_row: int = 0) -> None:
        self.claim = claim
        self.in_a_row = in_a_row  # how many before it were each claimed with the end of the one before
        self.job: Job = claim.job
        self._queue = queue
        self._facts: Mapping[str, Any] = claim.job.facts  # replaced, never changed
        self._unsure = False  # an answer got lost: something may have been kept
        self._on_stop: list[Callable[[], None]] | None = None
        self.stopped = False  # asked for by the keeper, obeyed by the handler, or by whatever `on_stop` kills
        self.stop_reason = ""
        self.confirmed = False  # nothing of an earlier attempt is alive
        self.prepared: Any = None  # what `Kind.prepare` found for it
        self.trusted_until = 0.0  # on the monotonic clock: how long the lease is known to be ours; set by the keeper

    @property
    def payload(self) -> Mapping[str, Any]:
        return self.claim.job.payload

    @property
    def facts(self) -> Mapping[str, Any]:
        """What earlier states and attempts have kept, and this one so far."""
        return self._facts

    def keep(self, **facts: Any) -> None:
        """Save facts now, under this claim's token: what must not be done twice, such as minting an identifier."""
        self.spawn((), **facts)

    def spawn(self, children: Sequence[NewJob], **facts: Any) -> list[int]:
        """Submit jobs and save facts in one transaction: a walk through many rows can go on where it stopped."""
        if self.lost:
            raise LeaseLost(f"job {self.job.id} is no longer ours ({self.stop_reason})")
        self._look_again()
        merged = {**self._facts, **facts}
        try:
            made = self._queue.keep(self.claim, merged, facts, children, agent=self.claim.holder)
        except Unavailable:
            self._unsure = True
            raise
        self._facts = merged
        return [job.id for job in made]

    def is_sure_of_its_facts(self) -> bool:
        """False when it cannot be found out what has been kept: then nothing may be said, and the lease ends."""
        try:
            self._look_again()
        except CustodyError:
            self.stop("unknown")
        return not self._unsure

    def _look_again(self) -> None:
        if self._unsure:
            self._facts = self._queue.get(self.job.id).facts
            self._unsure = False

    def tried(self, most: int) -> int:
        """How many tries it has had in this state. An attempt that ended with its worker is none, so whoever is about
        to give up asks; if nobody can be asked it is tried once more."""
        if self.job.attempts < max(2, most):
            return self.job.attempts
        try:
            return self._queue.failures_before(self.job) + 1
        except CustodyError:
            return 1

    # Stopping

    @property
    def lost(self) -> bool:
        """The lease is gone: whatever this work says now will be refused."""
        return self.stop_reason in ("lost", "unconfirmed")

    def stop(self, reason: str) -> None:
        with self._stopping:
            if self.stopped:
                return
            self.stop_reason, self.stopped = reason, True
            callbacks = self._on_stop or ()
        for callback in callbacks:
            with suppress(Exception):  # one that fails keeps neither the others from being told nor us from our round
                try:
                    callback()
                finally:
                    stay(self.claim.pid, "stopping job {}", self.job.id)

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Call this when the work must stop; at once if it must already."""
        with self._stopping:
            if not self.stopped:
                self._on_stop = [*(self._on_stop or ()), callback]
                return
        callback()

    def wait(self, seconds: float) -> bool:
        """Sleep, but not beyond being stopped; True when stopped."""
        told = threading.Event()
        self.on_stop(told.set)
        try:
            return told.wait(seconds)
        finally:
            with self._stopping:
                self._on_stop = [callback for callback in self._on_stop or () if callback != told.set]
