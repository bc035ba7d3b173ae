"""The storage roots of an installation: what applications store to, and what [storage] names besides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from custody.border.roots import NO_ROOTS, Root, Roots, roots
from custody.config import Config
from custody.errors import BadInput
from custody.kernel.stores import Store
from custody.kernel.stores.registers.places import settle_places


def roots_of(found: Config | None) -> Roots:
    """Below these folders items may lie; what is anywhere else is neither mounted nor read for an item."""
    return roots(_roots(found)) if found else NO_ROOTS


def open_roots(store: Store, found: Config | None) -> Roots:
    """The same; folders that were told before items had places become places, if they lie below one."""
    known = roots_of(found)
    settle_places(store, lambda folder: known.place_of(Path(folder)))
    return known


def _roots(found: Config) -> Iterator[Root]:
    across, known = found.storage.across, found.roots()
    yield from (Root(name, path, name in across) for name, (_, path) in known.items())
    for name, path in found.storage.roots.items():
        if not name or set(name) & set(":/\0"):
            raise BadInput("a root's name has neither ':' nor '/' in it", code="config.roots", where=f"root {name!r}")
        if name in known:
            told = f"a storage node of {known[name][0]} has this name"
            raise BadInput(told, code="config.roots", where=f"root {name!r}")
        yield Root(name, (found.home / path).resolve(), name in across)
    if wrong := sorted(set(across) - {*known, *found.storage.roots}):
        raise BadInput(f"there is no root {wrong[0]!r}", code="config.roots", where="[storage] across")
