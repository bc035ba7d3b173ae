"""JSON Lines: one message a line, as it was last seen.

A message that never changed is, byte for byte, as it is kept. What only we know of one is under `custody`: when it was
last seen so, what is no longer shown, since when it is deleted there, and its earlier `versions`, each as it came, the
oldest first. A damaged message
is `{"id": …, "damaged": true}`; a part of which not even that is known is `{"damaged": true, "from": …, "to": …}`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from custody.channels.messages.copies import written
from custody.channels.messages.reader import Shown


def write_jsonl(found: Iterable[Shown], path: Path) -> int:
    """Write each message as last seen, with its earlier versions; answers how many messages were there."""
    beside, count = path.with_name(path.name + ".part"), 0
    with beside.open("wb") as file:
        for one in found:
            lines = _last_seen(one)
            if one.damaged:
                lines = (json.dumps(one.message).encode(),)
            file.writelines(line + b"\n" for line in lines)
            count += bool(lines) and not one.upto
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    return count


def _last_seen(one: Shown) -> tuple[bytes, ...]:
    earlier = [json.loads(line) for line in one.versions[:-1]]
    besides = one.besides | ({"versions": earlier} if earlier else {})
    return (written({**one.message, "custody": besides}),) if besides and one.versions else one.versions[-1:]
