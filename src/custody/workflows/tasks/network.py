"""The network for tasks: asked for by a definition, granted to its archive by an operator; else the task waits.

How a way out is made and guarded is the border's (wayout.py, proxy.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from custody.border.egress.allowance import Asked, Permit, Rules, waits_for
from custody.errors import CustodyError
from custody.kernel.model.authority.grant import NETWORK
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Row, loads
from custody.workflows.archives.port import read_workflows
from custody.workflows.archives.table import Archives, Kept
from custody.workflows.definition.definition import read
from custody.workflows.definition.task import Definitions
from custody.workflows.makers import COMMIT_KIND, commit_key, runs_line

FACT = "network"
"""What a commit's job keeps of what its definitions ask for."""


LOOKED_AT_ONCE = 1_000  # tasks


def permit(store: Store, archive: str, rules: Rules) -> Permit:
    subject = f"archive/{archive}"
    return Permit(subject, lambda: store.grants.of(subject, NETWORK), rules)


def asked_in(definitions: Definitions) -> list[Asked]:
    """Each different wish once, of all workflows: those that a person or the clock starts too."""
    found: list[Any] = []
    for wish in (task.network for workflow in definitions.workflows for task in workflow.tasks if task.network):
        plain = wish if isinstance(wish, bool) else list(wish)
        if plain not in found:
            found.append(plain)
    return found


def waits(store: Store, archive: str, asks: Sequence[Asked]) -> str:
    """What tasks that ask like this wait for, all of it, and what to do; empty: for nothing."""
    if not asks:
        return ""
    subject = f"archive/{archive}"
    granted = store.grants.of(subject, NETWORK)
    hosts = list(dict.fromkeys(host for wish in asks if not isinstance(wish, bool) for host in wish))
    wishes: list[Asked] = [hosts] if hosts else []
    wishes += [True] if any(wish is True for wish in asks) else []
    return next((text for wish in wishes if (text := waits_for(wish, granted, subject))), "")


def waiting(store: Store) -> Iterator[tuple[Kept, str]]:
    """The archives whose tasks ask for what nobody has granted, and what to do."""
    for kept in Archives(store).list():
        if text := waits(store, kept.name, asked_by(store, kept)):
            yield kept, text


def asked_by(store: Store, kept: Kept) -> Sequence[Asked]:
    """By every task that has not ended, of whichever revision; and by those that the newest would begin."""
    return [*_of_tasks(store, kept), *_of_the_newest(store, kept)]


def _of_tasks(store: Store, kept: Kept) -> Iterator[Asked]:
    for line in (kept.name, runs_line(kept.name)):
        rows = _unfinished(store, line, 0)
        while rows:
            yield from (wish for _, payload in rows if (wish := loads(payload).get("recipe", {}).get("network", False)))
            rows = _unfinished(store, line, rows[-1][0]) if len(rows) == LOOKED_AT_ONCE else ()


def _unfinished(store: Store, line: str, after: int) -> Sequence[Row]:
    return store.db.read(lambda tx: tx.run("wf_unfinished", line=line, after=after, most=LOOKED_AT_ONCE))


def _of_the_newest(store: Store, kept: Kept) -> Sequence[Asked]:
    """As it was planned; if that did not look for it, as its definitions say."""
    commit = store.queue.by_key(COMMIT_KIND, commit_key(kept.name, kept.last)) if kept.last else None
    if commit is not None and FACT in commit.facts:
        found: Sequence[Asked] = commit.facts[FACT]
        return found
    try:
        found_there = read(read_workflows(Archives(store).open(kept), kept.last)[0]) if kept.last else None
        return asked_in(found_there) if found_there and not found_there.faults else ()
    except (CustodyError, OSError):  # one that does not answer now
        return ()
