"""How the channels stand, in numbers for those who watch over them: by state, how long unseen, which files are lacking.

Looked up at most once a minute: the state of a channel is read from its blobs, and whoever scrapes asks often.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from custody.channels import notes
from custody.channels.blobs.port import Blobs
from custody.channels.condition.standing import all_standing
from custody.channels.condition.states import WORST_FIRST
from custody.channels.context import number_of
from custody.channels.discord import attachments
from custody.channels.files import fetch
from custody.kernel.stores import Store

KEEP_SECONDS = 60.0
FILES = {"wanted": fetch.LEFT, "lost": fetch.LOST, "refused": attachments.FOREIGN}


@dataclass(frozen=True, slots=True)
class Numbers:
    states: Mapping[str, int]
    files: Mapping[str, int]
    unseen: float  # seconds since the mirrored channel that is unseen for longest was looked at to its end
    alarming: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by channel and state


def numbers(store: Store, blobs: Blobs) -> Numbers:
    states, files = Counter[str](dict.fromkeys(WORST_FIRST, 0)), Counter[str](dict.fromkeys(FILES, 0))
    looked, now, unseen = notes.Notes(store).every(), store.now(), 0
    alarming: dict[tuple[str, str], int] = {}
    for one in all_standing(store, blobs):
        number, detail = number_of(one.item), one.item.detail
        states[one.state.word] += 1
        for state, name in FILES.items():
            files[state] += int(detail.get(name) or 0)
        if one.state.alarming and not detail.get("set_aside"):
            alarming[str(number), one.state.word] = 1
        last = looked.get(number, {}).get(notes.LOOKED)
        if last and detail.get("mirrored") == "yes" and not detail.get("archived"):
            unseen = max(unseen, now - last)
    return Numbers(states, files, unseen / 1e6, alarming)


def kept_for_a_while(make: Callable[[], Numbers], seconds: float = KEEP_SECONDS) -> Callable[[], Numbers]:
    lock, known = threading.Lock(), list[tuple[float, Numbers]]()

    def look() -> Numbers:
        with lock:
            if not known or time.monotonic() - known[0][0] >= seconds:
                known[:] = [(time.monotonic(), make())]
            return known[0][1]

    return look
