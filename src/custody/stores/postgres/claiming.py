"""Claiming and renewing many jobs in one statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import dropwhile

from custody.model.job import Claim, HeldBy, Job
from custody.stores.postgres.wire import numbers
from custody.stores.rows import Row, Tx, hold_from, job_from


def claim_many(tx: Tx, queues: Sequence[str], holder: str, lease: int, limit: int, move: str) -> list[Claim]:
    """A few from each queue in turn; what one cannot fill is left to those after it."""
    rows: list[Row] = []
    asked = list(dict.fromkeys(queues))
    while asked:
        left = limit - len(rows)
        share = -(-left // len(asked))
        taken = tx.run("claim_many", queues=asked, holder=holder, lease=lease, share=share, limit=left, move=move)
        rows += taken
        asked = _full(asked, taken, share) if len(taken) < left else []
    claims = _claims(tx, rows, holder)
    return sorted(claims, key=lambda claim: (claim.job.priority, claim.id))


def _full(queues: Sequence[str], taken: Sequence[Row], share: int) -> list[str]:
    """Those behind one that had too little, and that may have more."""
    gave = Counter(f"{kind}|{state}|{place}|{lane}" for _, kind, _, state, _, _, lane, place, *_ in taken)
    behind = dropwhile(lambda queue: gave[queue] == share, queues)
    return [queue for queue in behind if gave[queue] == share]


def _claims(tx: Tx, rows: Sequence[Row], holder: str) -> list[Claim]:
    jobs = [job_from(row[:-1]) for row in rows]
    holds = _holds(tx, jobs) if any(row[-1] for row in rows) else {}
    return [Claim(job, job.token, holder, _hold(holds, job)) for job in jobs]


def _holds(tx: Tx, jobs: Sequence[Job]) -> dict[tuple[str, str], HeldBy]:
    rows = tx.run(
        "holds_on",
        collections=list({job.collection for job in jobs}),
        batches=list({str(job.parent or "") for job in jobs}),
    )
    return {(hold.scope, hold.name): hold for hold in map(hold_from, rows)}


def _hold(holds: dict[tuple[str, str], HeldBy], job: Job) -> HeldBy | None:
    if not holds:
        return None
    return holds.get(("batch", str(job.parent or ""))) or holds.get(("collection", job.collection))


def renew_many(tx: Tx, claims: Sequence[Claim], lease: int) -> dict[int, str]:
    """For each claim that is not simply renewed: "lost", or how it was revoked."""
    answers: dict[int, str | None] = {}
    for holder in sorted({claim.holder for claim in claims}):
        held = sorted((claim.id, claim.token) for claim in claims if claim.holder == holder)
        rows = tx.run(
            "renew_many",
            ids=numbers(job_id for job_id, _ in held),
            tokens=numbers(token for _, token in held),
            holder=holder,
            lease=lease,
        )
        answers |= {job_id: "lost" for job_id, _ in held} | {job_id: revoked for job_id, revoked in rows}
    return {job_id: answer for job_id, answer in answers.items() if answer is not None}
