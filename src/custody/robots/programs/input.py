"""An item as a program is told of it: JSON on standard input, and the same in a few variables for shells."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from custody.border.roots import Roots
from custody.kernel.model.item import Item
from custody.kernel.model.names.reserved import FOLDER


def located(item: Item, roots: Roots) -> Item:
    """With the folder that its place names, if this machine sees it; whatever else says `folder` is not believed."""
    source = roots.seen(item.place)
    told = {name: value for name, value in item.detail.items() if name != FOLDER}
    return replace(item, detail=told | ({FOLDER: str(source.path)} if source else {}))


def as_json(item: Item) -> str:
    """One line."""
    return json.dumps(asdict(item) | {"types": sorted(item.types), "detail": dict(item.detail)}) + "\n"


def as_variables(item: Item) -> dict[str, str]:
    told = {
        "CUSTODY_ITEM": item.id,
        "CUSTODY_TYPES": " ".join(sorted(item.types)),
        "CUSTODY_COLLECTION": item.collection,
        "CUSTODY_FINGERPRINT": item.fingerprint,
        "CUSTODY_FOLDER": str(item.detail.get(FOLDER, "")),
    }
    return {name: value for name, value in told.items() if value and "\0" not in value}
