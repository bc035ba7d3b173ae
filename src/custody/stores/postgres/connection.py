"""How PostgreSQL is spoken to, and which servers are refused.

READ COMMITTED with row locks, unique indexes and tokens compared inside the statement that writes: nothing
here rests on a stricter isolation level. A server that may forget what it has acknowledged is refused, and so
is a standby, whose answers are already history. `?unsafe=1` in the address admits a forgetful server all the
same, for tests that crash no machine; nothing admits a standby.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors
from psycopg.abc import Transformer
from psycopg.adapt import Transformer as adapter_for
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from custody.model.errors import BadInput, CustodyError, Unavailable, Unsafe


@dataclass(frozen=True, slots=True)
class Session:
    """By what a session is known after its connection is lost."""

    pid: int = 0
    since: str = ""
    life: str = ""  # since when its server had run without a crash


class Connection(psycopg.Connection[tuple[Any, ...]]):
    session = Session()
    # What direct.py has prepared on it: by name, and by text and types.
    prepared: set[str]
    plans: dict[tuple[str, tuple[int, ...] | None], bytes]
    adapting: Transformer
    used_at = 0.0  # on the monotonic clock, when it was given back to the pool


PATIENCE: Mapping[str, Any] = {
    "connect_timeout": 10,
    # A server that is gone without a word (a cable, a power cut) is noticed within half a minute, not after hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,  # milliseconds
}
"""Unless the address says otherwise."""
SETTINGS: Mapping[str, str] = {
    "application_name": "custody",
    "default_transaction_isolation": "read committed",
    "jit": "off",  # compiling costs more than any statement here runs
    # Every statement that writes finds its rows by an index, whatever its values: planning it anew each time
    # could only make it slower. (Looks, which filter freely, plan for their values: see transaction.py.)
    "plan_cache_mode": "force_generic_plan",
    # And by an index it stays, though the table was small, or never counted, when the plan was made; a plain one,
    # so that rows are found, and locked, in the order of their ids.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "idle_in_transaction_session_timeout": "60s",  # a stopped process must not keep its row locks for ever
}


@dataclass(frozen=True, slots=True)
class Address:
    """A store's URL, taken apart: what is for the driver, and what is for us."""

    conninfo: str
    unsafe: bool = False
    notify: bool = True

    @classmethod
    def of(cls, url: str) -> Address:
        parts = urlsplit(url)
        given = parse_qsl(parts.query, keep_blank_values=True)
        ours = {name: value for name, value in given if name in ("unsafe", "notify")}
        theirs = urlencode([(name, value) for name, value in given if name not in ours], quote_via=quote)
        return cls(urlunsplit(parts._replace(query=theirs)), _yes(ours, "unsafe", "0"), _yes(ours, "notify", "1"))


def _yes(given: Mapping[str, str], name: str, default: str) -> bool:
    value = given.get(name, default)
    if value not in ("0", "1"):
        raise BadInput(f"{name}={value} in the store's address", code="store.url", hint=f"{name}=0 or {name}=1")
    return value == "1"


def connect(address: Address) -> Connection:
    """A checked connection; each statement is its own transaction until it says `begin`."""
    try:
        given = conninfo_to_dict(address.conninfo)
        db = Connection.connect(**{**PATIENCE, **given}, autocommit=True)
    except psycopg.OperationalError as error:
        raise down(error) from error
    except psycopg.ProgrammingError as error:
        raise BadInput(f"cannot read the store's address: {error}".strip(), code="store.url") from error
    try:
        # One type for every whole number: a statement is then prepared once, not once per size of its values.
        db.adapters.register_dumper(int, Int8Dumper)
        settings = ", ".join(["set_config(%s, %s, false)"] * len(SETTINGS))
        db.execute(f"select {settings}", [word for setting in SETTINGS.items() for word in setting])
        check_server(db, address.unsafe)
        db.prepared, db.plans, db.adapting = set(), {}, adapter_for(db)
        db.session = Session(*db.execute(SESSION).fetchall()[0])
    except psycopg.Error as error:
        db.close()
        raise translate(error) from error
    except BaseException:
        db.close()
        raise
    return db


