"""Leases, tokens and clocks: the two hard ideas of this engine, told once.

**A lease is permission for a while, not a lock.** Whoever claims a job (or a name) holds it until a moment
in the store's time. There is no list of living workers, no heartbeat table and no rescuer: a lease that
is not renewed simply ends, and then anyone may claim. So "running" is not a state of a job. A job that is
being worked on is a claimable job whose lease has not ended.

**A lease alone does not protect anything.** A worker can be stopped for an hour (a debugger, a laptop lid, a
page fault on a dying disk), wake up, and go on in the belief that it still holds its lease. No clock on its
side can prevent that. What prevents it is the **token**: a number on the job's row that rises at every claim
*and* at every move. Every write that moves a job carries the token its claim was given, and the store
compares inside the same statement that writes. The sleeper's token is old, so its write changes nothing
and it is told `LeaseLost`. The token must rise at moves as well as at claims, because a worker that settles
and is then asked to settle again (an answer got lost, a thread ran twice) holds a token that no *claim*
has outdated.

**Unknown is an answer.** If the connection breaks after a settle was sent, the worker cannot know whether it
was committed. Each move writes a random *move id* beside its event, so the worker can look: its own id in
the job's history means *done*; a newer token without it means *refused*. A token alone cannot
tell "my settle" from "an administrator's cancel".

**Which clock may be trusted for what.** The store's clock decides when a lease ends; it is read once per
transaction. No decision compares clocks of two machines. A worker uses its own monotonic clock only to
stop early: it measures from *before* it sent the renewal, so a slow answer shortens its trust and never
stretches it. If two thirds of the lease have passed without a confirmed renewal, the work is stopped, so that
it is dead before anyone else can hold the lease.

**Lease expiry is not death.** A worker under SIGSTOP does not work, but a child process it started does. So
whatever runs outside the worker's own threads stands under a deadman of its own (see `border.deadman`), and
"cancelled" is recorded only when the work is confirmed dead: a revoked holder's token stays good for
renewing and for exactly one settle, the one that says its work has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

STOP_AFTER = 2 / 3
"""The share of a lease after which unconfirmed work is stopped."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A name held by someone until a moment of the store's time (microseconds)."""

    name: str
    holder: str
    token: int
    until: int
    since: int


@dataclass(frozen=True, slots=True)
class Trust:
    """What a holder may believe, on its own monotonic clock (seconds)."""

    asked_at: float
    seconds: float

    def must_stop_at(self) -> float:
        return self.asked_at + self.seconds * STOP_AFTER

    def renew_at(self) -> float:
        return self.asked_at + self.seconds / 3
