"""What an address of a SQLite store names: a file that stays, or memory where that is asked for by its name.

`sqlite:///$UNSET` must not be a store that is gone with the process: what it acknowledges is nowhere. So an address
that names no file is refused, and so is what other programs take for a setting and SQLite for a part of the name.
"""

from __future__ import annotations

import os
from urllib.parse import parse_qsl

from custody.errors import BadInput

MEMORY = ":memory:"
SCHEME = "sqlite://"
HINT = "sqlite:///custody.db (in this folder) or sqlite:////var/lib/custody/custody.db"


def file_of(url: str) -> str:
    """The path in sqlite:///relative or sqlite:////absolute; `:memory:` for sqlite://:memory: alone."""
    if url == SCHEME + MEMORY:
        return MEMORY
    path = url.removeprefix(f"{SCHEME}/")
    if "\0" in path:
        raise BadInput("no file has such a name", code="store.url", where=repr(url[:80]))
    if not url.startswith(f"{SCHEME}/"):
        raise _bad(url, "a path follows three slashes")
    name, mark, parameters = path.partition("?")
    if mark:
        names = [key for key, _ in parse_qsl(parameters, keep_blank_values=True)] or [parameters]
        raise _bad(url, f"a SQLite store has no settings in its address, and no ? in its name: {', '.join(names)}")
    if not name.strip():
        raise _bad(url, "it names no file: is a variable in it empty?")
    if name == MEMORY:
        raise _bad(url, "a store in memory is gone with its process")
    return os.path.expanduser(name)


def must_stay(url: str) -> None:
    """Refuse what could not be found again by the next process."""
    database = url.partition("?with=")[2] or url  # a tree on ZooKeeper has a database beside it
    if database.startswith("sqlite:") and file_of(database) == MEMORY:
        raise _bad(url, "a store in memory is gone with this command, and all that it acknowledged")


def _bad(url: str, why: str) -> BadInput:
    return BadInput(f"{url!r} is no address of a store: {why}", code="store.address", hint=HINT)
