"""What this process has open and a test may call its own.

Other tests of the same process may leave threads behind that open and close what they like, so all descriptors together
say nothing: only those count that lead into a folder, or to a port, of the test itself.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any


def descriptors_below(folder: Path | str) -> list[str]:
    """What is open in this folder and below it."""
    inside = f"{Path(folder).resolve()}/"
    return sorted(path for path in map(_leads_to, os.listdir("/proc/self/fd")) if f"{path}/".startswith(inside))


def connections_with(port: int) -> list[str]:
    """The open sockets with this port at either end."""
    return [number for number in os.listdir("/proc/self/fd") if port in _ports(number)]


def _leads_to(number: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:  # closed by now
        return ""


def _ports(number: str) -> set[int]:
    if not _leads_to(number).startswith("socket:"):
        return set()
    try:
        copy = socket.socket(fileno=os.dup(int(number)))
    except OSError:  # closed by now
        return set()
    with copy:
        return {port for end in (copy.getsockname, copy.getpeername) for port in _port(end)}


def _port(end: Callable[[], Any]) -> set[int]:
    try:
        named = end()
    except OSError:  # not connected
        return set()
    return {named[1]} if isinstance(named, tuple) else set()
