"""The words in an item's detail that the system itself reads: no robot may set them.

A robot, sandboxed or not, tells what it found out about an item in words of its own. Had it these as well, it would
decide where an item is read from, whose turn comes first or what counts as mirrored. Each word stands here with who
reads it; a test looks through the sources for words that are read and missing here.
"""

from __future__ import annotations

from collections.abc import Iterable

from custody.model.errors import BadInput

PRIORITY = "robot_priority"
"""Goes before what an item's robots say."""
FOLDER = "folder"
"""Never kept: a worker that sees the item's place tells the robot where that is while it works."""

RESERVED: dict[str, str] = {
    FOLDER: "the worker tells it, from the item's place",
    PRIORITY: "says whose turn comes first",
    "place": "says where the item is",
    "types": "is a part of every item, told with each change",
    "fingerprint": "is a part of every item, told with each change",
    "seen": "says in the history which change somebody had seen",
    "title": "is how pages, lists and searches call the item",
    "version": "is ingest's",
    "node": "is ingest's: where it is stored",
    "files": "is ingest's",
    "archived": "is the channels'",
    "brake": "is the channels'",
    "deleted": "is the channels'",
    "doubted": "is the channels'",
    "hint": "is the channels'",
    "look_again": "is the channels'",
    "round": "is the channels'",
    "set_aside": "is the channels'",
    "trouble": "is the channels'",
    "unread": "is the channels'",
    "files_due": "is the channels'",
    "files_wanted": "is the channels'",
    "guild": "is the channels'",
    "kind": "is the channels'",
    "mirrored": "is the channels': whether anything is kept at all",
    "parent": "is the channels'",
    "removed_with": "is the channels'",
    "threads_upto": "is the channels'",
}


def taken(words: Iterable[str]) -> list[str]:
    """Those of them that are the system's own."""
    return sorted(set(words) & RESERVED.keys())


def check_detail(words: Iterable[str], where: str, code: str = "item.reserved") -> None:
    """Refuse the first word that is not theirs to set."""
    for word in taken(words):
        raise BadInput(
            f"{word!r} is not theirs to set: it {RESERVED[word]}", code=code, where=where,
            hint="choose another word, such as one that begins with the robot's name",
        )  # fmt: skip
