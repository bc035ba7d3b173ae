"""The sealed history: its head, its blocks, its witnesses, verification, and the proof of one event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.responses import Response

from custody.errors import BadInput, NotFound
from custody.kernel.history.block import Block
from custody.kernel.history.head import Head
from custody.kernel.history.ledger import block_from, last_block, leaf_from, prove
from custody.kernel.history.witness import disagree, read_heads, trusted
from custody.kernel.model.event import Event
from custody.kernel.stores import Store
from custody.kernel.stores.ledger import LEAF_COLUMNS
from custody.kernel.stores.rows import event_from
from custody.web import formatting
from custody.web.operations import verification
from custody.web.page import Asked, View, back, show
from custody.web.queries.lists import whole_number
from custody.web.request_bodies import Router
from custody.web.site import Site, caller_of, site_of

router = Router()
SHOWN = 30
MOST_UNSEALED = 100
COLUMNS = {
    "block": lambda block: block.number,
    "events": lambda block: block.count,
    "in all": lambda block: block.total,
    "sealed": lambda block: formatting.iso(block.at),
    "root": lambda block: block.root.hex(),
    "previous": lambda block: block.previous.hex(),
}


@dataclass(frozen=True, slots=True)
class Witness:
    """What one witness says, and whether the store says the same."""

    path: str
    head: Head | None
    look: str
    said: str


def read(asked: Asked) -> View:
    site, store = asked.site, asked.site.store
    last = last_block(store.ledger)
    before = whole_number(asked.query, "before", (last.number if last else 0) + 1)
    blocks = _blocks(store, before)
    runs = verification.runs(store, site.machines, asked.caller)
    unsealed = len(store.ledger.unsealed(MOST_UNSEALED + 1))
    keeping = site.options.keeping
    witnesses = [_witness(site, path, last) for path in keeping.witnesses]
    values = {
        "last": last,
        "blocks": blocks,
        "runs": runs,
        "unsealed": unsealed,
        "most": MOST_UNSEALED,
        "keys": [str(key) for key in keeping.keys],
        "witnesses": witnesses,
        "reasons": [] if not runs or runs[0].ended else store.queue.why(runs[0].id),
        "next_address": formatting.address("/history", {"before": str(blocks[-1].number)})
        if blocks and blocks[-1].number > 1
        else "",
        "first_address": "/history" if asked.query.get("before") else "",
    }
    data = {
        "head": str(last.head) if last else "",
        "unsealed": unsealed,
        "verifications": runs,
        "blocks": [block.header for block in blocks],
        "witnesses": [_plain(each) for each in witnesses],
    }
    return View("Sealed history", values, data, lambda: map(block_from, store.ledger.blocks()))


def _plain(witness: Witness) -> dict[str, str]:
    return {"path": witness.path, "said": witness.said, "head": str(witness.head or "")}


def _blocks(store: Store, before: int) -> Sequence[Block]:
    """Some blocks, the newest first."""
    rows = store.db.read(lambda tx: tx.run("blocks", after=max(0, before - 1 - SHOWN), limit=SHOWN))
    return [block for block in map(block_from, reversed(rows)) if block.number < before]


def _witness(site: Site, path: Path, last: Block | None) -> Witness:
    if not path.is_file():
        return Witness(str(path), None, "waiting", "it has not been told anything yet")
    heads = trusted(read_heads(path), site.options.keeping.keys)
    if not heads:
        return Witness(str(path), None, "waiting", "it has no head that a known key signed")
    newest = max(heads, key=lambda head: head.blocks)
    if last is None or newest.blocks > last.number:
        return Witness(str(path), newest, "failed", f"it has seen block {newest.blocks}, which is not here")
    if disagree(block_from(site.store.ledger.block(newest.blocks)).head, newest):
        return Witness(str(path), newest, "failed", f"it has seen another block {newest.blocks}")
    return Witness(str(path), newest, "done", f"it vouches for everything up to block {newest.blocks}")


def read_block(asked: Asked) -> View:
    store, number = asked.site.store, int(asked.part("number"))
    block = block_from(store.ledger.block(number))
    after = whole_number(asked.query, "after", 0)
    rows = store.db.read(lambda tx: tx.run("sealed_events", block=number, position=after - 1, limit=SHOWN + 1))
    found = [(leaf_from(row[:LEAF_COLUMNS]), row[LEAF_COLUMNS:]) for row in rows if row[2] == number]
    leaves = [(leaf, event_from(event) if event[0] is not None else None) for leaf, event in found]
    following = leaves[SHOWN][0].position if len(leaves) > SHOWN else 0
    here = f"/history/blocks/{number}"
    values = {
        "block": block,
        "leaves": leaves[:SHOWN],
        "head": str(block.head),
        "next_address": formatting.address(here, {"after": str(following)}) if following else "",
        "first_address": here if after else "",
    }
    data = {
        "block": block.header,
        "head": str(block.head),
        "leaves": [{"subject": leaf.subject, "seq": leaf.seq, "leaf": leaf.hash.hex()} for leaf, _ in leaves[:SHOWN]],
    }
    return View(f"Block {number}", values, data)


def read_proof(asked: Asked) -> View:
    """The proof that an event is in the history, for someone who trusts none of our code."""
    store, query = asked.site.store, asked.query
    subject, seq = query.get("subject", ""), whole_number(query, "seq", 0)
    if not subject or not seq or "\0" in subject:
        raise BadInput("say which event: subject and seq", code="proof.event", hint="?subject=job/12&seq=3")
    event = _event(store, subject, seq)
    try:
        proof: dict[str, Any] | None = prove(store.ledger, event)
    except NotFound:
        proof = None  # not sealed yet
    values = {"event": event, "proof": proof, "live": proof is None}
    return View(f"Proof of {subject} number {seq}", values, proof or {"sealed": False})


def _event(store: Store, subject: str, seq: int) -> Event:
    events = store.records.events(store.records.kept_subject(subject), after=seq - 1, limit=1)
    if not events or events[0].seq != seq:
        raise NotFound(f"{subject} has no event number {seq}", code="event.unknown")
    return events[0]


show(router, "/history", "history.html", read, columns=COLUMNS)
show(router, "/history/blocks/{number:int}", "block.html", read_block)
show(router, "/history/proof", "proof.html", read_proof)


@router.post("/history/verify", include_in_schema=False, response_model=None)
def verify(request: Request) -> Response:
    site, caller = site_of(request), caller_of(request)
    job = verification.ask(site.store, site.machines, caller)
    return back(request, "/history", f"Job {job} will verify the whole history.")
