"""custody channel: chat channels mirrored, searchable and incremental."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from custody.channels import jobs as work
from custody.channels import places, removal
from custody.channels.blobs.tiers import Verdict
from custody.channels.commands.checking import fsck, verify
from custody.channels.commands.deleted import accept_loss, believe, deleted, disbelieve, set_aside
from custody.channels.commands.parts import Channel, blobs_of, checked_message, known
from custody.channels.commands.reading import export, search
from custody.channels.commands.run import run, temporal
from custody.channels.condition.standing import jobs_of, marks_of, standing_of
from custody.channels.context import EPOCH, Request, channels, parent_of
from custody.channels.debts import payment
from custody.channels.debts.debts import SAID
from custody.channels.integrity import expected
from custody.channels.requests import asking_of
from custody.channels.snowflake import parse, time_of
from custody.cli import runtime
from custody.cli.needs_config import ConfigFile, StoreUrl, opened
from custody.cli.runtime import AsJson, Why
from custody.kernel.model.event import NewEvent
from custody.kernel.model.job import Filter

app = runtime.noun("Chat channels mirrored, searchable and incremental.")
NewestFirst = Annotated[
    bool, typer.Option("--newest-first", help="begin with the newest; what is missing until then is shown as a gap")
]


@app.command()
def add(channel: Channel, newest_first: NewestFirst = False, config: ConfigFile = None, store: StoreUrl = "") -> None:
    """Mirror a channel from now on, with its threads. Adding a known one again is no news."""
    request = Request("add", work.checked(channel), newest_first=newest_first)
    _ask(config, store, request, f"channel {channel} will be mirrored")


@app.command()
def sync(channel: Channel, newest_first: NewestFirst = False, config: ConfigFile = None, store: StoreUrl = "") -> None:
    """Fetch what is new, now. A channel that was set aside is tried again."""
    request = Request("sync", work.checked(channel), newest_first=newest_first, why="asked for")
    _ask(config, store, request, f"channel {channel} will be synced")


@app.command()
def review(
    channel: Channel,
    message: Annotated[str, typer.Argument(help="a message's number")],
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Look at one message again: edited, or gone?"""
    request = Request("review", work.checked(channel), checked_message(message))
    _ask(config, store, request, f"message {message} will be looked at")


