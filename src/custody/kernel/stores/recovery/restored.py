"""Saying that a store was restored from a backup, which no program can know that starts after it.

Jobs that were acknowledged after the backup are gone, and their numbers would be given out again, to other jobs. And
programs that had opened the store before may act on what is no more. So whoever restores it says so: the numbers are
passed over as far as they are known, and every process that opened the store before that word refuses to go on.
"""

from __future__ import annotations

from custody.errors import BadInput
from custody.kernel.stores.postgres.server.numbers import lagging, pass_over
from custody.kernel.stores.postgres.transaction import PostgresTx
from custody.kernel.stores.recovery.losses import RESTORED, STORE
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.rules.events import write_event
from custody.kernel.stores.store import Store

FURTHEST = 10_000_000
"""Numbers that are passed over at most: more is a slip of the pen, or takes minutes."""


def restored(store: Store, why: str, agent: str, highest: int = 0) -> int:
    """The last number that will not be given out; `highest` is the last one that is known to have been."""
    if not why.strip():
        raise BadInput("nothing is said of why", code="restored.why", hint="--why 'the disk of db1 broke'")

    def work(tx: Tx) -> int:
        last = _passed_over(tx, highest)
        seq = tx.run("next_subject_seq", subject=STORE)[0][0]
        write_event(
            tx,
            STORE,
            seq,
            RESTORED,
            outcome="none",
            agent=agent,
            detail={"why": why, "above": last},
            token=0,
            move=tx.new_move(),
        )
        return last

    return store.db.write(work)


def _passed_over(tx: Tx, highest: int) -> int:
    if isinstance(tx, PostgresTx):
        ((reached,),) = tx.db.execute("select last_value from job_id_seq").fetchall()
        _must_be_near(reached, highest)
        for one in list(lagging(tx.db)):  # of a copy that came without its sequences
            _must_be_near(one.reached or 0, one.highest)  # where it is not known, drawing is refused in words
            pass_over(tx.db, one.highest, one.sequence)
        return pass_over(tx.db, highest)
    reached = int(tx.run("last_number")[0][0])
    _must_be_near(reached, highest)
    tx.run("begin_numbers")
    tx.run("pass_over", highest=highest)
    return max(reached, highest)


def _must_be_near(reached: int, highest: int) -> None:
    if highest - reached > FURTHEST:
        raise BadInput(
            f"the last number is {reached}, and all up to {highest} would be passed over",
            code="restored.number",
            hint=f"at most {FURTHEST} are; is the file of receipts of this store?",
        )
