"""What `custody doctor` finds out about PostgreSQL servers: which of them take writes, and what their word is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from custody.cli.finding import Finding
from custody.cli.when import moment
from custody.model.event import Event
from custody.stores import Store
from custody.stores.lost import RESTORED, WENT_BACK, still_lost, subjects_lost
from custody.stores.postgres.address import Address
from custody.stores.postgres.condition import table_names
from custody.stores.postgres.database import PostgresDatabase
from custody.stores.postgres.way import Way
from custody.stores.rows import Tx

LATELY = 7 * 24 * 3600 * 1_000_000  # microseconds


def server_findings(store: Store) -> Iterator[Finding]:
    yield from _hosts(store)
    yield _standbys(store)
    yield from went_back(store)
    yield from _rights(store)
    yield from _strangers(store)


def _rights(store: Store) -> Iterator[Finding]:
    """Whoever can only read serves nobody who writes; whoever cannot even read all of it has not come this far."""
    db = store.db
    if isinstance(db, PostgresDatabase) and (lacks := db.cannot_write()):
        yield Finding("unsafe", lacks.message, lacks.hint)


def _strangers(store: Store) -> Iterator[Finding]:
    """What somebody else has put on the store's tables. Nobody can know from here what it does: whatever runs after our
    statement can take away what was counted, and it is acknowledged all the same."""
    for sort, name, table, may_swallow in store.db.read(lambda tx: tx.run("strangers", tables=list(table_names()))):
        yield Finding(
            "unsafe", f"there is a {sort} {name} on table {table}, which is not ours",
            f"drop {sort} {name} on {table}; it can keep rows from being written" if may_swallow
            else f"drop {sort} {name} on {table}, unless you know that it deletes and changes nothing of the store's:"
            " it can take rows away after they were counted, and they are acknowledged all the same",
        )  # fmt: skip


def _hosts(store: Store) -> Iterator[Finding]:
    """Of several hosts in the address: whether more than one of them takes writes."""
    seen = Way(Address.of(store.url)).look()
    writable = {host.life: host for host in seen if host.refusal is None}  # two ways may lead to one server
    if len(seen) < 2:
        return
    for host in seen:
        if host.refusal is not None and host.refusal.code != "postgres.standby":
            yield Finding("warning", f"{host.host}: {host.refusal.message}", host.refusal.hint)
    if len(writable) > 1:
        told = ", ".join(f"{host.host} (timeline {host.timeline})" for host in writable.values())
        same = len({host.system for host in writable.values()}) == 1
        yield Finding(
            "unsafe", f"{len(writable)} hosts of the store's address take writes: {told}",
            "stop the one with the lower timeline: what it acknowledges is lost" if same
            else "they are different clusters: leave the wrong one out of the address",
        )  # fmt: skip
    elif writable:
        yield Finding("fine", f"of {len(seen)} hosts one takes writes: {next(iter(writable.values())).host}")


def _standbys(store: Store) -> Finding:
    """Of which sort the server is: what it acknowledges may be on one disk, or on two."""
    sort = store.db.read(lambda tx: tx.run("standbys"))[0][0]
    if sort == "synchronous":
        return Finding("fine", "a synchronous standby: what is acknowledged is on two disks")
    if sort == "asynchronous":
        return Finding(
            "warning", "an asynchronous standby: what was acknowledged last is lost if it is promoted after a crash",
            "set synchronous_standby_names, and ?require=sync in the store's address",
        )  # fmt: skip
    return Finding("fine", "no standby: what is acknowledged is on this server's disk")


def went_back(store: Store) -> Iterator[Finding]:
    """What processes noticed when another server took over, and copies that were put back: as far as it is not there
    again. What somebody has taken note of (`custody store restored`) is a warning from then on."""
    events = list(store.records.events("store"))
    noted = max((event.at for event in events if event.type == RESTORED), default=0)

    def has(subject: str, move: str) -> bool:
        def look(tx: Tx) -> bool:
            found = tx.run("event_of_move", subject=subject, move=move) if move else None
            return bool(tx.run("events", subject=subject, after=0, limit=1) if found is None else found)

        return store.db.read(look)

    for event in events:
        if event.type != WENT_BACK or event.at <= store.now() - LATELY or not still_lost(event.detail, has):
            continue
        grade: Literal["unsafe", "warning"] = "warning" if noted > event.at else "unsafe"
        shown = ", ".join(subjects_lost(event.detail, has))
        if copy := event.detail.get("restored"):
            yield _restored(event, copy, grade, shown)
        elif noticed := event.detail.get("noticed"):
            when = moment(event.detail.get("noted", event.at))
            do = "submit again what was acknowledged since that state: custody doctor --receipts FILE says what"
            yield Finding(grade, f"history went back; noticed at {when}: {noticed}", do)
        else:
            yield Finding(
                grade, f"history went back at {moment(event.at)}: {event.detail['missing']} acknowledged moves lost",
                f"{_how(event.detail)}: {shown}",
            )  # fmt: skip


def _restored(event: Event, copy: str, grade: Literal["unsafe", "warning"], shown: str) -> Finding:
    when, missing = moment(event.detail.get("noted", event.at)), event.detail["missing"]  # noted: carried over
    lost = "what is missing is not known" if missing is None else f"{missing} events are missing"
    do = f"submit again: {shown}" if shown else "compare it with your receipts: custody doctor --receipts FILE"
    then = "" if grade == "warning" else "; then say it: custody store restored --receipts FILE --why …"
    return Finding(grade, f"history went back at {when}, when {copy} was put in the store's place: {lost}", do + then)


def _how(detail: Mapping[str, Any]) -> str:
    if detail["timeline"] == detail["before"]:
        return f"a restore, or a copy of the disk, on timeline {detail['timeline']}"
    return f"on timeline {detail['timeline']}"
