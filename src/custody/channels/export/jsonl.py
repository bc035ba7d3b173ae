"""JSON Lines: one message a line, exactly as the service gave it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from custody.channels.table import Found


def write_jsonl(found: Iterable[Found], path: Path, versions: bool = False) -> int:
    """Write the newest version of each message, or all of them; answers how many messages were there."""
    beside, count = path.with_name(path.name + ".part"), 0
    with beside.open("wb") as file:
        for one in found:
            lines = one.versions if versions else one.versions[-1:]
            if one.damaged:
                lines = (json.dumps(one.message).encode(),)
            file.writelines(line + b"\n" for line in lines)
            count += bool(lines)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    return count
