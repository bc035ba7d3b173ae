"""BagIt validation: every bag inside an object is complete and valid, by its own manifests (RFC 8493)."""

from __future__ import annotations

from custody.formats.bagit import check_files, find_bags
from custody.kernel.model.item import Item
from custody.kernel.model.trigger import Trigger
from custody.robots.declaration import Report, robot
from custody.robots.ready.ocfl import current, folder_of


@robot(
    name="bags",
    version="1.1",
    event="bags validated",
    when=Trigger(types=frozenset({"object"}), past=frozenset({"ingested"}), old=frozenset({"bags validated"})),
    at_once=2,
)
def bags(item: Item, report: Report) -> None:
    files = dict(current(folder_of(item)))
    found = find_bags(files)
    for bag in found:
        root = f"{bag}/" if bag else ""
        inside = {name.removeprefix(root): path for name, path in files.items() if name.startswith(root)}
        for fault in check_files(inside).faults:
            report.add(fault.code, f"{root}{fault}", file=f"{root}{fault.path}")
    report.note(bags=len(found))
