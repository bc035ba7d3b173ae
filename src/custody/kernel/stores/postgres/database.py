"""A PostgreSQL database as the store's database; and which path runs when.

verb   | when                                          | runs (trips to the server)                   | why
-------|-----------------------------------------------|----------------------------------------------|----------------
submit | one job, without parent, line or needs        | submit_single (1)                            | general: +9 %+
submit | up to 1,000 of those, whose keys look new     | keys_known, then submit_many by itself (2)   | general: +16 %
submit | several that look new, and any of the rest    | keys_known, submit_many in a transaction (4) | half the time
submit | a key is known; in somebody's transaction     | submit_keyed, or submit_many where no key is | general
claim  | always                                        | claim_many (1), again for what is missing    | only form
renew  | always                                        | renew_many (1), for each holder              | only form
settle | always                                        | settle_many and what follows from it (3+)    | general
settle | one of them brings what the store refuses     | settle_each, one by one                      | only it suffers
append | one event; also record of one event, no item  | look_at_one, then append_one by itself (2)   | general: +23 %
append | its item has moved on meanwhile               | items.append in a transaction                | general
record | one new item and one event of it              | make_item in a transaction (3)               | general: +32 %
record | other items that are made or changed          | items.record, one by one                     | general
record | several events                                | append_many, one event of each item at once  | general

"General: +16 %" is how much longer the general form took, in turns, on a busy machine: the smaller of median and best
in one round of measuring. (The first row: three rounds, +9 to +34 % without a key, +16 to +75 % with one.) A form that
brings less than a tenth is not kept. What is one statement is a whole transaction; if its answer is lost, it is found
again by its move (in_doubt.py). All forms follow the rules of kernel/stores/rules, and tests/kernel/stores runs on all
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from custody.errors import BadInput, CustodyError, NotFound, Refused
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.job import Answer, Change, Claim, NewJob
from custody.kernel.stores.clock import Clock
from custody.kernel.stores.postgres.connection import Taken
from custody.kernel.stores.postgres.in_doubt import PATIENCE, waited_for
from custody.kernel.stores.postgres.migrate import migrate, must_exist
from custody.kernel.stores.postgres.per_process import Life, silence_inherited
from custody.kernel.stores.postgres.pool import Pool, Told, nobody
from custody.kernel.stores.postgres.server.address import Address
from custody.kernel.stores.postgres.server.condition import Seen
from custody.kernel.stores.postgres.server.receipts import WentBack, went_back
from custody.kernel.stores.postgres.transaction import PostgresTx, Transactions
from custody.kernel.stores.postgres.verbs import claim as claiming
from custody.kernel.stores.postgres.verbs import submit as submitting
from custody.kernel.stores.postgres.verbs.claim import Holds, as_claims, claim_many, renew_many
from custody.kernel.stores.postgres.verbs.record import Lone, looked, record_many
from custody.kernel.stores.postgres.verbs.settle import PostgresMany
from custody.kernel.stores.postgres.verbs.submit import (
    Order,
    is_one_statement,
    look_new,
    new_order,
    submit_at_once,
    submit_many,
)
from custody.kernel.stores.postgres.verbs.submit_single import is_plain, submit_single
from custody.kernel.stores.rows import Row, Tx
from custody.kernel.stores.rules import claim as moves
from custody.kernel.stores.rules import items
from custody.kernel.stores.rules.items import Look
from custody.kernel.stores.rules.settle import settle_many
from custody.kernel.stores.rules.submit import MICROSECONDS, Submitted
from custody.kernel.stores.sql import forks
from custody.kernel.stores.wakeups import Bell

T = TypeVar("T")


class PostgresDatabase:
    dialect = "postgres"

    def __init__(
        self,
        url: str,
        clock: Clock | None,
        new_move: Callable[[], str],
        patience: float = 0.0,
        told: Told = nobody,
        *,
        existing: bool = False,
    ) -> None:
        self.address, self.clock, self.new_move = Address.of(url), clock, new_move
        self.went_back: list[WentBack] = []
        self._life = self._new_life()
        waits = self.address.waits if self.address.patience is not None else max(patience, self.address.waits)
        db = self._pool.wait_for_one(waits, told)
        try:
            if existing:
                must_exist(db)
            migrate(db)
            self._pool.watch(db)
        finally:
            self._pool.give_back(db)
        forks.follow(self)

    def _new_life(self, seen: Mapping[str, int] | None = None, condition: Seen | None = None) -> Life:
        return Life(
            address=self.address,
            clock=self.clock,
            new_move=self.new_move,
            submit=self._submit,
            tell=self.went_back.append,
            seen=seen,
            condition=condition,
        )

    @property
    def bell(self) -> Bell:
        return self._life.messenger.bell

    @property
    def _pool(self) -> Pool:
        return self._life.pool

    @property
    def _transactions(self) -> Transactions:
        return self._life.transactions

    # A fork

    def before_fork(self) -> None:
        """Nothing to put down: the child is given a life of its own."""

    def after_fork(self) -> None:
        """Nor to take up again."""

    def in_child(self) -> None:
        silence_inherited()
        self.went_back = []
        self._life = self._new_life(self._pool.way.seen, self._pool.condition)

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._transactions.write(work)

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._transactions.read(work)

    def glance(self, work: Callable[[Tx], T]) -> T:
        return self._transactions.glance(work)

    def now(self) -> int:
        return self._transactions.now()

    def submit(self, jobs: list[NewJob], move: str, acting: Acting) -> list[Submitted]:
        self._pool.must_be_writable()
        made = self._life.submits.do([new_order(job, move, acting) for job in jobs])
        self._life.receipts.note([(one.id, move) for one in made if one.new])
        return made

    def submit_in(self, tx: Tx, jobs: Sequence[NewJob], move: str, acting: Acting) -> list[Submitted]:
        assert isinstance(tx, PostgresTx)
        return submit_many(tx, [Order(job.checked(), move, acting) for job in jobs])

    def acknowledged(self, made: Sequence[Submitted]) -> None:
        self._life.receipts.note([(one.id, one.move) for one in made if one.new])

    def _submit(self, orders: list[Order]) -> list[Submitted]:
        if len(orders) == 1 and is_plain(orders[0]):
            alone = self._transactions.at_once(
                lambda tx: submit_single(tx, orders[0]), lambda tx: submitting.found_again(tx, orders)
            )
            return alone or self._transactions.write(lambda tx: submit_many(tx, orders))
        if self._transactions.glance(lambda tx: look_new(tx, orders)):
            with suppress(Taken):  # one of their keys is known all the same
                return self._submit_new(orders)
        return self._transactions.write(lambda tx: submit_many(tx, orders))

    def _submit_new(self, orders: list[Order]) -> list[Submitted]:
        if is_one_statement(orders):
            return self._transactions.at_once(
                lambda tx: submit_at_once(tx, orders), lambda tx: submitting.found_again(tx, orders)
            )
        return self._transactions.write(lambda tx: submit_many(tx, orders, new=True))

    def claim(self, queues: list[str], holder: str, lease: int, limit: int, move: str) -> list[Claim]:
        self._pool.must_be_writable()  # whoever cannot end a job must not begin it
        first = iter([move])

        def run(values: dict[str, Any]) -> list[Row]:
            ours = next(first, None) or self.new_move()  # each statement can then be found by its own
            return self._transactions.at_once(
                lambda tx: tx.run("claim_many", holder=holder, lease=lease, move=ours, **values),
                lambda tx: claiming.found_again(tx, ours, holder),
            )

        def look(work: Callable[[Tx], Holds]) -> Holds:
            # They are taken already: rather wait for the server than let them lie until their leases end.
            return waited_for(lambda: self.read(work), min(PATIENCE, lease / 2 / MICROSECONDS))

        return as_claims(claim_many(run, queues, limit, self._life.front), holder, look)

    def renew(self, claims: list[Claim], lease: int) -> dict[int, str]:
        def run(values: dict[str, Any]) -> list[Row]:
            return self._transactions.at_once(lambda tx: tx.run("renew_many", lease=lease, **values), lambda _: None)

        return renew_many(run, claims)

    def settle(self, changes: list[Change]) -> list[Answer]:
        answers = self._settle(changes)
        self._life.receipts.note(
            [(one.id, one.move) for one, answer in zip(changes, answers, strict=True) if answer.done]
        )
        return answers

    def _settle(self, changes: list[Change]) -> list[Answer]:
        try:
            return self._transactions.write(lambda tx: settle_many(PostgresMany(tx), changes))
        except (BadInput, Refused, NotFound):
            # What one of them brings with it cannot be saved; one by one, only that one is refused.
            return self.write(lambda tx: moves.settle_each(tx, changes))

    def append(self, event: NewEvent, agent: str) -> int:
        items.check_type(event)
        lone = Lone(event, agent, self.new_move())
        if seen := self._transactions.glance(lambda tx: tx.run("look_at_one", **lone.question)):
            written = self._transactions.at_once(lambda tx: lone.write(tx, seen[0]), lone.found_again)
            if written:
                return written[0]
        return self._transactions.write(lambda tx: items.append(tx, event, agent))

    def record(self, new: Sequence[NewItem], events: Sequence[NewEvent], agent: str) -> None:
        if len(events) == 1 and not new:
            self.append(events[0], agent)
            return
        self._transactions.write(lambda tx: record_many(tx, [(new, events, agent)]))

    def look(self, ids: Sequence[str], types: Iterable[str]) -> dict[str, Look]:
        wanted = {"ids": list(ids), "types": sorted(types)}
        return looked(self._transactions.at_once(lambda tx: tx.run("get_many", **wanted), lambda _: None))

    def at_once(self, name: str, move: str, /, **values: Any) -> list[tuple[str, ...]] | None:
        nothing: list[tuple[str, ...]] = []
        return self._transactions.at_once(lambda tx: tx.ask(name, move=move, **values), lambda _: nothing) or None

    def troubles(self) -> list[CustodyError]:
        """What was found out about the server since this was last asked."""
        told, self.went_back[:] = list(self.went_back), []
        return [went_back(one) for one in told]

    def cannot_write(self) -> CustodyError | None:
        """What this role lacks for that, if it does."""
        return self._pool.condition.lacks if self._pool.condition else None

    def must_serve_several(self) -> None:
        self._pool.must_be_writable()
        self._pool.must_lend_two()

    def changed_elsewhere(self) -> int:
        """Always the same: other processes ring through `listen`."""
        return 0

    def listen(self) -> str:
        """Ring the bell when another process has done something; answers why not, if that cannot be."""
        return self._life.messenger.listen(self._is_pooled())

    def _is_pooled(self) -> bool:
        with self._pool.connection() as db:
            return not db.own

    def close(self) -> None:
        self._life.close()
