"""Which branches of a git repository are followed: as many as [workflows] of custody.toml says, and no more.

Every new branch is a revision with jobs of its own, and one push can bring fifty thousand. What is over the limit
waits, and is named; it is counted as soon as there is room for it, because others were deleted or the limit was raised.

Hooks and dashboards count too, and need not have the configuration: whoever has it writes the limit into the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from custody.errors import Refused
from custody.formats.names import shown
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx
from custody.workflows.archives.git.git_journal import is_nothing
from custody.workflows.archives.port import as_text

BRANCHES = 1_000
_NAME = "workflows/branches"
MOST_TOLD = 5


def keep_limit(store: Store, most: int) -> None:
    """Let everybody who counts in this store keep to it."""

    def work(tx: Tx) -> None:
        tx.run("wf_keep_limit", name=_NAME, value=most)

    if limit(store) != most:
        store.db.write(work)


def limit(store: Store) -> int:
    rows = store.db.glance(lambda tx: tx.run("counter", name=_NAME))
    return int(rows[0][0]) if rows else BRANCHES


@dataclass(frozen=True, slots=True)
class Following:
    most: int
    refs: frozenset[str]  # that are there, and counted
    over: Sequence[str] = ()  # that wait for room, sorted

    def waits(self, where: str) -> Refused | None:
        """What to tell of those that wait; nothing if none does."""
        if not self.over:
            return None
        names = ", ".join(shown(as_text(ref)) for ref in self.over[:MOST_TOLD])
        more = f" and {len(self.over) - MOST_TOLD:,} more" if len(self.over) > MOST_TOLD else ""
        verb = "waits" if len(self.over) == 1 else "wait"
        return Refused(
            f"it has {len(self.refs) + len(self.over):,} branches, and {self.most:,} are followed at most: "
            f"{names}{more} {verb}, the others are taken in",
            code="archive.branches",
            where=where,
            hint="delete branches that nobody needs; or raise `branches` under [workflows] in custody.toml and start "
            "the worker again: what waits is then taken in by itself",
            partly=True,
        )


def following(branches: Set[str], tips: Mapping[str, str], head: str, most: int) -> Following:
    """Those that are counted already go on, also where the limit is lower now; then HEAD's, then the others by name."""
    known = {ref for ref in branches if not is_nothing(tips.get(ref, ""))}
    new = sorted(branches - known, key=lambda ref: (ref != head, ref))
    room = max(0, most - len(known))
    return Following(most, frozenset(known.union(new[:room])), new[room:])
