"""Who may make the jobs of channels: the mirror itself, for channels that somebody added."""

from __future__ import annotations

from typing import Final

from custody.engine.makers import Maker

ADD: Final = "channel/add"
SYNC: Final = "channel/sync"
REVIEW: Final = "channel/review"
FILES: Final = "channel/files"
REMOVE: Final = "channel/remove"

MAKERS: Final = (
    Maker(kind=ADD, instead="`custody channel add`"),
    Maker(kind=SYNC, instead="`custody channel sync`"),
    Maker(kind=REVIEW, instead="`custody channel review`"),
    Maker(kind=FILES, instead="`custody channel sync`, which asks for files that are wanted"),
    Maker(kind=REMOVE, instead="`custody channel remove`"),
)
MAKER_OF: Final = {maker.kind: maker for maker in MAKERS}
