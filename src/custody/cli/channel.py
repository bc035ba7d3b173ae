"""custody channel: chat channels mirrored, searchable and incremental."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from custody.channels import work
from custody.channels.crawl import Coverage
from custody.channels.files import Files
from custody.channels.serving import settings_of
from custody.channels.snowflake import parse
from custody.channels.table import Table
from custody.cli import running
from custody.cli.config import Config, find
from custody.cli.running import AsJson, Why
from custody.model.errors import BadInput, NotFound
from custody.model.job import NewJob
from custody.stores import Store, open_store

app = running.noun("Chat channels mirrored, searchable and incremental.")
Channel = Annotated[str, typer.Argument(help="the channel's number")]
ConfigFile = Annotated[Path | None, typer.Option("--config", envvar="CUSTODY_CONFIG", help="custody.toml")]
StoreUrl = Annotated[str, typer.Option("--store", envvar="CUSTODY_STORE", help="instead of the configuration's store")]


@contextmanager
def opened(config: Path | None, store: str) -> Iterator[tuple[Store, Config]]:
    found = find(config)
    if found is None:
        raise BadInput("there is no custody.toml here", code="config.missing", hint="`custody init` writes one")
    with open_store(store or found.store) as handle:
        yield handle, found


def table_of(settings: Config, channel: str) -> Table:
    blobs = Files((settings.home / settings.channels.blobs).resolve())
    return Table(blobs, work.checked(channel), settings_of(settings.channels))


@app.command()
def add(channel: Channel, config: ConfigFile = None, store: StoreUrl = "") -> None:
    """Mirror a channel from now on. Adding a known one again is no news."""
    _ask(config, store, work.add_job(work.checked(channel)), f"channel {channel} will be mirrored")


@app.command()
def sync(channel: Channel, config: ConfigFile = None, store: StoreUrl = "") -> None:
    """Fetch what is new, now."""
    _ask(config, store, work.sync_job(work.checked(channel), "asked for"), f"channel {channel} will be synced")


@app.command()
def review(
    channel: Channel,
    message: Annotated[str, typer.Argument(help="a message's number")],
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Look at one message again: edited, or gone?"""
    _ask(
        config,
        store,
        work.review_job(work.checked(channel), work.checked(message)),
        f"message {message} will be looked at",
    )


@app.command()
def remove(
    channel: Channel,
    why: Why,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Delete everything that is kept of a channel; its history stays."""
    if not yes:
        typer.confirm(f"Delete all that is kept of channel {channel}?", abort=True)
    job = work.remove_job(work.checked(channel))
    _ask(config, store, job, f"channel {channel} will be removed ({why})")


def _ask(config: Path | None, store: str, job: NewJob, said: str) -> None:
    with opened(config, store) as (handle, _):
        made = handle.queue.submit_one(job, running.me())
    print(f"{said}: job {made.id}" + ("" if made.new else " (asked before, and not yet done)"))


@app.command("list")
def list_(config: ConfigFile = None, store: StoreUrl = "", json: AsJson = False) -> None:
    """The channels, and how far each has been mirrored."""
    with opened(config, store) as (handle, settings):
        items = handle.records.items(type_=work.CHANNEL, limit=1000)
        rows = [(item, Coverage.read(table_of(settings, str(work.number_of(item))).mark)) for item in items]
    if json:
        running.emit(
            [{"channel": item.id, **item.detail, "upto": str(c.upto), "gaps": len(c.gaps)} for item, c in rows]
        )
        return
    columns = {
        "channel": lambda row: work.number_of(row[0]), "name": lambda row: row[0].detail.get("title"),
        "mirrored": lambda row: row[0].detail.get("mirrored"), "up to": lambda row: row[1].upto or None,
        "gaps": lambda row: len(row[1].gaps) or None,
    }  # fmt: skip
    running.table(columns, rows, "no channels yet: custody channel add NUMBER")


@app.command()
def gaps(channel: Channel, config: ConfigFile = None, store: StoreUrl = "", json: AsJson = False) -> None:
    """What is known to be missing."""
    with opened(config, store) as (_, settings):
        coverage = Coverage.read(table_of(settings, channel).mark)
    if json:
        running.emit(coverage)
        return
    columns = {"after": lambda gap: gap.low, "before": lambda gap: gap.high}
    running.table(columns, coverage.gaps, f"nothing is missing up to {coverage.upto}")


@app.command()
def search(
    channel: Channel,
    message: Annotated[str, typer.Argument(help="a message's number")],
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """One message with all its versions."""
    with opened(config, store) as (_, settings):
        found = table_of(settings, channel).search(work.checked(message))
    if found is None:
        raise NotFound(f"message {message} is not kept of channel {channel}", code="message.unknown")
    if found.deleted_at:
        print(f"deleted, noticed at {found.deleted_at}")
    for line in found.versions:
        print(jsons.dumps(jsons.loads(line), ensure_ascii=False, indent=1))


@app.command()
def export(
    channel: Channel,
    target: Annotated[Path, typer.Argument(help="a file, or a folder for --html")],
    jsonl: Annotated[bool, typer.Option("--jsonl", help="JSON lines")] = False,
    sqlite: Annotated[bool, typer.Option("--sqlite", help="a database with full-text search")] = False,
    html: Annotated[bool, typer.Option("--html", help="pages to read and search")] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Everything that is kept of a channel, in a form that others can read."""
    from custody.channels.export.html import write_html
    from custody.channels.export.jsonl import write_jsonl
    from custody.channels.export.sqlite import write_sqlite

    if sum((jsonl, sqlite, html)) != 1:
        raise BadInput("say which form", hint="--jsonl, --sqlite or --html")
    with opened(config, store) as (_, settings):
        messages = table_of(settings, channel).between()
        if jsonl:
            count = write_jsonl(messages, target)
        elif sqlite:
            count = write_sqlite(messages, target, parse(channel), channel)
        else:
            count = write_html(messages, target, f"Channel {channel}")
    print(f"{count} messages in {target}")


@app.command()
def fsck(
    channel: Channel,
    repair: Annotated[bool, typer.Option("--repair", help="mend what can be mended")] = False,
    config: ConfigFile = None,
    store: StoreUrl = "",
) -> None:
    """Walk the whole table of a channel and say what is wrong with it."""
    with opened(config, store) as (_, settings):
        table = table_of(settings, channel)
        found = table.repair() if repair else table.check()
    for finding in found:
        print(finding)
    print("nothing is wrong" if not found else f"{len(found)} findings")
    raise typer.Exit(1 if found else 0)
