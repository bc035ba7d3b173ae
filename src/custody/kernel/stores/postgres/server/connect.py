"""Opening one connection: what is brought along, whose session it is, and whether its server may be relied on."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
from psycopg.adapt import Transformer as adapter_for
from psycopg.types.numeric import Int8Dumper

from custody.errors import BadInput, Unsafe
from custody.kernel.stores.postgres import transaction_words
from custody.kernel.stores.postgres.connection import (
    ALIVE,
    Connection,
    Server,
    Session,
    ask_server,
    broken,
    check_encoding,
    check_server,
    check_standby,
    translate,
)
from custody.kernel.stores.postgres.prepared import NoAnswer, say
from custody.kernel.stores.postgres.server.address import Address, unreadable
from custody.kernel.stores.postgres.server.causes import refused_to_open

PACKET = re.compile(r"startup parameter|configuration parameter|options")
"""Somebody does not take the settings that we bring: a pooler, or a server that is too old for one of them."""
NAME = 40  # characters of the address's own application_name


class Opening:
    def __init__(self, address: Address) -> None:
        self.address = address
        self._brings_settings = address.pooler != "yes"
        self._stricter: dict[str, bool] = {}  # by system: does a commit wait for more than we would ask for?

    def open(self, host: dict[str, Any]) -> Connection:
        """A checked connection to this host, which has to say what is asked within the time it has to answer."""
        db = self._open(host, "on")
        if db.own and db.has_standby and not self.address.unsafe and self._is_stricter(db, host):
            db.close()
            db = self._open(host, "remote_apply")
        return db

    def _open(self, host: dict[str, Any], durable: str) -> Connection:
        name = f"{host.get('application_name', 'custody')[:NAME]}:{secrets.token_hex(6)}"
        db = self._dial(host, name, durable)
        ALIVE.add(db)
        db.warnings = warnings = []
        db.add_notice_handler(lambda said: warnings.append(str(said.severity_nonlocalized)))
        db.silent = _no_longer_than(float(host["connect_timeout"]))
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
        db.silent = None
        return db

    def _dial(self, host: dict[str, Any], name: str, durable: str) -> Connection:
        """Our settings and our name travel in a part of the packet that no pooler hands on: whatever else a client
        brings, a pooler sets in the session that it lends, and there it stays."""
        try:
            if self._brings_settings:
                try:
                    given = host.get("options", "")
                    brought = transaction_words.options(
                        self.address.schema, given, name, "" if self.address.unsafe else durable
                    )
                    own = {what: value for what, value in host.items() if what != "application_name"}
                    return Connection.connect(**own | {"options": brought}, autocommit=True)
                except psycopg.OperationalError as error:
                    if not PACKET.search(str(error)):
                        raise
                    self._brings_settings = False
            return Connection.connect(**host, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            raise refused_to_open(error) from error
        except psycopg.ProgrammingError as error:
            raise unreadable(error) from None

    def _is_stricter(self, db: Connection, host: dict[str, Any]) -> bool:
        """Whether this server has a commit wait until the standby shows it. What we brought along hides that, so it is
        asked without; once for a server, and only where there is a standby to wait for."""
        system = f"{db.session.system} {db.session.timeline}"
        if system not in self._stricter and "synchronous_commit" not in host.get("options", ""):
            try:
                with Connection.connect(**host, autocommit=True) as bare:
                    ((usual,),) = bare.execute("select current_setting('synchronous_commit')").fetchall()
            except psycopg.OperationalError as error:
                db.close()
                raise refused_to_open(error) from error
            self._stricter[system] = usual == "remote_apply"
        return self._stricter.get(system, False)

    def _acquaint(self, db: Connection, server: Server, name: str) -> None:
        """Find out whose session this is, and whether its server may be relied on."""
        direct = server.pid == db.info.backend_pid
        if not direct and self.address.pooler == "no":
            raise Unsafe(
                "there is a pooler between us and PostgreSQL, and the store's address says that there is none",
                code="postgres.pooler",
                hint="give a direct address, or leave out pooler=no",
            )
        ours = [*transaction_words.SETTINGS.values(), transaction_words.quoted(self.address.schema)]
        held = server.settings[: len(ours) if self.address.schema else -1]
        db.own = direct and self.address.pooler != "yes" and held == ours[: len(held)]
        db.has_standby = bool(server.has_standby)
        if not db.own:
            db.prepare_threshold = None
            usual = _usual(db, "synchronous_commit")
            server = replace(server, synchronous_commit="remote_apply" if usual == "remote_apply" else "on")
        check_server(server, self.address.unsafe)
        if self.address.synchronous:
            check_standby(server)
        if not db.own:
            usual = transaction_words.quoted(self.address.schema) if self.address.schema else _usual(db, "search_path")
            _must_have_a_schema(db, usual)
            path = transaction_words.path(usual)
            db.words = transaction_words.for_any_session(path, server.synchronous_commit, server.watches_clients)
        db.session = Session(
            pid=server.pid,
            since=server.since,
            name=name,
            system=server.system,
            timeline=server.timeline,
            life=server.life,
        )

    def _begin_to_ask(self, db: Connection, host: dict[str, Any]) -> None:
        """In a transaction, as somebody may have left behind that a question may take no time."""
        try:
            say(db, transaction_words.ASKING)
        except psycopg.Error as error:
            if not broken(db):
                raise
            with self._dial(host, "", "on") as other:
                ((pid,),) = other.execute("select pg_backend_pid()").fetchall()
                if pid == other.info.backend_pid or _allows_transactions(other):
                    raise
            raise Unsafe(
                "the pooler before PostgreSQL lends its sessions for single statements and allows no transactions",
                code="postgres.pooler",
                hint="set pool_mode = transaction (or session) in PgBouncer, or give a direct address",
            ) from error


def _no_longer_than(seconds: float) -> Callable[[Connection], None]:
    """Whoever has taken our call and then falls silent has not answered it."""
    stop_at = time.monotonic() + seconds

    def silent(db: Connection) -> None:
        if time.monotonic() > stop_at:
            raise NoAnswer("it took the connection, and then said nothing")

    return silent


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
