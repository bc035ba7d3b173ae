"""custody doctor: who else on this machine could read, or come to, what is kept here; and what was left lying."""

from __future__ import annotations

import re
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from custody.border import modes
from custody.cli.doctor.finding import Finding
from custody.cli.doctor.folders import folders
from custody.config import Config
from custody.kernel.stores import Store

TOLD = 20
"""Folders that are named one by one."""
AN_HOUR = 3600.0


def file_findings(url: str, config: Config | None) -> Iterator[Finding]:
    """What is wider than it would be made today, each with the command that closes it."""
    group = config is not None and config.files.group_readable
    found = [finding for path in _kept(url, config) if (finding := _wider(path, 0o050 if group else 0, "read"))]
    found += [finding for path in _written(config) if (finding := _wider(path, 0, "come to what a sandbox writes in"))]
    found += [] if config is None else _others(config)
    yield from found
    if not found:
        who = "its group alone" if group else "nobody else"
        shared = [name for name in config.ingest.shared if name in config.ingest.nodes] if config else []
        besides = f", besides {', '.join(shared)}, which everybody may read ([ingest] shared)" if shared else ""
        yield Finding("fine", f"of what is kept here{besides}, {who} on this machine can read anything")


def _others(config: Config) -> Iterator[Finding]:
    """Folders that we write to, and somebody else may: they are refused when they are opened."""
    for path in folders(config, "closed", "ours"):
        with suppress(OSError):  # it is not there, or not for us to see
            if trouble := modes.not_ours(path):
                yield Finding("unsafe", *trouble)


def _wider(path: Path, allowed: int, what: str) -> Finding | None:
    try:
        about = path.stat()
        open_ = about.st_mode & modes.CLOSED & ~allowed
        if not open_ or not modes.is_reachable(path.resolve().parent, about.st_uid):
            return None
    except OSError:  # it is not there, or not for us to see
        return None
    who = "everybody on this machine" if open_ & 0o007 else "its group"
    taken = "o" if allowed else "go"
    return Finding(
        "unsafe" if open_ & 0o007 or (not stat.S_ISREG(about.st_mode) and "sandbox" in what) else "warning",
        f"{who} can {what} {path} (mode {stat.S_IMODE(about.st_mode):03o})",
        f"chmod {taken}= {shlex.quote(str(path))}",
    )


def _kept(url: str, config: Config | None) -> Iterator[Path]:
    """The store's files, and every folder below which something is kept; who cannot enter it reads nothing in it."""
    if url.startswith("sqlite:"):
        from custody.kernel.stores.sqlite.file_address import MEMORY, file_of

        if (file := file_of(url)) != MEMORY:
            yield from (Path(f"{file}{part}").absolute() for part in ("", "-wal", "-shm"))
    if config is None:
        return
    if re.search(r"://[^/@]*:[^/@]+@", config.store):  # a password
        yield config.home / "custody.toml"
    ingest, names = config.ingest, config.ingest.nodes
    roots = [path for name, path in names.items() if name not in ingest.shared]
    staging = [path.with_name(f"{path.name}-staging") for path in names.values()]
    folders = [ingest.secret, ingest.staging, ingest.work, ingest.outbox, *roots, *staging]
    folders += [config.workflows.kept, config.workflows.secrets]
    folders += [] if config.channels.container else [config.channels.blobs]
    yield from (config.home / folder for folder in folders)


def _written(config: Config | None) -> Iterator[Path]:
    yield from folders(config, "closed") if config is not None else ()


def left_findings(store: Store, config: Config | None) -> Iterator[Finding]:
    """Folders of tasks and robots that nobody works on any more, and that a worker could not clear, or has not yet."""
    found = [*_left_by_tasks(store, config), *_left_by_robots(config)]
    for folder in found[:TOLD]:
        do = f"a worker clears it when it starts; or: rm -rf {shlex.quote(str(folder))}"
        yield Finding("warning", f"nobody works in {folder} any more, and it is still there", do)
    if len(found) > TOLD:
        yield Finding("warning", f"and {len(found) - TOLD} more such folders in {found[TOLD].parent}")


def _left_by_tasks(store: Store, config: Config | None) -> list[Path]:
    from custody.cli.composition import shop_of
    from custody.workflows.tasks.leftover_folders import left

    shop = shop_of(store, config)
    with suppress(OSError):  # not ours to look into
        return left(shop) if shop else []
    return []


def _left_by_robots(config: Config | None) -> list[Path]:
    from custody.robots.programs.sandboxed import YARD

    if config is None:
        return []
    yard = config.home / YARD
    with suppress(OSError):
        rooms = [room for room in (yard / "work").iterdir() if not (yard / "boxes" / room.name).exists()]
        return sorted(room for room in rooms if time.time_ns() / 1e9 - room.lstat().st_mtime > AN_HOUR)
    return []
