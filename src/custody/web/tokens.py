"""Tokens: secrets that stand for a name, some roles and some collections, until a day.

Only the SHA-256 of a secret is stored; it is random enough that nothing slower is needed. Logging in opens a
session: a short-lived token of its own, that ends with the one it was opened with.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from custody.model.acting import identity_of, name_of
from custody.model.errors import BadInput, NotFound, Refused
from custody.model.names import skeleton
from custody.stores import Store
from custody.stores.history import write_note
from custody.stores.rows import Row, Tx
from custody.web.caller import ALL, IN, Caller, split
from custody.web.rights import HOOK, ROLES, is_smaller
from custody.web.uses import Uses

PREFIX: Final = "custody_"
DAY: Final = 86_400
SESSION_SECONDS: Final = 12 * 3600
MOST_DAYS: Final = 3660
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_COLLECTION = re.compile(r"[^\s*]{1,128}")
RESERVED: Final = (
    "system", "engine", "root", "scheduler", "reconciler", "workflows", "sweep", "watch", "oidc", "cli", "import",
    "custody", "nobody",
)  # fmt: skip
_RESERVED: Final = frozenset(skeleton(each) for each in RESERVED)
BY_NAME: Final = (HOOK, "metrics")
"""Roles that count nowhere in particular: in the archives that are named, or in numbers about everything."""


@dataclass(frozen=True, slots=True)
class Token:
    id: int
    name: str
    roles: tuple[str, ...]  # some perhaps in a single collection: operator@maps
    collections: tuple[str, ...]  # ("*",) for all
    archives: tuple[str, ...]  # those that a hook may tell of
    identity: str  # of somebody whom another vouches for; empty: the token's own
    login: int | None
    made_by: str
    created: int
    expires: int
    last_used: int | None
    revoked: int | None
    was: str  # a role that there is no more: somebody should say what it needs

    @property
    def who(self) -> str:
        """Of no two callers the same, whatever they are called; a session is its token."""
        return self.identity or f"token:{self.login or self.id}"


@dataclass(frozen=True, slots=True)
class Granting:
    """What a token is to give."""

    roles: Sequence[str]
    collections: Sequence[str] = (ALL,)
    archives: Sequence[str] = ()


class Tokens:
    def __init__(self, store: Store) -> None:
        self._db = store.db
        self._uses = Uses(store.db)

    def create(
        self, name: str, roles: Sequence[str], collections: Sequence[str] = (ALL,), days: float = 90, who: str = "",
        archives: Sequence[str] = (),
    ) -> tuple[Token, str]:  # fmt: skip
        """A new token, and its secret, which is shown this once."""
        granting = Granting(tuple(roles), tuple(collections), tuple(archives))
        if not _NAME.fullmatch(name):
            raise BadInput(f"{name!r} cannot be a token's name", code="token.name", hint="letters, digits, . _ @ -")
        if told := self.taken_for(name):
            raise BadInput(f"{name!r} cannot be a token's name: {told}", code="token.name", hint="choose another")
        _check(granting)
        if not 0 < days <= MOST_DAYS:
            raise BadInput(
                f"a token cannot last {days:g} days", code="token.days", hint=f"more than 0, up to {MOST_DAYS}"
            )
        return self._make(name, granting, days * DAY, who or name)

    def _make(
        self, name: str, granting: Granting, lasts: float, who: str, identity: str = "", **more: str
    ) -> tuple[Token, str]:
        secret = new_secret()

        def work(tx: Tx) -> Token:
            made = _insert(tx, secret, name, granting, lasts, made_by=who, identity=identity)
            told = {
                "name": name, "roles": list(granting.roles), "collections": list(granting.collections),
                "expires": made.expires, **({"archives": list(granting.archives)} if granting.archives else {}), **more,
            }  # fmt: skip
            write_note(tx, f"token/{made.id}", "created", who, told)
            return made

        return self._db.write(work), secret

    def list(self) -> Sequence[Token]:
        self._uses.write()
        return [_token(row) for row in self._db.read(lambda tx: tx.run("tokens"))]

    def good(self) -> Sequence[Token]:
        """Those that are neither over nor revoked."""
        now = self._db.read(lambda tx: tx.now)
        return [token for token in self.list() if token.expires > now and not token.revoked]

    def get(self, token_id: int) -> Token:
        found = next((token for token in self.list() if token.id == token_id), None)
        if found is None:
            raise NotFound(f"there is no token {token_id}", code="token.unknown", hint="`custody token list`")
        return found

    def taken_for(self, name: str) -> str:
        """Whom the history would be read to name, if a token were called so and meant somebody else; empty: nobody."""
        looks = skeleton(name)
        if looks in _RESERVED:
            return "the program itself, or the system's own user, is called so in the history"
        other = sorted({each.name for each in self.good() if skeleton(each.name) == looks} - {name})
        return f"it looks like {other[0]}, which is another's" if other else ""

    def revoke(self, token_id: int, who: str, why: str = "") -> bool:
        """From now on it is worth nothing, and neither are the sessions opened with it."""

        def work(tx: Tx) -> bool:
            rows = tx.run("revoke_token", id=token_id)
            if rows:
                write_note(tx, f"token/{token_id}", "revoked", who, {"name": rows[0][1], "why": why})
            return bool(rows)

        self.get(token_id)
        return self._db.write(work)

    def narrow(self, token_id: int, to: Granting, who: str, why: str = "") -> Token:
        """Make a token give less. Its secret stays; sessions opened with it end."""
        _check(to)
        old = self.get(token_id)
        _must_be_less(old, to)

        def work(tx: Tx) -> Token:
            rows = tx.run(
                "narrow_token", id=token_id, roles=" ".join(to.roles), collections=" ".join(to.collections),
                archives=" ".join(to.archives),
            )  # fmt: skip
            if not rows:
                raise Refused(f"token {token_id} is revoked", code="token.revoked", hint="make a new one")
            tx.run("end_sessions", id=token_id)
            told = {"roles": list(to.roles), "collections": list(to.collections), "archives": list(to.archives)}
            write_note(tx, f"token/{token_id}", "narrowed", who, told | ({"why": why} if why else {}))
            return _token(rows[0])

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
        self._uses.note(token.id)
        return _caller(token, csrf_of(secret), session)

    def callers(self, tokens: Sequence[int]) -> dict[int, Caller]:
        """Whom each of them stands for now; those that are over or revoked are left out."""
        rows = self._db.glance(lambda tx: tx.run("web_tokens_these", ids=json.dumps(sorted(tokens))))
        return {token.id: _caller(token, "", False) for token in map(_token, rows)}

    def by(self, by: str) -> Caller | None:
        """Whom a job or a schedule was asked for by, with the rights of now; none when they have ended. What the
        command line asked for is the owner's of the store."""
        identity, _, name = by.partition("/")
        if identity.startswith(("cli:", "demo:")):
            return Caller(name, frozenset({"admin"}), None, identity=identity)
        number = identity.removeprefix("token:")
        own = int(number) if number.isdigit() else 0
        rows = self._db.glance(lambda tx: tx.run("token_of", id=own, identity=identity))
        return _caller(_token(rows[0]), "", False) if rows else None

    def right_ended(self, by: str) -> str:
        """Why who set a schedule may no longer do so; empty while they may."""
        if by.startswith("oidc:"):
            last = self.vouched(by)
            caller = _caller(last, "", False) if last and not last.revoked else None
        elif by.startswith("token:"):
            caller = self.by(by)
        else:
            return ""  # the owner of the store, the program itself, or nobody
        if caller is not None and caller.where("schedule:set") is None:
            return ""
        return f"it was set by {name_of(by)}, whose right to do so has ended"

    def vouched(self, by: str) -> Token | None:
        """The last login of somebody whom an issuer vouches for, however long ago: nobody here can ask the issuer."""
        rows = self._db.glance(lambda tx: tx.run("last_login", identity=identity_of(by)))
        return _token(rows[0]) if rows else None

    def open_session(self, secret: str) -> str | None:
        """The secret of a new session for whoever has this token; none for one that people have no use for."""
        caller = self.caller(secret)
        if caller is None or not caller.has("self:use"):
            return None
        own = new_secret()
        collections = (ALL,) if caller.collections is None else tuple(sorted(caller.collections))
        granting = Granting(caller.granted, collections, tuple(sorted(caller.archives)))

        def work(tx: Tx) -> None:
            tx.run("forget_tokens")
            _insert(
                tx, own, caller.name, granting, SESSION_SECONDS, login=caller.token, identity=caller.identity
            )  # fmt: skip

        self._db.write(work)
        return own

    def let_in(self, name: str, roles: Sequence[str], identity: str, **vouched: str) -> str:
        """A session for somebody whom another has vouched for. The name is not one that a token could have."""
        made, secret = self._make(name, Granting(roles), SESSION_SECONDS, "oidc", identity, **vouched)
        session = self.open_session(secret)
        if session is None:
            self.revoke(made.id, "oidc", "nothing to do here")
            raise Refused(f"{name} has no role that people have a use for", code="login.roles")
        return session

    def close_session(self, secret: str) -> None:
        caller = self.caller(secret, session=True)
        if caller is not None:
            self._db.write(lambda tx: tx.run("revoke_token", id=caller.token))

    def close(self) -> None:
        """Write down what was used last, and stop."""
        self._uses.close()


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
    tx: Tx, secret: str, name: str, granting: Granting, lasts: float, *, login: int | None = None, made_by: str = "",
    identity: str = "",
) -> Token:  # fmt: skip
    rows = tx.run(
        "insert_token", hash=hashed(secret), name=name, roles=" ".join(granting.roles),
        collections=" ".join(granting.collections), archives=" ".join(granting.archives), identity=identity,
        login=login, made_by=made_by, lasts=int(lasts * 1_000_000),
    )  # fmt: skip
    return _token(rows[0])


