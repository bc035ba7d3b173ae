"""How fast the history is sealed, verified and exported on this machine.

PYTHONPATH=src:tests python -m history.measure [EVENTS]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from custody.kernel.history.block import Block
from custody.kernel.history.chain import Leaf, Tip
from custody.kernel.history.exchange import standalone_verifier
from custody.kernel.history.exchange.export import export_history
from custody.kernel.history.exchange.premis_writer import premis_document
from custody.kernel.history.proofs import prove
from custody.kernel.history.seal import seal
from custody.kernel.history.verify import Row, verify
from custody.kernel.model.event import Event
from kernel.history.archive import NAME, SIGNER, START_TIME

BLOCK = 10_000


def some(count: int) -> list[Event]:
    """As an ingest writes them: eight moves to a job, a few facts each."""
    detail = {
        "from": "estimating",
        "to": "provisioning",
        "reason": "",
        "bytes": 10_485_760,
        "files": [1, 2, 3],
    }
    return [
        Event(
            id=number + 1,
            subject=f"job/{number // BLOCK * 1250 + number % 1250}",
            seq=number % BLOCK // 1250 + 1,
            type="moved",
            outcome="success",
            agent="worker-3@host",
            at=START_TIME + number,
            detail=detail | {"row": number},
            token=number,
            move=f"{number:016x}",
        )
        for number in range(count)
    ]


def timed(what: str, count: int, work: Callable[[], object]) -> None:
    begin = perf_counter()
    work()
    print(f"{what:<36}{count / (perf_counter() - begin):>12,.0f} /s")


def seal_all(events: list[Event], blocks: list[Block], leaves: list[Leaf]) -> None:
    tips: dict[str, Tip] = {}
    for start in range(0, len(events), BLOCK):
        part = events[start : start + BLOCK]
        sealed = seal(blocks[-1] if blocks else None, part, tips, part[-1].at, SIGNER).sealed
        assert sealed
        blocks.append(sealed.block)
        leaves.extend(sealed.leaves)
        tips |= {leaf.subject: Tip(leaf.seq, leaf.hash) for leaf in sealed.leaves}


def prove_some(leaves: list[Leaf], rows: list[Row], blocks: list[Block], count: int) -> None:
    hashes = [leaf.hash for leaf in leaves[:BLOCK]]
    for leaf, event in rows[:count]:
        if leaf and event:
            prove(event, leaf, bytes(32), hashes, lambda number: blocks[number - 1], len(blocks))


def main(count: int) -> None:
    events = some(count)
    blocks: list[Block] = []
    leaves: list[Leaf] = []
    timed("seal (blocks of 10,000)", count, lambda: seal_all(events, blocks, leaves))
    by_place = {(event.subject, event.seq): event for event in events}
    rows: list[Row] = [(leaf, by_place[leaf.subject, leaf.seq]) for leaf in leaves]
    heads = [block.head for block in blocks]
    timed("verify", count, lambda: verify(rows, blocks, keys=[SIGNER.public], heads=heads))
    timed("prove one event", 50, lambda: prove_some(leaves, rows, blocks, 50))
    timed("PREMIS events", 10_000, lambda: premis_document(events[:10_000], origin=NAME))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        timed(
            "export",
            count,
            lambda: path.write_text("".join(export_history(NAME, rows, blocks, keys=[SIGNER.public], heads=heads))),
        )
        words = [str(path), "--key", str(SIGNER.public)]
        timed("stand-alone verifier", count, lambda: standalone_verifier.main(words))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
