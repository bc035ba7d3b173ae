"""The way to the server: which of several hosts, through a pooler or not, and never back to one that was left behind.

After a promotion the old primary may still be there and take writes, which nobody will keep. Every promotion begins
a new timeline, and whoever has seen one never uses an older.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.adapt import Transformer as adapter_for
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from custody.model.errors import BadInput, CustodyError, Unavailable, Unsafe
from custody.stores.postgres import words
from custody.stores.postgres.address import Address
from custody.stores.postgres.connection import (
    ALIVE,
    DURABLE,
    SOUGHT,
    Connection,
    Server,
    Session,
    ask_server,
    broken,
    check_encoding,
    check_server,
    check_standby,
    down,
    translate,
)
from custody.stores.postgres.direct import say

CONNECTING: Mapping[str, Any] = {
    "connect_timeout": 10,
    # A server that is gone without a word (a cable, a power cut) is noticed within half a minute, not after hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 10_000,  # milliseconds
}
"""Unless the address says otherwise."""
FEW_SECONDS = 3
"""For one of several hosts: the next may be the one."""
LASTING = re.compile(
    r"authentication failed|password|does not exist|pg_hba|could not translate host|no such user|not permitted"
    r"|certificate|server does not support SSL|invalid|unsupported"
)
"""What will be the same a second later. (Words of the driver, of PgBouncer and of a server that speaks English; in
another language it is waited for in vain, for as long as the patience lasts.)"""
PACKET = re.compile(r"startup parameter|configuration parameter|options")
"""Somebody does not take the settings that we bring: a pooler, or a server that is too old for one of them."""
PASSING = frozenset({"store.down", "postgres.standby", "postgres.past"})


def passes(error: CustodyError) -> bool:
    """Is it a matter of time? Nothing was done, and the server may be there in a moment."""
    return error.code in PASSING and not (error.code == "store.down" and LASTING.search(str(error)))


class Way:
    def __init__(self, address: Address, seen: Mapping[str, int] | None = None) -> None:
        self.address = address
        self.seen = dict(seen or {})  # the newest timeline of each system
        self._brings_settings = address.pooler != "yes"
        try:
            self._hosts = _each_host(conninfo_to_dict(address.conninfo))
        except psycopg.ProgrammingError as error:
            raise BadInput(f"cannot read the store's address: {error}".strip(), code="store.url") from error

    def connect(self, *, of_all: bool = False) -> Connection:
        """A checked connection; each statement is its own transaction until it says `begin`. The host that answered
        last is asked first; with `of_all` every host is asked at once, and the newest timeline counts."""
        if of_all and len(self._hosts) > 1:
            return self._newest()
        refusals: list[CustodyError] = []
        for host in tuple(self._hosts):
            try:
                db = self._open(host)
            except (Unavailable, Unsafe) as error:
                refusals.append(error)
                continue
            if host is not self._hosts[0]:
                self._hosts = [host, *(each for each in self._hosts if each is not host)]
            return db
        raise _why(refusals)

    def _newest(self) -> Connection:
        tries: list[Future[Connection]] = [Future() for _ in self._hosts]
        for host, future in zip(self._hosts, tries, strict=True):
            threading.Thread(target=self._try, args=(host, future), daemon=True).start()
        opened: list[Connection] = []
        refusals: list[CustodyError] = []
        for future in tries:
            try:
                opened.append(future.result(2 * FEW_SECONDS))
            except (Unavailable, Unsafe) as error:
                refusals.append(error)
            except TimeoutError:
                future.add_done_callback(_close_late)
        if not opened:
            raise _why(refusals)
        best = max(opened, key=lambda db: db.session.timeline)
        for db in opened:
            if db is not best:
                db.close()
        return best

    def _try(self, host: dict[str, Any], future: Future[Connection]) -> None:
        try:
            future.set_result(self._open(host))
        except BaseException as error:
            future.set_exception(error)

    def _open(self, host: dict[str, Any]) -> Connection:
        name = f"{host.get('application_name', 'custody')[:40]}:{secrets.token_hex(6)}"
        db = self._dial(host | {"application_name": name})
        ALIVE.add(db)
        db.warnings = warnings = []
        db.add_notice_handler(lambda said: warnings.append(str(said.severity_nonlocalized)))
        try:
            # One type for every whole number: a statement is then prepared once, not once per size of its values.
            db.adapters.register_dumper(int, Int8Dumper)
            check_encoding(db)
            self._begin_to_ask(db, host)
            self._acquaint(db, ask_server(db), name)
            say(db, b"rollback")
            db.prepared, db.plans, db.adapting = set(), {}, adapter_for(db)
        except psycopg.Error as error:
            db.close()
            raise translate(error) from error
        except BaseException:
            db.close()
            raise
        return db

    def _dial(self, host: dict[str, Any]) -> Connection:
        try:
            if self._brings_settings:
                try:
                    brought = words.options(self.address.schema, host.get("options", ""), self.address.unsafe)
                    return Connection.connect(**host | {"options": brought}, autocommit=True)
                except psycopg.OperationalError as error:
                    if not PACKET.search(str(error)):
                        raise
                    self._brings_settings = False
            return Connection.connect(**host, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            raise down(error) from error
        except psycopg.ProgrammingError as error:
            raise BadInput(f"cannot read the store's address: {error}".strip(), code="store.url") from error

    def _acquaint(self, db: Connection, server: Server, name: str) -> None:
        """Find out whose session this is, and whether its server may be relied on."""
        direct = server.pid == db.info.backend_pid
        if not direct and self.address.pooler == "no":
            raise Unsafe(
                "there is a pooler between us and PostgreSQL, and the store's address says that there is none",
                code="postgres.pooler",
                hint="give a direct address, or leave out pooler=no",
            )
        ours = [*words.SETTINGS.values(), words.quoted(self.address.schema)]
        held = server.settings[: len(ours) if self.address.schema else -1]
        db.own = direct and self.address.pooler != "yes" and held == ours[: len(held)]
        if not db.own:
            db.prepare_threshold = None
            usual = _usual(db, "synchronous_commit")
            server = _with_durability(server, "remote_apply" if usual == "remote_apply" else "on")
        check_server(server, self.address.unsafe)
        if self.address.synchronous:
            check_standby(server)
        if not db.own:
            usual = words.quoted(self.address.schema) if self.address.schema else _usual(db, "search_path")
            _must_have_a_schema(db, usual)
            path = words.path(usual)
            db.words = words.for_any_session(path, server.synchronous_commit, server.watches_clients)
        self._must_not_be_past(server)
        db.session = Session(server.pid, server.since, name, server.system, server.timeline, server.life)

    def _begin_to_ask(self, db: Connection, host: dict[str, Any]) -> None:
        """In a transaction, as somebody may have left behind that a question may take no time."""
        try:
            say(db, words.ASKING)
        except psycopg.Error as error:
            if not broken(db):
                raise
            with self._dial(host) as other:
                ((pid,),) = other.execute("select pg_backend_pid()").fetchall()
                if pid == other.info.backend_pid or _allows_transactions(other):
                    raise
            raise Unsafe(
                "the pooler before PostgreSQL lends its sessions for single statements and allows no transactions",
                code="postgres.pooler",
                hint="set pool_mode = transaction (or session) in PgBouncer, or give a direct address",
            ) from error

    def _must_not_be_past(self, server: Server) -> None:
        newest = self.seen.get(server.system, 0)
        if server.timeline < newest:
            raise Unavailable(
                f"this PostgreSQL is still on timeline {server.timeline}, which ended when timeline {newest} began:"
                " a primary that has been replaced and does not know it",
                code="postgres.past",
                hint="stop it; until then, put the new primary first in the address",
            )
        self.seen[server.system] = server.timeline


def _allows_transactions(db: Connection) -> bool:
    """A pooler that lends for single statements never does; one whose server has just crashed does again."""
    try:
        say(db, b"begin")
    except psycopg.Error:
        return False
    return True


def _must_have_a_schema(db: Connection, path: str) -> None:
    """Where none is there, what is made would be made among a session's temporary tables, and end with it."""
    say(db, f"set local search_path to {path}".encode())
    ((schema,),) = db.execute("select current_schema()").fetchall()
    if schema is None or schema.startswith("pg_"):
        raise BadInput(
            f"none of these schemas is there, or may be used: {path}",
            code="store.schema",
            hint="create it, or name another one with ?schema= in the store's address",
        )