def _token(row: Row) -> Token:
    id_, name, roles, collections, archives, *rest = row
    return Token(id_, name, tuple(roles.split()), tuple(collections.split()), tuple(archives.split()), *rest)


def _caller(token: Token, csrf: str, session: bool) -> Caller:
    scope = None if ALL in token.collections else frozenset(token.collections)
    roles, also = split(token.roles)
    return Caller(
        token.name, roles, scope, csrf, session, token.id, also, identity=token.who, archives=frozenset(token.archives)
    )


def check_role(given: str) -> None:
    """One of the roles, or one in a single collection."""
    role, mark, collection = given.partition(IN)
    if role not in ROLES:
        raise BadInput(f"there is no role {role!r}", code="token.role", hint=", ".join(ROLES))
    if mark and role in BY_NAME:
        raise BadInput(f"{role} is no role in a collection", code="token.role", hint="name the archives of a hook")
    if mark and (IN in collection or not _COLLECTION.fullmatch(collection)):
        raise BadInput(f"cannot read the collection of {given!r}", code="token.role", hint=f"such as {role}@maps")


def _check(granting: Granting) -> None:
    if not granting.roles:
        raise BadInput("a token needs a role", code="token.role", hint=", ".join(ROLES))
    for role in granting.roles:
        check_role(role)
    names = granting.collections
    if not names or not all(each == ALL or _COLLECTION.fullmatch(each) for each in names):
        raise BadInput("cannot read the collections", code="token.collections", hint="names without spaces, or *")
    if "metrics" in granting.roles and ALL not in names:
        raise BadInput(
            "numbers are about all collections", code="token.collections", hint="metrics without --collection"
        )
    if not all(_COLLECTION.fullmatch(each) for each in granting.archives):
        raise BadInput("cannot read the archives", code="token.archives", hint="names without spaces")
    if (HOOK in granting.roles) != bool(granting.archives):
        raise BadInput(
            "a hook names its archives, and only a hook does", code="token.archives", hint="--role hook --archive book"
        )


