"""One name, one object, one collection: whatever is minted, brought along or found, on every store."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from custody.errors import Refused
from custody.formats.noid import Noid
from custody.ingest.adapters import Minter
from custody.ingest.steps import steps
from custody.ingest.storage.inventory import Entry
from custody.ingest.storage.ocfl.change import Change, Given
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Job
from ingest.bench import Archive, quick

OWN = "ark:/99999/fk4"
OUTSIDE = "ark:/12345/x9"


def counting(home: Archive, template: str = "seedk") -> Noid:
    """A minter whose next names anybody can tell; in its place the profiles' own."""
    mint = Noid("99999", "fk4", template, itertools.count().__next__)
    minted_by(home, mint)
    return mint


def minted_by(home: Archive, minter: Minter) -> None:
    home.world = replace(home.world, minters=dict.fromkeys(home.world.profiles, minter))


def taking_over(home: Archive) -> None:
    """Collections that take objects along which were named elsewhere on our shoulder."""
    profiles = {
        name: replace(profile, identifier=replace(profile.identifier, take_over=True))
        for name, profile in home.world.profiles.items()
    }
    home.world = replace(home.world, profiles=profiles)


def deposit(home: Archive, collection: str, text: str = "mine", **fields: Any) -> int:
    name = f"{collection}-{text}.txt"
    return home.submit(home.put(name, text.encode()), collection, type="file", filename=name, **fields)


def only(home: Archive, batch: int) -> Job:
    (job,) = home.jobs(batch)
    return job


def reason(home: Archive, batch: int) -> str:
    return home.store.queue.reason(only(home, batch))


# -- what is minted ------------------------------------------------------------------------------------


def test_what_is_minted_next_cannot_be_claimed_before(home: Archive) -> None:
    taking_over(home)
    mint = counting(home)
    squatted = [deposit(home, "maps", f"foreign-{n}", primary_id=mint.name(n)) for n in range(3)]
    home.run()
    victims = [deposit(home, "papers", f"own-{n}") for n in range(3)]
    home.run()
    assert {home.batch(each).state for each in (*squatted, *victims)} == {"completed"}
    named = {only(home, each).facts["primary"] for each in victims}
    assert named == {mint.name(n) for n in (3, 4, 5)}
    for each in squatted:
        assert home.store.records.item(only(home, each).facts["primary"]).collection == "maps"
    assert {home.store.records.item(name).collection for name in named} == {"papers"}
    assert {only(home, each).facts["version"] for each in (*squatted, *victims)} == {1}


def test_a_name_brought_along_by_a_job_under_way_is_not_minted_for_another(home: Archive) -> None:
    taking_over(home)
    mint = counting(home)
    brought = deposit(home, "maps", "brought", primary_id=mint.name(0))
    storing, fresh = steps.STEPS["storing"], []

    def slowly(work: Any, world: Any) -> Any:
        """It has its name and nothing is stored, until the other one has been given a name, too."""
        if work.job.parent == brought and not fresh:
            fresh.append(deposit(home, "papers", "fresh"))
            end = time.monotonic() + 30
            while time.monotonic() < end and not any("primary" in job.facts for job in home.jobs(fresh[0])):
                time.sleep(0.02)
        return storing(work, world)

    steps.STEPS["storing"] = slowly
    try:
        home.run()
    finally:
        steps.STEPS["storing"] = storing
    assert only(home, brought).facts["primary"] == mint.name(0)
    assert only(home, fresh[0]).facts["primary"] == mint.name(1)


def test_a_name_that_is_an_item_or_lies_in_storage_is_passed_over(home: Archive) -> None:
    mint = counting(home)
    home.store.records.put([NewItem(mint.name(0), frozenset({"book"}), "library")], (), "ada")
    home.put("old.txt", b"old")
    old = home.home / "depositor" / "old.txt"
    change = Change({"producer/old.txt": Given(old)}, "elsewhere-1", datetime(2020, 1, 1, tzinfo=UTC))
    home.world.nodes["main"].store(mint.name(1), change)
    batch = deposit(home, "papers")
    home.run()
    assert only(home, batch).facts["primary"] == mint.name(2)
    assert home.store.records.item(mint.name(0)).collection == "library"


