"""custody history: seal, prove and verify what was recorded."""

from __future__ import annotations

import json as jsons
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from custody.cli import runtime
from custody.cli.open_store import open_store
from custody.cli.runtime import AsJson, StoreUrl, Why
from custody.cli.times import moment
from custody.errors import BadInput, NotFound
from custody.kernel.history.exchange.export import export_history
from custody.kernel.history.head import Head
from custody.kernel.history.keys import PublicKey, Signer, load_key, make_key, read_public_key
from custody.kernel.history.ledger import block_from, erasure, last_block, prove, rows_of, seal_once, verify_all
from custody.kernel.history.witness import read_heads
from custody.kernel.model.event import OUTCOMES, Event, Outcome
from custody.kernel.stores import Store

app = runtime.noun("Seal, prove and verify what was recorded.")
KeyFile = Annotated[Path, typer.Option("--key", envvar="CUSTODY_HISTORY_KEY", help="the private key that seals")]
Name = Annotated[str, typer.Option("--name", envvar="CUSTODY_HISTORY_NAME", help="this history's own name")]
Witnesses = Annotated[
    list[Path] | None, typer.Option("--witness", help="a file elsewhere that keeps the heads; repeatable")
]
Public = Annotated[
    list[str] | None, typer.Option("--public", help="the public key, as `key` printed it, or a file with it")
]
Subject = Annotated[str, typer.Argument(help="such as job/12 or item/ark:/99999/fk4x")]
Seq = Annotated[int, typer.Argument(help="the event's number within it")]


@app.command()
def key(file: Annotated[Path, typer.Argument(help="where the private key goes")], name: Name = "custody") -> None:
    """Make a signing key; prints the public one, which belongs with whoever will verify."""
    print(make_key(file, name).public)


