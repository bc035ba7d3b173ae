"""What the store knows that a channel's tables ought to hold: a folder that is gone whole says nothing of itself.

With each sync one number per table is noted in the store, which only grows: how far the messages were shown, how often
something was wanted or marked. Noted after the blobs were written, it is never more than they had. So a table that is
not there, or that tells less, was lost, or somebody put an older copy in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from custody.channels.blobs.port import Blobs, Broken, NoBlob
from custody.channels.context import assets_of, channels, files_of, number_of
from custody.channels.crawl.coverage import Coverage
from custody.channels.debts.debts import Debts
from custody.channels.files.wanted import Wanted
from custody.channels.messages import last_seen
from custody.channels.notes import HELD, SIGNED, Notes
from custody.channels.snowflake import parse
from custody.channels.table import Finding, Settings, Table, Torn
from custody.errors import BadInput, Unavailable
from custody.kernel.stores import Store

FOREIGN: Final = "table.foreign"
TURN: Final = "turn"  # in the mark of `seen`: how many syncs have changed what is not an added message
NAMES: Final[Mapping[str, str]] = {
    "ch": "its messages",
    "seen": "what was last seen of them",
    "files": "its files",
    "assets": "its pictures",
}
MOST_TOLD: Final = 5
MOST_LOOKED_AT: Final = 20  # rows of a table that does not say whose it is


class Absent(Unavailable):
    """The place of all channels is not there, and something was kept in it."""

    code = "blobs.absent"


# --- One channel ---


def lacking(store: Store, blobs: Blobs, channel: int) -> dict[str, Finding]:
    """The tables that are not there, or older than the store knows, by their folders.

    What cannot be read is not among them: whoever reads it says so.
    """
    noted, found = Notes(store).of(channel), dict[str, Finding]()
    for folder, about in NAMES.items():
        known = noted.get(HELD[folder], 0)
        table = opened(blobs, channel, folder)
        if _is_anothers(table, blobs, channel, folder, looked=bool(noted.get(SIGNED))):
            found[folder] = Finding(FOREIGN, f"{folder}/{channel}/", f"{about}: another channel's is in its place")
            continue
        now = reach(blobs, channel, folder, table) if known else None
        if now is None or now >= known:
            continue
        code, said = "table.older", "older here than the store knows: an earlier copy is in its place"
        if not now:
            code, said = "table.missing", "it was kept here, and nothing of it is there"
        found[folder] = Finding(code, f"{folder}/{channel}/", f"{about}: {said}")
    return found


def _is_anothers(table: Table, blobs: Blobs, channel: int, folder: str, looked: bool) -> bool:
    """Does it say that it is another channel's? One that an earlier version wrote does not (unless that was `looked`
    into before): is then none of its rows about a message of this channel, though all of them would be here?"""
    try:
        if not table.mark and table.is_signed:
            return False
    except Torn as torn:
        return torn.foreign
    except (Broken, BadInput):
        return False
    try:
        if looked or folder == "ch" or table.is_signed:
            return False
        rows = list(islice((row for row in table.between() if row.versions), MOST_LOOKED_AT))
        about = [row.id if folder == "seen" else parse(str(row.message.get("message") or 0)) for row in rows]
        messages = opened(blobs, channel, "ch")
        coverage = Coverage.read(messages.mark)
        if not about or not coverage.upto:
            return False
        gaps = [one for one in about if one <= coverage.upto and not coverage.covers(one)]
        return not gaps and all(messages.search(one) is None for one in about)
    except (Torn, Broken, BadInput):
        return False  # whoever reads it says so


def sign(store: Store, blobs: Blobs, channel: int) -> None:
    """Write into tables of an earlier version whose they are, once; before, their rows were looked at."""
    notes = Notes(store)
    if notes.of(channel).get(SIGNED) or lacking(store, blobs, channel):
        return
    for folder in NAMES:
        with suppress(Torn, Broken):
            opened(blobs, channel, folder).sign()
    notes.put(channel, **{SIGNED: 1})


def opened(blobs: Blobs, channel: int, folder: str) -> Table:
    if folder == "ch":
        return Table(blobs, channel, Settings())
    if folder == "seen":
        return last_seen.of(blobs, channel)
    return files_of(blobs, channel) if folder == "files" else assets_of(blobs, channel)


def reach(blobs: Blobs, channel: int, folder: str, table: Table | None = None) -> int | None:
    """A number that only grows while a table is written: 0 where there is none, None where it cannot be read."""
    try:
        told = _told(table or opened(blobs, channel, folder), folder)
        return 1 + told if told or _is_there(blobs, channel, folder) else 0
    except (Torn, Broken, BadInput):
        return None


def _told(table: Table, folder: str) -> int:
    mark = table.mark
    if folder == "ch":
        return Coverage.read(mark).upto
    if folder == "seen":
        return int(Debts.read(mark).more.get(TURN, 0))
    return Wanted.read(mark).turn


def _is_there(blobs: Blobs, channel: int, folder: str) -> bool:
    try:
        blobs.head(f"{folder}/{channel}/index.jsonl")
    except NoBlob:
        return False
    return True


def note(store: Store, blobs: Blobs, channel: int, *, anew: bool = False) -> None:
    """Write down what is held now; less than was known only after it was mended (`anew`): else that is damage."""
    notes = Notes(store)
    known, now = notes.of(channel), {HELD[one]: reach(blobs, channel, one) for one in NAMES}
    changed = {
        name: value
        for name, value in now.items()
        if value is not None and (value != known.get(name, 0) if anew else value > known.get(name, 0))
    }
    if changed:
        notes.put(channel, **changed)


def turned(overlay: Table) -> None:
    """Count on: something other than an added message was written, which no other number tells."""
    debts = Debts.read(overlay.mark)
    more = {**debts.more, TURN: int(debts.more.get(TURN, 0)) + 1}
    overlay.upsert([], replace(debts, more=more).mark())


# --- All of them ---


def refuse_empty(store: Store, place: str) -> None:
    """Refuse to begin in an empty place what was kept there: it may be a disk that is not mounted."""
    known = sorted(one for one, told in Notes(store).every().items() if any(told.get(name) for name in HELD.values()))
    if known:
        anew = f"if it is lost for good, `custody channel verify {known[0]} --mend` begins anew"
        raise Absent(
            f"it is not there, or empty, and {len(known)} channels were kept in it",
            where=place,
            hint=f"mount it or restore it; {anew}",
        )


def is_made(root: Path) -> bool:
    """Was something kept in this folder? A mount point without its disk is empty."""
    return (root / "@clock").exists() or (root / "ch").is_dir()


def unknown(store: Store, blobs: Blobs) -> list[int]:
    """Channels of which there are blobs, and that this store does not know."""
    known = {number_of(item) for item in channels(store)}
    there = {int(one) for one in blobs.folders("ch/") if one.isdigit()}
    return sorted(there - known)


def said_of(unknown: Sequence[int]) -> str:
    named = ", ".join(map(str, unknown[:MOST_TOLD])) + (" …" if len(unknown) > MOST_TOLD else "")
    return (
        f"there are blobs of {len(unknown)} channels that this store does not know ({named}): is it the right store? "
        "Restore it, or `custody channel add` each: what is kept of it stays"
    )