def test_many_who_mint_at_once_never_share_a_name(home: Archive) -> None:
    """Each of them asks a minter of its own that counts from the beginning, as after a backup was put back."""
    world = home.world

    @dataclass
    class Forgetful:
        goes_on = True

        def mint(self, *given: object) -> str:
            for number in itertools.count():
                name = Noid("99999", "fk4", "seedk", int).name(number)
                if world.names.find(name) is None:
                    return name
            raise AssertionError

    minted_by(home, Forgetful())
    batches = [deposit(home, "papers", str(n)) for n in range(8)]
    home.run()
    assert len({only(home, each).facts["primary"] for each in batches}) == 8
    assert {only(home, each).facts["version"] for each in batches} == {1}


def test_a_minter_elsewhere_that_gives_a_name_which_is_used_here_fails_the_job_and_it_can_be_resumed(
    home: Archive,
) -> None:
    first = deposit(home, "maps")
    home.run()
    used = only(home, first).facts["primary"]

    @dataclass
    class Elsewhere:
        answer: str
        goes_on = False

        def mint(self, *given: object) -> str:
            return self.answer

    minter = Elsewhere(used)
    minted_by(home, minter)
    batch = deposit(home, "papers", "second")
    home.run()
    assert (only(home, batch).state, only(home, batch).code) == ("failed", "identifier.taken")
    assert used not in reason(home, batch)
    assert [each.version for each in home.world.inventory.versions(used)] == [1]
    assert home.store.records.events(f"identifier/{used}")[-1].detail["belongs_to"] == "maps"
    minter.answer = "ark:/12345/fresh"
    home.operator.resume(only(home, batch).id, "EZID was mended")
    home.run()
    assert only(home, batch).facts["primary"] == "ark:/12345/fresh"

    twice = deposit(home, "papers", "third")  # the same answer for another request
    home.run()
    assert only(home, twice).code == "identifier.taken"
    assert [each.version for each in home.world.inventory.versions("ark:/12345/fresh")] == [1]


def test_two_stores_do_not_mint_in_the_same_order(home: Archive, tmp_path: Path) -> None:
    from custody.ingest.world import open_world
    from custody.kernel.stores import open_store
    from ingest.bench import CONFIG

    with open_store(f"sqlite:///{tmp_path / 'other.db'}") as store:
        there = quick(open_world(store, CONFIG, home.home)).minters["papers"]
        names = [[each.mint("", None, "") for _ in range(20)] for each in (home.world.minters["papers"], there)]  # type: ignore[arg-type]
    assert not set(names[0]) & set(names[1])
    again = quick(open_world(home.store, CONFIG, home.home)).minters["papers"]
    assert again.name(0) == names[0][0], "and a worker that is started anew goes on in the same order"  # type: ignore[attr-defined]


# -- what is brought along -----------------------------------------------------------------------------


def test_a_name_on_our_own_shoulder_that_was_never_given_out_is_refused(home: Archive) -> None:
    batch = deposit(home, "papers", primary_id=f"{OWN}typo")
    home.run()
    assert (only(home, batch).state, only(home, batch).code) == ("failed", "identifier.forbidden")
    hyphens = deposit(home, "papers", "b", primary_id="ark:/99999/f-k4typo")
    outside = deposit(home, "papers", "c", primary_id=OUTSIDE)
    home.run()
    assert only(home, hyphens).code == "identifier.forbidden"
    assert home.batch(outside).state == "completed"
    known = only(home, deposit_and_run(home, "papers", "d")).facts["primary"]
    second = deposit(home, "papers", "e", primary_id=known)
    home.run()
    assert only(home, second).facts["version"] == 2, "one that was given out here is a next version of it"


def deposit_and_run(home: Archive, collection: str, text: str) -> int:
    batch = deposit(home, collection, text)
    home.run()
    return batch