def _usual(db: Connection, setting: str) -> str:
    """As the server has it, whatever somebody else has set in this session."""
    rows = db.execute("select reset_val from pg_settings where name = %s", (setting,)).fetchall()
    return str(rows[0][0])


def _with_durability(server: Server, durable: str) -> Server:
    from dataclasses import replace

    assert durable in DURABLE
    return replace(server, synchronous_commit=durable)


def _each_host(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The address once for every host that it names."""
    parts = {
        name: str(given[name]).split(",") for name in ("host", "hostaddr", "port") if given.get(name) not in (None, "")
    }
    count = max((len(values) for values in parts.values()), default=1)
    many = {"connect_timeout": FEW_SECONDS} if count > 1 else {}
    common = {**CONNECTING, **many, **{name: value for name, value in given.items() if name not in parts}}
    if any(len(values) not in (1, count) for values in parts.values()):
        raise BadInput("hosts and ports in the store's address do not match", code="store.url")
    return [
        common | {name: values[at if len(values) > 1 else 0] for name, values in parts.items()} for at in range(count)
    ]


def _why(refusals: list[CustodyError]) -> CustodyError:
    """Of one host: what it said. Of several: that none is a primary which can be used."""
    lasting = [error for error in refusals if not passes(error)]
    if len(refusals) == 1 or lasting:
        return (lasting or refusals)[0]
    said = "; ".join(dict.fromkeys(error.message for error in refusals)) or "none of them answers"
    return Unavailable(
        f"none of the hosts is a primary that answers: {said}", code="store.down", hint="is a promotion under way?"
    )


def _close_late(future: Future[Connection]) -> None:
    with suppress(BaseException):
        future.result().close()


def connect(address: Address) -> Connection:
    return Way(address).connect()


__all__ = ["SOUGHT", "Way", "connect", "passes"]
