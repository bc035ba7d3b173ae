"""How transactions are begun and ended, and what is set for them. Nothing is ever set for a session.

A connection of our own brings its settings in the packet that opens it. Between us and the server there may be a
pooler, though, which lends one session to many: it refuses such a packet, and whatever is set in a session there is
the next client's, as what the one before us has set is ours. So behind a pooler every transaction says in its `begin`
all that it rests on: what makes a commit durable, whose tables are meant, how long may be waited; and all of it ends
with the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from custody.kernel.stores.postgres.dialect import SERVER_TIME

SETTINGS: Mapping[str, str] = {
    "default_transaction_isolation": "read committed",
    "jit": "off",  # compiling costs more than any statement here runs
    # Every statement that writes finds its rows by an index, whatever its values: planning it anew each time
    # could only make it slower. (Looks, which filter freely, plan for their values.)
    "plan_cache_mode": "force_generic_plan",
    # And by an index it stays, though the table was small, or never counted, when the plan was made; a plain one,
    # so that rows are found, and locked, in the order of their ids.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "idle_in_transaction_session_timeout": "1min",  # a stopped process must not keep its row locks for ever
    "client_connection_check_interval": "1s",  # a statement whose client is gone ends, instead of waiting on
    "client_min_messages": "warning",  # that a wait for the standby was cancelled is told by a warning and nothing else
}
AS_THE_SERVER_HAS_THEM = (
    "role",
    "row_security",
    "statement_timeout",
    "lock_timeout",
    "timezone",
    "datestyle",
)
"""What somebody else in the pool may have left behind, and what an administrator may have chosen."""
FREE_PLANS: Mapping[str, str] = {"plan_cache_mode": "auto", "enable_seqscan": "on", "enable_bitmapscan": "on"}

LIFE = """pg_postmaster_start_time()::text || coalesce((select stats_reset::text from pg_stat_bgwriter), '')
    || ' ' || (select oid::text from pg_database where datname = current_database())"""
"""Since when a server has run without a crash, and with which database: one that was dropped and made again has another
number. One process that crashes takes all sessions with it, but not the postmaster; the statistics begin anew."""
TIMELINE = """case when pg_is_in_recovery() then 0
    else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end"""
"""Rises with every promotion. Any role may ask."""
HAS_STANDBY = "(current_setting('synchronous_standby_names') <> '')::int"

_ASKED = f"select pg_current_xact_id()::text, {SERVER_TIME}, pg_backend_pid(), {HAS_STANDBY}"
_ASKED_OF_ANY = f"{_ASKED}, {LIFE} || ' ' || {TIMELINE}"

COMMIT = b"commit"
STILL_WAITS = f"select {HAS_STANDBY}".encode()
CONFIRMED_COMMIT = b"select pg_logical_emit_message(true, 'custody', ''); commit"
"""A commit that waits for the standby although nothing was written: what the transaction saw is then there, too. (An
empty record in the log does it, for which no row has to be locked.)"""


@dataclass(frozen=True, slots=True)
class Words:
    begin: bytes
    look: bytes
    glance: bytes  # empty: a statement may be asked by itself


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def options(schema: str, given: str, name: str, durable: str) -> str:
    """The settings as the opening packet carries them; those that the address gives come before.

    A commit waits for what is said here (`durable`), whatever is set on the server or its roles while the session
    lasts. What the address itself says of this is left as it is, and judged.
    """
    ours = (
        dict(SETTINGS)
        | ({"search_path": quoted(schema)} if schema else {})
        | ({"application_name": name} if name else {})
    )
    if durable and "synchronous_commit" not in given:
        ours["synchronous_commit"] = durable
    return " ".join([given, *(f"-c {name}={_escaped(value)}" for name, value in ours.items())]).strip()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


OWN = Words(
    begin=f"begin; {_ASKED}".encode(),
    look="; set local ".join(
        (
            "begin isolation level repeatable read read only",
            *(f"{name} = {value}" for name, value in FREE_PLANS.items()),
        )
    ).encode(),
    glance=b"",
)
"""For a session that is ours alone and has what we need."""


def path(usual: str) -> str:
    """A search path in which nobody's temporary tables come before ours: where they are not named, they come first."""
    return usual if "pg_temp" in usual else f"{usual}, pg_temp" if usual.strip() else "pg_temp"


def for_any_session(path: str, durable: str, watches: bool) -> Words:
    """For a session that may have been anybody's a moment ago: `durable` is what a commit has to wait for."""
    common = [f"{name} to default" for name in AS_THE_SERVER_HAS_THEM] + [f"search_path to {path}"]
    common += [
        f"{name} to '{value}'"
        for name, value in SETTINGS.items()
        if name != "default_transaction_isolation" and (watches or name != "client_connection_check_interval")
    ]
    free = [f"{name} to '{value}'" for name, value in FREE_PLANS.items()]
    writing = [f"synchronous_commit to {durable}", *common]
    return Words(
        begin=f"{_said('begin isolation level read committed read write', writing)}; {_ASKED_OF_ANY}".encode(),
        look=_said("begin isolation level repeatable read read only", common + free).encode(),
        glance=_said("begin isolation level read committed read only", common).encode(),
    )


ASKING = "; set local ".join(
    ("begin read only", *(f"{name} to default" for name in ("statement_timeout", "lock_timeout", "role")))
).encode()
"""For the questions with which a connection is opened."""


def _said(begin: str, settings: list[str]) -> str:
    return "; set local ".join([begin, *settings])
