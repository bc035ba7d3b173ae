"""Tokens: secrets that stand for a name, some roles and some collections, until a day.

Only the SHA-256 of a secret is stored; it is random enough that nothing slower is needed. Logging in opens a
session: a short-lived token of its own, that ends with the one it was opened with.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from custody.model.acting import name_of
from custody.model.errors import BadInput, NotFound
from custody.stores import Store
from custody.stores.history import write_note
from custody.stores.rows import Row, Tx
from custody.web.caller import ALL, IN, ROLES, Caller, split

PREFIX: Final = "custody_"
DAY: Final = 86_400
SESSION_SECONDS: Final = 12 * 3600
MOST_DAYS: Final = 3660
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_COLLECTION = re.compile(r"[^\s*]{1,128}")


@dataclass(frozen=True, slots=True)
class Token:
    id: int
    name: str
    roles: tuple[str, ...]  # some perhaps in a single collection: operator@maps
    collections: tuple[str, ...]  # ("*",) for all
    login: int | None
    created: int
    expires: int
    revoked: int | None


class Tokens:
    def __init__(self, store: Store) -> None:
        self._db = store.db

    def create(
        self, name: str, roles: Sequence[str], collections: Sequence[str] = (ALL,), days: float = 90, who: str = ""
    ) -> tuple[Token, str]:
        """A new token, and its secret, which is shown this once."""
        _check(name, roles, collections, days)
        secret = new_secret()

        def work(tx: Tx) -> Token:
            made = _insert(tx, secret, name, roles, collections, None, days * DAY)
            told = {"name": name, "roles": list(roles), "collections": list(collections), "expires": made.expires}
            write_note(tx, f"token/{made.id}", "created", who or name, told)
            return made

        return self._db.write(work), secret

    def list(self) -> Sequence[Token]:
        return [_token(row) for row in self._db.read(lambda tx: tx.run("tokens"))]

    def revoke(self, token_id: int, who: str, why: str = "") -> bool:
        """From now on it is worth nothing, and neither are the sessions opened with it."""

        def work(tx: Tx) -> bool:
            rows = tx.run("revoke_token", id=token_id)
            if rows:
                write_note(tx, f"token/{token_id}", "revoked", who, {"name": rows[0][1], "why": why})
            return bool(rows)

        if token_id not in {token.id for token in self.list()}:
            raise NotFound(f"there is no token {token_id}", code="token.unknown", hint="`custody token list`")
        return self._db.write(work)

    def caller(self, secret: str, session: bool = False) -> Caller | None:
        """Whom a secret stands for; none when it is wrong, over or revoked."""
        if not looks_right(secret):
            return None
        rows = self._db.glance(lambda tx: tx.run("token_by_hash", hash=hashed(secret)))
        if not rows:
            return None
        token = _token(rows[0])
        if session != (token.login is not None):
            return None  # a session's secret is good for its cookie only, and a token's for its header
        return _caller(token, csrf_of(secret), session)

    def by(self, by: str) -> Caller | None:
        """Whom a job or a schedule was asked for by, with the rights of now; none when they have ended. What the
        command line asked for is the owner's of the store."""
        identity, _, name = by.partition("/")
        if identity.startswith(("cli:", "demo:")):
            return Caller(name, frozenset({"admin"}), None, identity=identity)
        number = identity.removeprefix("token:")
        if number == identity or not number.isdigit():
            return None
        rows = self._db.glance(lambda tx: tx.run("token_by_id", id=int(number)))
        return _caller(_token(rows[0]), "", False) if rows else None

    def right_ended(self, by: str) -> str:
        """Why who set a schedule may no longer do so; empty while they may."""
        if not by.startswith("token:"):
            return ""  # the owner of the store, the program itself, or somebody whom an issuer vouched for then
        caller = self.by(by)
        if caller is not None and caller.may(("admin", "operator"), ""):
            return ""
        return f"it was set by {name_of(by)}, whose right to do so has ended: `custody schedule adopt`"

    def open_session(self, secret: str) -> str | None:
        """The secret of a new session for whoever has this token."""
        caller = self.caller(secret)
        if caller is None:
            return None
        own = new_secret()
        collections = (ALL,) if caller.collections is None else tuple(sorted(caller.collections))

        def work(tx: Tx) -> None:
            tx.run("forget_tokens")
            _insert(tx, own, caller.name, caller.granted, collections, caller.token, SESSION_SECONDS)

        self._db.write(work)
        return own

    def let_in(self, name: str, roles: Sequence[str], by: str) -> str:
        """A session for somebody whom another has vouched for."""
        _, secret = self.create(name, roles, days=SESSION_SECONDS / DAY, who=by)
        session = self.open_session(secret)
        assert session is not None  # made just now
        return session

    def close_session(self, secret: str) -> None:
        caller = self.caller(secret, session=True)
        if caller is not None:
            self._db.write(lambda tx: tx.run("revoke_token", id=caller.token))


def new_secret() -> str:
    random = secrets.token_urlsafe(32)
    return f"{PREFIX}{random}{_checksum(random)}"


def looks_right(secret: str) -> bool:
    """Refuses typing errors without asking the store."""
    body = secret.removeprefix(PREFIX)
    return secret.startswith(PREFIX) and secret.isascii() and len(body) == 51 and _checksum(body[:-8]) == body[-8:]


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def csrf_of(secret: str) -> str:
    """What a form must bring along: known to the session's own pages only, and worthless elsewhere."""
    return hashlib.sha256(f"form {secret}".encode()).hexdigest()


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _insert(
    tx: Tx, secret: str, name: str, roles: Sequence[str], collections: Sequence[str], login: int | None, lasts: float
) -> Token:
    rows = tx.run(
        "insert_token", hash=hashed(secret), name=name, roles=" ".join(roles), collections=" ".join(collections),
        login=login, lasts=int(lasts * 1_000_000),
    )  # fmt: skip
    return _token(rows[0])


def _token(row: Row) -> Token:
    id_, name, roles, collections, login, created, expires, revoked = row
    return Token(id_, name, tuple(roles.split()), tuple(collections.split()), login, created, expires, revoked)


def _caller(token: Token, csrf: str, session: bool) -> Caller:
    scope = None if ALL in token.collections else frozenset(token.collections)
    roles, also = split(token.roles)
    identity = f"token:{token.login or token.id}"
    return Caller(token.name, roles, scope, csrf, session, token.id, also, identity=identity)


def check_role(given: str) -> None:
    """One of the roles, or one in a single collection."""
    role, mark, collection = given.partition(IN)
    if role not in ROLES:
        raise BadInput(f"there is no role {role!r}", code="token.role", hint=", ".join(ROLES))
    if mark and not _COLLECTION.fullmatch(collection):
        raise BadInput(f"cannot read the collection of {given!r}", code="token.role", hint=f"such as {role}@maps")


def _check(name: str, roles: Sequence[str], collections: Sequence[str], days: float) -> None:
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} cannot be a token's name", code="token.name", hint="letters, digits, . _ @ -")
    if not roles:
        raise BadInput("a token needs a role", code="token.role", hint=", ".join(ROLES))
    for role in roles:
        check_role(role)
    if not collections or not all(each == ALL or _COLLECTION.fullmatch(each) for each in collections):
        raise BadInput("cannot read the collections", code="token.collections", hint="names without spaces, or *")
    if not 0 < days <= MOST_DAYS:
        raise BadInput(f"a token cannot last {days:g} days", code="token.days", hint=f"more than 0, up to {MOST_DAYS}")
