"""Limits for a whole sandbox (memory, processes, processor), where this machine lets us set them.

A resource limit counts one process; a control group counts all of them together and can say afterwards that
memory ran out. Making one needs a writable place in the hierarchy: root has it, a service has it when its
manager delegates one (`Delegate=yes`) or when an administrator names a folder. Without it sandboxes still run
under resource limits; `sandbox.available` says which of the two it is.

Both versions of the interface are only files, so this module only knows names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
_PERIOD = 100_000  # microseconds


@dataclass(frozen=True, slots=True)
class Group:
    """The folders that make up one control group: one, or one per controller in the old interface."""

    folders: tuple[Path, ...]

    def entrances(self) -> list[int]:
        """Descriptors by which a process can enter by itself: it writes 0. None in the new interface.

        Moving a process from outside, or one with all its threads, makes the kernel wait until every processor has
        taken notice: some ten milliseconds. A thread that moves itself need not.
        """
        opened: list[int] = []
        try:
            for folder in self.folders:
                opened.append(os.open(folder / "tasks", os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            return []
        return opened

    def has(self, pid: int) -> bool:
        return all(str(pid) in (folder / "cgroup.procs").read_text().split() for folder in self.folders)

    def add(self, pid: int) -> None:
        for folder in self.folders:
            _write(folder / "cgroup.procs", str(pid))

    def ran_out_of_memory(self) -> bool:
        return any(_oom_kills(folder) for folder in self.folders)

    def remove(self, within: float = 2.0) -> bool:
        """True if nothing of it is left. The kernel refuses while a process is, or just was, inside."""
        until = time.monotonic() + within
        while not all([_removed(folder) for folder in self.folders]):
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True


def places(own: str = "", mount: Path = MOUNT) -> dict[str, Path]:
    """Where a group can be made here: controller → parent folder (the new interface has one for all)."""
    own = own or Path("/proc/self/cgroup").read_text()
    lines = [line.split(":", 2) for line in own.splitlines()]
    old = {
        controller: mount / controller / path.lstrip("/")
        for _, controllers, path in lines
        for controller in controllers.split(",")
        if controller in _OLD
    }
    old = {controller: parent for controller, parent in old.items() if os.access(parent, os.W_OK)}
    if old:
        return old
    new = [mount / path.lstrip("/") for _, controllers, path in lines if not controllers]
    return {"all": new[0]} if new and delegated(new[0]) else {}


def delegated(parent: Path) -> bool:
    """May groups with memory and process limits be made in this folder of the new interface?"""
    control = parent / "cgroup.subtree_control"
    if not os.access(parent, os.W_OK) or not control.exists():
        return False
    if not _has_controllers(control):
        # Refused while processes (such as this one) are in the folder itself; then it is not usable.
        _try_write(control, "+memory +pids")
    return _has_controllers(control)


def make(
    name: str, parents: Mapping[str, Path], *, memory: int, processes: int, processors: float | None
) -> Group | None:
    """A new group under the given parents, or nothing if this machine has none to offer."""
    folders: list[Path] = []
    try:
        for controller, parent in sorted(parents.items()):
            if controller == "cpu" and not processors:
                continue
            folder = parent / name
            folder.mkdir()
            folders.append(folder)
            for file, value in _settings(controller, memory, processes, processors):
                (_try_write if file in _OPTIONAL else _write)(folder / file, value)
    except OSError:
        Group(tuple(folders)).remove()
        return None
    return Group(tuple(folders)) if folders else None


def _settings(controller: str, memory: int, processes: int, processors: float | None) -> Iterator[tuple[str, str]]:
    quota = str(int(processors * _PERIOD)) if processors else ""
    if controller in ("all", "memory"):
        yield from ((file, str(memory)) for file in _MEMORY[controller])
    if controller == "all":
        yield "memory.swap.max", "0"
    if controller in ("all", "pids"):
        yield "pids.max", str(processes)
    if controller == "all" and quota:
        yield "cpu.max", f"{quota} {_PERIOD}"
    if controller == "cpu" and quota:
        yield "cpu.cfs_quota_us", quota


_OLD = ("memory", "pids", "cpu")
_OPTIONAL = ("memory.memsw.limit_in_bytes", "memory.swap.max")  # not on machines without swap accounting
_MEMORY = {"memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), "all": ("memory.max",)}


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _oom_kills(folder: Path) -> int:
    for file in ("memory.events", "memory.oom_control"):
        try:
            lines = (folder / file).read_text().splitlines()
        except OSError:
            continue
        return sum(int(count) for name, _, count in (line.partition(" ") for line in lines) if name == "oom_kill")
    return 0


def _has_controllers(control: Path) -> bool:
    return {"memory", "pids"} <= set(control.read_text().split())


def _try_write(path: Path, value: str) -> None:
    try:
        _write(path, value)
    except OSError:
        pass


def _write(path: Path, value: str) -> None:
    with open(path, "w") as file:
        file.write(value)
