"""What comes from outside with a key is made once: the same again is the same job, and anything else is refused.

Two sorts of key are one rule. A caller's own (`Idempotency-Key`) stands for one request, all that it says; it is kept
apart from the jobs, so that it answers as it did at first when the job, its kind or what it waited for is gone. A key
that is given to a job stands for that job in its collection, whatever the kind: within the program a key is unique in
its kind only, but nobody outside can know which kinds an application has.
"""

from __future__ import annotations

from collections.abc import Callable

from custody.errors import KeyConflict
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.names.job_keys import Asked, IsFree, OwnKey, named
from custody.kernel.stores.rows import Tx, job_from
from custody.kernel.stores.rules.submit import Submitted


def answered(tx: Tx, request: Asked) -> int:
    """What the request with this key was answered; 0 when it is new. Refuses another request."""
    for number, before in tx.run("handed_in", key=request.key):
        if before != request.fingerprint:
            raise KeyConflict(
                "this key was used before, for another request",
                where="Idempotency-Key",
                hint="a new request needs a new key",
                job=int(number),
            )
        return int(number)
    return 0


def submit_once(
    tx: Tx, new: NewJob, request: Asked | None, is_free: IsFree, make: Callable[[], Submitted]
) -> Submitted:
    """The job, or the one that stands for it already: found, written and remembered together."""
    if request is not None:
        tx.run("hand_in", key=request.key, fingerprint=request.fingerprint)
        if number := answered(tx, request):
            return Submitted(number, False)
    if new.key is not None:
        tx.run("lock_key", within=new.collection, key=new.key)
        _must_mean_this(tx, new, is_free)
    made = make()
    if request is not None:
        tx.run("handed_in_as", key=request.key, batch=made.id, fingerprint=request.fingerprint)
    return made


def _must_mean_this(tx: Tx, new: NewJob, is_free: IsFree) -> None:
    """Refuse a key that another job has; in a store of before, several may have it, and each still answers to it."""
    found = [job_from(row) for row in tx.run("jobs_with_key", key=new.key)]
    if any((each.kind, each.collection) == (new.kind, new.collection) for each in found):
        return
    for other in found:
        if _is_one_key(new, other, is_free):
            raise KeyConflict(
                f"{named(new.key)} was used before, for job {other.id} of kind {other.kind}",
                hint="a new piece of work needs a new key",
                job=other.id,
            )


def _is_one_key(new: NewJob, other: Job, is_free: IsFree) -> bool:
    """A caller's own key is the caller's everywhere; another is its collection's, among the kinds that are nobody's."""
    return isinstance(new.key, OwnKey) or (other.collection == new.collection and is_free(other.kind))