# One process that crashes takes all sessions with it, but not the postmaster; the statistics begin anew.
SESSION = """
    select pid, backend_start::text,
        pg_postmaster_start_time()::text || coalesce((select stats_reset::text from pg_stat_bgwriter), '')
    from pg_stat_activity where pid = pg_backend_pid()"""

FORGETFUL = {
    "fsync": "what it acknowledged would not survive a power cut",
    "full_page_writes": "a power cut could tear its pages",
    "synchronous_commit": "it acknowledges before anything is on disk",
}


def check_server(db: Connection, unsafe: bool) -> None:
    """Asked of every new connection: after a restart or a failover this may be another server."""
    encoding = db.info.parameter_status("server_encoding")
    if encoding != "UTF8":  # another one cannot keep every name; from SQL_ASCII even texts come back as bytes
        raise Unsafe(
            f"this database keeps its texts in {encoding}, which cannot hold every name",
            code="postgres.encoding",
            hint="make one in UTF8: createdb --encoding UTF8 --template template0 --locale C custody",
        )
    names = list(FORGETFUL)
    row = db.execute(
        "select pg_is_in_recovery(), " + ", ".join(f"current_setting('{name}')" for name in names)
    ).fetchone()
    assert row is not None
    if row[0]:
        raise Unsafe(
            "this PostgreSQL is a standby: what it shows is already past",
            code="postgres.standby",
            hint="give the address of the primary (target_session_attrs=read-write finds it among several hosts)",
        )
    off = [name for name, value in zip(names, row[1:], strict=True) if value == "off"]
    if off and not unsafe:
        raise Unsafe(
            f"this PostgreSQL runs with {off[0]}=off: {FORGETFUL[off[0]]}",
            code="postgres.unsafe",
            hint=f"set {off[0]}=on; for a test, add ?unsafe=1 to the store's address",
        )


def broken(db: Connection) -> bool:
    return db.closed or db.broken


def down(error: Exception) -> Unavailable:
    return Unavailable(
        f"PostgreSQL does not answer: {' '.join(str(error).split())}",
        code="store.down",
        hint="is the server running, and is the address right?",
    )


WORDS: Mapping[type[Exception], tuple[type[CustodyError], str, str]] = {
    errors.DiskFull: (Unavailable, "store.disk", "is the server's disk full?"),
    errors.IoError: (Unavailable, "store.disk", "what does the server's log say?"),
    errors.LockNotAvailable: (Unavailable, "store.busy", "try again"),
    errors.QueryCanceled: (Unavailable, "store.busy", "try again"),
    errors.DeadlockDetected: (Unavailable, "store.busy", "try again"),
    errors.SerializationFailure: (Unavailable, "store.busy", "try again"),
    errors.ReadOnlySqlTransaction: (Unsafe, "postgres.standby", "give the address of the primary"),
    errors.InsufficientPrivilege: (Unavailable, "store.rights", "grant the store's role its tables"),
    errors.OutOfMemory: (Unavailable, "store.busy", "try again"),
    psycopg.OperationalError: (Unavailable, "store.down", "is the server running?"),
    psycopg.DataError: (BadInput, "store.value", "a text must not contain NUL, a number must fit 64 bits"),
    UnicodeEncodeError: (BadInput, "store.value", "a text must not hold half a character"),
}


def translate(error: Exception) -> Exception:
    """PostgreSQL's errors in our words; what is not expected stays as it is."""
    for kind, (ours, code, hint) in WORDS.items():
        if isinstance(error, kind):
            return ours(f"PostgreSQL: {' '.join(str(error).split())}", code=code, hint=hint)
    return error
