"""Grants: an operator's word, on record from the moment it was given to the moment it was withdrawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from custody.errors import BadInput
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.registers.grants import withdraw_all
from kernel.stores.acts import execute
from kernel.stores.clock import HandClock
from kernel.stores.older import number_of, older

HOST = ("archive/book", "network", "data.example.org:443")


def notes(store: Store, subject: str = "archive/book") -> list[tuple[str, str, str]]:
    return [(event.type, event.agent, str(event.detail["why"])) for event in store.records.events(subject)]


def test_what_is_granted_holds_for_that_subject_and_that_alone(store: Store, clock: HandClock) -> None:
    made = store.grants.grant(*HOST, "ada", "it fetches the catalogue")
    assert (made.subject, made.what, made.value) == HOST
    assert (made.by, made.why, made.at, made.ended) == ("ada", "it fetches the catalogue", clock.now(), None)
    assert store.grants.of("archive/book", "network") == ["data.example.org:443"]
    assert store.grants.of("archive/book", "secret") == []
    assert store.grants.of("archive/books", "network") == []
    assert store.grants.of("robot/book", "network") == []


def test_granting_and_withdrawing_are_in_the_history_and_stay_there(store: Store, clock: HandClock) -> None:
    store.grants.grant(*HOST, "ada", "for the catalogue")
    clock.advance(seconds=5)
    assert store.grants.withdraw(*HOST, "bo", "it moved")
    assert store.grants.of("archive/book", "network") == []
    assert store.grants.list("archive/book") == []
    assert [grant.ended for grant in store.grants.list("archive/book", ended=True)] == [clock.now()]
    assert notes(store) == [("granted", "ada", "for the catalogue"), ("withdrawn", "bo", "it moved")]


def test_what_holds_already_is_not_granted_twice_and_keeps_its_first_word(
    store: Store, another: Callable[[], Store]
) -> None:
    first = store.grants.grant(*HOST, "ada", "first")
    assert another().grants.grant(*HOST, "bo", "second") == first
    assert notes(store) == [("granted", "ada", "first")]
    assert store.grants.withdraw(*HOST, "ada", "over")
    assert not store.grants.withdraw(*HOST, "ada", "over")
    again = store.grants.grant(*HOST, "bo", "again")
    assert (again.by, again.id > first.id) == ("bo", True)
    assert len(store.grants.list("archive/book", ended=True)) == 2


@pytest.mark.parametrize(
    ("what", "value", "why"),
    [
        ("everything", "x", "y"),
        ("network", "", "y"),
        ("network", "a\nb", "y"),
        ("network", "x" * 501, "y"),
        ("network", "x", " "),
    ],
)
def test_what_cannot_be_granted_is_refused_and_leaves_nothing(store: Store, what: str, value: str, why: str) -> None:
    with pytest.raises(BadInput):
        store.grants.grant("archive/book", what, value, "ada", why)
    assert store.grants.list(ended=True) == []
    assert notes(store) == []


def test_all_of_a_subject_is_withdrawn_with_it_and_of_no_other(store: Store) -> None:
    for subject, value in (("archive/book", "a"), ("archive/book", "b"), ("archive/booklet", "a")):
        store.grants.grant(subject, "secret", value, "ada", "x")
    store.db.write(lambda tx: withdraw_all(tx, "archive/book", "bo", "gone"))
    assert [(grant.subject, grant.value) for grant in store.grants.list()] == [("archive/booklet", "a")]
    assert notes(store)[2:] == [("withdrawn", "bo", "gone")] * 2


def test_secrets_that_were_allowed_before_there_were_grants_are_granted(
    url: str, clock: HandClock, request: pytest.FixtureRequest
) -> None:
    if url.endswith(":memory:"):
        url = f"sqlite:///{request.getfixturevalue('quick_folder') / 'old.db'}"
    if url.startswith("postgres"):  # the shared one is as new as can be
        url = request.getfixturevalue("quick_postgres").fresh_database() + "?unsafe=1"
    insert = (
        "insert into archive_secret (archive, secret, branch, who, why, at) values ('book', 'key', '{}', 'ada', 'x', 7)"
    )
    with older(number_of("grants") - 1):
        with open_store(url, clock) as store:
            store.db.write(lambda tx: [execute(tx, insert.format(branch)) for branch in ("*", "release/*")])
    with open_store(url, clock) as store:
        found = [
            (grant.subject, grant.what, grant.value, grant.by, grant.why, grant.at) for grant in store.grants.list()
        ]
        same = ("ada", "x", 7)
        assert found == [
            ("archive/book", "secret", "key", *same),
            ("archive/book", "secret", "key@release/*", *same),
        ]
