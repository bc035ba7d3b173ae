"""What a program has made is kept, once it went well: a folder for each item, replaced as a whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path

from custody.border.gathering import Allowance, copy_path
from custody.border.sorts import sort_of

LONGEST = 200


def left_out(made: Path) -> dict[str, str]:
    """What it made and what is not kept, each with what it is."""
    found = {path.relative_to(made): sort_of(path) for path in sorted(made.rglob("*"))}
    return {os.fsencode(name).decode("utf-8", "backslashreplace"): sort for name, sort in found.items() if sort}


def keep(made: Path, kept: Path, item: str, allowance: Allowance) -> list[str]:
    """Copy it to its place, all or nothing; the names of the files, and of nothing else."""
    found = sorted(_files(made))
    if not found:
        return []
    kept.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=kept))
    try:
        _fill(draft, made, found, allowance)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    draft.chmod(0o755)
    target = kept / folder_name(item)
    old = draft.with_name(draft.name.replace(".new-", ".old-"))
    if target.exists():
        target.rename(old)
    draft.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    return found


def _fill(draft: Path, made: Path, names: Sequence[str], allowance: Allowance) -> None:
    for name in names:
        place = draft / name
        place.parent.mkdir(parents=True, exist_ok=True)
        copy_path(made / name, place, allowance)


def folder_name(item: str) -> str:
    """An item's id as the name of a folder."""
    name = urllib.parse.quote(item, safe="").replace(".", "%2E", 1) if item[:1] == "." else urllib.parse.quote(item, "")
    return name if len(name) <= LONGEST else f"{name[:100]}-{hashlib.sha256(item.encode()).hexdigest()[:24]}"


def _files(folder: Path) -> Iterator[str]:
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield str(path.relative_to(folder))
