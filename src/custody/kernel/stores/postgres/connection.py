"""What is known of a connection, and which servers are refused.

READ COMMITTED with row locks, unique indexes and tokens compared inside the statement that writes: nothing
here rests on a stricter isolation level. A server that may forget what it has acknowledged is refused, and so
is a standby, whose answers are already history. `?unsafe=1` in the address admits a forgetful server all the
same, for tests that crash no machine; nothing admits a standby.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
from psycopg import errors
from psycopg.abc import Transformer

from custody.errors import BadInput, CustodyError, Unavailable, Unsafe
from custody.kernel.stores.postgres.server.causes import FULL_POOL, told_by
from custody.kernel.stores.postgres.transaction_words import HAS_STANDBY, LIFE, OWN, SETTINGS, TIMELINE, Words

OLDEST = 140_000
DURABLE = ("off", "local", "remote_write", "on", "remote_apply")
"""What a commit waits for, from nothing to a standby that shows it."""


@dataclass(frozen=True, slots=True)
class Session:
    """By what a session is known after its connection is lost, and its server after it is another one."""

    pid: int = 0
    since: str = ""
    name: str = ""
    system: str = ""
    timeline: int = 0
    life: str = ""  # since when its server had run without a crash, with which database, and on which timeline


class Connection(psycopg.Connection[tuple[Any, ...]]):
    session = Session()
    has_standby = False  # when it was opened
    own = True
    """Nobody else is ever given this session, and it has the settings we need."""
    words: Words = OWN
    warnings: list[str]
    """What the server has warned of since this was emptied: a commit that comes with a warning is not confirmed."""
    silent: Callable[[Connection], None] | None = None
    """Asked when an answer keeps us waiting."""
    # What prepared.py has prepared on it: by name, and by text and types.
    prepared: set[str]
    plans: dict[tuple[str, tuple[int, ...] | None], bytes]
    adapting: Transformer
    used_at = 0.0  # on the monotonic clock, when it was given back to the pool

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """As the driver waits, but asking after a silence whether there is anybody left to wait for."""
        return super().wait(self._watched(gen), interval, timeout)

    def _watched(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        from custody.kernel.stores.postgres.prepared import Silence

        silence = Silence(self)
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                silence.heard() if ready else silence.go_on()
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


ALIVE: weakref.WeakSet[Connection] = weakref.WeakSet()
"""Every connection of this process: a child must not speak on them."""

SOUGHT = (*SETTINGS, "search_path")
OPENING = f"""
    select pg_backend_pid(), current_setting('server_version_num')::int, pg_is_in_recovery(),
        current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
        {HAS_STANDBY}, {TIMELINE}, {LIFE} || ' ' || {TIMELINE},
        (select system_identifier::text from pg_control_system()),
        (select backend_start::text from pg_stat_get_activity(pg_backend_pid())), version(),
        array[{", ".join(f"current_setting('{name}', true)" for name in SOUGHT)}]"""


@dataclass(frozen=True, slots=True)
class Server:
    """What a server says of itself when a connection is opened."""

    pid: int
    version: int
    in_recovery: bool
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    has_standby: int
    timeline: int
    life: str
    system: str
    since: str
    program: str
    settings: list[str]

    @property
    def watches_clients(self) -> bool:
        """Can it notice in mid-statement that its client is gone? Elsewhere it refuses to be told to."""
        return "linux" in self.program or "darwin" in self.program or "bsd" in self.program


def ask_server(db: Connection) -> Server:
    return Server(*db.execute(OPENING).fetchall()[0])


def check_encoding(db: Connection) -> None:
    encoding = db.info.parameter_status("server_encoding")
    if encoding != "UTF8":  # another one cannot keep every name; from SQL_ASCII even texts come back as bytes
        raise Unsafe(
            f"this database keeps its texts in {encoding}, which cannot hold every name",
            code="postgres.encoding",
            hint="make one in UTF8: createdb --encoding UTF8 --template template0 --locale C custody",
        )


FORGETFUL = {
    "fsync": "what it acknowledged would not survive a power cut",
    "full_page_writes": "a power cut could tear its pages",
    "synchronous_commit": "it acknowledges before anything is on disk",
}


def check_server(server: Server, unsafe: bool) -> None:
    """Asked of every new connection: after a restart or a failover this may be another server."""
    if server.version < OLDEST:
        raise Unsafe(
            f"this is PostgreSQL {server.version // 10_000}, which does not know all that is asked of it",
            code="postgres.version",
            hint="14 or newer is needed",
        )
    if server.in_recovery:
        raise standby()
    off = [name for name in FORGETFUL if getattr(server, name) == "off"]
    if off and not unsafe:
        raise forgetful(off[0])


def forgetful(name: str) -> Unsafe:
    return Unsafe(
        f"this PostgreSQL runs with {name}=off: {FORGETFUL[name]}",
        code="postgres.unsafe",
        hint=f"set {name}=on; for a test, add ?unsafe=1 to the store's address",
    )


def standby() -> Unsafe:
    return Unsafe(
        "this PostgreSQL is a standby: what it shows is already past",
        code="postgres.standby",
        hint="give the address of the primary; of several hosts the primary is found",
    )


def check_standby(server: Server) -> None:
    """For `?require=sync`."""
    if not server.has_standby or DURABLE.index(server.synchronous_commit) < DURABLE.index("remote_write"):
        what = f"synchronous_commit={server.synchronous_commit}" if server.has_standby else "no synchronous standby"
        raise no_standby(what)


def no_standby(what: str) -> Unsafe:
    return Unsafe(
        f"this PostgreSQL has {what}, and the store's address asks for a standby that is waited for (require=sync)",
        code="postgres.alone",
        hint="set synchronous_standby_names, or leave out require=sync",
    )


def broken(db: Connection) -> bool:
    return db.closed or db.broken


Told: TypeAlias = tuple[type[CustodyError], str, str]
PARTS: Told = (
    Unavailable,
    "store.incomplete",
    "is the database being restored, or upgraded by a newer program? Otherwise restore it from a backup that is whole",
)
WORDS: Mapping[type[Exception], Told] = {
    errors.DiskFull: (Unavailable, "store.disk", "is the server's disk full?"),
    errors.IoError: (Unavailable, "store.disk", "what does the server's log say?"),
    errors.LockNotAvailable: (
        Unavailable,
        "store.busy",
        "try again; if lock_timeout is set for the store's role, set it to 0",
    ),
    errors.QueryCanceled: (
        Unavailable,
        "store.busy",
        "somebody cancelled it: try again; if statement_timeout is set for the store's role: alter role … set "
        "statement_timeout = 0",
    ),
    errors.DeadlockDetected: (Unavailable, "store.busy", "try again"),
    errors.SerializationFailure: (Unavailable, "store.busy", "try again"),
    errors.ReadOnlySqlTransaction: (
        Unsafe,
        "postgres.read_only",
        "default_transaction_read_only is on for this role, database or server: alter role … set "
        "default_transaction_read_only = off",
    ),
    errors.InsufficientPrivilege: (
        Unavailable,
        "store.rights",
        "grant the store's role its tables and sequences, and keep row security from it",
    ),
    errors.UndefinedTable: PARTS,
    errors.UndefinedColumn: PARTS,
    errors.UndefinedFunction: PARTS,
    errors.DuplicateTable: PARTS,
    errors.InvalidSchemaName: (
        BadInput,
        "store.schema",
        "create schema NAME, then name it in the address: ?schema=NAME",
    ),
    errors.OutOfMemory: (Unavailable, "store.busy", "try again"),
    psycopg.OperationalError: (Unavailable, "store.down", "is the server running?"),
    psycopg.DataError: (BadInput, "store.value", "a text must not contain NUL, a number must fit 64 bits"),
    UnicodeEncodeError: (BadInput, "store.value", "a text must not hold half a character"),
    psycopg.Error: (
        Unavailable,
        "store.refused",
        "`custody doctor` names the rules and triggers on its tables; what does the server's log say?",
    ),
}
"""In this order: the first that fits."""


def translate(error: Exception) -> Exception:
    """PostgreSQL's errors in our words; what is not PostgreSQL's stays as it is."""
    if isinstance(error, psycopg.OperationalError) and (full := told_by(FULL_POOL, error)):
        return full
    if isinstance(error, errors.DivisionByZero):
        return swallowed()
    if isinstance(error, errors.InvalidArgumentForLogarithm):
        return Behind()
    for kind, (ours, code, hint) in WORDS.items():
        if isinstance(error, kind):
            said = f"PostgreSQL: {' '.join(str(error).split())}"
            return (Taken if isinstance(error, errors.UniqueViolation) else ours)(said, code=code, hint=hint)
    return error


class Taken(Unavailable):
    """What is to be written once is there already."""


class Behind(Unavailable):
    """A number was about to be given out that is not above those which this process was told of (statements.sql)."""

    def __init__(self) -> None:
        super().__init__(
            "PostgreSQL gives out numbers of jobs again: its database was restored, or its sequence was set back",
            code="store.went_back",
            hint="say `custody store restored --why …`, and see what `custody doctor` names",
        )


def swallowed() -> Unsafe:
    """Our statements divide by nothing else than by whether all was written that had to be (statements.sql)."""
    return Unsafe(
        "PostgreSQL did not write all that it was given, and said nothing",
        code="store.swallowed",
        hint="a trigger or a rule on its tables takes rows away: `custody doctor` names it; drop it, and do this again",
    )
