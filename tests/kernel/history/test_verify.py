"""Verification finds every way of tampering, at its place, and accepts what the law may ask for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from custody.kernel.history.chain import ERASED, erasure_detail
from custody.kernel.history.verify import FAULTS, HOUR, verify
from kernel.history.archive import INTRUDER, SECOND, SIGNER, Archive, grown_archive, some_events
from kernel.history.attacks import ATTACKS, NEED_A_WITNESS, Attack, is_found, some_place
from prove.plugin import Scaled, Tell


@cache
def past(seed: int) -> Archive:
    return grown_archive(Random(seed))


@pytest.mark.parametrize("seed", range(10))
def test_an_untouched_history_is_sound(seed: int) -> None:
    archive = past(seed)
    report = archive.verify(archive.heads())
    assert report.faults == []
    assert report.sound
    assert report.events == len(archive.events)
    assert report.unsealed == 3
    assert report.blocks == report.witnessed == 6
    assert report.head == archive.last.head


@pytest.mark.proves("H10")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_tampering_is_found_at_its_place(attack: Attack, scaled: Scaled[int], tell: Tell) -> None:
    places = scaled(25, 200, 10_000)
    tell("", attacks=1, places=places)
    for seed in range(places):
        archive, random = past(seed % 10).copy(), Random(seed)
        kept = archive.heads()
        clue = attack(archive, random)
        faults = archive.verify(kept).faults
        assert is_found(clue, faults), (seed, clue, faults)
        assert {fault.kind for fault in faults} <= FAULTS.keys()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_without_a_witness_all_but_a_few_are_found_too(attack: Attack) -> None:
    archive = past(1).copy()
    clue = attack(archive, Random(1))
    assert is_found(clue, archive.verify().faults) == (attack not in NEED_A_WITNESS)


@pytest.mark.parametrize("seed", range(5))
def test_one_edited_event_is_one_fault(seed: int) -> None:
    archive = past(seed).copy()
    place = some_place(archive, Random(seed))
    archive.events[place] = replace(archive.events[place], detail={"quietly": "changed"})
    assert len(archive.verify(archive.heads()).faults) == 1


def test_several_tamperings_are_all_listed() -> None:
    archive = past(2).copy()
    kept, random = archive.heads(), Random(7)
    chosen = [attack for attack in ATTACKS[:5] for _ in range(3)]
    clues = {attack(archive, random) for attack in chosen}
    faults = archive.verify(kept).faults
    assert all(is_found(clue, faults) for clue in clues)


def test_a_fault_says_in_words_where_and_what() -> None:
    archive = past(3).copy()
    place = some_place(archive, Random(3))
    del archive.events[place]
    (fault,) = archive.verify().faults
    assert str(fault) == f"{place[0]}#{place[1]}: the event is gone, its leaf is still there"


def test_a_hole_of_any_size_is_one_fault() -> None:
    archive = past(4).copy()
    subject, seq = some_place(archive, Random(4))
    leaf = archive.leaves.pop((subject, seq))
    archive.leaves[subject, 10**12] = replace(leaf, seq=10**12)
    assert len(archive.verify().faults) < 10


def test_rows_in_the_wrong_order_are_a_mistake_of_the_caller_and_not_a_fault() -> None:
    archive = past(4)
    with pytest.raises(ValueError, match="out of order"):
        verify(reversed(archive.rows()), archive.in_order(), keys=[SIGNER.public])


# --- erasure ---


@pytest.mark.parametrize("sealed", [True, False])
def test_a_lawful_erasure_verifies_and_names_the_event_that_erased(sealed: bool) -> None:
    archive = past(5).copy()
    kept = archive.heads()
    places = [some_place(archive, Random(seed)) for seed in (1, 2)]
    archive.erase(*places)
    if sealed:
        archive.seal()
    report = archive.verify(kept)
    assert report.faults == []
    assert report.erased == dict.fromkeys(places, "erasures#1")
    assert all(archive.events[place].detail == {} for place in places)


def test_an_erasing_event_that_was_changed_explains_nothing() -> None:
    archive = past(5).copy()
    place, other = some_place(archive, Random(1)), ("job/1", 1)
    archive.erase(other)
    archive.seal()
    archive.erase(place, told=False)
    told = archive.events["erasures", 1]
    archive.events["erasures", 1] = replace(told, detail=erasure_detail([other, place], "asked by law"))
    faults = archive.verify().faults
    assert is_found(("edited", "erasures#1"), faults)
    assert is_found(("unexplained-erasure", f"{place[0]}#{place[1]}"), faults)


def test_the_event_that_erased_cannot_be_erased_itself() -> None:
    archive = past(5).copy()
    place = some_place(archive, Random(1))
    archive.erase(place)
    archive.seal()
    archive.erase(("erasures", 1))
    archive.seal()
    assert is_found(("unexplained-erasure", f"{place[0]}#{place[1]}"), archive.verify().faults)


def test_an_erased_body_cannot_be_guessed_from_what_is_left() -> None:
    archive = Archive()
    for _ in range(2):
        archive.append("job/1", agent="Ann", detail={"diagnosis": "yes"})
    archive.seal()
    one, other = archive.leaves.values()
    assert one.body != other.body
    archive.erase(("job/1", 1))
    assert archive.leaves["job/1", 1].salt is None


def test_an_erasure_in_a_strange_form_is_no_erasure() -> None:
    archive = past(5).copy()
    place = some_place(archive, Random(1))
    archive.erase(place, told=False)
    for detail in ({}, {"erased": "everything"}, {"erased": [place[0]]}, {"erased": [{"subject": place[0]}]}):
        archive.append("erasures", ERASED, detail=detail)
    assert is_found(("unexplained-erasure", f"{place[0]}#{place[1]}"), archive.verify().faults)


# --- witnesses ---


def test_a_head_signed_by_a_stranger_is_a_fault_of_the_witness() -> None:
    archive = past(6)
    forged = replace(archive.last.head, signatures=((INTRUDER.name, INTRUDER.sign(archive.last.head.text)),))
    assert is_found(("witness", "block 6"), archive.verify([forged]).faults)


def test_a_head_of_another_history_is_a_fault_of_the_witness() -> None:
    archive, other = past(6), replace(SIGNER, name="elsewhere.example.org")
    head = replace(archive.last.head, origin=other.name)
    head = replace(head, signatures=((other.name, other.sign(head.text)),))
    report = verify(archive.rows(), archive.in_order(), keys=[SIGNER.public, other.public], heads=[head])
    assert is_found(("witness", "block 6"), report.faults)


def test_what_could_not_be_checked_is_said() -> None:
    archive = past(6)
    assert any("no witness's head was given" in limit for limit in archive.verify().limits)
    assert any("3 events are not sealed yet" in limit for limit in archive.verify().limits)
    partly = archive.verify(archive.heads()[:4]).limits
    assert "no witness vouches for blocks 5 to 6" in partly
    assert not any("witness" in limit for limit in archive.verify(archive.heads()).limits)
    sealed = archive.copy()
    sealed.seal()
    assert not any("not sealed yet" in limit for limit in sealed.verify().limits)
    assert Archive().verify().limits == ["nothing was ever sealed: this history proves nothing yet"]


def test_a_history_sealed_with_two_keys_in_turn_verifies_with_both() -> None:
    archive = past(6).copy()
    archive.seal(INTRUDER)
    assert not archive.verify().sound
    keys = [SIGNER.public, INTRUDER.public]
    assert verify(archive.rows(), archive.in_order(), keys=keys, heads=archive.heads()).sound


# --- times ---


def test_a_late_transaction_is_not_called_back_dated() -> None:
    archive = past(7).copy()
    archive.append("job/late", at=archive.last.at - HOUR // 2)
    archive.seal()
    assert archive.verify().sound


def test_a_backlog_sealed_in_several_blocks_is_not_called_back_dated() -> None:
    archive = Archive()
    some_events(archive, 3, 20)
    archive.now += 5 * HOUR
    events = archive.unsealed()
    archive.write(archive.attempt(events[:10], more=True))
    archive.write(archive.attempt(events[10:]))
    assert [block.complete for block in archive.in_order()] == [False, True]
    assert archive.verify().sound


def test_each_impossible_time_is_told_for_what_it_is() -> None:
    archive = past(7).copy()
    now = archive.last.at
    times = {"job/old": now - 2 * HOUR, "job/new": now + 2 * HOUR}
    for subject, at in times.items():
        archive.append(subject, at=at)
    archive.append("job/turn", at=now)
    archive.seal()
    archive.append("job/turn", at=now - 2 * HOUR)
    told = {fault.where: fault.message for fault in archive.verify().faults}
    assert told.keys() == {"job/old#1", "job/new#1", "job/turn#2"}
    assert told["job/old#1"].endswith("but everything that old had been sealed before")
    assert told["job/new#1"].endswith("is after the time it was sealed")
    assert told["job/turn#2"].endswith("is before that of the event it follows")


def test_how_late_is_too_late_is_the_callers_choice() -> None:
    archive = past(7).copy()
    archive.append("job/late", at=archive.last.at - SECOND)
    archive.seal()
    strict = verify(archive.rows(), archive.in_order(), keys=[SIGNER.public], tolerance=0)
    assert is_found(("misdated", "job/late#1"), strict.faults)
