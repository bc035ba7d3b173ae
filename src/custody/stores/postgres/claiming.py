"""Claiming and renewing many jobs in one statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import dropwhile
from typing import Any, TypeAlias

from custody.model.job import Claim, HeldBy, Job
from custody.model.quick import quick
from custody.stores.postgres.wire import numbers
from custody.stores.rows import Row, Tx, hold_from, job_from

_claim = quick(Claim)
Holds: TypeAlias = dict[tuple[str, str], HeldBy]
Run = Callable[[dict[str, Any]], list[Row]]
"""Runs the one statement, with these values, as a transaction of its own."""


def claim_many(run: Run, queues: Sequence[str], limit: int) -> list[Row]:
    """A few from each queue in turn; what one cannot fill is left to those after it."""
    rows: list[Row] = []
    asked = list(dict.fromkeys(queues))
    while asked:
        left = limit - len(rows)
        share = -(-left // len(asked))
        taken = run({"queues": asked, "share": share, "limit": left})
        rows += taken
        asked = _full(asked, taken, share) if len(taken) < left else []
    return rows


def found_again(tx: Tx, move: str, holder: str) -> list[Row] | None:
    """What a claim took whose answer was lost; None if it took nothing."""
    return [(*row, True) for row in tx.run("claimed_by_move", move=move, holder=holder)] or None


def _full(queues: Sequence[str], taken: Sequence[Row], share: int) -> list[str]:
    """Those behind one that had too little, and that may have more."""
    gave = Counter(f"{kind}|{state}|{place}|{lane}" for _, kind, _, state, _, _, lane, place, *_ in taken)
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
        held = sorted((claim.id, claim.token) for claim in claims if claim.holder == holder)
        ids, tokens = numbers(job_id for job_id, _ in held), numbers(token for _, token in held)
        rows = run({"ids": ids, "tokens": tokens, "holder": holder})
        answers |= {job_id: "lost" for job_id, _ in held} | {job_id: revoked for job_id, revoked in rows}
    return {job_id: answer for job_id, answer in answers.items() if answer is not None}
