"""The follower: writes what happened in the tree into the history, each move exactly once and in order.

Any process may follow at any time. A move is known by its mark; two that write at the same moment meet at the
subject's counter, and the one that comes second begins again. Moves of other services leave no entry: they are
seen as a gap in the versions of the status and noted as that many *not observed*, never invented.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from custody.errors import BadInput, KeyConflict, Refused
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.client.multi import Delete
from custody.ingest.zookeeper.journal import Entry, Happened, read_entry
from custody.ingest.zookeeper.rows import Tree
from custody.kernel.model.authority.acting import Acting
from custody.kernel.stores.rows import Tx, loads
from custody.kernel.stores.rules import items
from custody.kernel.stores.rules.events import write_event, write_note
from custody.kernel.stores.rules.submit import submit

AT_ONCE, MOST = 200, 2_000
TRIES = 10
KEPT = 4_000  # bytes of what cannot be read
FOLLOWER = "follower"
PLAIN = ("from", "state", "ended", "priority", "retries", "last_passed", "lane", "place", "code")
DETAIL = 7  # the column of an event's detail


class _Overtaken(Exception):
    """Another follower wrote the same move between our look and our write."""


def follow(at: Tree, most: int = MOST) -> int:
    """Write the oldest moves into the history; answers how many were taken out of the tree."""
    with at.following:
        names = at.session.names(tree.MOVES)[:most]
        for start in range(0, len(names), AT_ONCE):
            _follow(at, names[start : start + AT_ONCE])
    return len(names)


def _follow(at: Tree, names: Sequence[str]) -> None:
    nodes = at.session.get_many([f"{tree.MOVES}/{name}" for name in names])
    entries = [_read(at, name, node.data) for name, node in zip(names, nodes, strict=True) if node is not None]
    _write_or_say(at, [entry for entry in entries if entry is not None])
    gone = [Delete(f"{tree.MOVES}/{name}") for name in names]
    if not at.session.commit(gone).done:
        at.session.commit_many([[each] for each in gone])  # refused: another follower was quicker with some
    at.db.bell.ring()


def _read(at: Tree, name: str, data: bytes) -> Entry | None:
    """What is no entry is kept as it is in the history: it must not keep all others waiting either."""
    try:
        return read_entry(data)
    except BadInput as error:
        kept = data[:KEPT].decode(errors="replace").replace("\0", "\ufffd")
        told = {"node": name, "data": kept, "why": str(error)}
        at.db.write(lambda tx: write_note(tx, "tree", "unreadable", FOLLOWER, detail=told))
        return None


def follow_all(at: Tree) -> int:
    count = 0
    while found := follow(at):
        count += found
    return count


def _write_or_say(at: Tree, entries: Sequence[Entry]) -> None:
    """One entry that cannot be written must not keep all others waiting: that it could not be is written instead."""
    try:
        write(at, entries)
    except (BadInput, KeyConflict):
        for entry in entries:
            try:
                write(at, [entry])
            except (BadInput, KeyConflict) as error:
                write(at, [_without_words(entry, str(error))])


def _without_words(entry: Entry, why: str) -> Entry:
    told = [{name: each.detail[name] for name in PLAIN if name in each.detail} for each in entry.happened]
    happened = [
        replace(each, detail={**detail, "unwritable": why}) for each, detail in zip(entry.happened, told, strict=True)
    ]
    return Entry(entry.move, happened, entry.agent)


def write(at: Tree, entries: Sequence[Entry]) -> None:
    for _ in range(TRIES):
        try:
            at.db.write(lambda tx: _write_all(tx, entries))
        except _Overtaken:
            continue
        return
    raise Refused("other followers were quicker every time", code="tree.follow")


def _write_all(tx: Tx, entries: Sequence[Entry]) -> None:
    for entry in entries:
        _write(tx, entry)


def _write(tx: Tx, entry: Entry) -> None:
    if not entry.happened or _is_written(tx, entry, entry.happened[0]):
        return
    for happened in entry.happened:
        _write_one(tx, entry, happened)
    items.record(tx, entry.items, entry.events, entry.agent)
    submit(tx, entry.then, entry.move, Acting(entry.by, entry.agent))


def _write_one(tx: Tx, entry: Entry, happened: Happened) -> None:
    seq = int(tx.run("next_subject_seq", subject=happened.subject)[0][0])
    if _is_written(tx, entry, happened):
        raise _Overtaken
    missed = happened.status - _last_status(tx, happened.subject, seq) - (happened.type != "kept")
    if seq > 1 and missed > 0:
        told = {"count": missed, "status": happened.status - 1}
        write_event(
            tx, happened.subject, seq, "unobserved", outcome="none", agent=FOLLOWER, detail=told, token=happened.token
        )
        seq = int(tx.run("next_subject_seq", subject=happened.subject)[0][0])
    told = {**happened.detail, "status": happened.status}
    write_event(
        tx,
        happened.subject,
        seq,
        happened.type,
        outcome=happened.outcome,
        agent=happened.agent,
        detail=told,
        token=happened.token,
        move=entry.move,
    )


def _is_written(tx: Tx, entry: Entry, happened: Happened) -> bool:
    return bool(tx.run("event_of_move", subject=happened.subject, move=entry.move))


def _last_status(tx: Tx, subject: str, seq: int) -> int:
    rows = tx.run("events", subject=subject, after=seq - 2, limit=1)
    return int(loads(rows[0][DETAIL]).get("status", 0)) if rows else 0
