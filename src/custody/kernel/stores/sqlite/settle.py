"""How SQLite settles many rows in one statement: see kernel/stores/rules/settle.py for the rules.

Rows travel as one JSON text. A statement per row would cost little in SQLite itself, but the interpreter gives way
to other threads at each of them, and may wait for its turn to come back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from custody.kernel.model.job import Change
from custody.kernel.stores.rows import Row, Tx, kept_text
from custody.kernel.stores.rules import items
from custody.kernel.stores.rules.claim import values
from custody.kernel.stores.rules.settle import common_detail, own_detail
from custody.kernel.stores.rules.submit import submit

_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
OWN = frozenset({"id", "token", "claimed", "move", "facts"})
"""What differs from row to row; all else is the same for the whole group."""


class SqliteMany:
    def __init__(self, tx: Tx) -> None:
        self.tx = tx

    def carries(self, change: Change) -> bool:
        return True

    def lock(self, ids: Sequence[int]) -> None:
        """There is one writer."""

    def move(self, group: Sequence[Change]) -> Sequence[Row]:
        first = group[0]
        shared: dict[str, Any] = {name: value for name, value in values(first).items() if name not in OWN}
        given = [
            (
                change.id,
                change.token,
                change.claimed,
                change.move,
                None if change.facts is None else kept_text(change.facts, "job facts"),
            )
            for change in group
        ]
        rows = self.tx.run("settle_many", given=_text(given), **shared)
        by_id = {change.id: change for change in group}
        told = [(row[0], row[5], row[1], by_id[row[0]].move, own_detail(by_id[row[0]])) for row in rows]
        told.sort()
        common = {"type": first.type, "outcome": first.outcome, "agent": first.agent, "detail": common_detail(first)}
        self.tx.run("insert_events", told=_text(told), **common)
        return [row[:5] for row in rows]

    def forget(self, ids: Sequence[int]) -> None:
        for job_id in ids:
            self.tx.run("delete_edges_of", id=job_id)
            self.tx.run("delete_job", id=job_id)

    def submit(self, changes: Sequence[Change]) -> None:
        for change in changes:
            submit(self.tx, change.then, change.move, change.acting)

    def record(self, changes: Sequence[Change]) -> None:
        for change in changes:
            items.record(self.tx, change.items, change.events, change.agent)

    def tell(self, ids: Sequence[int], ended: str) -> Sequence[Row]:
        targets = _text(ids)
        met = [(row[0], 1) for row in self.tx.run("meet_many", targets=targets, ended=ended)]
        in_vain = [(row[0], 0) for row in self.tx.run("in_vain_many", targets=targets, ended=ended)]
        return [*met, *in_vain]

    def count_down(self, met: Mapping[int, int]) -> Sequence[Row]:
        return self.tx.run("count_down_many", given=_text(sorted(met.items())))

    def claim_onward(self, ids: Sequence[int], lease: int, **values: str) -> Sequence[Row]:
        return self.tx.run("claim_onward", given=_text(ids), lease=lease, **values)

    def contested(self, ids: Sequence[int]) -> Sequence[int]:
        return [row[0] for row in self.tx.run("contested", given=_text(ids))] if ids else []
