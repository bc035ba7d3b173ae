"""Which git repository stands somewhere: known by the commits that were counted of it, not by a mark in its folder.

git gives a repository no name. Ours is in the store, with where it stands. What stands there is that repository as
long as it has any of the commits that were counted; an empty journal speaks for nobody else. One that was moved is
found again by the same test, if its old place is empty.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Sequence
from pathlib import Path

from custody.errors import Unavailable
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx
from custody.workflows.archives.git.git_folder import GitFolder, is_good
from custody.workflows.archives.git.git_journal import Journal, Update, is_nothing, put_all
from custody.workflows.archives.git.git_objects import is_id
from custody.workflows.archives.git.git_reader import Reader

JOURNAL = "custody-journal"  # where earlier versions counted: in the repository
LOOKED_AT = 50  # of the newest commits: forced pushes may have taken some away
_UUID = re.compile(r"(?mi)^\[custody\]\s*\n\s*uuid\s*=\s*([0-9a-f-]{36})\s*$")


def known(store: Store, reader: Reader) -> str:
    """Its uuid; given to it if it is new."""
    location = reader.where
    rows = store.db.glance(lambda tx: tx.run("wf_repositories"))
    here = [uuid_ for uuid_, place in rows if place == location]
    fresh = ""
    for uuid_ in here:
        updates = Journal(store, uuid_).updates()
        if _has_any(reader, updates):
            return str(uuid_)
        fresh = fresh or ("" if updates else uuid_)
    if fresh:
        return fresh
    for uuid_, place in rows:
        if place != location and not os.path.lexists(place) and _has_any(reader, Journal(store, uuid_).updates()):
            store.db.write(lambda tx, uuid_=uuid_: tx.run("wf_move_repository", uuid=uuid_, location=location))  # type: ignore[misc]
            return str(uuid_)
    return _made_known(store, reader.folder, taken={uuid_ for uuid_, _ in rows})


def _has_any(reader: Reader, updates: Sequence[Update]) -> bool:
    tips = dict.fromkeys(update.new for update in reversed(updates) if not is_nothing(update.new))
    return any(reader.has(commit) for commit in [*tips][:LOOKED_AT])


def _made_known(store: Store, folder: GitFolder, taken: set[str]) -> str:
    """With the name and the journal that an earlier version has left in it, if it has."""
    found = _UUID.search(folder.legacy("config").decode("utf-8", "replace"))
    before = found[1].lower() if found else ""
    if before in taken:
        before = ""  # a copy
    name = before or str(uuid.uuid4())
    updates = _legacy(folder) if before else []

    def work(tx: Tx) -> None:
        if tx.run("wf_add_repository", uuid=name, location=folder.where):
            put_all(tx, name, updates)

    store.db.write(work)
    return name


def _legacy(folder: GitFolder) -> list[Update]:
    """What was counted before; half a line at its end was never told to anybody."""
    whole = folder.legacy(JOURNAL)
    try:
        lines = [json.loads(line) for line in whole[: whole.rfind(b"\n") + 1].splitlines()]
        updates = [Update(int(line["number"]), str(line["ref"]), str(line["old"]), str(line["new"])) for line in lines]
    except (ValueError, KeyError, TypeError):
        updates = [Update(-1, "", "", "")]
    if not all(_is_sound(update) for update in updates):
        raise Unavailable(
            "the count of its revisions cannot be read",
            code="archive.journal",
            where=str(Path(folder.where, JOURNAL)),
            hint="put it back from a backup; or remove it, then revisions are counted from 1 again",
        )
    return updates


def _is_sound(update: Update) -> bool:
    return update.number >= 0 and is_good(update.ref) and is_id(update.old) and is_id(update.new)
