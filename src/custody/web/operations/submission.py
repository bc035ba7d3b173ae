"""Submitting from outside: keys and needs stay within what the caller sees.

A key that a caller gives belongs to the collection, one in the header `Idempotency-Key` to the caller. What is told of
jobs that the caller does not see is that they are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from custody.errors import BadInput, KeyConflict, NotFound
from custody.kernel.access.caller import Caller
from custody.kernel.model.authority.acting import identity_of
from custody.kernel.model.job import Job, NewJob
from custody.kernel.model.names.job_keys import Asked, OwnKey, asked, callers_key
from custody.kernel.model.why import Reason
from custody.kernel.ports import SubmittedJob
from custody.kernel.stores import Store
from custody.kernel.stores.rows import job_from
from custody.kernel.stores.rules.submit import Submitted, the_earlier
from custody.web.operations.makers import MAKERS

UNSEEN: Final = ("needs", "blocked")
LONGEST: Final = 200
HEADER: Final = "Idempotency-Key"


def key_of(caller: Caller, given: str | None, header: str) -> str | None:
    """The key that a job is to have; a given one that only the system makes is refused by the store."""
    return given or own_key(caller, header)


def own_key(caller: Caller, header: str) -> str | None:
    """The key in a caller's header, as the caller's own."""
    request = request_of(caller, header, "", {})
    return request.key if request else None


def request_of(caller: Caller, header: str, what: str, said: Mapping[str, Any]) -> Asked | None:
    """A request with a key of its caller's own; none without one."""
    if not header:
        return None
    if len(header) > LONGEST or not header.isprintable():
        raise BadInput(f"an idempotency key has up to {LONGEST} printable characters", where=HEADER, code="key.form")
    return asked(callers_key(caller.identity, header), what, said)


def of_before(store: Store, caller: Caller, new: NewJob, header: str) -> Job | None:
    """What a key in the header stood for when such keys hung on names: it still does, for who is called so."""
    if not header:
        return None
    earlier = _earlier(store, replace(new, key=f"{caller.name}/{header}"))
    is_old = earlier is not None and earlier.created < store.acting_since()
    return earlier if earlier and is_old and identity_of(earlier.by) in ("", caller.identity) else None


def submit(
    store: Store, caller: Caller, new: NewJob, header: str, request: Asked | None, must_be_open: Callable[[], None]
) -> SubmittedJob:
    """As the store does it, for a caller who must not hear of what is not his to see. What he has asked for before is
    answered as it was then, whatever has become of it, of its kind and of what it waits for."""
    reads = replace(caller, right="job:read")
    try:
        if request is not None and (number := store.queue.answered(request)):
            store.confirm()
            made: SubmittedJob = Submitted(number, False)
        else:
            made = _made(store, caller, new, header, request=request, must_be_open=must_be_open)
    except KeyConflict as conflict:
        if conflict.where == HEADER or isinstance(new.key, OwnKey):
            raise used_before() from None
        number = conflict.facts.get("job", 0)
        if not isinstance(number, int) or _unseen(store, reads, [number]):
            raise _taken() from None
        raise
    if not made.new and _is_foreign(store, reads, made.id):
        raise _taken()
    return made


def _made(
    store: Store, caller: Caller, new: NewJob, header: str, request: Asked | None, must_be_open: Callable[[], None]
) -> SubmittedJob:
    reads = replace(caller, right="job:read")
    before = of_before(store, caller, new, header)
    known = before or (_earlier(store, new) if new.key else None)
    if before is None and (known is None or identity_of(known.by) != caller.identity):
        must_be_open()
    if known is not None and not reads.sees_job(known):
        raise _taken()  # before the request is remembered: it must not stand for somebody else's job
    unseen = [] if known else _unseen(store, reads, [edge.on for edge in new.needs])
    if unseen:
        raise BadInput(f"there is no job {unseen[0]} to wait for", code="job.needs", where="job needs")
    if before:
        return the_earlier(new, before, "")
    return store.queue.submit_once(new, caller.acting, request, MAKERS.is_free)


def used_before() -> KeyConflict:
    """What a caller hears of a key in the header: what it was used for stands under the number that they were told."""
    return KeyConflict(
        "this key was used before, for another request", where=HEADER, hint="a new request needs a new key"
    )


@contextmanager
def plainly() -> Iterator[None]:
    """Refuse a key in the header in the words for it, whatever kept it."""
    try:
        yield
    except KeyConflict:
        raise used_before() from None


def _taken() -> KeyConflict:
    return KeyConflict("this key was used before, by somebody else", hint="a new piece of work needs a new key")


def _earlier(store: Store, new: NewJob) -> Job | None:
    """What was made when all needs were still there answers to its key, whatever became of them."""
    rows = store.db.glance(lambda tx: tx.run("job_of_key", kind=new.kind, key=new.key, within=new.key_within))
    return job_from(rows[0]) if rows else None


def _unseen(store: Store, caller: Caller, ids: Sequence[int]) -> list[int]:
    """Of these jobs those that are not there, or not there for this caller."""
    return [each for each in sorted(ids) if not sees(store, caller, each)]


def _is_foreign(store: Store, caller: Caller, number: int) -> bool:
    """Is there such a job, and not for this caller? One that was deleted is nobody's any more."""
    try:
        return not caller.sees_job(store.queue.get(number))
    except NotFound:
        return False


def sees(store: Store, caller: Caller, number: int) -> bool:
    """Is there such a job, for this caller?"""
    try:
        return caller.sees_job(store.queue.get(number))
    except NotFound:
        return False


def told_to(store: Store, caller: Caller, reasons: Sequence[Reason]) -> Sequence[Reason]:
    """Why a job waits, without the names of jobs that the caller does not see."""
    foreign = [each for each in reasons if each.job and each.code in UNSEEN and not sees(store, caller, each.job)]
    if caller.sees_all or not foreign:
        return reasons
    jobs = f"{len(foreign)} job{'' if len(foreign) == 1 else 's'} that you do not see"
    rest = [each for each in reasons if each not in foreign]
    return [*rest, Reason("needs", f"it waits for {jobs}", "an operator sees what they wait for")]
