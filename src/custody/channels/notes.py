"""Numbers about a channel that change with every look: when it was looked at, and where the round through its past is.

They are no facts that anybody reads later, so they leave no history: what is looked at every night for years must not
grow by that. In an item they would.
"""

from __future__ import annotations

from collections.abc import Mapping

from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx

LOOKED = "looked"  # when it was last looked at to its end, in microseconds
TURN, CURSOR, BEGAN, DENIED, ENDED = "turn", "cursor", "began", "denied", "ended"  # of the round, some pages at a time
HELD = {folder: f"held_{folder}" for folder in ("ch", "seen", "files", "assets")}  # what its tables ought to hold
TURNED = {folder: f"turn_{folder}" for folder in HELD}  # how often the last part of each was written, at the least
GUILD, GUILD_SINCE = "guild", "guild_since"  # another server that it was said to belong to, and since when
SIGNED = "signed"  # its tables say whose they are
NAMES = (LOOKED, TURN, CURSOR, BEGAN, DENIED, ENDED, GUILD, GUILD_SINCE, SIGNED, *HELD.values(), *TURNED.values())
FOLDER = "channel-notes/"


class Notes:
    def __init__(self, store: Store) -> None:
        self._db = store.db

    def of(self, channel: int) -> Mapping[str, int]:
        def look(tx: Tx) -> dict[str, int]:
            rows = {name: tx.run("counter", name=_named(channel, name)) for name in NAMES}
            return {name: int(found[0][0]) for name, found in rows.items() if found}

        return self._db.read(look)

    def every(self) -> Mapping[int, Mapping[str, int]]:
        """Of all channels, at once."""
        found: dict[int, dict[str, int]] = {}
        for name, value in self._db.read(lambda tx: tx.run("ch_notes", folder=FOLDER)):
            channel, _, about = str(name).removeprefix(FOLDER).partition("/")
            found.setdefault(int(channel), {})[about] = int(value)
        return found

    def put(self, channel: int, **numbers: int) -> None:
        def work(tx: Tx) -> None:
            for name, value in numbers.items():
                tx.run("ch_note", name=_named(channel, name), value=value)

        self._db.write(work)

    def forget(self, channel: int) -> None:
        def work(tx: Tx) -> None:
            for name in NAMES:
                tx.run("ch_forget", name=_named(channel, name))

        self._db.write(work)


def _named(channel: int, name: str) -> str:
    return f"{FOLDER}{channel}/{name}"
