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
from custody.model.errors import BadInput

LONGEST = 200


def left_out(made: Path) -> dict[str, str]:
    """What it made and what is not kept, each with what it is."""
    found = {path.relative_to(made): sort_of(path) for path in sorted(made.rglob("*"))}
    return {os.fsencode(name).decode("utf-8", "backslashreplace"): sort for name, sort in found.items() if sort}


def place_beside(folder: Path, name: str, where: str) -> Path:
    """The folder of this name beside a label. Whoever writes a label writes nowhere else by it."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise BadInput(
            f"keep = {name!r} is not the name of a folder beside the label", code="robot.keep", where=where,
            hint='such as keep = "pages"; a robot that needs another place is one with `sandbox = false`',
        )  # fmt: skip
    must_be_a_folder(folder / name, where)
    return folder / name


def must_be_a_folder(place: Path, where: str) -> None:
    """Or nothing yet; a link would lead what is kept elsewhere."""
    try:
        about = place.lstat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise BadInput(f"what it keeps has no place at {place}: {error}", code="robot.keep", where=where) from error
    if not stat.S_ISDIR(about.st_mode):
        sort = "a link" if stat.S_ISLNK(about.st_mode) else "no folder"
        raise BadInput(
            f"what it keeps has no place at {place}: that is {sort}", code="robot.keep", where=where,
            hint="a link is not followed: make it a folder, or name another in the label",
        )  # fmt: skip


def keep(made: Path, kept: Path, item: str, allowance: Allowance) -> list[str]:
    """Copy it to its place, all or nothing; the names of the files, and of nothing else."""
    found = sorted(_files(made))
    if not found:
        return []
    must_be_a_folder(kept, str(kept.parent))  # it may have become a link since the label was read
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
