"""How large a working copy may be: whoever can commit decides what is in it, not how much of a disk it takes.

A few small objects can stand for more files than there are atoms, and a hundred megabytes for a hundred gigabytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from custody.errors import Refused

LONGEST_PATH = 4095  # bytes: more is not opened by any program


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one working copy, as [workflows] of custody.toml says."""

    files: int = 1_000_000  # and folders
    bytes: int = 64 << 30
    depth: int = 100


LIMITS = Limits()
LISTED = Limits(files=5_000_000, depth=4096)  # of a revision of which no working copy is made


class Measure:
    """What one working copy comes to so far; told before it is written."""

    def __init__(self, limits: Limits, where: str) -> None:
        self._limits, self._where = limits, where
        self._files = self._bytes = 0

    def paths(self, more: int) -> None:
        self._files += more
        if self._files > self._limits.files:
            raise self._too_large(f"more than {self._limits.files:,} files and folders", "checkout_files")

    def path(self, path: bytes) -> None:
        """One that is about to be made."""
        if path.count(b"/") >= self._limits.depth:
            raise self._too_large(f"folders more than {self._limits.depth} deep", "checkout_depth")
        if len(path) > LONGEST_PATH:
            message = f"the revision has a path of {len(path):,} bytes"
            raise Refused(message, code="archive.name", where=self._where, hint="commit a revision without it")

    def content(self, more: int) -> None:
        self.must_fit(more)
        self._bytes += more

    def must_fit(self, more: int) -> None:
        if self._bytes + more > self._limits.bytes:
            raise self._too_large(f"more than {self._limits.bytes:,} bytes", "checkout_bytes")

    def _too_large(self, what: str, setting: str) -> Refused:
        return Refused(
            f"the revision has {what}, and no working copy is made of it",
            code="archive.large",
            where=self._where,
            hint=f"commit one without them; or raise `{setting}` under [workflows] in custody.toml",
        )
