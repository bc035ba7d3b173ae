"""Named leases: one holder at a time, and a token that outdates everyone before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from custody.errors import LeaseLost
from custody.kernel.model.lease import Lease
from custody.kernel.stores import Store
from custody.kernel.stores.leases import check
from kernel.stores.clock import HandClock


def take(store: Store, holder: str = "ann", seconds: float = 30, name: str = "sealer") -> Lease:
    lease = store.leases.claim(name, holder, seconds)
    assert lease is not None
    return lease


def test_a_free_name_is_given_with_a_token_until_a_time(store: Store, clock: HandClock) -> None:
    lease = take(store, seconds=30)
    assert (lease.name, lease.holder, lease.until) == ("sealer", "ann", clock.now() + 30_000_000)
    assert store.leases.get("sealer") == lease


def test_a_name_that_is_held_is_not_given_again_not_even_to_its_holder(store: Store) -> None:
    # A restarted process has the same name and is another process.
    take(store, "ann")
    assert store.leases.claim("sealer", "bo", 30) is None
    assert store.leases.claim("sealer", "ann", 30) is None


def test_what_a_job_left_behind_is_inherited_by_whoever_works_on_it_next_and_by_nobody_else(store: Store) -> None:
    first = store.leases.inherit("localid/x", "job/1", 30)
    assert first is not None
    assert store.leases.inherit("localid/x", "job/2", 30) is None
    second = store.leases.inherit("localid/x", "job/1", 30)
    assert second is not None
    assert second.token > first.token
    assert not store.leases.settle(first), "the one before is fenced out"
    assert store.leases.get("localid/x") == second
    assert store.leases.settle(second)
    assert store.leases.inherit("localid/x", "job/2", 30) is not None


def test_other_names_are_free(store: Store) -> None:
    take(store, name="sealer")
    assert take(store, "bo", name="sweeper").holder == "bo"
    assert [lease.name for lease in store.leases.list()] == ["sealer", "sweeper"]


def test_an_ended_lease_passes_on_and_its_token_rises(store: Store, clock: HandClock) -> None:
    first = take(store, "ann", seconds=30)
    clock.advance(seconds=30)
    second = take(store, "bo")
    assert second.token > first.token


def test_a_lease_given_back_is_free_and_its_token_has_risen(store: Store) -> None:
    first = take(store)
    assert store.leases.settle(first)
    assert store.leases.get("sealer") is None
    assert take(store, "bo").token > first.token


def test_a_renewal_moves_the_end_and_keeps_the_token(store: Store, clock: HandClock) -> None:
    lease = take(store, seconds=30)
    clock.advance(seconds=20)
    renewed = store.leases.renew(lease, 30)
    assert (renewed.token, renewed.until) == (lease.token, clock.now() + 30_000_000)
    clock.advance(seconds=20)
    assert store.leases.claim("sealer", "bo", 30) is None


def test_a_lease_that_has_ended_cannot_be_renewed_even_if_nobody_took_it(store: Store, clock: HandClock) -> None:
    lease = take(store, seconds=30)
    clock.advance(seconds=30)
    with pytest.raises(LeaseLost):
        store.leases.renew(lease, 30)


def test_an_old_holder_neither_renews_nor_gives_back(store: Store, clock: HandClock) -> None:
    old = take(store, "ann", seconds=30)
    clock.advance(seconds=31)
    new = take(store, "bo")

    with pytest.raises(LeaseLost):
        store.leases.renew(old, 30)
    assert not store.leases.settle(old)
    assert store.leases.get("sealer") == new


@pytest.mark.parametrize("forged", [{"holder": "bo"}, {"token": 0}, {"token": 99}])
def test_only_the_holder_with_the_current_token_is_heard(store: Store, forged: dict[str, object]) -> None:
    lease = take(store)
    wrong = replace(lease, **forged)  # type: ignore[arg-type]
    with pytest.raises(LeaseLost):
        store.leases.renew(wrong, 30)
    assert not store.leases.settle(wrong)
    assert store.leases.get("sealer") == lease


def test_the_same_holder_again_is_outdated_by_itself(store: Store, clock: HandClock) -> None:
    before = take(store, "ann", seconds=30)
    clock.advance(seconds=31)
    after = take(store, "ann")
    with pytest.raises(LeaseLost):
        store.leases.renew(before, 30)
    assert store.leases.renew(after, 30).token == after.token


def test_an_administrator_breaks_a_lease_and_its_holder_is_fenced_out(store: Store) -> None:
    lease = take(store)
    assert store.leases.take_away("sealer", "eva", "the host is gone")
    assert not store.leases.take_away("sealer", "eva", "again")

    with pytest.raises(LeaseLost):
        store.leases.renew(lease, 30)
    assert take(store, "bo").token > lease.token
    (event,) = store.records.events("lease/sealer")
    assert (event.type, event.agent, event.detail) == ("broken", "eva", {"why": "the host is gone"})


def test_a_transaction_that_relies_on_a_lease_is_refused_once_it_has_passed_on(store: Store, clock: HandClock) -> None:
    lease = take(store, seconds=30)
    store.db.write(lambda tx: check(tx, lease))

    clock.advance(seconds=30)
    with pytest.raises(LeaseLost):
        store.db.write(lambda tx: check(tx, lease))
    take(store, "bo")
    with pytest.raises(LeaseLost):
        store.db.write(lambda tx: check(tx, lease))


def test_an_unknown_name_is_held_by_nobody(store: Store) -> None:
    assert store.leases.get("nothing") is None
    assert not store.leases.settle(Lease("nothing", "ann", 1, 0, 0))
    assert not store.leases.take_away("nothing", "eva", "why not")
