"""Sealing: by absence of a leaf, without locks; two sealers, late events and odd events do no harm."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from custody.errors import BadInput, Refused
from custody.kernel.history.block import ALGORITHM, pack, subtrees_of_blocks, unpack
from custody.kernel.history.chain import START, Tip, body_hash, leaf_data, leaf_hash
from custody.kernel.history.merkle import leaf, root, subtrees_of
from custody.kernel.history.seal import seal
from custody.kernel.model.event import Event
from kernel.history.archive import INTRUDER, SECOND, SIGNER, START_TIME, Archive, grown_archive

EVENT = Event(7, "job/12", 1, "moved", "success", "worker 1.0", 1_772_000_000_000_000, {"to": "done"}, 3, "ab12")


def test_a_leaf_is_made_exactly_as_documented() -> None:
    body = body_hash(EVENT, bytes(16))
    assert body.hex() == "a8281f11841daf9aae473ea5fbcfb3a983f968cc1411248776d74b9a0e6b9064"
    assert leaf_data(EVENT, START, body) == (
        b'["custody event 1","job/12",1,"' + b"0" * 64 + b'","moved","success",1772000000000000,3,"ab12","'
        b'a8281f11841daf9aae473ea5fbcfb3a983f968cc1411248776d74b9a0e6b9064"]'
    )
    assert leaf_hash(EVENT, START, body) == leaf(leaf_data(EVENT, START, body))


CHANGES = {
    "subject": "job/13",
    "seq": 2,
    "type": "held",
    "outcome": "failure",
    "agent": "Ann",
    "at": 0,
    "detail": {},
    "token": 4,
    "move": "cd34",
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_but_the_row_id_is_in_the_leaf(field: str) -> None:
    changed = replace(EVENT, **{field: CHANGES[field]})  # type: ignore[arg-type]
    made = [leaf_hash(event, START, body_hash(event, bytes(16))) for event in (EVENT, changed)]
    assert made[0] != made[1]


def test_the_row_id_is_not_in_the_leaf_so_that_a_history_can_move_to_another_database() -> None:
    assert body_hash(replace(EVENT, id=99), b"") == body_hash(EVENT, b"")
    assert leaf_data(replace(EVENT, id=99), START, START) == leaf_data(EVENT, START, START)


def test_the_first_block_begins_everything() -> None:
    archive = Archive()
    archive.append("job/2")
    archive.append("job/1")
    archive.append("job/2")
    archive.seal()
    block = archive.last
    places = [(leaf.subject, leaf.seq, leaf.block, leaf.position) for leaf in archive.leaves.values()]
    assert places == [("job/1", 1, 1, 0), ("job/2", 1, 1, 1), ("job/2", 2, 1, 2)]
    assert (block.number, block.previous, block.count, block.total) == (1, START, 3, 3)
    assert block.root == root([leaf.hash for leaf in archive.leaves.values()])
    assert block.at == START_TIME + SECOND
    assert block.algorithm == ALGORITHM
    assert block.complete
    assert block.head.signed_by([SIGNER.public]) == SIGNER.public
    assert block.head.signed_by([INTRUDER.public]) is None


def test_with_nothing_to_seal_there_is_no_block() -> None:
    archive = grown_archive(Random(1))
    archive.seal()
    assert archive.attempt().sealed is None
    assert Archive().attempt().sealed is None


def test_an_event_that_commits_late_falls_into_the_next_block() -> None:
    archive = Archive()
    early, late = archive.append("job/1"), archive.append("job/2")
    after = archive.append("job/3")
    archive.write(archive.attempt([early, after]))  # `late` has a lower id, but was not visible yet
    archive.seal()
    assert archive.leaves["job/2", 1].block == 2
    assert (archive.last.count, archive.last.total) == (1, 3)
    assert late not in archive.unsealed()
    assert archive.verify(archive.heads()).sound


def test_two_sealers_cannot_both_win_a_block() -> None:
    archive = grown_archive(Random(2))
    one, other = archive.attempt(), archive.attempt()
    assert one.sealed
    assert other.sealed
    assert one.sealed.block.number == other.sealed.block.number
    assert one.sealed.block != other.sealed.block  # their salts differ
    archive.write(one)
    with pytest.raises(KeyError):
        archive.write(other)
    assert archive.verify(archive.heads()).sound


def test_the_loser_starts_again_from_the_winners_head() -> None:
    archive = grown_archive(Random(2))
    winner, late = archive.attempt(), archive.append("job/late")
    archive.write(winner)
    again = archive.attempt()
    archive.write(again)
    assert again.sealed
    assert winner.sealed
    assert [(leaf.subject, leaf.seq) for leaf in again.sealed.leaves] == [(late.subject, late.seq)]
    assert again.sealed.block.previous == winner.sealed.block.hash
    assert archive.verify(archive.heads()).sound


def test_the_order_in_which_events_are_handed_over_does_not_matter() -> None:
    events = grown_archive(Random(3), blocks=0).unsealed()
    one, other = (seal(None, order, {}, START_TIME, SIGNER, salts=bytes) for order in (events, list(reversed(events))))
    assert one == other


def test_one_odd_event_does_not_stop_the_sealing_of_others() -> None:
    archive = Archive()
    odd, waiting = archive.append("job/1", detail={"size": 2**70}), archive.append("job/1")
    archive.append("job/2")
    sealing = archive.attempt()
    archive.write(sealing)
    assert [(left.event, left.why) for left in sealing.left_out] == [
        (odd, f"/detail/size: history cannot keep the number {2**70}, which is not exact (write it as text)"),
        (waiting, "job/1 is sealed up to 0; 1 has to come first"),
    ]
    assert list(archive.leaves) == [("job/2", 1)]
    assert not archive.last.complete


def test_an_event_waits_for_the_one_before_it() -> None:
    archive = Archive()
    first, second = archive.append("job/1"), archive.append("job/1")
    sealing = archive.attempt([second])
    assert sealing.sealed is None
    assert [left.event for left in sealing.left_out] == [second]
    archive.write(archive.attempt([first]))
    archive.seal()
    assert archive.leaves["job/1", 2].block == 2


def test_what_is_sealed_is_not_sealed_again() -> None:
    sealing = seal(None, [EVENT], {"job/12": Tip(1, START)}, START_TIME, SIGNER)
    assert sealing.sealed is None
    assert [left.why for left in sealing.left_out] == ["job/12 is sealed up to 1 already"]


def test_a_clock_that_was_set_back_does_not_make_heads_go_back() -> None:
    archive = grown_archive(Random(4))
    before = archive.last.at
    archive.now = before - SECOND * 60
    archive.seal()
    assert archive.last.at == before


def test_a_history_keeps_its_name() -> None:
    archive = grown_archive(Random(4))
    with pytest.raises(Refused, match=r"named archive\.example\.org"):
        archive.attempt(signer=replace(SIGNER, name="elsewhere.example.org"))


def test_salts_are_never_reused() -> None:
    archive = grown_archive(Random(5))
    archive.seal()
    salts = [leaf.salt for leaf in archive.leaves.values()]
    assert len(set(salts)) == len(salts)
    assert all(salt is not None and len(salt) == 16 for salt in salts)


def test_the_frontier_fits_into_one_column() -> None:
    block = grown_archive(Random(6)).last
    assert unpack(pack(block.frontier)) == block.frontier
    assert len(pack(block.frontier)) == 32 * block.number.bit_count()
    with pytest.raises(BadInput):
        unpack(b"short")


def test_subtrees_of_the_running_tree_come_from_two_block_rows_each() -> None:
    archive = Archive()
    for number in range(37):
        archive.append(f"job/{number}")
        archive.seal()
    read: list[int] = []
    of_blocks = subtrees_of_blocks(lambda number: read.append(number) or archive.blocks[number])  # type: ignore[func-returns-value]
    of_leaves = subtrees_of([block.hash for block in archive.in_order()])
    for height in range(6):
        for index in range(37 >> height):
            read.clear()
            assert of_blocks(height, index) == of_leaves(height, index)
            assert len(read) <= 2
