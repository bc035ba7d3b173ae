"""What `custody doctor` finds out about the services that deposits need: do they answer, and can those that store and
record in our place use what they are handed?"""

from __future__ import annotations

from collections.abc import Iterator

from custody.cli.doctor.finding import Finding
from custody.config import Config
from custody.errors import CustodyError


def service_findings(config: Config, store: str) -> Iterator[Finding]:
    from custody.ingest.opening import open_services

    try:
        services = open_services(config.ingest, config.home)
        if config.ingest.external and store.startswith("zookeeper:"):
            yield from _handed_over(config)
    except CustodyError as error:
        yield Finding("unsafe", f"profiles: {error.message}", error.hint)
        return
    for name, node in services.items():
        try:
            node.check()
            yield Finding("fine", f"storage node {name}: {node.service} is well")
        except CustodyError as error:
            yield Finding("warning", error.message, "its jobs wait until it answers")


def _handed_over(config: Config) -> Iterator[Finding]:
    from custody.ingest.opening import read_profiles

    given, folder = config.ingest, config.home / config.ingest.profiles
    if not given.files:
        yield Finding(
            "warning", f"others do {' and '.join(given.external)}, and are handed file:// addresses",
            "serve the folder `work` to them by HTTP, and say where: [ingest] files = …; unless they see the same disk",
        )  # fmt: skip
    profiles = read_profiles(folder) if folder.is_dir() else {}
    if without := [name for name, profile in profiles.items() if not profile.storage.service]:
        yield Finding(
            "warning", f"others do recording, and are handed our own manifest for {', '.join(without)}",
            "deployed inventories ask the storage service what it holds: [storage] service = … in the profile",
        )  # fmt: skip