@app.command()
def remove(
    channel: Channel,
    why: Why,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Delete everything that is kept of a channel, and of its threads that are named; its history stays.

    Threads that were added by their own numbers, and what is not surely a thread of it, stay: name them.
    """
    number = work.checked(channel)
    with opened(config, store) as (handle, _):
        known(handle, number)
        under = removal.goes_along(handle, number)
    for said, which in (("removed with it", under.along), ("stays", under.stays)):
        for one in which:
            print(f"{said}: {one}")
    if not yes:
        named = f" and these {len(under.along)} threads" if under.along else ""
        typer.confirm(f"Delete all that is kept of channel {channel}{named}?", abort=True)
    request = Request("remove", number, why=why, along=under.along)
    _ask(config, store, request, f"channel {channel} will be removed ({why})")


def _ask(config: Path | None, store: str, request: Request, said: str) -> None:
    """As a job, a letter in an Azure queue or a signal to a workflow, as configured."""
    with opened(config, store) as (handle, settings):
        if request.what != "add":
            known(handle, request.channel)
        asking = asking_of(handle, settings.channels, settings.home)
        print(f"{said}: {asking.ask(request, runtime.acting())}")


@app.command("list")
def list_(config: ConfigFile = None, store: StoreUrl = "", json: AsJson = False) -> None:
    """The channels and threads, and how far each has been mirrored."""
    with opened(config, store) as (handle, settings):
        blobs, jobs = blobs_of(settings, handle), jobs_of(handle)
        rows = [
            (
                item,
                marks_of(blobs, number)[0],
                standing_of(handle, blobs, item, jobs.get(str(number), ())).state.word,
            )
            for item in channels(handle)
            for number in (work.number_of(item),)
        ]
        strangers = expected.unknown(handle, blobs)
    if strangers:
        print(f"custody: {expected.said_of(strangers)}", file=sys.stderr)
    if json:
        runtime.emit(
            [
                {"channel": item.id, **item.detail, "state": word, "upto": str(c.upto), "gaps": len(c.gaps)}
                for item, c, word in rows
            ]
        )
        return
    columns = {
        "channel": lambda row: work.number_of(row[0]),
        "name": lambda row: row[0].detail.get("title"),
        "under": lambda row: parent_of(row[0]) or None,
        "mirrored": lambda row: row[0].detail.get("mirrored"),
        "state": lambda row: row[2],
        "up to": lambda row: row[1].upto or None,
        "gaps": lambda row: len(row[1].gaps) or None,
    }
    runtime.table(columns, rows, "no channels yet: custody channel add NUMBER")


@app.command()
def why(channel: Channel, config: ConfigFile = None, store: StoreUrl = "", json: AsJson = False) -> None:
    """How a channel stands, what it waits for, or why nothing is done about it."""
    with opened(config, store) as (handle, settings):
        jobs = list(handle.queue.every(Filter(kind="channel/*", lane=str(work.checked(channel)))))
        told = [(job, reason) for job in jobs for reason in handle.queue.why(job.id)]
        item = None if jobs and jobs[0].kind == work.ADD else known(handle, work.checked(channel))
        found = standing_of(handle, blobs_of(settings, handle), item, jobs) if item else None
    mirrored = str(item.detail.get("mirrored")) if item else "asked for"
    sentence = _SAID.get(mirrored) or (found.state.sentence if found else mirrored)
    word = found.state.word if found and mirrored not in _SAID else mirrored
    if json:
        runtime.emit({"state": word, "mirrored": mirrored, "says": sentence, "waits": [reason for _, reason in told]})
        return
    print(f"{item.detail.get('title', channel) if item else channel}: {sentence}")
    if item and (odd := places.sentence(item)):
        print(f"  {odd}")
    for job, reason in told:
        print(f"  job {job.id} ({job.kind}): {reason.text}; {reason.clears}")
    if not told:
        print("  nothing is asked for; the watch asks for what is new")


_SAID = {
    "removing": "being removed",
    "removed": "removed; `custody channel add` begins anew",
}


@app.command()
def gaps(channel: Channel, config: ConfigFile = None, store: StoreUrl = "", json: AsJson = False) -> None:
    """What is known to be missing, and what is owed: fetched, but not, or no longer, whole."""
    with opened(config, store) as (handle, settings):
        item = known(handle, work.checked(channel))
        blobs = blobs_of(settings, handle)
        coverage, owed, unread = marks_of(blobs, parse(channel))
        gone = expected.lacking(handle, blobs, parse(channel)).values()
        unread = unread or next((f"{one.where}: {one.detail}" for one in gone), "")
    trouble = item.detail.get("trouble") or {}
    then = str(trouble.get("next") or item.detail.get(payment.OWED_AT) or "")
    if json:
        debts = [
            {"low": debt.next, "high": debt.high, "why": debt.why, "since": debt.since, "next": then} for debt in owed
        ]
        runtime.emit({"upto": coverage.upto, "gaps": coverage.gaps, "debts": debts, "next": then})
        return
    columns = {
        "after": lambda gap: max(gap.low, 0),
        "from": lambda gap: time_of(max(gap.low, 0)).strftime("%Y-%m-%d %H:%M"),
        "before": lambda gap: gap.high,
        "to": lambda gap: time_of(gap.high).strftime("%Y-%m-%d %H:%M"),
    }
    if coverage.gaps or not unread:
        runtime.table(columns, coverage.gaps, f"nothing is missing up to {coverage.upto}")
    for debt in owed:
        print(f"owed: {debt.next} to {debt.high}, since {debt.since}: {SAID.get(debt.why, debt.why)}")
    if coverage.gaps or owed:
        print(f"tried again at {then}" if then else "tried again with the next sync")
    if unread:
        print(f"what is missing cannot be read here ({unread}): `custody channel verify {channel} --mend`")
        raise typer.Exit(1)


@app.command()
def tiers(
    channel: Annotated[str, typer.Argument(help="only this channel")] = "",
    preview: Annotated[bool, typer.Option("--preview", help="move nothing; say what it would cost")] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
    json: AsJson = False,
) -> None:
    """Move what is no longer used to a cooler tier, and back what is. A worker does this every day."""
    from custody.channels.blobs import tier_moves
    from custody.channels.blobs.tiers import Rules, prices_of
    from custody.channels.blobs.tiers import preview as previewed

    with opened(config, store) as (handle, settings):
        blobs, now = blobs_of(settings, handle), EPOCH + timedelta(microseconds=handle.now())
        prices = prices_of(settings.channels.prices)
        wanted = [known(handle, work.checked(channel))] if channel else list(work.kept(handle))
        rows, events = [], []
        for item in wanted:
            found = list(tier_moves.verdicts(blobs, work.number_of(item), now))
            rows.append((item, found, previewed(found, prices, now, Rules())))
            moved = Counter[str]() if preview else tier_moves.move(blobs, iter(found))
            events += [NewEvent(item.id, "tiered", detail=dict(moved))] if moved else []
        if events:
            handle.records.put((), events, runtime.me())
    if json:
        runtime.emit([{"channel": item.id, "preview": cost, "moves": _moves(found)} for item, found, cost in rows])
        return
    columns = {
        "channel": lambda row: work.number_of(row[0]),
        "blobs": lambda row: len(row[1]),
        "would move" if preview else "moved": lambda row: _moves(row[1]) or None,
        "bytes": lambda row: row[2].size,
        "once": lambda row: f"{row[2].once:.6f}",
        "of it early": lambda row: f"{row[2].early:.6f}",
        "a month": lambda row: f"{row[2].monthly:+.6f}",
    }
    runtime.table(columns, rows, "no channels yet: custody channel add NUMBER")


def _moves(found: Iterable[Verdict]) -> str:
    counted = Counter(f"{one.blob.facts.tier} to {one.tier}" for one in found if one.moves)
    return ", ".join(f"{count} {move}" for move, count in sorted(counted.items()))


app.command()(fsck)
app.command()(verify)
app.command()(search)
app.command()(export)
app.command()(deleted)
app.command()(believe)
app.command()(disbelieve)
app.command("set-aside")(set_aside)
app.command("accept-loss")(accept_loss)
app.command()(run)
app.command()(temporal)
