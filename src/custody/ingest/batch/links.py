"""Signed links: a depositor's page without an account. Whoever has the link may read that one batch, for a while.

The secret is one for an installation: workers sign with it what they put into mails, `custody serve` checks it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from custody.errors import BadInput, NotFound, Refused
from custody.kernel.access.installation import read_secret
from custody.kernel.model.job import Job

DAYS = 90
WRONG = "this link is not right, or the batch is gone"
SECOND = 1_000_000
DAY = 86_400 * SECOND
_SIGNATURE = re.compile("(?P<until>[0-9a-f]{1,11})-(?P<mac>[0-9a-f]{40})")


@dataclass(frozen=True, slots=True)
class Links:
    secret: bytes
    web: str = ""  # the address of `custody serve` as depositors reach it; without it a link is only its path
    days: int = DAYS

    def until(self, batch: Job, now: int) -> int:
        """When a link made now ends: so many days from now, in whole days of the batch's age, so that a link asked
        for twice on a day is the same link."""
        age = max(0, now - batch.created) // DAY
        return batch.created + (age + 1 + self.days) * DAY

    def path(self, batch: Job, now: int) -> str:
        until = self.until(batch, now) // SECOND
        return f"/deposit/{batch.id}/{until:x}-{self._mac(batch, until)}"

    def url(self, batch: Job, now: int) -> str:
        """The whole address, for a mail; empty when nobody has said where depositors reach us."""
        return f"{self.web.rstrip('/')}{self.path(batch, now)}" if self.web else ""

    def check(self, batch: Job, given: str, now: int) -> None:
        """Refuses a link that has ended; one that was never ours is not told from a batch that is not there."""
        found = _SIGNATURE.fullmatch(given)
        until = int(found["until"], 16) if found else 0
        if not found or not hmac.compare_digest(self._mac(batch, until), found["mac"]):
            raise NotFound(WRONG, code="batch.unknown")
        if until * SECOND <= now:
            raise Refused(
                "this link has ended", code="link.expired", hint="ask the archive for a new one: it keeps your deposit"
            )

    def _mac(self, batch: Job, until: int) -> str:
        """Over the number and the moment it was made: a store begun anew does not honour old links."""
        text = f"deposit/{batch.id}/{batch.created}/{until}".encode()
        return hmac.new(self.secret, text, hashlib.sha256).hexdigest()[:40]


def read_links(secret: Path, web: str = "", days: int = DAYS) -> Links:
    """As configured; every mistake is told now, not by the first mail."""
    parts = urlsplit(web)
    if web and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        raise BadInput(f"{web!r} is not the address of a website", code="config.web", where="ingest.web")
    if not 1 <= days <= 3650:
        raise BadInput(f"links that hold {days} days", code="config.link_days", where="ingest.link_days")
    return Links(read_secret(secret), web, days)