def _must_be_less(old: Token, to: Granting) -> None:
    """Nothing in `to` that the token did not give before: whoever should get more gets another token."""
    submitting = [role.partition(IN) for role in old.roles if role.partition(IN)[0] == "submitter"]
    before = (*old.roles, *(f"{old.was}{at}{within}" for _, at, within in submitting if old.was))
    for role in to.roles:
        if not any(_is_less(role, more, to.archives) for more in before):
            raise Refused(
                f"{role} is more than {' and '.join(old.roles)}", code="token.wider", hint="`custody token create`"
            )
    if ALL not in old.collections:
        single = {role.partition(IN)[2] for role in old.roles if IN in role}
        foreign = {*to.collections, *({*to.archives} - {*old.archives} - single)} - {*old.collections}
        if foreign:
            raise Refused(
                f"the token says nothing of {', '.join(sorted(foreign))}", code="token.wider",
                hint="`custody token create`",
            )  # fmt: skip


def _is_less(role: str, more: str, archives: Sequence[str]) -> bool:
    """A hook counts in the archives that it names, each of which is a collection of that name."""
    (name, _, within), (of, _, wide) = role.partition(IN), more.partition(IN)
    places = {*archives} if name == HOOK else {within}
    return is_smaller(name, of) and (not wide or places <= {wide})
