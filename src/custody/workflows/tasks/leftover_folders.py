"""Folders of tasks that nobody works on any more: cleared when somebody looks, and told of while they are there.

Who is killed leaves one, and so does whoever could not empty it because something was written into it meanwhile. A job
that somebody holds keeps its folders, as does a sandbox that is known by that name: it may be gone on with.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

from custody.border import leftovers
from custody.errors import NotFound
from custody.workflows.tasks.runner import Runner

SETTLED = 600.0
"""Seconds after which a look in passing asks whose a folder is."""
_NAME = re.compile(r"\.?(task-(\d{1,18})-.+)")


def left(shop: Runner, older: float = 0.0, unknown: bool = True) -> list[Path]:
    """Those that are nobody's, if they have not been touched for so long; also those of jobs that are unknown."""
    found = []
    for folder in sorted(shop.work.iterdir()) if shop.work.is_dir() else ():
        name = _NAME.fullmatch(folder.name)
        if name and _age(folder) >= older and not _is_wanted(shop, name[1], int(name[2]), unknown):
            found.append(folder)
    return found


def sweep(shop: Runner, older: float = 0.0) -> list[Path]:
    """Clear them away; what is still there afterwards. What may be another store's is left to people."""
    return [folder for folder in left(shop, older, unknown=False) if not leftovers.clear(folder)]


def _age(folder: Path) -> float:
    with suppress(OSError):
        return time.time_ns() / 1e9 - folder.lstat().st_mtime
    return -1.0  # gone meanwhile


def _is_wanted(shop: Runner, name: str, number: int, unknown: bool) -> bool:
    if (shop.sandboxes.root / name).is_dir():
        return True
    try:
        job = shop.store.queue.get(number)
    except NotFound:
        return not unknown
    return job.holder is not None and job.ended is None
