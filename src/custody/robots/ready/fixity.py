"""Fixity: re-reads every stored file of an object and compares its digest."""

from __future__ import annotations

import hashlib

from custody.kernel.model.item import Item
from custody.kernel.model.trigger import Trigger
from custody.robots.declaration import Report, robot
from custody.robots.ready.ocfl import contents, folder_of

PIECE = 1 << 20


@robot(
    name="fixity",
    version="1.0",
    event="fixity checked",
    when=Trigger(types=frozenset({"object"}), past=frozenset({"ingested"}), old=frozenset({"fixity checked"})),
    at_once=2,
)
def fixity(item: Item, report: Report) -> None:
    files = size = 0
    for digest, path in contents(folder_of(item)):
        found = hashlib.sha512()
        try:
            with path.open("rb") as file:
                while piece := file.read(PIECE):
                    found.update(piece)
                    size += len(piece)
        except OSError as error:
            report.add("fixity.missing", f"{path.name} cannot be read: {error.strerror}", file=path.name)
            continue
        files += 1
        if found.hexdigest() != digest.lower():
            report.add("fixity.digest", f"{path.name} is not what was stored", file=path.name, expected=digest)
    report.note(files=files, bytes=size)
