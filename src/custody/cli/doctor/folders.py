"""Which files and folders custody.toml names, and who may write to each: one list, which the doctor and a test walk.

A folder that this program writes to is its own: whoever else may write there puts a link in the way, and what we write
goes where he wants it, with our rights. `modes.py` refuses such a folder where it is opened.
"""

from __future__ import annotations

from collections.abc import Iterator

from custody.application import installed, load
from custody.config import Config
from custody.opening import Folder


def folders(config: Config) -> Iterator[Folder]:
    """Those of every application, and those of none, as they would be opened."""
    for application in installed():
        if application.folders:
            table = getattr(config, application.name) if application.config else None
            yield from load(application.folders)(table, config.home)
    yield Folder("history.key", config.home / config.history.key, "read")
    yield Folder("history.public", config.home / config.history.public, "read")
    yield Folder("login.secret_file", config.home / config.login.secret_file, "read")
    yield from (Folder("storage.roots", config.home / path, "read") for path in config.storage.roots.values())
