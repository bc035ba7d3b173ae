"""Facts about running processes, and the sure way to end one.

A process number is reused, so it names a process only together with the time it started. Whoever wants to
signal a process first opens it (pidfd), then checks that it is still the one that was meant: after that it
cannot become another one.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    session: int
    started: int  # in clock ticks since boot; with `pid` it names one process for as long as the machine is up


def look(pid: int) -> Process | None:
    """The process with this number, if there is one (the dead but unburied count as gone)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may contain anything
    if fields[0] in "ZX":
        return None
    return Process(pid, parent=int(fields[1]), session=int(fields[3]), started=int(fields[19]))


def all_processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := look(int(name))):
            yield process


def descendants(pid: int) -> list[Process]:
    """Everything below a process. Inside a PID namespace orphans stay below its first process."""
    everyone = list(all_processes())
    found: list[Process] = []
    above = {pid}
    while above:
        below = [process for process in everyone if process.parent in above]
        found += below
        above = {process.pid for process in below}
    return found


def opened(process: Process) -> int | None:
    """A descriptor of exactly this process, or nothing if it has gone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (ProcessLookupError, OSError):
        return None
    now = look(process.pid)
    if now is None or now.started != process.started:
        os.close(descriptor)
        return None
    return descriptor


def send(process: Process, number: signal.Signals) -> None:
    descriptor = opened(process)
    if descriptor is not None:
        try:
            signal.pidfd_send_signal(descriptor, number)
        except (ProcessLookupError, PermissionError):
            pass
        finally:
            os.close(descriptor)


def kill(process: Process, within: float) -> bool:
    """Kill it and wait for its death; for the first process of a PID namespace, the death of all in it."""
    descriptor = opened(process)
    if descriptor is None:
        return True
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return gone(descriptor, within)
    except ProcessLookupError:
        return True
    finally:
        os.close(descriptor)


def gone(descriptor: int, within: float) -> bool:
    watch = select.poll()
    watch.register(descriptor, select.POLLIN)
    return bool(watch.poll(max(0, within) * 1000))


def environment(pid: int) -> bytes:
    """The variables it was started with, as far as we may look."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def boot() -> str:
    """Names this start of the machine: process numbers of another one mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
