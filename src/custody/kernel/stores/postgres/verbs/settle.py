"""How PostgreSQL settles many rows in one statement: see kernel/stores/rules/settle.py for the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from custody.kernel.model.job import Change
from custody.kernel.stores.postgres.columns import column, fits, numbers
from custody.kernel.stores.postgres.transaction import PostgresTx
from custody.kernel.stores.postgres.verbs.record import record_many
from custody.kernel.stores.postgres.verbs.submit import Order, contested, submit_many
from custody.kernel.stores.rows import Row, kept_text
from custody.kernel.stores.rules.settle import common_detail, own_detail
from custody.kernel.stores.rules.submit import microseconds


class PostgresMany:
    def __init__(self, tx: PostgresTx) -> None:
        self.tx = tx

    def carries(self, change: Change) -> bool:
        return fits(change.move)

    def lock(self, ids: Sequence[int]) -> None:
        self.tx.run("lock_jobs", ids=numbers(ids))

    def move(self, group: Sequence[Change]) -> Sequence[Row]:
        first = group[0]
        return self.tx.run(
            "settle_many",
            ids=numbers(change.id for change in group),
            tokens=numbers(change.token or 0 for change in group),
            claims=column([change.claimed for change in group]),
            moves=column([change.move for change in group]),
            detail=common_detail(first),
            details=column([own_detail(change) for change in group]),
            facts=None if first.facts is None else column([kept_text(one.facts or {}, "job facts") for one in group]),
            type=first.type,
            outcome=first.outcome,
            agent=first.agent,
            from_state=first.frm,
            to_state=first.to,
            runnable=int(first.runnable),
            ended=first.ended,
            priority=first.priority,
            lane=first.lane,
            place=first.place,
            last_passed=first.last_passed,
            code=first.code,
            retries=0,
            open=first.open,
            attempts=first.attempts,
            delay=microseconds(first.delay),
        )

    def forget(self, ids: Sequence[int]) -> None:
        self.tx.run("forget_many", ids=numbers(ids))

    def submit(self, changes: Sequence[Change]) -> None:
        submit_many(self.tx, [Order(job.checked(), each.move, each.acting) for each in changes for job in each.then])

    def record(self, changes: Sequence[Change]) -> None:
        record_many(self.tx, [(each.items, each.events, each.agent) for each in changes])

    def tell(self, ids: Sequence[int], ended: str) -> Sequence[Row]:
        return self.tx.run("tell_many", targets=numbers(ids), ended=ended)

    def count_down(self, met: Mapping[int, int]) -> Sequence[Row]:
        waiters = sorted(met)
        rows = self.tx.run("count_down_many", ids=numbers(waiters), bys=numbers(met[waiter] for waiter in waiters))
        return [row[:4] for row in rows]

    def claim_onward(self, ids: Sequence[int], lease: int, **values: str) -> Sequence[Row]:
        return self.tx.run("claim_onward", ids=numbers(ids), lease=lease, **values)

    def contested(self, ids: Sequence[int]) -> Sequence[int]:
        """Their lines were locked when they were counted."""
        return contested(self.tx, ids)
