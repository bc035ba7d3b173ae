"""What the doctor finds, and what several who look find in the same words."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from custody.kernel.model.names.names import clashes

LITTLE = 0.05  # of a disk
TOLD = 20
"""Folders that are named one by one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """How bad it is, what it is, and what to do."""

    grade: Literal["fine", "warning", "unsafe"]
    what: str
    do: str = ""


def room(name: str, folder: Path) -> Finding:
    """How much of a disk is left."""
    usage = shutil.disk_usage(folder)
    if not os.access(folder, os.W_OK):
        return Finding("unsafe", f"{name}: {folder} cannot be written to")
    if usage.free < usage.total * LITTLE:
        return Finding(
            "warning", f"{name}: only {usage.free >> 30} GiB free on {folder}", "make room before it is full"
        )
    return Finding("fine", f"{name}: {usage.free >> 30} GiB free on {folder}")


def left_lying(found: Sequence[Path]) -> Iterator[Finding]:
    """Folders that nobody works on any more, and that a worker could not clear, or has not yet."""
    for folder in found[:TOLD]:
        do = f"a worker clears it when it starts; or: rm -rf {shlex.quote(str(folder))}"
        yield Finding("warning", f"nobody works in {folder} any more, and it is still there", do)
    if len(found) > TOLD:
        yield Finding("warning", f"and {len(found) - TOLD} more such folders in {found[TOLD].parent}")


def look_alikes(sort: str, names: Collection[str]) -> Iterator[Finding]:
    """Names that were there before look-alikes were refused: they go on."""
    for those in clashes(names):
        do = "let one of them go, and make it anew by another name"
        yield Finding("warning", f"these {sort} look alike: {', '.join(those)}", do)


def waiting(told: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Who waits for what, and the words that grant it."""
    for who, text in told:
        what, _, do = text.rpartition(": ")
        yield Finding("warning", f"{who} waits: {what}", do.strip("`"))
