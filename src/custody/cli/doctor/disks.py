"""What `custody doctor` finds about disks, storage roots and storage services."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from custody.cli.doctor.finding import Finding
from custody.config import Config
from custody.errors import CustodyError

LITTLE = 0.05  # of a disk


def disk_findings(config: Config) -> Iterator[Finding]:
    folders = {"working disk": config.ingest.work, "staging": config.ingest.staging, **_nodes(config)}
    for name, path in folders.items():
        folder = config.home / path
        if not folder.exists():
            yield Finding("warning", f"{name}: there is no {folder} yet", "it is made when it is first needed")
            continue
        yield room(name, folder)


def room(name: str, folder: Path) -> Finding:
    usage = shutil.disk_usage(folder)
    if not os.access(folder, os.W_OK):
        return Finding("unsafe", f"{name}: {folder} cannot be written to")
    if usage.free < usage.total * LITTLE:
        return Finding(
            "warning", f"{name}: only {usage.free >> 30} GiB free on {folder}", "make room before it is full"
        )
    return Finding("fine", f"{name}: {usage.free >> 30} GiB free on {folder}")


def root_findings(config: Config) -> Iterator[Finding]:
    """What crashes left beside a storage root is put right here too, not only when a worker starts."""
    from custody.ingest.storage.ocfl.open_root import open_root

    for name, path in config.ingest.nodes.items():
        if not (config.home / path).exists():
            continue
        try:
            cleared = open_root((config.home / path).resolve()).tidy()
        except CustodyError as error:
            yield Finding("unsafe", f"storage node {name}: {error.message}", error.hint)
            continue
        left = f"{cleared} unfinished versions were cleared away" if cleared else "nothing was left unfinished"
        yield Finding("fine", f"storage node {name}: {left}")


def service_findings(config: Config) -> Iterator[Finding]:
    from custody.ingest.config import open_services

    try:
        services = open_services(config.ingest, config.home)
    except CustodyError as error:
        yield Finding("unsafe", f"profiles: {error.message}", error.hint)
        return
    for name, node in services.items():
        try:
            node.check()
            yield Finding("fine", f"storage node {name}: {node.service} is well")
        except CustodyError as error:
            yield Finding("warning", error.message, "its jobs wait until it answers")


def _nodes(config: Config) -> dict[str, Path]:
    return {f"storage node {name}": path for name, path in config.ingest.nodes.items()}
