"""A PostgreSQL database as the store's database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from custody.model.job import Answer, Change, Claim, NewJob
from custody.stores import moves
from custody.stores.clock import Clock
from custody.stores.postgres.connection import Address
from custody.stores.postgres.migrating import migrate
from custody.stores.postgres.pool import Pool
from custody.stores.postgres.transaction import Transactions
from custody.stores.rows import Tx
from custody.stores.submit import Submitted, submit
from custody.stores.wake import Bell

T = TypeVar("T")


class PostgresDatabase:
    dialect = "postgres"

    def __init__(self, url: str, clock: Clock | None, new_move: Callable[[], str]) -> None:
        self.address, self.new_move = Address.of(url), new_move
        self._pool = Pool(self.address)
        self._transactions = Transactions(self._pool, clock, new_move)
        self.bell = Bell()
        with self._pool.connection() as db:
            migrate(db)

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._transactions.write(work)

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._transactions.read(work)

    def now(self) -> int:
        return self._transactions.now()

    def submit(self, jobs: list[NewJob], move: str, agent: str) -> list[Submitted]:
        return self.write(lambda tx: submit(tx, jobs, move, agent))

    def claim(self, queues: list[str], holder: str, lease: int, limit: int, move: str) -> list[Claim]:
        return self.write(lambda tx: moves.claim(tx, queues, holder, lease, limit, move))

    def renew(self, claims: list[Claim], lease: int) -> dict[int, str]:
        def work(tx: Tx) -> dict[int, str]:
            answers = {claim.id: moves.renew(tx, claim, lease) for claim in claims}
            return {job: answer for job, answer in answers.items() if answer is not None}

        return self.write(work)

    def settle(self, changes: list[Change]) -> list[Answer]:
        return self.write(lambda tx: [moves.settle(tx, change) for change in changes])

    def changed_elsewhere(self) -> int:
        """Always the same: other processes ring through `listen`."""
        return 0

    def listen(self) -> None:
        """Hear of what other processes have done."""

    def close(self) -> None:
        self._pool.close()
