"""Tokens are worth what they say, for as long as they say, and cannot be read from the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from custody.model.errors import BadInput, NotFound
from custody.stores import Store, open_store
from custody.web.tokens import DAY, SESSION_SECONDS, Tokens, hashed, looks_right, new_secret
from stores.clock import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(clock: HandClock) -> Iterator[Store]:
    with open_store("sqlite://:memory:", clock) as opened:
        yield opened


def test_a_token_stands_for_its_name_roles_and_collections(store: Store) -> None:
    _, secret = Tokens(store).create("ada", ["operator", "reader"], ["maps"])
    caller = Tokens(store).caller(secret)
    assert caller is not None
    assert (caller.name, caller.roles, caller.collections) == ("ada", {"operator", "reader"}, {"maps"})
    assert caller.sees("maps")
    assert not caller.sees("papers")


@pytest.mark.proves("H6")
def test_the_store_holds_no_secret(store: Store) -> None:
    _, secret = Tokens(store).create("ada", ["reader"])
    rows = store.db.read(lambda tx: tx.run("token_by_hash", hash=hashed(secret)))
    assert rows
    assert all(secret not in str(row) for row in rows)
    assert secret not in str(store.records.recent())


def test_a_token_ends_at_its_time(store: Store, clock: HandClock) -> None:
    _, secret = Tokens(store).create("ada", ["reader"], days=1)
    clock.advance(DAY - 1)
    assert Tokens(store).caller(secret) is not None
    clock.advance(2)
    assert Tokens(store).caller(secret) is None


def test_revoking_a_token_ends_it_and_its_sessions_and_is_recorded(store: Store) -> None:
    tokens = Tokens(store)
    made, secret = tokens.create("ada", ["reader"])
    session = tokens.open_session(secret)
    assert session is not None
    assert tokens.caller(session, session=True) is not None
    assert tokens.revoke(made.id, "root", "she left")
    assert tokens.caller(secret) is None
    assert tokens.caller(session, session=True) is None
    assert not tokens.revoke(made.id, "root")
    assert [event.type for event in store.records.events(f"token/{made.id}")] == ["created", "revoked"]


def test_a_session_outlives_neither_its_hours_nor_its_logout(store: Store, clock: HandClock) -> None:
    tokens = Tokens(store)
    _, secret = tokens.create("ada", ["reader"])
    first, second = tokens.open_session(secret), tokens.open_session(secret)
    assert first is not None
    assert second is not None
    tokens.close_session(first)
    assert tokens.caller(first, session=True) is None
    assert tokens.caller(second, session=True) is not None
    clock.advance(SESSION_SECONDS + 1)
    assert tokens.caller(second, session=True) is None


def test_a_token_is_no_cookie_and_a_cookie_no_token(store: Store) -> None:
    tokens = Tokens(store)
    _, secret = tokens.create("ada", ["reader"])
    session = tokens.open_session(secret)
    assert session is not None
    assert tokens.caller(secret, session=True) is None
    assert tokens.caller(session) is None
    assert tokens.open_session(session) is None


def test_a_typing_error_is_refused_without_asking_the_store() -> None:
    secret = new_secret()
    assert looks_right(secret)
    swapped = secret[:20] + ("A" if secret[20] != "A" else "B") + secret[21:]
    for wrong in (swapped, secret[:-1], secret + "0", "", "custody_", secret.upper(), "é" * 59):
        assert not looks_right(wrong)


@pytest.mark.parametrize(
    ("name", "roles", "collections", "days", "code"),
    [
        ("", ["reader"], ["*"], 1, "token.name"),
        ("a b", ["reader"], ["*"], 1, "token.name"),
        ("ada", [], ["*"], 1, "token.role"),
        ("ada", ["king"], ["*"], 1, "token.role"),
        ("ada", ["reader"], [], 1, "token.collections"),
        ("ada", ["reader"], ["two words"], 1, "token.collections"),
        ("ada", ["reader"], ["*"], 0, "token.days"),
        ("ada", ["reader"], ["*"], 1e9, "token.days"),
    ],
)
def test_what_cannot_be_a_token_is_refused_by_name(
    store: Store, name: str, roles: list[str], collections: list[str], days: float, code: str
) -> None:
    with pytest.raises(BadInput) as error:
        Tokens(store).create(name, roles, collections, days)
    assert error.value.code == code


def test_revoking_what_is_not_there_says_so(store: Store) -> None:
    with pytest.raises(NotFound):
        Tokens(store).revoke(7, "root")
