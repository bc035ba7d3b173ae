"""Ingest as a process opens it. Whoever only looks does without the world that the steps work in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from custody.ingest.config import IngestConfig
from custody.kernel.stores import Store
from custody.opening import Here, Opened, Scheme

if TYPE_CHECKING:
    from custody.ingest.adapters import Adapters
    from custody.kernel.operations.findings import Finding


def open_here(store: Store, config: IngestConfig | None, here: Here) -> Opened:
    from custody.ingest.condition import why

    if config is None:
        return Opened(why=lambda job, reasons: why.told(store, job, reasons, None))
    if here.works or here.shows:
        from custody.ingest.world import open_world

        world = open_world(store, replace(config, place=here.place or config.place), here.home)
        if here.secret:
            from custody.kernel.access.installation import read_secret

            world = replace(world, links=replace(world.links, secret=read_secret(here.secret)))
        return opened(world, works=here.works)
    from custody.ingest.storage.working_disk import find_disk

    disk = find_disk(here.home / config.work, config.place, config.threshold)
    return Opened(
        why=lambda job, reasons: why.told(store, job, reasons, disk),
        findings=lambda repair: _findings(config, here, store.url),
    )


def opened(world: Adapters, *, works: bool = False) -> Opened:
    """Ingest in a world that is open already."""
    from custody.ingest import kinds
    from custody.ingest.condition import why

    return Opened(
        kinds=tuple(kinds.kinds(world)) if works else (),
        chores=tuple(kinds.chores(world)) if works else (),
        why=lambda job, reasons: why.told(world.store, job, reasons, world.disk),
        view=world,
    )


def _findings(config: IngestConfig, here: Here, store: str) -> Iterator[Finding]:
    from custody.ingest.condition.findings import findings

    return findings(config, here.home, store)


@contextmanager
def _open_tree(url: str, config: IngestConfig | None, lease: float, *, place: str, existing: bool) -> Iterator[Store]:
    """On ZooKeeper the session's time-out is the lease, and the configuration says what other services do."""
    from custody.ingest.config import external_states
    from custody.ingest.zookeeper.store import open_tree, read_address
    from custody.kernel.stores import open_store

    if existing:
        open_store(read_address(url).database, existing=True).close()
    external = external_states(config) if config else ()
    with open_tree(url, lease, external, place or (config.place if config else "")) as tree:
        yield tree


def _examine(url: str, repair: bool) -> Iterator[Finding]:
    from custody.ingest.condition.findings import examine_tree

    return examine_tree(url, repair)


ZOOKEEPER = Scheme(_open_tree, _examine)
