"""A claim is a receipt, too: after history went back, the same number and the same token may be another job's.

A standby that is promoted without the last of what its primary did gives out numbers and tokens a second time. So what
is fenced is fenced by the move of the claim as well, which no two claims share; by the holder alone it would not do, since
one worker may hold the job of before and claim the one of now.
"""

from __future__ import annotations

import pytest

from custody.errors import LeaseLost
from custody.kernel.model.job import Claim, NewJob
from custody.kernel.model.lease import Lease
from custody.kernel.stores import Store
from custody.kernel.stores.leases import check
from kernel.stores.acts import BATCH, execute, settle, state, submit, take, take_one, types, worked
from kernel.stores.clock import HandClock

HOLDERS = ("ann", "bo")


either = pytest.mark.parametrize("holder", HOLDERS)


def claimed_twice(store: Store, holder: str) -> tuple[Claim, Claim]:
    """A claim of ann's that the store knows nothing of any more, and one of the same number and token that it gave out
    since: to another worker, or to her."""
    submit(store)
    lost = take_one(store)
    _never_claimed(store)
    now = take_one(store, holder=holder)
    assert (now.id, now.token) == (lost.id, lost.token)
    return lost, now


def _never_claimed(store: Store) -> None:
    store.db.write(
        lambda tx: execute(tx, "update job set holder = null, until = 0, token = token - 1, attempts = attempts - 1")
    )


@either
def test_nobody_settles_a_job_by_a_claim_of_another_history(store: Store, holder: str) -> None:
    lost, now = claimed_twice(store, holder)
    answer = settle(store, lost)
    assert (answer.done, answer.code) == (False, "lease.lost")
    assert (state(store, now.id), types(store, now.id)) == ("queued", ["submitted"])
    assert settle(store, now).done


@either
def test_nor_one_by_one(store: Store, holder: str) -> None:
    lost, now = claimed_twice(store, holder)
    answer = settle(store, lost, "fail", retries=1)  # which does not travel with others
    assert (answer.done, answer.code) == (False, "lease.lost")
    assert settle(store, now, retries=1).done


def test_nor_among_others_that_are_of_this_one(store: Store) -> None:
    store.queue.submit([NewJob("parcel") for _ in range(3)])
    lost = take(store, limit=3)
    _never_claimed(store)
    now = [take_one(store) for _ in range(3)]
    mixed = [worked(claim, "pass") for claim in (now[0], lost[1], now[2])]
    assert [answer.done for answer in store.queue.settle(mixed)] == [True, False, True]
    assert settle(store, now[1]).done


@either
def test_a_claim_of_another_history_is_not_renewed_and_is_told_so(store: Store, clock: HandClock, holder: str) -> None:
    lost, now = claimed_twice(store, holder)
    until = store.queue.get(now.id).until
    clock.advance(seconds=10)
    assert store.queue.renew([lost], 30) == {lost.id: "lost"}
    assert store.queue.get(now.id).until == until
    assert store.queue.renew([now], 30) == {}
    assert settle(store, now).done


@either
def test_nor_is_anything_kept_given_back_or_suspected_by_it(store: Store, holder: str) -> None:
    lost, now = claimed_twice(store, holder)
    with pytest.raises(LeaseLost):
        store.queue.keep(lost, {"a": 1}, {"a": 1}, [NewJob("letter")], "ann")
    assert store.queue.release([lost]) == 0
    assert store.queue.suspect([lost], 3) == 0
    row = store.queue.get(now.id)
    assert (row.facts, row.holder, row.suspect) == ({}, now.holder, 0)
    assert store.queue.suspect([now], 3) == 1
    store.queue.keep(now, {"a": 1}, {"a": 1}, [], now.holder)
    assert store.queue.release([now]) == 1


def test_what_it_would_have_brought_does_not_come(store: Store) -> None:
    submit(store, "batch", machine=BATCH)
    lost = take_one(store, "batch", state="pending")
    _never_claimed(store)
    take_one(store, "batch", state="pending")
    assert not settle(store, lost, "pass", BATCH, then=[NewJob("letter")]).done
    assert take(store, "letter") == []


def _checked(store: Store, lease: Lease) -> None:
    store.db.write(lambda tx: check(tx, lease))


@either
def test_a_named_lease_of_another_history_is_nobodys(store: Store, clock: HandClock, holder: str) -> None:
    lost = store.leases.claim("sealer", "ann", 30)
    assert lost is not None
    store.db.write(lambda tx: execute(tx, "delete from lease"))
    clock.advance(seconds=1)
    now = store.leases.claim("sealer", holder, 30)
    assert now is not None
    assert now.token == lost.token
    with pytest.raises(LeaseLost):
        store.leases.renew(lost, 60)
    with pytest.raises(LeaseLost):
        _checked(store, lost)
    assert not store.leases.settle(lost)
    assert store.leases.get("sealer") == now
    _checked(store, now)
    assert store.leases.settle(store.leases.renew(now, 60))
