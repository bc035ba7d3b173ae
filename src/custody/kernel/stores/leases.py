"""Named leases: the same three verbs as for jobs, for anything that has a name."""

from __future__ import annotations

from typing import Any

from custody.errors import LeaseLost
from custody.kernel.model.lease import Lease
from custody.kernel.stores.rows import Tx, lease_from
from custody.kernel.stores.rules.events import write_note
from custody.kernel.stores.rules.submit import MICROSECONDS
from custody.kernel.stores.sql.database import Database


class SqlLeases:
    def __init__(self, db: Database) -> None:
        self._db = db

    def claim(self, name: str, holder: str, seconds: float) -> Lease | None:
        """The lease, or None while someone holds it."""
        return self._take("take_lease", name, holder, seconds)

    def inherit(self, name: str, holder: str, seconds: float) -> Lease | None:
        """As `claim`, but what the same holder left behind is taken over at once, and the one before is fenced out.

        For a holder that is a job: it is claimed by one worker at a time, so whoever held the name for it is gone.
        """
        return self._take("inherit_lease", name, holder, seconds)

    def _take(self, how: str, name: str, holder: str, seconds: float) -> Lease | None:
        rows = self._db.write(lambda tx: tx.run(how, name=name, holder=holder, lease=int(seconds * MICROSECONDS)))
        return lease_from(rows[0]) if rows else None

    def renew(self, lease: Lease, seconds: float) -> Lease:
        rows = self._db.write(lambda tx: tx.run("renew_lease", **_fence(lease), lease=int(seconds * MICROSECONDS)))
        if not rows:
            raise LeaseLost(f"the lease on {lease.name} is no longer ours", hint="stop what it protected")
        return lease_from(rows[0])

    def settle(self, lease: Lease) -> bool:
        """Give it back. False when it was no longer ours."""
        rows = self._db.write(lambda tx: tx.run("free_lease", **_fence(lease)))
        self._db.bell.ring()
        return bool(rows)

    def take_away(self, name: str, who: str, why: str) -> bool:
        """An administrator breaks a lease; whoever held it is fenced out."""

        def work(tx: Tx) -> bool:
            if not tx.run("break_lease", name=name):
                return False
            write_note(tx, f"lease/{name}", "broken", who, detail={"why": why})
            return True

        return self._db.write(work)

    def get(self, name: str) -> Lease | None:
        rows = self._db.read(lambda tx: tx.run("lease", name=name))
        return lease_from(rows[0]) if rows and rows[0][1] is not None else None

    def list(self) -> list[Lease]:
        return [lease_from(row) for row in self._db.read(lambda tx: tx.run("leases"))]


def check(tx: Tx, lease: Lease) -> None:
    """Inside a transaction that relies on the lease: refuse if it has passed on."""
    if not tx.run("check_lease", **_fence(lease)):
        raise LeaseLost(f"the lease on {lease.name} is no longer ours", hint="stop what it protected")


def _fence(lease: Lease) -> dict[str, Any]:
    """The moment it was given is compared, too: a token alone may be another's, after history went back."""
    return {"name": lease.name, "holder": lease.holder, "token": lease.token, "since": lease.since}
