"""The store's statements as PostgreSQL reads them.

`:name` becomes the driver's `%(name)s`. `:now` becomes the time of the transaction, read from the server inside
the statement itself, so that telling the time costs no round trip and only one clock decides when a lease ends;
where a test or a simulation brings its own clock, it is a parameter like any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from custody.kernel.applications import when_changed
from custody.kernel.stores.sql.statements import load

# As a sub-select it is worked out once for a statement, not for every row.
SERVER_TIME = "(select (extract(epoch from transaction_timestamp()) * 1000000)::bigint)"

_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")
_LOCKING = re.compile(r" for (update|share)( of [a-z]+)?( skip locked)?$")


def driver_text(sql: str, own_clock: bool) -> str:
    def place(match: re.Match[str]) -> str:
        return SERVER_TIME if match[1] == "now" and not own_clock else f"%({match[1]})s"

    return _PARAMETER.sub(place, sql.replace("%", "%%"))


@cache
def texts(own_clock: bool, locking: bool) -> Mapping[str, str]:
    """Every statement, by name. A transaction that only looks may not lock, so there the locks are left out."""
    return {
        name: driver_text(sql if locking else _LOCKING.sub("", sql), own_clock)
        for name, sql in load("postgres").items()
    }


when_changed(texts.cache_clear)
