"""What `custody doctor` says about the history: is it sealed, is it sealed in time, and does anybody else know?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from custody.errors import CustodyError
from custody.kernel.model.event import unsealable
from custody.kernel.operations.findings import Finding

if TYPE_CHECKING:
    from custody.config import Config
    from custody.kernel.history.block import Block
    from custody.kernel.history.sealer import Sealer
    from custody.kernel.stores import Store

MOST_LOOKED_AT = 20_000
LATE_SECONDS = 600.0


def history_findings(store: Store, config: Config | None) -> Iterator[Finding]:
    from custody.cli.composition import keeping_of
    from custody.kernel.history.ledger import last_block

    try:
        keeping = keeping_of(config)
    except CustodyError as error:
        yield Finding("unsafe", f"the history's key: {error}", error.hint)
        return
    last = last_block(store.ledger)
    if last is None:
        yield Finding(
            "warning",
            "the history is not sealed, so changes to it could not be shown",
            "custody history key history.key, then [history] in custody.toml; "
            "or custody history seal --key history.key --witness FILE",
        )
    yield from _backlog(store, keeping, last)
    if last is not None and config is None:
        do = "if there is one, name it: [history] witnesses in custody.toml (custody init)"
        yield Finding("warning", "no witness of the history is known here, as there is no custody.toml", do)
    elif last is not None:
        yield from _witnesses(keeping, last)


def _backlog(store: Store, keeping: Sealer, last: Block | None) -> Iterator[Finding]:
    waiting = store.ledger.unsealed(MOST_LOOKED_AT)
    for event in waiting:
        if why := unsealable(event.detail):
            yield Finding(
                "unsafe",
                f"{event.subject} number {event.seq} can never be sealed: {why}",
                "it was written by an older version; newer ones refuse it. What follows it cannot be sealed either",
            )
            return
    if last is None:
        return
    seconds = (store.now() - min(event.at for event in waiting)) / 1e6 if waiting else 0.0
    if seconds > max(LATE_SECONDS, 3 * keeping.every):
        yield Finding(
            "warning",
            f"{len(waiting)} events wait to be sealed, the oldest for {seconds / 60:.0f} minutes",
            "does a worker with the key run? custody worker run, or custody history seal --key FILE",
        )
    else:
        yield Finding("fine", f"the history is sealed up to block {last.number}; {len(waiting)} events wait")


def _witnesses(keeping: Sealer, last: Block) -> Iterator[Finding]:
    if not keeping.witnesses:
        yield Finding(
            "warning",
            "no witness keeps the history's heads: whoever can change the store could seal a changed history anew",
            '[history] witnesses = ["FILE on another machine\'s disk"] in custody.toml',
        )
    for path in keeping.witnesses:
        yield _witness(path, last)


def _witness(path: Path, last: Block) -> Finding:
    from custody.kernel.history.witness import read_heads

    if not path.is_file():
        return Finding("unsafe", f"the witness {path} is gone", "bring it back from where it is copied to")
    try:
        known = max((head.blocks for head in read_heads(path)), default=0)
    except CustodyError as error:
        return Finding("unsafe", f"the witness {path}: {error.message}", error.hint)
    if known > last.number:
        return Finding(
            "unsafe",
            f"the witness {path} has seen block {known}, and the store ends at {last.number}",
            "was an older backup restored? Nothing is sealed until this is settled",
        )
    return Finding("fine", f"the witness {path} knows block {known}")
