"""Equal spellings of a name are one name: whoever brings it, looks it up or has had it for long, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from custody.errors import Refused
from custody.ingest.storage.inventory import Entry
from custody.kernel.model.item import NewItem
from custody.kernel.stores.rules.spellings import kept
from ingest.bench import Archive
from ingest.test_taken_names import counting, deposit, only, reason, taking_over
from kernel.stores.acts import execute

FORM = "ark:/12345/ab1cd"
SPELLINGS = ["ark:/12345/ab1-cd", "ark:12345/ab1cd", "ark:/12345/ab1cd/", "ARK:/12345//ab1cd.", "ark:/12345/%61b1cd"]


def of_before(home: Archive, spelled: str, collection: str, local_id: str = "") -> None:
    """An object that was named before names had one form, as a migration leaves it."""

    def work(tx: Any) -> None:
        for owner, name in [("", spelled), *([("ark:/99999/owner", local_id)] if local_id else [])]:
            execute(tx, f"insert into spelling (owner, spelled, normal) values ('{owner}', '{name}', '')")
        if local_id:
            words = f"values ('ark:/99999/owner', '{local_id}', '{spelled}')"
            execute(tx, f"insert into inv_local (owner, local_id, ark) {words}")

    assert home.world.names.take(spelled, collection, "job-1-1")
    entry = Entry(spelled, "ark:/99999/owner", collection, "main", "", "", "", 1, 1, 1, [], [])
    home.world.inventory.record(entry)
    home.store.records.put([NewItem(spelled, frozenset({"object"}), collection)], (), "ada")
    home.store.db.write(work)


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_equal_names_are_one_object_of_one_collection(home: Archive, spelled: str) -> None:
    first = deposit(home, "papers", "a", primary_id=spelled)
    home.run()
    assert only(home, first).facts["primary"] == FORM
    second = deposit(home, "maps", "b", primary_id=FORM)
    third = deposit(home, "papers", "c", primary_id=FORM)
    home.run()
    assert only(home, second).code == "identifier.forbidden"
    assert (only(home, third).facts["primary"], only(home, third).facts["version"]) == (FORM, 2)
    assert home.store.records.item(spelled).id == FORM
    assert home.world.nodes["main"].holds(FORM)


def test_equal_names_at_once_are_one_object(home: Archive) -> None:
    batches = [deposit(home, "papers", str(n), primary_id=each) for n, each in enumerate(SPELLINGS)]
    home.run()
    assert {only(home, each).facts["primary"] for each in batches} == {FORM}
    assert sorted(only(home, each).facts["version"] for each in batches) == [1, 2, 3, 4, 5]


def test_the_rows_of_a_manifest_that_name_one_object_are_versions_of_it(home: Archive) -> None:
    from custody.ingest.submission.inline import manifest_of

    rows = [{"url": home.put(f"{n}.txt", b"x%d" % n), "primary_id": each} for n, each in enumerate(SPELLINGS)]
    made = manifest_of(rows)
    batch = home.submit(home.put("all.checkm", made.text.encode()), "papers", type=made.type)
    home.run()
    assert {job.facts["primary"] for job in home.jobs(batch)} == {FORM}


def test_an_object_that_was_named_before_is_found_by_every_equal_name_and_keeps_its_own(home: Archive) -> None:
    of_before(home, "ark:/12345/ab1-cd", "papers")
    for spelled in [FORM, *SPELLINGS]:
        assert kept(home.store.db, spelled) == "ark:/12345/ab1-cd"
        assert home.store.records.item(spelled).id == "ark:/12345/ab1-cd"
    another = deposit(home, "maps", "a", primary_id=FORM)
    home.run()
    assert only(home, another).code == "identifier.forbidden"
    assert home.world.names.find(FORM) is None
    assert home.world.names.equals(FORM) == ["ark:/12345/ab1-cd"]


def test_where_equal_names_were_given_to_two_objects_each_collection_has_its_own(home: Archive) -> None:
    of_before(home, "ark:/12345/ab1-cd", "papers")
    of_before(home, FORM, "maps")
    assert home.store.records.item("ark:/12345/ab1-cd").collection == "papers"
    assert home.store.records.item(FORM).collection == "maps"
    assert kept(home.store.db, "ark:12345/ab-1cd") == FORM
    into_papers = deposit(home, "papers", "a", primary_id="ark:/12345/a-b1cd")
    into_maps = deposit(home, "maps", "b", primary_id="ark:/12345/a-b1cd")
    home.run()
    assert only(home, into_papers).facts["primary"] == "ark:/12345/ab1-cd"
    assert only(home, into_maps).facts["primary"] == FORM


def test_where_one_collection_has_both_nobody_guesses_and_a_local_id_says_which(home: Archive) -> None:
    of_before(home, "ark:/12345/ab1-cd", "papers", local_id="lid-1")
    of_before(home, FORM, "papers")
    either = deposit(home, "papers", "a", primary_id="ark:12345/ab1cd")
    said = deposit(home, "papers", "b", primary_id="ark:12345/ab1cd", local_id="lid-1")
    home.run()
    assert only(home, either).code == "identifier.ambiguous"
    assert "ark:/12345/ab1-cd" in reason(home, either)
    assert only(home, said).facts["primary"] == "ark:/12345/ab1-cd"


def test_what_is_minted_is_equal_to_nothing_that_was_named_before(home: Archive) -> None:
    taking_over(home)
    mint = counting(home)
    first = mint.name(0)
    of_before(home, f"{first[:-2]}-{first[-2:]}", "maps")
    batch = deposit(home, "papers", "a")
    home.run()
    assert only(home, batch).facts["primary"] == mint.name(1)


# -- local ids -----------------------------------------------------------------------------------------


def test_a_local_id_of_a_scheme_is_the_same_in_every_equal_spelling_and_others_only_in_their_own(home: Archive) -> None:
    first = deposit(home, "papers", "a", local_id="DOI:10.5072/FK2; Lid-1")
    home.run()
    second = deposit(home, "papers", "b", local_id="https://doi.org/10.5072/fk2")
    third = deposit(home, "papers", "c", local_id="lid-1")
    home.run()
    assert only(home, second).facts["primary"] == only(home, first).facts["primary"]
    assert only(home, third).facts["primary"] != only(home, first).facts["primary"]


def test_equal_local_ids_at_once_are_one_object(home: Archive) -> None:
    spelled = ["doi:10.5072/FK2", "DOI:10.5072/fk2", "https://doi.org/10.5072/Fk2", "http://dx.doi.org/10.5072/fK2"]
    batches = [deposit(home, "papers", str(n), local_id=each) for n, each in enumerate(spelled)]
    home.run()
    assert len({only(home, each).facts["primary"] for each in batches}) == 1


def test_a_local_id_of_before_is_found_by_every_equal_spelling(home: Archive) -> None:
    of_before(home, "ark:/12345/x", "papers", local_id="DOI:10.5072/FK2")
    assert home.world.inventory.arks_of("ark:/99999/owner", ["doi:10.5072/fk2"]) == {"doi:10.5072/fk2": "ark:/12345/x"}
    home.world.inventory.reserve("ark:/99999/owner", ["doi:10.5072/Fk2"], "ark:/12345/x")
    assert list(home.world.inventory.local_ids("ark:/12345/x")) == ["DOI:10.5072/FK2"]
    with pytest.raises(Refused, match="belongs to another object"):
        home.world.inventory.reserve("ark:/99999/owner", ["doi:10.5072/Fk2"], "ark:/12345/y")
