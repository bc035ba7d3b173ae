"""Virus scan: every file of an object goes through clamd, whose address is in CUSTODY_CLAMD.

    CUSTODY_CLAMD=unix:/run/clamav/clamd.ctl        or        CUSTODY_CLAMD=127.0.0.1:3310

The files are sent as a stream (INSTREAM), so clamd needs no access to the storage. What clamd finds too large for
itself is a warning: it was not scanned, and someone should know. A clamd that does not answer is tried again later.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

from custody.errors import BadInput, Unavailable
from custody.kernel.model.item import Item
from custody.kernel.model.trigger import Trigger
from custody.robots.declaration import Report, robot
from custody.robots.ready.ocfl import current, folder_of

VARIABLE = "CUSTODY_CLAMD"
PIECE = 1 << 18
ANSWER_SECONDS = 300.0
MOST_ANSWER = 4096


@robot(
    name="virus",
    version="1.0",
    event="virus checked",
    when=Trigger(types=frozenset({"object"}), past=frozenset({"ingested"}), old=frozenset({"virus checked"})),
    at_once=2,
)
def virus(item: Item, report: Report) -> None:
    address = os.environ.get(VARIABLE, "")
    files = 0
    for name, path in current(folder_of(item)):
        answer = scan(address, path)
        files += 1
        if answer.endswith("FOUND"):
            found = answer.removesuffix("FOUND").removeprefix("stream:").strip()
            report.add("virus.found", f"{name} holds {found}", file=name, virus=found)
        elif "size limit" in answer.lower():
            report.warn("virus.size", f"{name} is too large for clamd, and was not scanned", file=name)
        elif not answer.endswith("OK"):
            raise Unavailable(f"clamd said: {answer or 'nothing'}", code="clamd.answer")
    report.note(files=files)


def scan(address: str, path: Path) -> str:
    """What clamd says about one file."""
    with _connected(address) as wire, path.open("rb") as file:
        try:
            wire.sendall(b"zINSTREAM\0")
            while piece := file.read(PIECE):
                wire.sendall(struct.pack(">I", len(piece)) + piece)
            wire.sendall(struct.pack(">I", 0))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has heard enough: its answer says why
        return _answer(wire)


def _connected(address: str) -> socket.socket:
    if not address:
        raise BadInput(
            "nobody said where clamd is", code="clamd.address", hint=f"{VARIABLE}=unix:/run/clamav/clamd.ctl"
        )
    try:
        if address.startswith("unix:"):
            wire = socket.socket(socket.AF_UNIX)
            wire.settimeout(ANSWER_SECONDS)
            wire.connect(address.removeprefix("unix:"))
            return wire
        host, _, port = address.rpartition(":")
        return socket.create_connection((host, int(port)), ANSWER_SECONDS)
    except ValueError as error:
        raise BadInput(f"{address!r} is no address", code="clamd.address", hint="HOST:PORT, or unix:PATH") from error
    except OSError as error:
        raise Unavailable(f"clamd at {address} does not answer: {error.strerror}", code="clamd.down") from error


def _answer(wire: socket.socket) -> str:
    said = b""
    try:
        while not said.endswith(b"\0") and len(said) < MOST_ANSWER and (piece := wire.recv(MOST_ANSWER)):
            said += piece
    except OSError as error:
        if not said:
            raise Unavailable(f"clamd broke off: {error.strerror}", code="clamd.down") from error
    return said.strip(b"\0 \r\n").decode(errors="replace")
