"""Claiming and renewing many jobs in one statement."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import dropwhile
from typing import Any, TypeAlias

from custody.kernel.model.job import Claim, HeldBy, Job
from custody.kernel.model.quick import quick
from custody.kernel.stores.postgres.columns import column, numbers
from custody.kernel.stores.rows import Row, Tx, hold_from, job_from

BEGINNING = (-1, -1)
SLOW_SECONDS, SLOW_EACH = 0.05, 0.0001
"""A claim that takes longer than this, and this for each job, has walked over much that is not there any more."""
TIMES = 10
FEWEST = 100
"""A claim of fewer always begins at the beginning: it may be slow because the disk is, and wants the most urgent."""
PRIORITY = 9  # its place in a row

_claim = quick(Claim)
Holds: TypeAlias = dict[tuple[str, str], HeldBy]
Run = Callable[[dict[str, Any]], list[Row]]
"""Runs the one statement, with these values, as a transaction of its own."""


def claim_many(run: Run, queues: Sequence[str], limit: int, front: Front) -> list[Row]:
    """A few from each queue in turn; what one cannot fill is left to those after it.

    What was taken is answered, whatever becomes of the statements after it: nobody else would know of it until its
    lease ends. If the server stays away, whoever asks next will hear of it."""
    rows: list[Row] = []
    asked = list(dict.fromkeys(queues))
    while asked:
        left = limit - len(rows)
        share = -(-left // len(asked))
        try:
            taken, went_on = front.claim(run, asked, share, left)
        except Exception:
            if not rows:
                raise
            break
        rows += taken
        if len(taken) == left:
            break
        if not went_on:  # else all of them are looked through once more, from their beginnings
            asked = _full(asked, taken, share)
    return rows


class Front:
    """Where claims go on, while something keeps what was claimed before from being cleared away.

    A transaction that stays open elsewhere keeps all that it could still want to see, and whoever looks for the first
    ready job walks over everything that was ready since it began. So after a claim that took long the next ones begin
    where it stopped, for as long as ten such claims would take. Work that became ready before that place, or that is
    more urgent, is found then, or as soon as there is too little behind it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, fewest: int = FEWEST) -> None:
        self._clock, self._fewest = clock, fewest
        self._after: dict[str, tuple[int, int]] = {}
        self._until = 0.0

    def claim(self, run: Run, queues: list[str], share: int, limit: int) -> tuple[list[Row], bool]:
        """What was taken, and whether that was less than wanted, though not from the beginning."""
        began = self._clock()
        if began >= self._until:
            self._after.clear()
        few = limit < self._fewest
        after = [BEGINNING if few else self._after.get(queue, BEGINNING) for queue in queues]
        taken = run(
            {
                "queues": queues,
                "priorities": [priority for priority, _ in after],
                "ids": [last for _, last in after],
                "share": share,
                "limit": limit,
            }
        )
        if few:
            return taken, False
        if len(taken) < limit:
            return taken, self._forget(queues)
        self._note(taken, self._clock() - began)
        return taken, False

    def _forget(self, queues: Sequence[str]) -> bool:
        return any([self._after.pop(queue, None) for queue in queues])

    def _note(self, taken: Sequence[Row], seconds: float) -> None:
        if self._after or seconds > SLOW_SECONDS + len(taken) * SLOW_EACH:
            if not self._after:
                self._until = self._clock() + TIMES * seconds
            for row in taken:
                queue, place = _queue_of(row), (row[PRIORITY], row[0])
                self._after[queue] = max(self._after.get(queue, BEGINNING), place)


def _queue_of(row: Row) -> str:
    _, kind, _, state, _, _, lane, place, *_ = row
    return f"{kind}|{state}|{place}|{lane}"


def found_again(tx: Tx, move: str, holder: str) -> list[Row] | None:
    """What a claim took whose answer was lost; None if it took nothing."""
    return [(*row, True) for row in tx.run("claimed_by_move", move=move, holder=holder)] or None


def _full(queues: Sequence[str], taken: Sequence[Row], share: int) -> list[str]:
    """Those behind one that had too little, and that may have more."""
    gave = Counter(map(_queue_of, taken))
    behind = dropwhile(lambda queue: gave[queue] == share, queues)
    return [queue for queue in behind if gave[queue] == share]


def as_claims(rows: Sequence[Row], holder: str, look: Callable[[Callable[[Tx], Holds]], Holds]) -> list[Claim]:
    """The claims; `look` is used only when anything is held at all."""
    jobs = [job_from(row[:-1]) for row in rows]
    holds = look(lambda tx: _holds(tx, jobs)) if any(row[-1] for row in rows) else {}
    claims = [_claim(job, job.token, holder, _hold(holds, job) if holds else None) for job in jobs]
    return sorted(claims, key=lambda claim: (claim.job.priority, claim.id))


def _holds(tx: Tx, jobs: Sequence[Job]) -> Holds:
    rows = tx.run(
        "holds_on",
        collections=list({job.collection for job in jobs}),
        batches=list({str(job.parent or "") for job in jobs}),
    )
    return {(hold.scope, hold.name): hold for hold in map(hold_from, rows)}


def _hold(holds: Holds, job: Job) -> HeldBy | None:
    return holds.get(("batch", str(job.parent or ""))) or holds.get(("collection", job.collection))


def renew_many(run: Run, claims: Sequence[Claim]) -> dict[int, str]:
    """For each claim that is not simply renewed: "lost", or how it was revoked."""
    answers: dict[int, str | None] = {}
    for holder in sorted({claim.holder for claim in claims}):
        held = sorted((claim for claim in claims if claim.holder == holder), key=lambda claim: claim.id)
        ids, tokens = numbers(claim.id for claim in held), numbers(claim.token for claim in held)
        rows = run({"ids": ids, "tokens": tokens, "claims": column([claim.move for claim in held]), "holder": holder})
        answers |= {claim.id: "lost" for claim in held} | {job_id: revoked for job_id, revoked in rows}
    return {job_id: answer for job_id, answer in answers.items() if answer is not None}
