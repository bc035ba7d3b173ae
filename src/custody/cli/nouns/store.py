"""custody store: where it is all kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from custody.cli import runtime
from custody.cli.open_store import open_store
from custody.cli.runtime import AsJson, StoreUrl
from custody.cli.times import moment
from custody.errors import Refused

if TYPE_CHECKING:
    from custody.kernel.stores.sqlite.restore import Restored

app = runtime.noun("Where it is all kept.")


@app.command()
def info(store: StoreUrl = runtime.DEFAULT_STORE, json: AsJson = False) -> None:
    """What kind of store this is, and how much is in it."""
    with open_store(store) as opened:
        counts = opened.queue.counts()
        facts = {"dialect": opened.db.dialect, "jobs": sum(count for *_, count in counts), "counts": counts}
    if json:
        runtime.emit(facts)
        return
    runtime.show([("store", facts["dialect"]), ("jobs", facts["jobs"])])
    columns = {"kind": lambda row: row[0], "state": lambda row: row[1], "jobs": lambda row: row[2]}
    runtime.table(columns, counts, "no jobs yet")


@app.command()
def migrate(store: StoreUrl = runtime.DEFAULT_STORE) -> None:
    """Bring the schema up to date. (Opening a store does so as well.)"""
    from custody.kernel.stores.sql.migrations import KERNEL

    with open_store(store) as opened:
        lines = opened.db.read(lambda tx: tx.run("application_versions"))
        told = "".join(f", {name} {version}" for name, version in lines)
        print(f"the {opened.db.dialect} schema is up to date: kernel {KERNEL}{told}")


@app.command()
def restored(
    why: Annotated[str, typer.Option(help="what happened, for the history")],
    receipts: Annotated[
        list[Path] | None, typer.Option(help="a file of receipts, not empty: none of its numbers is given out again")
    ] = None,
    beyond: Annotated[int, typer.Option(min=0, help="give out no job's number up to this one")] = 0,
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Say that a store was restored: lost numbers are passed over, and processes that had PostgreSQL open stop. Who has
    no receipts says it without --receipts, and with --beyond as far as numbers are known."""
    from custody.cli.receipts import read
    from custody.kernel.stores.recovery import restored as saying

    highest = max([beyond, *(number for file in receipts or () for number, _ in read(file))])
    with open_store(store, existing=True) as opened:
        last = saying.restored(opened, why, runtime.me(), highest)
        is_server = opened.db.dialect == "postgres"
    again = "; processes that had the store open must be started again" if is_server else ""
    print(f"noted; the next job is given a number above {last}{again}")


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="where the copy goes; it must not exist yet")],
    store: StoreUrl = runtime.DEFAULT_STORE,
) -> None:
    """Copy an SQLite store while it is in use: one moment of it, checked and on disk when this returns."""
    from custody.kernel.stores.sqlite.backup import copy_to
    from custody.kernel.stores.sqlite.file_address import file_of

    if not store.startswith("sqlite:"):
        raise Refused(
            "only SQLite stores are copied here", code="backup.store", hint="pg_dump, or continuous archiving"
        )
    if file.exists():
        raise Refused(f"{file} exists already", code="backup.exists", hint="it is left as it is")
    print(f"{copy_to(Path(file_of(store)), file)} jobs and all else in {file}")


@app.command()
def restore(
    copy: Annotated[Path, typer.Argument(help="a copy that `custody store backup` has made")],
    other: Annotated[bool, typer.Option("--other", help="also if it is the copy of another store")] = False,
    store: StoreUrl = runtime.DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Put a copy in the place of an SQLite store that nobody has open; the old files are kept beside it. Ends with 1 if
    the copy is in place and something is missing in it, or what is missing is not known."""
    from custody.kernel.stores.sqlite.file_address import file_of
    from custody.kernel.stores.sqlite.restore import restore as put_back

    if not store.startswith("sqlite:"):
        raise Refused("only SQLite stores are restored here", code="restore.store", hint="pg_restore, or the archive")
    done = put_back(copy, Path(file_of(store)), runtime.me(), other)
    if json:
        runtime.emit({**runtime.plain(done), "aside": str(done.aside or "")})
        raise typer.Exit(0 if done.is_whole else 1)
    runtime.tell(f"{runtime.counted(done.jobs, 'job')} and all else from {copy}")
    if done.aside is not None:
        runtime.tell(f"what was there before is {done.aside}")
    _tell_missing(done)
    if not done.is_whole:
        raise typer.Exit(1)


def _tell_missing(done: Restored) -> None:
    known = "say `custody store restored --receipts FILE --why …`, which passes over the numbers of lost jobs"
    if done.missing is None:
        was = "it could not be read as a whole" if done.aside else "there was no store"
        runtime.tell(f"{was}: what is missing now is not known (custody doctor --receipts FILE); {known}")
    elif done.missing.events:
        shown = ", ".join(done.missing.subjects)
        new = f", {runtime.counted(done.missing.jobs, 'job')} among them first submitted since: {shown}"
        told = f"not in the copy: {runtime.counted(done.missing.events, 'event')}"
        runtime.tell(told + (new if done.missing.jobs else ""))
    for note in done.earlier:
        lost, shown = note.detail.get("missing"), ", ".join(note.detail.get("subjects", ()))
        what = "what is missing since then is not known" if lost is None else f"{runtime.counted(lost, 'event')} lost"
        when = moment(note.detail.get("noted", note.at))
        runtime.tell(f"not in the copy either, since the restore at {when}: {what}" + (f" ({shown})" if shown else ""))
    if done.is_whole:
        runtime.tell("nothing of it is missing in the copy")
