"""Keys that stand for one thing, for good: depositors' own, and ours at other services.

A batch is cleaned away one day, and its row with it; a key that comes back after that must not deposit anything
twice. So keys are kept apart from the queue, with a fingerprint of what was handed in. The key is taken before the
batch is made, and the number written down after: between the two, the queue itself finds the batch by its key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from custody.errors import KeyConflict
from custody.ingest.submission.staging import name_in
from custody.ingest.zookeeper.tree import shown
from custody.kernel.model.job import Job
from custody.kernel.model.names.job_keys import named
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx


def request_of(job: Job) -> str:
    """What a job is called at storage, at the minter and in callbacks: the same however often it is tried. With the
    moment it was made, because numbers come again, in a second installation or after a backup was put back."""
    return f"job-{job.id}-{job.created}"


def number_of(store: Store, key: str, facts: Mapping[str, Any]) -> int | None:
    """The batch that this key stands for; None when it is yet to be made. Refuses another deposit under an old key."""
    fingerprint = _fingerprint(facts)
    as_said = _of(facts)  # which is what was kept before

    def take(tx: Tx) -> tuple[int, str]:
        tx.run("hand_in", key=key, fingerprint=fingerprint)
        number, before = tx.run("handed_in", key=key)[0]
        return int(number), str(before)

    number, before = store.db.write(take)
    if before not in (fingerprint, as_said):
        which = f" ({shown(number)})" if number else ""
        raise KeyConflict(
            f"{named(key)} was used before, for another request{which}",
            hint="a new deposit needs a new key",
            batch=number,
        )
    return number or None


def is_known(store: Store, key: str) -> bool:
    return bool(store.db.glance(lambda tx: tx.run("handed_in", key=key)))


def remember(store: Store, key: str, batch: int, facts: Mapping[str, Any]) -> None:
    """From now on the key answers with this number, whatever becomes of the batch."""
    store.db.write(lambda tx: tx.run("handed_in_as", key=key, batch=batch, fingerprint=_fingerprint(facts)))


def _fingerprint(facts: Mapping[str, Any]) -> str:
    """Of what was handed in: the same for all that mean the same, however it was said."""
    names = "; ".join(part.strip() for part in str(facts.get("local_id", "")).split(";") if part.strip())
    meant = {
        "local_id": names,
        "filename": "" if facts.get("filename") == name_in(str(facts["payload"])) else facts.get("filename"),
        "dc": {name: text for name, text in facts.get("dc", {}).items() if text},
    }
    return _of({name: value for name, value in {**facts, **meant}.items() if value})


def _of(facts: Mapping[str, Any]) -> str:
    """Whatever program handed it in."""
    told = {name: value for name, value in facts.items() if name != "user_agent"}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
