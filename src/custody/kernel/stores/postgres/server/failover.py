"""The way to the server: which of several hosts, and never back to one that was left behind.

After a promotion the old primary may still be there and take writes, which nobody will keep. Every promotion begins
a new timeline, and whoever has seen one never uses an older. A process that has seen none yet asks every host of its
address, and takes the newest.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from custody.errors import BadInput, CustodyError, Unavailable, Unsafe
from custody.kernel.stores.postgres.connection import Connection, Session
from custody.kernel.stores.postgres.server.address import Address, unreadable
from custody.kernel.stores.postgres.server.causes import passes
from custody.kernel.stores.postgres.server.connect import Opening

CONNECTING: Mapping[str, Any] = {
    # A server that is gone without a word (a cable, a power cut) is noticed within half a minute, not after hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 10_000,  # milliseconds
}
"""Unless the address says otherwise."""
FEW_SECONDS = 3
"""For one of several hosts: the next may be the one."""
LEAST_SECONDS, MOST_SECONDS = 2, 10
"""For the only host, as its patience is. (The driver takes one second for two.)"""
OTHERS_SECONDS = 1.0
"""For which, when a process is new, the other hosts are waited for once one of them has answered as a primary."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one host of an address is."""

    host: str
    system: str = ""
    timeline: int = 0
    life: str = ""  # of the server: two ways may lead to one
    refusal: CustodyError | None = None


class Way:
    def __init__(self, address: Address, seen: Mapping[str, int] | None = None) -> None:
        self.address = address
        self.seen = dict(seen or {})  # the newest timeline of each system
        self._opening = Opening(address)
        try:
            self._hosts = _each_host(conninfo_to_dict(address.conninfo), address)
        except psycopg.ProgrammingError as error:
            raise unreadable(error) from None

    def connect(self, *, of_all: bool = False) -> Connection:
        """A checked connection; each statement is its own transaction until it says `begin`. The host that answered
        last is asked first; with `of_all`, and by a process that knows none yet, every host is asked at once, and the
        newest timeline counts."""
        if len(self._hosts) > 1 and (of_all or not self.seen):
            return self._newest(2 * FEW_SECONDS if of_all else OTHERS_SECONDS)
        refusals: list[CustodyError] = []
        for host in tuple(self._hosts):
            try:
                db = self._open(host)
            except (Unavailable, Unsafe) as error:
                refusals.append(error)
                continue
            self._remember(host)
            return db
        raise _why(refusals)

    def look(self) -> list[Seen]:
        """Every host by itself, for whoever wants to know of all of them."""
        tries = self._try_all(self._opening.open)
        return [_seen(host, future) for host, future in zip(self._hosts, tries, strict=True)]

    def _try_all(self, opened: Callable[[dict[str, Any]], Connection]) -> list[Future[Connection]]:
        tries: list[Future[Connection]] = [Future() for _ in self._hosts]
        for host, future in zip(self._hosts, tries, strict=True):
            threading.Thread(target=_try, args=(opened, host, future), daemon=True).start()
        return tries

    def _newest(self, others: float) -> Connection:
        """Of all that answer the one on the newest timeline; when there is one, the rest have so many seconds."""
        opened: list[tuple[Connection, dict[str, Any]]] = []
        refusals: list[CustodyError] = []
        left = dict(enumerate(zip(self._try_all(self._open), self._hosts, strict=True)))
        stop_at = time.monotonic() + 2 * FEW_SECONDS
        while left and time.monotonic() < stop_at:
            for number, (future, host) in [*left.items()]:
                with suppress(TimeoutError):
                    try:
                        opened.append((future.result(0.01), host))
                        stop_at = min(stop_at, time.monotonic() + others)
                    except (Unavailable, Unsafe) as error:
                        refusals.append(error)
                    del left[number]
        for future, _ in left.values():
            future.add_done_callback(_close_late)
        if not opened:
            raise _why(refusals)
        best, host = max(opened, key=lambda one: one[0].session.timeline)
        rivals = [one for one in opened if one[0] is best or _is_rival(one[0], best)]
        for db, _ in opened:
            if db is not best or len(rivals) > 1:
                db.close()
        if len(rivals) > 1:
            raise _two_primaries([(_named(host), db.session) for db, host in rivals])
        self._remember(host)
        return best

    def _remember(self, host: dict[str, Any]) -> None:
        if host is not self._hosts[0]:
            self._hosts = [host, *(each for each in self._hosts if each is not host)]

    def _open(self, host: dict[str, Any]) -> Connection:
        db = self._opening.open(host)
        try:
            self._must_not_be_past(db)
        except BaseException:
            db.close()
            raise
        return db

    def _must_not_be_past(self, db: Connection) -> None:
        timeline, newest = db.session.timeline, self.seen.get(db.session.system, 0)
        if timeline < newest:
            raise Unavailable(
                f"this PostgreSQL is still on timeline {timeline}, which ended when timeline {newest} began:"
                " a primary that has been replaced and does not know it",
                code="postgres.past",
                hint="stop it; until then, put the new primary first in the address",
            )
        self.seen[db.session.system] = max(timeline, self.seen.get(db.session.system, 0))


def _try(opened: Callable[[dict[str, Any]], Connection], host: dict[str, Any], future: Future[Connection]) -> None:
    try:
        future.set_result(opened(host))
    except BaseException as error:
        future.set_exception(error)


def _is_rival(db: Connection, best: Connection) -> bool:
    """Is it another primary, and can nobody tell which is the right one? (Two ways may lead to one server.)"""
    here, there = db.session, best.session
    return here.system != there.system or (here.timeline == there.timeline and here.life != there.life)


def _two_primaries(rivals: Sequence[tuple[str, Session]]) -> Unsafe:
    told = ", ".join(f"{name} (timeline {session.timeline})" for name, session in rivals)
    same = len({session.system for _, session in rivals}) == 1
    return Unsafe(
        f"several hosts of the store's address take writes, and "
        f"{'neither is newer' if same else 'they are different clusters'}: {told}",
        code="postgres.two",
        hint="stop the one that must not be, or leave it out of the address",
    )


def _named(host: Mapping[str, Any]) -> str:
    return f"{host.get('host') or host.get('hostaddr') or 'local'}:{host.get('port', 5432)}"


def _seen(host: dict[str, Any], future: Future[Connection]) -> Seen:
    name = _named(host)
    try:
        with future.result(2 * MOST_SECONDS) as db:
            return Seen(name, db.session.system, db.session.timeline, db.session.life)
    except TimeoutError:
        future.add_done_callback(_close_late)
        return Seen(name, refusal=Unavailable("it does not answer in time", code="store.down"))
    except CustodyError as error:
        return Seen(name, refusal=error)


def _each_host(given: dict[str, Any], address: Address) -> list[dict[str, Any]]:
    """The address once for every host that it names."""
    parts = {
        name: str(given[name]).split(",") for name in ("host", "hostaddr", "port") if given.get(name) not in (None, "")
    }
    count = max((len(values) for values in parts.values()), default=1)
    alone = max(LEAST_SECONDS, min(MOST_SECONDS, math.ceil(address.waits)))
    seconds = {"connect_timeout": alone if count == 1 else min(alone, FEW_SECONDS)}
    common = {**CONNECTING, **seconds, **{name: value for name, value in given.items() if name not in parts}}
    if any("@" in host for host in parts.get("host", ())):  # a password with one in it: the rest of it is no host
        raise unreadable(ValueError("there is more than one @ in it"))
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
