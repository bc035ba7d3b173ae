"""Why a connection cannot be had, in the true words: nobody answers, or somebody does and lets us not in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from custody.errors import CustodyError, Unavailable


@dataclass(frozen=True, slots=True)
class Cause:
    said: re.Pattern[str]
    told: str
    code: str
    hint: str
    passes: bool = False  # it may be otherwise in a moment


SAID_SO = r"FATAL|ERROR|PANIC"
FULL_POOL: Sequence[Cause] = (
    Cause(
        re.compile(r"no more connections allowed|max_(client_conn|(db|user)_client_connections)"),
        "the pooler runs, and takes no more clients",
        "postgres.full",
        "raise max_client_conn on the pooler, or run fewer processes: each keeps connections of its own",
        passes=True,
    ),
    Cause(
        re.compile(r"query_wait_timeout"),
        "the pooler runs, and none of its sessions of PostgreSQL became free in time",
        "postgres.full",
        "raise default_pool_size on the pooler, in session mode to as many as all processes keep together; it says the "
        "same while PostgreSQL behind it does not answer",
        passes=True,
    ),
    Cause(
        re.compile(r"took the connection, and then said nothing"),
        "PostgreSQL, or the pooler before it, is silent",
        "store.down",
        "is PostgreSQL running? A pooler waits like this while all its sessions are lent: raise its default_pool_size",
        passes=True,
    ),
)
"""What PgBouncer says (or does not) at the door or, as it lends its sessions late, in the middle of a transaction."""
CAUSES: Sequence[Cause] = (
    *FULL_POOL,
    Cause(
        re.compile(
            r"authentication failed|password|pg_hba|no such user|role \S+ (does not|is not)|not permitted|SASL|GSS"
        ),
        "PostgreSQL answers, and does not let us in",
        "postgres.login",
        "are the user and the password right, and does pg_hba.conf allow this machine?",
    ),
    Cause(
        re.compile(r"database .*does not exist|no such database|is not currently accepting connections"),
        "PostgreSQL answers, and does not have the database",
        "postgres.database",
        "createdb --encoding UTF8 --template template0 --locale C NAME, or mend the name in the address",
    ),
    Cause(
        re.compile(r"too many connections for role"),
        "PostgreSQL answers, and the role has as many connections as it may",
        "postgres.full",
        "alter role … connection limit N (-1: no limit), or run fewer processes: each keeps connections of its own",
        passes=True,
    ),
    Cause(
        re.compile(r"too many connections for database"),
        "PostgreSQL answers, and the database has as many connections as it may",
        "postgres.full",
        "alter database … connection limit N (-1: no limit), or run fewer processes: each keeps connections of its own",
        passes=True,
    ),
    Cause(
        re.compile(r"too many (clients|connections)|connection slots"),
        "PostgreSQL answers, and has no connection left for us",
        "postgres.full",
        "raise max_connections, or put a pooler before it",
        passes=True,
    ),
    Cause(
        re.compile(r"certificate|SSL|TLS|ssl"),
        "PostgreSQL answers, and cannot agree with us on encryption",
        "postgres.tls",
        "look at sslmode and sslrootcert in the address, and at ssl on the server",
    ),
    Cause(
        re.compile(r"could not translate host name|Name or service not known|nodename nor servname"),
        "the host of the store's address has no address",
        "store.host",
        "is the name of the host right?",
    ),
    Cause(
        re.compile(r"starting up|shutting down|in recovery mode|not yet accepting"),
        "PostgreSQL answers, and is not ready",
        "store.down",
        "it is starting, or being stopped",
        passes=True,
    ),
    Cause(
        re.compile(r"server_login_retry|client_login_timeout|server login|server_connect_timeout"),
        "the pooler answers, and has no session of PostgreSQL for us",
        "postgres.full",
        "is PostgreSQL running, and is the pool large enough? (default_pool_size)",
        passes=True,
    ),
    Cause(
        re.compile(r"unsupported|invalid|unrecognized|not supported"),
        "PostgreSQL answers, and does not take what we bring",
        "postgres.unfit",
        "what does its log say?",
    ),
    Cause(
        re.compile(rf"\b({SAID_SO}):|expected authentication request|received invalid response"),
        "PostgreSQL answers, and refuses us",
        "postgres.refused",
        "what does its log say?",
        passes=True,
    ),
)
"""In this order. (Words of the driver, of PgBouncer and of a server that speaks English; what is said in another
language is told as it is, and waited for as long as the patience lasts.)"""
PASSING = frozenset(
    {"postgres.standby", "postgres.past", "store.down", "store.incomplete"} | {one.code for one in CAUSES if one.passes}
)
NAMES = re.compile(r"connection to server (at|on socket) \"[^\"]*\"[^:]*failed:|\"[^\"]*\"")
"""Of hosts, users and databases: whatever they are called, they say nothing of the cause."""


def told_by(causes: Sequence[Cause], error: Exception) -> Unavailable | None:
    said = " ".join(str(error).split())
    for cause in causes:
        if cause.said.search(NAMES.sub("…", said)):
            return Unavailable(f"{cause.told}: {said}", code=cause.code, hint=cause.hint)
    return None


def refused_to_open(error: Exception) -> Unavailable:
    return told_by(CAUSES, error) or Unavailable(
        f"PostgreSQL does not answer: {' '.join(str(error).split())}",
        code="store.down",
        hint="is the server running, and is the address right?",
    )


def passes(error: CustodyError) -> bool:
    """Is it a matter of time? Nothing was done, and the server may be there in a moment."""
    return error.code in PASSING
