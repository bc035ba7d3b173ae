"""Tokens are worth what they say, for as long as they say, and cannot be read from the store."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from custody.errors import BadInput, NotFound, Refused
from custody.kernel.access.granting import Granting
from custody.kernel.access.rights import ROLES, is_smaller
from custody.kernel.access.secret import hashed, looks_right, new_secret
from custody.kernel.access.tokens import DAY, SESSION_SECONDS, Tokens
from custody.kernel.stores import Store, open_store
from kernel.stores.acts import execute
from kernel.stores.clock import HandClock


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


# Small roles


@pytest.mark.parametrize(
    ("roles", "collections", "archives", "code"),
    [
        (["hook"], ["*"], [], "token.archives"),
        (["reader"], ["*"], ["book"], "token.archives"),
        (["hook"], ["*"], ["a b"], "token.archives"),
        (["hook"], ["*"], ["*"], "token.archives"),
        (["hook@book"], ["*"], ["book"], "token.role"),
        (["metrics@maps"], ["*"], [], "token.role"),
        (["metrics"], ["maps"], [], "token.collections"),
        (["worker"], ["*"], [], "token.role"),
    ],
)
def test_a_hook_names_its_archives_and_a_scraper_no_collection(
    store: Store, roles: list[str], collections: list[str], archives: list[str], code: str
) -> None:
    with pytest.raises(BadInput) as error:
        Tokens(store).create("small", roles, collections, archives=archives)
    assert error.value.code == code


def test_a_hook_or_a_scraper_opens_no_session(store: Store) -> None:
    tokens = Tokens(store)
    for role, archives in (("hook", ["book"]), ("metrics", [])):
        assert tokens.open_session(tokens.create("small", [role], archives=archives)[1]) is None


def test_callers_of_one_name_are_told_apart_and_a_session_is_its_token(store: Store) -> None:
    tokens = Tokens(store)
    first, second = (tokens.create("ada", ["reader"]) for _ in range(2))
    callers = [tokens.caller(secret) for _, secret in (first, second)]
    assert [caller.identity for caller in callers if caller] == [f"token:{first[0].id}", f"token:{second[0].id}"]
    session = tokens.open_session(first[1])
    assert session is not None
    caller = tokens.caller(session, session=True)
    assert caller is not None
    assert caller.identity == f"token:{first[0].id}"


def test_a_token_tells_who_made_it_and_when_it_was_last_used(store: Store, clock: HandClock) -> None:
    tokens = Tokens(store)
    made, secret = tokens.create("ada", ["reader"], who="root")
    assert (made.made_by, made.last_used) == ("root", None)
    session = tokens.open_session(secret)
    tokens.close()
    assert tokens.get(made.id).last_used == clock.now()
    clock.advance(600)
    later = Tokens(store)
    assert session is not None
    later.caller(session, session=True)
    later.close()
    assert later.get(made.id).last_used == clock.now(), "a session's use is its token's"


def test_a_use_is_written_beside_the_request_and_once_a_minute_at_most(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Tokens(store)
    made, secret = tokens.create("ada", ["reader"])
    written: list[str] = []
    real = store.db.write
    monkeypatch.setattr(store.db, "write", lambda work: (written.append("x"), real(work))[1])
    for _ in range(200):
        assert tokens.caller(secret) is not None
    assert written == [], "nobody waits for it"
    until = time.monotonic() + 30
    while not written and time.monotonic() < until:
        time.sleep(0.05)
    for _ in range(200):
        tokens.caller(secret)
    tokens.close()
    assert len(written) == 1
    assert tokens.get(made.id).last_used == clock.now()


def test_a_token_can_be_made_to_give_less_and_keeps_its_secret(store: Store) -> None:
    tokens = Tokens(store)
    made, secret = tokens.create("ada", ["operator"], ["maps", "book"])
    session = tokens.open_session(secret)
    tokens.narrow(made.id, Granting(["hook"], ["book"], ["book"]), "root", "it only notifies")
    caller = tokens.caller(secret)
    assert caller is not None
    assert caller.may_tell_of("book")
    assert not caller.may_tell_of("maps")
    assert not caller.has("job:submit")
    assert session is not None
    assert tokens.caller(session, session=True) is None, "what it gave more of is over"
    assert [event.type for event in store.records.events(f"token/{made.id}")] == ["created", "narrowed"]


@pytest.mark.parametrize(
    ("roles", "collections", "archives"),
    [
        (["admin"], ["maps"], []),
        (["operator"], ["*"], []),
        (["operator"], ["papers"], []),
        (["hook"], ["maps"], ["book"]),
        (["depositor+", "admin@maps"], ["maps"], []),
    ],
)
def test_a_token_is_never_widened(store: Store, roles: list[str], collections: list[str], archives: list[str]) -> None:
    tokens = Tokens(store)
    made, _ = tokens.create("ada", ["operator"], ["maps"])
    with pytest.raises(Refused) as error:
        tokens.narrow(made.id, Granting(roles, collections, archives), "root")
    assert error.value.code == "token.wider"
    assert tokens.get(made.id).roles == ("operator",)


def test_a_token_that_was_a_worker_in_one_collection_is_not_widened_by_having_been_one(store: Store) -> None:
    tokens = Tokens(store)
    made, _ = tokens.create("wk", ["submitter@maps"])
    store.db.write(lambda tx: execute(tx, f"update token set was = 'worker' where id = {made.id}"))
    with pytest.raises(Refused) as error:
        tokens.narrow(made.id, Granting(["submitter"]), "root")
    assert error.value.code == "token.wider"
    assert tokens.narrow(made.id, Granting(["submitter@maps"]), "root").roles == ("submitter@maps",)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_as_small_as_itself_and_only_greater_ones_give_it(role: str) -> None:
    assert is_smaller(role, role)
    assert is_smaller(role, "admin")
    assert not any(is_smaller("operator", small) for small in ("reader", "submitter", "depositor", "hook", "metrics"))
    assert not is_smaller(role, "nonsense")


@pytest.mark.parametrize("role", ["operator@letters@maps", "operator@", "operator@@maps"])
def test_a_role_counts_in_one_collection_or_in_all(store: Store, role: str) -> None:
    with pytest.raises(BadInput, match="cannot read the collection"):
        Tokens(store).create("ada", [role])
