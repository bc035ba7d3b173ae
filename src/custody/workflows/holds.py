"""Pausing an archive: nothing new of it starts, what is under way goes on.

Its tasks are in several lanes, and each is held. Planning is in the archive's own lane, so while it is paused no
revision brings new ones, but for one that is being planned at that moment: its tasks ask once more (`paused_by`).
"""

from __future__ import annotations

from collections.abc import Sequence

from custody.kernel.model.job import HeldBy
from custody.kernel.stores import Store
from custody.workflows.archives.table import Archives


def pause(store: Store, archive: str, who: str, why: str) -> bool:
    """False when it was paused already."""
    name = Archives(store).get(archive).name
    rows = store.db.read(lambda tx: tx.run("wf_lanes", collection=name))
    others = {str(row[0]) for row in rows} - {name}
    new = store.queue.hold("lane", name, who, why)
    for lane in sorted(others):
        store.queue.hold("lane", lane, who, why)
    return new


def paused_by(store: Store, archive: str) -> HeldBy | None:
    return next((hold for hold in store.queue.holds() if (hold.scope, hold.name) == ("lane", archive)), None)


def go_on(store: Store, archive: str, who: str, why: str = "") -> bool:
    """False when it was not paused."""
    return any([store.queue.lift("lane", lane, who, why) for lane in paused_lanes(store, archive)])


def paused_lanes(store: Store, archive: str) -> Sequence[str]:
    name = Archives(store).get(archive).name
    held = [hold.name for hold in store.queue.holds() if hold.scope == "lane"]
    return [lane for lane in held if lane == name or lane.startswith(f"{name}/")]
