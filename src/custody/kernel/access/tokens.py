"""Tokens: secrets that stand for a name, some roles and some collections, until a day.

Only the SHA-256 of a secret is stored; it is random enough that nothing slower is needed. Logging in opens a
session: a short-lived token of its own, that ends with the one it was opened with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from custody.errors import BadInput, NotFound, Refused
from custody.kernel.access.caller import ALL, Caller, split
from custody.kernel.access.granting import Granting, Token, check_granting, must_be_less
from custody.kernel.access.secret import csrf_of, hashed, looks_right, new_secret
from custody.kernel.access.uses import Uses
from custody.kernel.applications import gathered
from custody.kernel.model.authority.acting import identity_of, name_of
from custody.kernel.model.names.names import skeleton, spelled
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Row, Tx
from custody.kernel.stores.rules.events import write_note

DAY: Final = 86_400
SESSION_SECONDS: Final = 12 * 3600
MOST_DAYS: Final = 3660
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
RESERVED: Final = ("system", "engine", "root", "scheduler", "oidc", "cli", "import", "custody", "nobody")


class Tokens:
    def __init__(self, store: Store) -> None:
        self._db = store.db
        self._uses = Uses(store.db)

    def create(
        self,
        name: str,
        roles: Sequence[str],
        collections: Sequence[str] = (ALL,),
        days: float = 90,
        who: str = "",
        archives: Sequence[str] = (),
    ) -> tuple[Token, str]:
        """A new token, and its secret, which is shown this once."""
        granting = Granting(tuple(roles), tuple(collections), tuple(archives))
        if not _NAME.fullmatch(name):
            raise BadInput(f"{name!r} cannot be a token's name", code="token.name", hint="letters, digits, . _ @ -")
        if told := self.taken_for(name):
            raise BadInput(f"{name!r} cannot be a token's name: {told}", code="token.name", hint="choose another")
        check_granting(granting)
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
            made = _insert(tx, secret, name, granting, lasts=lasts, made_by=who, identity=identity)
            told = {
                "name": name,
                "roles": list(granting.roles),
                "collections": list(granting.collections),
                "expires": made.expires,
                **({"archives": list(granting.archives)} if granting.archives else {}),
                **more,
            }
            write_note(tx, f"token/{made.id}", "created", who, detail=told)
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
        if spelled(name) in {spelled(each) for each in (*RESERVED, *gathered(lambda part: part.agents))}:
            return "the program itself, or the system's own user, is called so in the history"
        other = sorted({each.name for each in self.good() if skeleton(each.name) == looks} - {name})
        return f"it looks like {other[0]}, which is another's" if other else ""

    def revoke(self, token_id: int, who: str, why: str = "") -> bool:
        """From now on it is worth nothing, and neither are the sessions opened with it."""

        def work(tx: Tx) -> bool:
            rows = tx.run("revoke_token", id=token_id)
            if rows:
                write_note(tx, f"token/{token_id}", "revoked", who, detail={"name": rows[0][1], "why": why})
            return bool(rows)

        self.get(token_id)
        return self._db.write(work)

    def narrow(self, token_id: int, to: Granting, who: str, why: str = "") -> Token:
        """Make a token give less. Its secret stays; sessions opened with it end."""
        check_granting(to)
        old = self.get(token_id)
        must_be_less(old, to)

        def work(tx: Tx) -> Token:
            rows = tx.run(
                "narrow_token",
                id=token_id,
                roles=" ".join(to.roles),
                collections=" ".join(to.collections),
                archives=" ".join(to.archives),
            )
            if not rows:
                raise Refused(f"token {token_id} is revoked", code="token.revoked", hint="make a new one")
            tx.run("end_sessions", id=token_id)
            told = {"roles": list(to.roles), "collections": list(to.collections), "archives": list(to.archives)}
            write_note(tx, f"token/{token_id}", "narrowed", who, detail=told | ({"why": why} if why else {}))
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
            _insert(tx, own, caller.name, granting, lasts=SESSION_SECONDS, login=caller.token, identity=caller.identity)

        self._db.write(work)
        return own

    def let_in(self, name: str, roles: Sequence[str], identity: str, **vouched: str) -> str:
        """A session for somebody whom another has vouched for. The name is not one that a token could have."""
        made, secret = self._make(name, Granting(roles), SESSION_SECONDS, "oidc", identity=identity, **vouched)
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


def _insert(
    tx: Tx,
    secret: str,
    name: str,
    granting: Granting,
    lasts: float,
    *,
    login: int | None = None,
    made_by: str = "",
    identity: str = "",
) -> Token:
    rows = tx.run(
        "insert_token",
        hash=hashed(secret),
        name=name,
        roles=" ".join(granting.roles),
        collections=" ".join(granting.collections),
        archives=" ".join(granting.archives),
        identity=identity,
        login=login,
        made_by=made_by,
        lasts=int(lasts * 1_000_000),
    )
    return _token(rows[0])


def _token(row: Row) -> Token:
    id_, name, roles, collections, archives, *rest = row
    lists: Row = tuple(tuple(words.split()) for words in (roles, collections, archives))
    return Token(id_, name, *lists, *rest)


def _caller(token: Token, csrf: str, session: bool) -> Caller:
    scope = None if ALL in token.collections else frozenset(token.collections)
    roles, also = split(token.roles)
    return Caller(
        name=token.name,
        roles=roles,
        collections=scope,
        csrf=csrf,
        session=session,
        token=token.id,
        also=also,
        identity=token.who,
        archives=frozenset(token.archives),
    )