@app.command()
def seal(
    key: KeyFile,
    name: Name = "custody",
    witness: Witnesses = None,
    every: Annotated[float, typer.Option(min=0, max=86_400, help="go on, every so many seconds")] = 0,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Seal what was recorded since the last time, sign it, and publish the head."""
    signer = load_key(key, name)
    with open_store(store) as opened:
        while True:
            _seal_all(opened, signer, witness or [])
            if not every:
                return
            time.sleep(every)


def _seal_all(store: Store, signer: Signer, witnesses: Sequence[Path]) -> None:
    before = last_block(store.ledger)
    known = before.number if before else 0
    while (block := seal_once(store.ledger, signer, store.now(), witnesses)) is not None and block.number > known:
        print(f"block {block.number}: {block.count} events, {block.total} in all")
        known = block.number


@app.command()
def head(store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """The newest signed head: keep a copy where nobody here can change it."""
    with open_store(store) as opened:
        block = last_block(opened.ledger)
    if block is None:
        raise NotFound("nothing has been sealed yet", hint="custody history seal --key FILE")
    print(block.head, end="")


@app.command()
def verify(
    public: Public = None,
    witness: Witnesses = None,
    store: StoreUrl = runtime.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Check every event, chain, block and signature, and that no head that was told has been taken back."""
    with open_store(store) as opened:
        report = verify_all(opened.ledger, _keys(public), _heads(witness))
    if json:
        runtime.emit({"sound": report.sound, "faults": report.faults, "limits": report.limits})
    else:
        for fault in report.faults:
            print(fault)
        print("the history is sound" if report.sound else f"NOT SOUND: faults {len(report.faults)}")
        for limit in report.limits:
            print(f"  note: {limit}")
    raise typer.Exit(0 if report.sound else 1)


@app.command("prove")
def prove_(subject: Subject, seq: Seq, witness: Witnesses = None, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """A proof, as JSON, that an event is in the history; the stand-alone verifier checks it without our code."""
    with open_store(store) as opened:
        heads = _heads(witness)
        print(jsons.dumps(prove(opened.ledger, _event(opened, subject, seq), heads[-1] if heads else None), indent=1))


@app.command()
def export(public: Public = None, witness: Witnesses = None, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Everything, as JSON lines, for the stand-alone verifier."""
    with open_store(store) as opened:
        block = last_block(opened.ledger)
        lines = export_history(
            block.origin if block else "custody",
            rows_of(opened.ledger),
            map(block_from, opened.ledger.blocks()),
            keys=_keys(public),
            heads=_heads(witness),
        )
        for line in lines:
            sys.stdout.write(line if line.endswith("\n") else line + "\n")


@app.command()
def verifier() -> None:
    """The stand-alone verifier: one Python file that needs none of our code. Send it to a file and read it."""
    from importlib import resources

    sys.stdout.write((resources.files("custody.kernel.history.exchange") / "standalone_verifier.py").read_text())


@app.command()
def erase(subject: Subject, seq: Seq, why: Why, store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Erase an event's body, lawfully: its place in the sealed history stays, and who erased it is recorded."""
    with open_store(store) as opened:
        subject = opened.records.kept_subject(subject)
        type_, detail = erasure(subject, seq, why)
        opened.ledger.erase(subject, seq, runtime.me(), detail, type_=type_)
    print(f"the body of {subject} number {seq} is gone; its place stays")


@app.command()
def premis(item: Annotated[str, typer.Argument(help="an item's id")], store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """An item's history as PREMIS 3."""
    from custody.kernel.history.exchange.premis_writer import premis_document

    with open_store(store) as opened:
        found = opened.records.item(item)
        events = list(opened.records.all_events(f"item/{found.id}"))
        block = last_block(opened.ledger)
    sys.stdout.buffer.write(premis_document(events, origin=block.origin if block else "custody"))


@app.command("import-premis")
def import_premis(
    file: Annotated[Path, typer.Argument(help="PREMIS 2.2 or 3")],
    agent: Annotated[str, typer.Option(help="who is importing, for the history")] = "",
    outcome: Annotated[
        list[str] | None, typer.Option(help="WORD=success, failure or warning: what a word means here; may be repeated")
    ] = None,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Append the events of a PREMIS document to the items they are about; unknown items are made."""
    from custody.kernel.history.exchange.premis_reader import OUTCOME_WORDS, Habits, new_events, read_premis
    from custody.kernel.model.item import NewItem

    found = read_premis(file.read_bytes(), Habits(outcomes={**OUTCOME_WORDS, **_words(outcome or [])}))
    events = [new for event in found.events for new in new_events(event)]
    with open_store(store) as opened:
        events = [replace(event, item=opened.records.kept(event.item)) for event in events]
        items = [NewItem(name, changed=False) for name in sorted({event.item for event in events})]
        opened.records.put(items, events, agent or runtime.me())
    for problem in found.problems:
        print(f"warning: {problem}", file=sys.stderr)
    print(f"{runtime.counted(len(events), 'event')} of {runtime.counted(len(items), 'item')}")


@app.command()
def blocks(store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """The sealed blocks."""
    with open_store(store) as opened:
        found = [block_from(row) for row in opened.ledger.blocks()]
    if json:
        runtime.emit([block.header for block in found])
        return
    columns = {
        "block": lambda block: block.number,
        "events": lambda block: block.count,
        "in all": lambda block: block.total,
        "sealed (UTC)": lambda block: moment(block.at),
        "root": lambda block: block.root.hex()[:16] + "…",
    }
    runtime.table(columns, found, "nothing has been sealed yet")


def _words(given: list[str]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for text in given:
        word, _, meaning = text.rpartition("=")
        known = next((outcome for outcome in OUTCOMES if outcome == meaning.strip()), None)
        if not word.strip() or known is None:
            raise BadInput(f"cannot read {text!r}", where="--outcome", hint="--outcome bestanden=success")
        found[word.strip().casefold()] = known
    return found


def _event(store: Store, subject: str, seq: int) -> Event:
    events = store.records.events(store.records.kept_subject(subject), after=seq - 1, limit=1)
    if not events or events[0].seq != seq:
        raise NotFound(f"{subject} has no event number {seq}", code="event.unknown")
    return events[0]


def _keys(given: list[str] | None) -> list[PublicKey]:
    if not given:
        raise BadInput(
            "a public key is needed",
            where="--public",
            hint="as `custody history key` printed it, or the file with it: --public history.public",
        )
    texts = [Path(each).read_text().strip() if Path(each).is_file() else each for each in given]
    return [read_public_key(text) for text in texts]


def _heads(witnesses: list[Path] | None) -> list[Head]:
    return [head for path in witnesses or [] for head in read_heads(path)]
