"""What the doctor looks at in ingest: disks, storage nodes, services, and the tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from custody.errors import CustodyError
from custody.ingest.config import IngestConfig
from custody.kernel.operations.findings import Finding, room


def findings(config: IngestConfig, home: Path, store: str) -> Iterator[Finding]:
    yield from _disks(config, home)
    yield from _roots(config, home)
    yield from _services(config, home, store)


def _disks(config: IngestConfig, home: Path) -> Iterator[Finding]:
    nodes = {f"storage node {name}": path for name, path in config.nodes.items()}
    for name, path in {"working disk": config.work, "staging": config.staging, **nodes}.items():
        folder = home / path
        if not folder.exists():
            yield Finding("warning", f"{name}: there is no {folder} yet", "it is made when it is first needed")
            continue
        yield room(name, folder)


def _roots(config: IngestConfig, home: Path) -> Iterator[Finding]:
    """What crashes left beside a storage root is put right here too, not only when a worker starts."""
    from custody.ingest.storage.ocfl.open_root import open_root

    for name, path in config.nodes.items():
        if not (home / path).exists():
            continue
        try:
            cleared = open_root((home / path).resolve()).tidy()
        except CustodyError as error:
            yield Finding("unsafe", f"storage node {name}: {error.message}", error.hint)
            continue
        left = f"{cleared} unfinished versions were cleared away" if cleared else "nothing was left unfinished"
        yield Finding("fine", f"storage node {name}: {left}")


def _services(config: IngestConfig, home: Path, store: str) -> Iterator[Finding]:
    """Do they answer, and can those that store and record in our place use what they are handed?"""
    from custody.ingest.world import open_services

    try:
        services = open_services(config, home)
        if config.external and store.startswith("zookeeper:"):
            yield from _handed_over(config, home)
    except CustodyError as error:
        yield Finding("unsafe", f"profiles: {error.message}", error.hint)
        return
    for name, node in services.items():
        try:
            node.check()
            yield Finding("fine", f"storage node {name}: {node.service} is well")
        except CustodyError as error:
            yield Finding("warning", error.message, "its jobs wait until it answers")


def _handed_over(config: IngestConfig, home: Path) -> Iterator[Finding]:
    from custody.ingest.world import read_profiles

    folder = home / config.profiles
    if not config.files:
        yield Finding(
            "warning",
            f"others do {' and '.join(config.external)}, and are handed file:// addresses",
            "serve the folder `work` to them by HTTP, and say where: [ingest] files = …; unless they see the same disk",
        )
    profiles = read_profiles(folder) if folder.is_dir() else {}
    if without := [name for name, profile in profiles.items() if not profile.storage.service]:
        yield Finding(
            "warning",
            f"others do recording, and are handed our own manifest for {', '.join(without)}",
            "deployed inventories ask the storage service what it holds: [storage] service = … in the profile",
        )


def examine_tree(url: str, repair: bool) -> Iterator[Finding]:
    """Every orphan in the tree: jobs in no queue or in two, entries of jobs that are gone, locks of nobody."""
    from custody.ingest.zookeeper import repair as mending
    from custody.ingest.zookeeper import tree
    from custody.ingest.zookeeper.store import open_session, read_address

    with open_session(read_address(url)) as session:
        if session.get(tree.BATCHES) is None:
            yield Finding(
                "warning", f"there are no batches at {url.partition('?')[0]}", "is the root of the tree right?"
            )
            return
        found = mending.find_twice(session)
        left = mending.mend(session, found) if repair else found
    if not found:
        yield Finding("fine", "the tree has no orphans")
    for orphan in found:
        if orphan in left:
            do = "with --repair it is put right" if orphan.repair and not repair else "look at it: it changed meanwhile"
            yield Finding("unsafe", f"{orphan.code}: {orphan.text}", do)
        else:
            yield Finding("fine", f"{orphan.code}: {orphan.text}", "mended")
