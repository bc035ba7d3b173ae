"""Ways of tampering with a history, from careless to thorough, each at a random place.

An attack changes an archive whose heads witnesses have, and returns what the verifier must find: the kind of
fault and its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import TypeAlias

from custody.kernel.history.chain import ERASED, Place, body_hash, erasure_detail
from custody.kernel.history.keys import Signer
from custody.kernel.history.verify import Fault, place_name
from custody.kernel.model.event import Event
from kernel.history.archive import INTRUDER, SECOND, SIGNER, Archive, some_events

Clue: TypeAlias = tuple[str, str]
Attack: TypeAlias = Callable[[Archive, Random], Clue]


def some_place(archive: Archive, random: Random, *, last: bool = True) -> Place:
    """A sealed event; with `last=False` one that has a sealed event after it."""
    tips = archive.tips()
    places = [p for p in archive.leaves if last or tips[p[0]].seq > p[1]]
    return random.choice(sorted(places))


def edit(archive: Archive, place: Place) -> Event:
    event = archive.events[place]
    archive.events[place] = replace(event, detail=dict(event.detail) | {"quietly": "changed"})
    return archive.events[place]


def remove(archive: Archive, places: Iterable[Place]) -> None:
    for place in list(places):
        archive.events.pop(place, None)
        archive.leaves.pop(place, None)


def of_block(archive: Archive, number: int) -> list[Place]:
    return [place for place, leaf in archive.leaves.items() if leaf.block == number]


def some_block(archive: Archive, random: Random, *, last: bool = True) -> int:
    return random.randint(1, len(archive.blocks) if last else len(archive.blocks) - 1)


# --- careless ---


def edit_the_detail(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    edit(archive, place)
    return "edited", place_name(*place)


def edit_the_agent(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    archive.events[place] = replace(archive.events[place], agent="somebody else")
    return "edited", place_name(*place)


def edit_the_outcome(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    event = archive.events[place]
    archive.events[place] = replace(event, outcome="failure" if event.outcome == "success" else "success")
    return "edited", place_name(*place)


def edit_the_time(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    archive.events[place] = replace(archive.events[place], at=archive.events[place].at - 1)
    return "edited", place_name(*place)


def put_in_what_cannot_be_hashed(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    archive.events[place] = replace(archive.events[place], detail={"size": 2**70})
    return "edited", place_name(*place)


def exchange_two_events(archive: Archive, random: Random) -> Clue:
    subject, seq = some_place(archive, random, last=False)
    one, other = archive.events[subject, seq], archive.events[subject, seq + 1]
    archive.events[subject, seq], archive.events[subject, seq + 1] = (
        replace(other, seq=seq),
        replace(one, seq=seq + 1),
    )
    return "edited", place_name(subject, seq)


def delete_an_event_but_not_its_leaf(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    del archive.events[place]
    return "deleted", place_name(*place)


def delete_an_event_in_the_middle(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random, last=False)
    remove(archive, [place])
    return "deleted", place_name(*place)


def delete_the_end_of_a_subject(archive: Archive, random: Random) -> Clue:
    subject, seq = some_place(archive, random)
    block = archive.leaves[subject, seq].block
    remove(archive, [place for place in archive.events if place[0] == subject and place[1] >= seq])
    return "block-changed", f"block {block}"


def delete_a_whole_subject(archive: Archive, random: Random) -> Clue:
    subject, _ = some_place(archive, random)
    block = archive.leaves[subject, 1].block
    remove(archive, [place for place in archive.events if place[0] == subject])
    return "block-changed", f"block {block}"


def take_a_leaf_away(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random, last=False)
    del archive.leaves[place]
    return "leaf-missing", place_name(*place)


def erase_without_saying_so(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    archive.erase(place, told=False)
    return "unexplained-erasure", place_name(*place)


def erase_and_say_that_it_failed(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    archive.erase(place, told=False)
    archive.append("erasures", ERASED, outcome="failure", detail=erasure_detail([place], "asked by law"))
    return "unexplained-erasure", place_name(*place)


def erase_and_write_something_else(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    archive.erase(place)
    archive.events[place] = replace(archive.events[place], detail={"it was": "all in order"})
    return "written-over", place_name(*place)


def edit_what_is_left_of_an_erased_event(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    archive.erase(place)
    archive.events[place] = replace(archive.events[place], type="praised")
    return "edited", place_name(*place)


# --- with traces covered in the leaves ---


def edit_and_give_it_a_new_body_hash(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    event, leaf = edit(archive, place), archive.leaves[place]
    archive.leaves[place] = replace(leaf, body=body_hash(event, leaf.salt or b""))
    return "edited", place_name(*place)


def edit_and_relink_the_subject(archive: Archive, random: Random) -> Clue:
    place = some_place(archive, random)
    edit(archive, place)
    archive.relink(place[0])
    return "block-changed", f"block {archive.leaves[place].block}"


def delete_and_close_the_gap(archive: Archive, random: Random) -> Clue:
    subject, seq = some_place(archive, random, last=False)
    block = archive.leaves[subject, seq].block
    remove(archive, [(subject, seq)])
    later = sorted(place for place in archive.events if place[0] == subject and place[1] > seq)
    for _, old in later:
        place = (subject, old - 1)
        archive.events[place] = replace(archive.events.pop((subject, old)), seq=old - 1)
        if (subject, old) in archive.leaves:
            archive.leaves[place] = replace(archive.leaves.pop((subject, old)), seq=old - 1)
    archive.relink(subject)
    return "block-changed", f"block {block}"


def give_an_event_to_another_subject(archive: Archive, random: Random) -> Clue:
    subject, seq = some_place(archive, random)
    block = archive.leaves[subject, seq].block
    moved = [place for place in archive.events if place[0] == subject]
    for place in moved:
        new = ("job/999", place[1])
        archive.events[new] = replace(archive.events.pop(place), subject="job/999")
        if place in archive.leaves:
            archive.leaves[new] = replace(archive.leaves.pop(place), subject="job/999")
    archive.relink("job/999")
    return "block-changed", f"block {block}"


def change_the_order_inside_a_block(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random)
    one, other = random.sample(sorted(of_block(archive, number)), 2)
    positions = archive.leaves[one].position, archive.leaves[other].position
    archive.leaves[one] = replace(archive.leaves[one], position=positions[1])
    archive.leaves[other] = replace(archive.leaves[other], position=positions[0])
    return "block-changed", f"block {number}"


def seal_something_outside_any_block(archive: Archive, random: Random) -> Clue:
    sealing = archive.attempt([archive.append("job/77", "praised")])
    assert sealing.sealed
    (leaf,) = sealing.sealed.leaves
    archive.leaves["job/77", 1] = leaf
    return "block-missing", f"block {leaf.block}"


def seal_a_place_twice(archive: Archive, random: Random) -> Clue:
    """In the store a unique constraint forbids it; in an export nothing does."""
    place = some_place(archive, random)
    leaf = archive.leaves[place]
    archive.leaves[place[0], 10**6] = replace(leaf, block=len(archive.blocks), position=10**6)
    return "repeated", place_name(*place)


# --- with traces covered in the blocks ---


def delete_a_block_in_the_middle(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random, last=False)
    remove(archive, of_block(archive, number))
    del archive.blocks[number]
    return "block-missing", f"block {number}"


def delete_the_last_block(archive: Archive, random: Random) -> Clue:
    number = len(archive.blocks)
    remove(archive, of_block(archive, number))
    del archive.blocks[number]
    return "went-back", f"block {number}"


def delete_the_last_block_but_not_its_leaves(archive: Archive, random: Random) -> Clue:
    number = len(archive.blocks)
    del archive.blocks[number]
    return "block-missing", f"block {number}"


def count_one_event_fewer(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random)
    block = archive.blocks[number]
    archive.blocks[number] = replace(block, count=block.count - 1, total=block.total - 1)
    return "block-changed", f"block {number}"


def date_a_block_back(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random)
    archive.blocks[number] = replace(archive.blocks[number], at=archive.blocks[number].at - 1)
    return "block-forged", f"block {number}"


def date_a_block_beyond_what_can_be_hashed(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random)
    archive.blocks[number] = replace(archive.blocks[number], at=2**54)
    return "block-forged", f"block {number}"


def date_a_block_beyond_any_calendar(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random)
    archive.blocks[number] = replace(archive.blocks[number], at=2**62)
    return "signature", f"block {number}"


def change_the_running_tree(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random)
    block = archive.blocks[number]
    archive.blocks[number] = replace(block, frontier=(*block.frontier[:-1], bytes(32)))
    return "block-forged", f"block {number}"


def use_the_signature_of_another_block(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random, last=False)
    other = archive.blocks[number + 1]
    archive.blocks[number] = replace(archive.blocks[number], signature=other.signature)
    return "signature", f"block {number}"


def drop_a_signature(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random)
    archive.blocks[number] = replace(archive.blocks[number], signature=b"")
    return "signature", f"block {number}"


def claim_another_algorithm(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random)
    archive.blocks[number] = replace(archive.blocks[number], algorithm="none")
    return "algorithm", f"block {number}"


# --- rewriting everything from some place on ---


def rewrite(archive: Archive, random: Random, signer: Signer) -> int:
    place = some_place(archive, random)
    number = archive.leaves[place].block
    edit(archive, place)
    archive.reseal(signer)
    return number


def rewrite_with_another_key(archive: Archive, random: Random) -> Clue:
    return "signature", f"block {rewrite(archive, random, INTRUDER)}"


def rewrite_with_the_true_key(archive: Archive, random: Random) -> Clue:
    return "forked", f"block {rewrite(archive, random, SIGNER)}"


def insert_a_back_dated_event_and_rewrite_with_the_true_key(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random)
    leaf = archive.leaves[min(of_block(archive, number))]
    event = archive.append("job/77", "praised", at=archive.blocks[number].at - SECOND)
    archive.leaves[event.subject, event.seq] = replace(leaf, subject=event.subject, seq=event.seq)
    archive.reseal(SIGNER)
    return "forked", f"block {number}"


def append_a_back_dated_event(archive: Archive, random: Random) -> Clue:
    """Everything is sealed as it should be; only the time is a lie."""
    event = archive.append("job/77", "praised", at=archive.blocks[1].at - 2 * 3600 * SECOND)
    archive.seal()
    return "misdated", place_name(event.subject, event.seq)


def append_a_back_dated_event_and_do_not_seal_it(archive: Archive, random: Random) -> Clue:
    event = archive.append("job/77", "praised", at=archive.blocks[1].at - 2 * 3600 * SECOND)
    return "misdated", place_name(event.subject, event.seq)


def append_an_event_from_the_future(archive: Archive, random: Random) -> Clue:
    event = archive.append("job/77", "praised", at=archive.now + 2 * 3600 * SECOND)
    archive.seal()
    return "misdated", place_name(event.subject, event.seq)


def restore(archive: Archive, blocks: int) -> None:
    """Bring the store back to when it had so many blocks."""
    remove(archive, [place for place in archive.events if place not in archive.leaves])
    for number in range(blocks + 1, len(archive.blocks) + 1):
        remove(archive, of_block(archive, number))
        del archive.blocks[number]


def bring_an_older_backup_back(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random, last=False)
    restore(archive, number)
    return "went-back", f"block {number + 1}"


def bring_an_older_backup_back_and_go_on(archive: Archive, random: Random) -> Clue:
    number = some_block(archive, random, last=False)
    before = len(archive.blocks)
    restore(archive, number)
    while len(archive.blocks) <= before:
        some_events(archive, 4, 5)
        archive.seal()
    return "forked", f"block {number + 1}"


ATTACKS: tuple[Attack, ...] = (
    edit_the_detail,
    edit_the_agent,
    edit_the_outcome,
    edit_the_time,
    put_in_what_cannot_be_hashed,
    exchange_two_events,
    delete_an_event_but_not_its_leaf,
    delete_an_event_in_the_middle,
    delete_the_end_of_a_subject,
    delete_a_whole_subject,
    take_a_leaf_away,
    erase_without_saying_so,
    erase_and_say_that_it_failed,
    erase_and_write_something_else,
    edit_what_is_left_of_an_erased_event,
    edit_and_give_it_a_new_body_hash,
    edit_and_relink_the_subject,
    delete_and_close_the_gap,
    give_an_event_to_another_subject,
    change_the_order_inside_a_block,
    seal_something_outside_any_block,
    seal_a_place_twice,
    delete_a_block_in_the_middle,
    delete_the_last_block,
    delete_the_last_block_but_not_its_leaves,
    count_one_event_fewer,
    date_a_block_back,
    date_a_block_beyond_what_can_be_hashed,
    date_a_block_beyond_any_calendar,
    change_the_running_tree,
    use_the_signature_of_another_block,
    drop_a_signature,
    claim_another_algorithm,
    rewrite_with_another_key,
    rewrite_with_the_true_key,
    insert_a_back_dated_event_and_rewrite_with_the_true_key,
    append_a_back_dated_event,
    append_a_back_dated_event_and_do_not_seal_it,
    append_an_event_from_the_future,
    bring_an_older_backup_back,
    bring_an_older_backup_back_and_go_on,
)

NEED_A_WITNESS = {
    delete_the_last_block,
    rewrite_with_the_true_key,
    insert_a_back_dated_event_and_rewrite_with_the_true_key,
    bring_an_older_backup_back,
    bring_an_older_backup_back_and_go_on,
}
"""What nobody could see without a head kept elsewhere."""


def is_found(clue: Clue, faults: Iterable[Fault]) -> bool:
    return clue in {(fault.kind, fault.where) for fault in faults}