def test_a_name_that_another_collection_has_brought_along_is_refused_until_that_came_to_nothing(home: Archive) -> None:
    first = home.submit("http://127.0.0.1:9/no.txt", "maps", type="file", filename="no.txt", primary_id=OUTSIDE)
    home.run()
    assert only(home, first).state == "failed", "it never came as far as to have a name"
    home.world.names.take(OUTSIDE, "maps", f"job-{only(home, first).id}-{only(home, first).created}")
    second = deposit(home, "papers", primary_id=OUTSIDE)
    home.run()
    assert home.batch(second).state == "completed", "a deposit into the wrong collection keeps no name for ever"
    assert home.world.inventory.get(OUTSIDE).collection == "papers"
    third = deposit(home, "maps", "again", primary_id=OUTSIDE)
    home.run()
    assert only(home, third).code == "identifier.forbidden"


# -- when it is stored and recorded --------------------------------------------------------------------


def test_a_job_whose_name_has_become_anothers_stores_nothing(home: Archive) -> None:
    """As after an upgrade in the middle, or when a backup was put back."""
    batch = deposit(home, "papers")
    storing = steps.STEPS["storing"]
    theirs = f"{OUTSIDE}theirs"

    def late(work: Any, world: Any) -> Any:
        if "swapped" not in work.facts:
            assert home.world.names.take(theirs, "maps", "job-1-1")
            work.keep(primary=theirs, swapped=True)
        return storing(work, world)

    steps.STEPS["storing"] = late
    try:
        home.run()
    finally:
        steps.STEPS["storing"] = storing
    assert (only(home, batch).state, only(home, batch).code) == ("failed", "identifier.forbidden")
    assert not home.world.nodes["main"].holds(theirs)


def test_a_new_object_is_never_a_next_version_of_what_lies_in_storage(home: Archive) -> None:
    home.put("old.txt", b"old")
    given = Given(home.home / "depositor" / "old.txt")
    change = Change({"producer/old.txt": given}, "elsewhere-1", datetime(2020, 1, 1, tzinfo=UTC))
    root = home.world.nodes["main"]
    root.store(OUTSIDE, change)
    batch = deposit(home, "papers", primary_id=OUTSIDE)
    home.run()
    assert (only(home, batch).state, only(home, batch).code) == ("failed", "object.exists")
    assert len(root.inventory(OUTSIDE).versions) == 1  # type: ignore[attr-defined]
    home.operator.resume(only(home, batch).id, "look again")
    home.run()
    assert only(home, batch).code == "object.exists"


def test_no_deposit_moves_an_item_to_another_collection(home: Archive) -> None:
    home.store.records.put([NewItem(OUTSIDE, frozenset({"book"}), "library")], (), "ada")
    entry = Entry(OUTSIDE, "ark:/99999/owner", "papers", "main", "", "", "", 1, 1, 1, [], [])
    with pytest.raises(Refused, match="no object of this collection"):
        home.world.inventory.record(entry)
    assert home.world.inventory.find(OUTSIDE) is None
    batch = deposit(home, "papers", primary_id=OUTSIDE)
    home.run()
    assert only(home, batch).code == "identifier.forbidden"
    assert home.store.records.item(OUTSIDE).collection == "library"


# -- what a depositor is told --------------------------------------------------------------------------


def test_what_is_anothers_looks_as_if_it_were_not_there(home: Archive) -> None:
    theirs = deposit(home, "papers", local_id="lid-papers")
    home.run()
    found = only(home, theirs).facts["primary"]
    by_local = deposit(home, "maps", "a", local_id="lid-papers")
    by_name = deposit(home, "maps", "b", primary_id=found)
    never = deposit(home, "maps", "c", primary_id=f"{OWN}never")
    both = deposit(home, "maps", "d", primary_id=OUTSIDE, local_id="lid-papers")
    mixed = deposit(home, "maps", "e", local_id="own")
    home.run()
    mixed = deposit(home, "maps", "f", local_id="own;lid-papers")
    home.run()
    for batch in (by_local, by_name, never, both, mixed):
        assert only(home, batch).code == "identifier.forbidden"
        told = reason(home, batch).replace(str(only(home, batch).payload.get("primary_id", "~")), "")
        assert found not in told
        assert "papers" not in told.replace("lid-papers", "")
        events = home.store.records.all_events(only(home, batch).subject)
        assert batch == by_name or not any(found in str(event.detail) for event in events)
    assert reason(home, by_name).replace(found, "X") == reason(home, never).replace(f"{OWN}never", "X")
    assert home.store.records.events(f"identifier/{found}")[0].detail["belongs_to"] == "papers"
