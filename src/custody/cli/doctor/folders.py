"""Which files and folders custody.toml names, and who may write to each: one table, which the doctor and a test walk.

A folder that this program writes to is its own: whoever else may write there puts a link in the way, and what we write
goes where he wants it, with our rights. `modes.py` refuses such a folder where it is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from custody.config import Config

Rule = Literal["closed", "ours", "read"]
RULES: Final[Mapping[str, Rule]] = {
    "workflows.work": "closed",
    "workflows.sandboxes": "closed",
    "workflows.kept": "ours",
    "ingest.staging": "ours",
    "ingest.work": "ours",
    "ingest.outbox": "ours",
    "ingest.nodes": "ours",
    "channels.blobs": "ours",
    "workflows.secrets": "read",
    "ingest.profiles": "read",
    "ingest.secret": "read",
    "channels.connection_file": "read",
    "channels.token_file": "read",
    "history.key": "read",
    "history.public": "read",
    "login.secret_file": "read",
    "storage.roots": "read",
}
"""`closed`: sandboxes write there; nobody but the worker enters it, and a wider one is closed. `ours`: nobody else may
write to it; an empty one is closed, and another is refused. `read`: this program does not write there, or once."""


def folders(config: Config, *rules: Rule) -> Iterator[Path]:
    """Those of the configuration to which one of these rules applies, as they would be opened."""
    from custody.robots.programs.sandboxed import YARD

    for key, rule in RULES.items():
        part, _, name = key.partition(".")
        value = getattr(getattr(config, part), name)
        if rule in rules and not (key == "channels.blobs" and config.channels.container):
            yield from (config.home / path for path in (value.values() if isinstance(value, Mapping) else [value]))
            if key == "ingest.nodes":
                yield from (config.home / path.with_name(f"{path.name}-staging") for path in value.values())
    if "closed" in rules:
        yield config.home / YARD
