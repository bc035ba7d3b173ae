"""What `custody doctor` finds out about PostgreSQL servers: which of them take writes, and what their word is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from custody.cli.doctor.finding import Finding
from custody.cli.times import moment
from custody.formats.shell import command
from custody.kernel.stores import Store
from custody.kernel.stores.postgres.database import PostgresDatabase
from custody.kernel.stores.postgres.server.address import Address
from custody.kernel.stores.postgres.server.condition import table_names
from custody.kernel.stores.postgres.server.failover import Way
from custody.kernel.stores.postgres.server.numbers import lagging
from custody.kernel.stores.postgres.transaction import PostgresTx
from custody.kernel.stores.recovery.losses import Loss, losses

LATELY = 7 * 24 * 3600 * 1_000_000  # microseconds


def server_findings(store: Store) -> Iterator[Finding]:
    yield from _hosts(store)
    yield _standbys(store)
    yield from went_back(store)
    yield from _rights(store)
    yield from _numbers(store)
    yield from _strangers(store)


def _rights(store: Store) -> Iterator[Finding]:
    """Whoever can only read serves nobody who writes; whoever cannot even read all of it has not come this far."""
    db = store.db
    if isinstance(db, PostgresDatabase) and (lacks := db.cannot_write()):
        yield Finding("unsafe", lacks.message, lacks.hint)


def _numbers(store: Store) -> Iterator[Finding]:
    """A copy without its sequences gives out numbers that are taken, and refuses whatever is written."""
    for one in store.db.read(lambda tx: list(lagging(tx.db)) if isinstance(tx, PostgresTx) else []):
        if one.reached is None:
            do = f"grant usage on sequence {one.sequence} to the store's role"
            yield Finding("warning", f"whether the numbers of table {one.table} go on where they were is not known", do)
            continue
        what = (
            f"table {one.table} has numbers up to {one.highest}, and its sequence has given out {one.reached} of them"
        )
        do = command("store restored", why="a copy without its sequences")
        yield Finding("unsafe", f"{what}: what is written is refused", do)


def _strangers(store: Store) -> Iterator[Finding]:
    """What somebody else has put on the store's tables. Nobody can know from here what it does: whatever runs after our
    statement can take away what was counted, and it is acknowledged all the same."""
    for sort, name, table, may_swallow in store.db.read(lambda tx: tx.run("strangers", tables=list(table_names()))):
        yield Finding(
            "unsafe",
            f"there is a {sort} {name} on table {table}, which is not ours",
            f"drop {sort} {name} on {table}; it can keep rows from being written"
            if may_swallow
            else f"drop {sort} {name} on {table}, unless you know that it deletes and changes nothing of the store's:"
            " it can take rows away after they were counted, and they are acknowledged all the same",
        )


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
            "unsafe",
            f"{len(writable)} hosts of the store's address take writes: {told}",
            "stop the one with the lower timeline: what it acknowledges is lost"
            if same
            else "they are different clusters: leave the wrong one out of the address",
        )
    elif writable:
        yield Finding("fine", f"of {len(seen)} hosts one takes writes: {next(iter(writable.values())).host}")


def _standbys(store: Store) -> Finding:
    """Of which sort the server is: what it acknowledges may be on one disk, or on two."""
    sort = store.db.read(lambda tx: tx.run("standbys"))[0][0]
    if sort == "synchronous":
        return Finding("fine", "a synchronous standby: what is acknowledged is on two disks")
    if sort == "asynchronous":
        return Finding(
            "warning",
            "an asynchronous standby: what was acknowledged last is lost if it is promoted after a crash",
            "set synchronous_standby_names, and ?require=sync in the store's address",
        )
    return Finding("fine", "no standby: what is acknowledged is on this server's disk")


def went_back(store: Store) -> Iterator[Finding]:
    """What processes noticed when another server took over, and copies that were put back: as far as it is not there
    again. What somebody has taken note of (`custody store restored`) is a warning from then on."""
    for loss in losses(store):
        if loss.at <= store.now() - LATELY:
            continue
        event, when, shown = loss.event, moment(loss.at), ", ".join(loss.subjects)
        grade: Literal["unsafe", "warning"] = "warning" if loss.is_known else "unsafe"
        if copy := event.detail.get("restored"):
            yield _restored(loss, copy, grade, shown)
        elif noticed := event.detail.get("noticed"):
            do = "submit again what was acknowledged since that state: custody doctor --receipts FILE says what"
            yield Finding(grade, f"history went back; noticed at {when}: {noticed}", do)
        else:
            yield Finding(
                grade,
                f"history went back at {when}: {event.detail['missing']} acknowledged moves lost",
                f"{_how(event.detail)}: {shown}",
            )


def _restored(loss: Loss, copy: str, grade: Literal["unsafe", "warning"], shown: str) -> Finding:
    when, missing = moment(loss.at), loss.event.detail["missing"]
    lost = "what is missing is not known" if missing is None else f"{missing} events are missing"
    do = f"submit again: {shown}" if shown else "compare it with your receipts: custody doctor --receipts FILE"
    then = "" if grade == "warning" else "; then say it: custody store restored --receipts FILE --why …"
    return Finding(grade, f"history went back at {when}, when {copy} was put in the store's place: {lost}", do + then)


def _how(detail: Mapping[str, Any]) -> str:
    if detail["timeline"] == detail["before"]:
        return f"a restore, or a copy of the disk, on timeline {detail['timeline']}"
    return f"on timeline {detail['timeline']}"
