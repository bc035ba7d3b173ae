"""Robots as a process opens them: they run with `custody robot run`, so here they only tell what waits for somebody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custody.kernel.stores import Store
from custody.opening import Folder, Here, Opened

if TYPE_CHECKING:
    from custody.kernel.operations.findings import Finding

AN_HOUR = 3600.0
SOME = 5


def open_here(store: Store, config: None, here: Here) -> Opened:
    return Opened(findings=lambda repair: _findings(store, here.home))


def folders(config: Any, home: Path) -> Iterator[Folder]:
    from custody.robots.programs.sandboxed import YARD

    yield Folder("robots", home / YARD, "closed")


def _findings(store: Store, home: Path) -> Iterator[Finding]:
    """What the line waits for a person with; nothing where there are no robots."""
    from custody.formats.shell import command
    from custody.kernel.operations.findings import Finding, left_lying, look_alikes, waiting
    from custody.robots.items.deadlines import late
    from custody.robots.items.late_events import orphans
    from custody.robots.items.restart import stopped
    from custody.robots.subscribers import subscriptions

    overdue = late(store)
    for each in overdue[:SOME]:
        do = command("robot why", each.robot, each.item)
        yield Finding("warning", f"{each.event} of {each.item} is overdue: {each.waits_for}", do)
    if len(overdue) > SOME:
        yield Finding("warning", f"{len(overdue) - SOME} more are overdue", "custody robot late")
    for item, why in stopped(store, SOME):
        yield Finding("warning", f"{item} is off the line: {why}", command("robot undo", item, why="…"))
    if found := orphans(store):
        yield Finding("warning", f"{len(found)} events came too late and were kept aside", "custody robot orphans")
    yield from look_alikes("robots", {name for name, _, _ in store.db.read(subscriptions)})
    yield from waiting((f"robot {name}", text) for name, text in without_network(store).items())
    yield from left_lying(_left(home))


def without_network(store: Store) -> dict[str, str]:
    """The robots that ask for what nobody has granted, and what to do."""
    from custody.border.egress.allowance import waits_for
    from custody.kernel.model.authority.grant import NETWORK
    from custody.robots.subscribers import subscriptions

    asking = [(name, facts["network"]) for name, _, facts in store.db.read(subscriptions) if facts.get("network")]
    told = {
        name: waits_for(asked, store.grants.of(f"robot/{name}", NETWORK), f"robot/{name}") for name, asked in asking
    }
    return {name: text for name, text in told.items() if text}


def _left(home: Path) -> list[Path]:
    """Folders of runs that nobody works on any more."""
    from custody.robots.programs.sandboxed import YARD

    yard = home / YARD
    with suppress(OSError):
        rooms = [room for room in (yard / "work").iterdir() if not (yard / "boxes" / room.name).exists()]
        return sorted(room for room in rooms if time.time_ns() / 1e9 - room.lstat().st_mtime > AN_HOUR)
    return []
