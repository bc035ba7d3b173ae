"""Who may make ingest's jobs: ingest itself, out of what a depositor hands in."""

from __future__ import annotations

from typing import Final

from custody.engine.makers import Maker
from custody.ingest.states import BATCH_KIND, JOB_KIND

DELIVER: Final = "deliver/mail"
CLEAN: Final = "ingest/clean"
_DEPOSIT: Final = "`custody batch submit`, or POST /api/v1/batches"

BATCH_MAKER: Final = Maker(kind=BATCH_KIND, instead=_DEPOSIT)
JOB_MAKER: Final = Maker(kind=JOB_KIND, behalf="parent", instead=_DEPOSIT)
DELIVER_MAKER: Final = Maker(kind=DELIVER, behalf="parent", instead="mails are sent by ingest, about batches")
CLEAN_MAKER: Final = Maker(
    kind=CLEAN, behalf="system", instead="workers clean up by themselves: [ingest] keep_days in custody.toml"
)
MAKERS: Final = (BATCH_MAKER, JOB_MAKER, DELIVER_MAKER, CLEAN_MAKER)
