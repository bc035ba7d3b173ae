"""What a program has made is kept, once it went well: a folder for each item, replaced as a whole."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

from custody.border import leftovers, modes
from custody.border.copy_out import Allowance
from custody.errors import BadInput

LONGEST = 200


def place_beside(folder: Path, name: str, where: str) -> Path:
    """The folder of this name beside a label. Whoever writes a label writes nowhere else by it."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise BadInput(
            f"keep = {name!r} is not the name of a folder beside the label",
            code="robot.keep",
            where=where,
            hint='such as keep = "pages"; a robot that needs another place is one with `sandbox = false`',
        )
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
            f"what it keeps has no place at {place}: that is {sort}",
            code="robot.keep",
            where=where,
            hint="a link is not followed: make it a folder, or name another in the label",
        )


def keep(made: Path, kept: Path, item: str, allowance: Allowance) -> tuple[list[str], dict[str, str]]:
    """Copy it to its place, all or nothing; the names of the files, and what is left out, with the reason."""
    found = leftovers.files(made)
    left_out = {name: why for name, why in found.items() if why}
    files = [name for name, why in found.items() if not why]
    if not files:
        return [], _told(left_out)
    must_be_a_folder(kept, str(kept.parent))  # it may have become a link since the label was read
    modes.make_folder(kept)
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=kept))
    try:
        left_out |= leftovers.keep(made, files, draft, allowance)
    except BaseException:
        leftovers.clear(draft)
        raise
    draft.chmod(modes.of_shown_folder())
    target = kept / folder_name(item)
    old = draft.with_name(draft.name.replace(".new-", ".old-"))
    if target.exists():
        target.rename(old)
    draft.rename(target)
    leftovers.clear(old)
    return [name for name in files if name not in left_out], _told(left_out)


def _told(left_out: Mapping[str, str]) -> dict[str, str]:
    return {os.fsencode(name).decode("utf-8", "backslashreplace"): why for name, why in sorted(left_out.items())}


def folder_name(item: str) -> str:
    """An item's id as the name of a folder."""
    name = urllib.parse.quote(item, safe="").replace(".", "%2E", 1) if item[:1] == "." else urllib.parse.quote(item, "")
    return name if len(name) <= LONGEST else f"{name[:100]}-{hashlib.sha256(item.encode()).hexdigest()[:24]}"
