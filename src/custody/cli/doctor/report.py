"""custody doctor: is everything as safe as it must be?"""

from __future__ import annotations

import platform
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from custody.application import broken, installed, load
from custody.cli import runtime
from custody.cli.composition import look
from custody.cli.doctor.files import file_findings
from custody.cli.doctor.ownership import whose_findings
from custody.cli.open_store import Progress, open_store, scheme_of
from custody.cli.runtime import AsJson, counted
from custody.cli.told_commands import HIDDEN, aimed, is_hidden
from custody.config import Config, find
from custody.errors import CustodyError
from custody.kernel.operations.findings import Finding, room
from custody.kernel.stores import Store

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
SLACK_SECONDS = 2
MANY = 1000
SHOWN = 20


@app.command()
def doctor(
    config: Annotated[Path | None, typer.Option(envvar="CUSTODY_CONFIG", help="custody.toml")] = None,
    store: Annotated[str, typer.Option(envvar="CUSTODY_STORE", help="instead of the configuration's store")] = "",
    zookeeper: Annotated[str, typer.Option(help="zookeeper://host:port/root: look at this tree only")] = "",
    repair: Annotated[bool, typer.Option("--repair", help="put right what was found in the tree")] = False,
    receipts: Annotated[Path | None, typer.Option(help="a file of receipts: is all of it still there?")] = None,
    json: AsJson = False,
) -> None:
    """Look at settings, versions, clocks and disks, and count everything again that is derived."""
    found = find(config)
    url = store or (found.store if found else runtime.DEFAULT_STORE)
    seen = examine_tree(zookeeper, repair) if zookeeper else examine(url, found, repair, receipts)
    findings = [replace(finding, do=aimed(finding.do)) for finding in seen]
    if json:
        runtime.emit(findings)
    else:
        for finding in findings:
            print(f"{finding.grade.upper() if finding.grade != 'fine' else 'fine':8} {finding.what}")
            if finding.do:
                print(f"         {finding.do}")
        if is_hidden():
            print(f"--store {HIDDEN} stands for the address that you gave: it may hold a password, and is not shown")
    raise typer.Exit(1 if any(finding.grade == "unsafe" for finding in findings) else 0)


def examine(url: str, config: Config | None, repair: bool = False, receipts: Path | None = None) -> Iterator[Finding]:
    yield Finding("fine", f"Python {platform.python_version()} on {sys.platform}")
    try:
        with open_store(url, config, existing=True) as store:
            yield from _store_findings(store)
            yield from _history_findings(store, config)
            if receipts:
                yield from _receipts(store, receipts)
            yield from _place_findings(store, config)
            yield from application_findings(store, config, repair)
        yield from _scheme(url, repair)
    except CustodyError as error:
        yield Finding("unsafe", f"the store: {error.message}", error.hint)
        return
    yield from file_findings(url, config)


def examine_tree(url: str, repair: bool) -> Iterator[Finding]:
    """A tree on ZooKeeper alone, whether or not it is a store's."""
    schemes = {name: ref for application in installed() for name, ref in application.stores.items()}
    yield from load(schemes["zookeeper"]).examine(url, repair)


def _scheme(url: str, repair: bool) -> Iterator[Finding]:
    """What only the application knows that opens such an address."""
    _, scheme = scheme_of(url)
    if scheme is not None:
        yield from scheme.examine(url, repair)


def application_findings(store: Store, config: Config | None, repair: bool = False) -> Iterator[Finding]:
    """What each finds; one that cannot even look is itself a finding, and keeps no other from it."""
    for lacking in broken():
        what = f"the application {lacking.name} ({lacking.distribution}) cannot be imported: {lacking.why}"
        yield Finding("unsafe", what, "its work waits: mend it, or uninstall it")
    for application in installed():
        if not application.open:
            continue
        try:
            yield from look(store, config, application.name).findings(repair)
        except CustodyError as error:
            yield Finding("unsafe", f"{application.name}: {error.message}", error.hint)
        except Exception as error:
            yield Finding("unsafe", f"{application.name} could not be looked at: {type(error).__name__}: {error}")


def _store_findings(store: Store) -> Iterator[Finding]:
    checks: dict[str, Callable[[Store], Iterator[Finding]]] = {"sqlite": _sqlite, "postgres": _postgres}
    yield from checks[store.db.dialect](store)
    yield from _writes(store)
    yield from _derived(store)
    yield from whose_findings(store)
    workers = store.workers()
    if workers:
        yield Finding("fine", f"{counted(len(workers), 'worker')} seen within the last half minute")
    else:
        yield Finding("warning", "no worker has been seen lately", "custody worker run")


def _writes(store: Store) -> Iterator[Finding]:
    """Settings may be right, and every submit refused: the disk is full, or the server was set to read only."""
    from custody.kernel.stores.recovery.trial import refusal

    error = refusal(store)
    if error is None:
        yield Finding("fine", "the store takes writes")
    else:
        yield Finding("unsafe", f"the store takes no writes: {error.message}", error.hint)


def _place_findings(store: Store, config: Config | None) -> Iterator[Finding]:
    """Folders that were told before items had places; those below a root become places here too."""
    from custody.cli.storage_roots import open_roots
    from custody.kernel.stores.registers.places import unplaced

    known = open_roots(store, config)
    if left := unplaced(store, limit=MANY):
        number = f"at least {MANY} items" if len(left) == MANY else counted(len(left), "item")
        item, folder = left[0]
        yield Finding(
            "warning",
            f"{number} had a folder below no storage root, such as {item}: {folder}; robots do not see it",
            "name the folder above it in custody.toml, [storage] roots = {name = …}, and look again",
        )
    for root in known:
        if others := _open_to_others(root.path):
            do = "whoever may write there can put another folder in the place of the root"
            yield Finding("unsafe", f"storage root {root.name}: everybody may write to {others}", do)


def _open_to_others(path: Path) -> Path | None:
    """A folder above a root in which anybody may swap names."""
    for folder in path.parents:
        mode = folder.stat().st_mode if folder.exists() else 0
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return folder
    return None


def _history_findings(store: Store, config: Config | None) -> Iterator[Finding]:
    from custody.cli.doctor.history import history_findings

    return history_findings(store, config)


def _receipts(store: Store, file: Path) -> Iterator[Finding]:
    from custody.cli.receipts import judged

    count, lost, unread = judged(store, file)
    if unread:
        lines = ", ".join(map(str, unread[:SHOWN]))
        told = f"{file}: {counted(len(unread), 'line')} cannot be read as a receipt (line {lines})"
        yield Finding("unsafe", told, "what they stood for is not known here: look at them")
    if not count:
        yield Finding("unsafe", f"{file} has no receipts: nothing is known by it", "is it the right file?")
    elif not lost:
        yield Finding("fine", f"all of {counted(count, 'receipt')} are known to the store")
    else:
        shown = ", ".join(str(job) for job, _ in lost[:SHOWN])
        yield Finding(
            "unsafe",
            f"{len(lost)} of {counted(count, 'receipt')} are unknown to the store: jobs {shown}",
            "history went back: submit them again; after a restore say `custody store restored --receipts FILE "
            "--why …`, after a promotion make the standby synchronous",
        )


def _sqlite(store: Store) -> Iterator[Finding]:
    import apsw

    from custody.cli.doctor.server import went_back
    from custody.kernel.stores.sqlite.file_address import file_of

    yield Finding("fine", f"SQLite {apsw.sqlite_lib_version()}, which has none of the known faults of WAL mode")
    settings = store.settings()
    wanted = {"journal_mode": "wal", "synchronous": "2"}
    for name, value in wanted.items():
        grade: Literal["fine", "unsafe"] = "fine" if settings[name] in (value, "memory") else "unsafe"
        yield Finding(grade, f"{name} is {settings[name]}", "" if grade == "fine" else f"it must be {value}")
    yield from went_back(store)
    file = Path(file_of(store.url.partition("?with=")[2] or store.url))  # a tree on ZooKeeper has it beside it
    if file.exists():
        yield from _forgetful(file)
        yield room("the store's disk", file.resolve().parent)


def _forgetful(file: Path) -> Iterator[Finding]:
    from custody.kernel.stores.sqlite.connection import IN_MEMORY, file_system_of

    if (kind := file_system_of(file)) in IN_MEMORY:
        yield Finding(
            "unsafe",
            f"{file} is in this machine's memory ({kind}): what it acknowledges is gone at the next start",
            "put the file on a disk",
        )


def _postgres(store: Store) -> Iterator[Finding]:
    from custody.cli.doctor.server import server_findings

    for name, value in store.settings().items():
        bad = value == "off"
        yield Finding(
            "unsafe" if bad else "fine", f"{name} is {value}", "acknowledged work could be lost" if bad else ""
        )
    yield from server_findings(store)
    skew = abs(store.now() / 1e6 - local_seconds())
    if skew > SLACK_SECONDS:
        yield Finding(
            "warning",
            f"this machine's clock and the store's differ by {skew:.1f} s",
            "nothing is decided by it, but times in logs will not agree: set up time synchronisation",
        )
    else:
        yield Finding("fine", "this machine's clock agrees with the store's")


def local_seconds() -> float:
    """This machine's own time, which only people read."""
    return time.time_ns() / 1e9


def _derived(store: Store) -> Iterator[Finding]:
    from custody.kernel.stores.fsck import MOST, recount

    faults = recount(store, Progress())
    if not faults:
        yield Finding(
            "fine", "every counter equals its recount, every job is what its history says, and none is gone from it"
        )
    for fault in faults[:SHOWN]:
        lost = "somebody has taken it out of the database: restore it from a copy, or submit it again"
        yield Finding("unsafe", str(fault), lost if fault.check == "row" else "please report this: it must not happen")
    if len(faults) > SHOWN:
        more = f"at least {MOST - SHOWN}" if len(faults) == MOST else str(len(faults) - SHOWN)
        yield Finding("unsafe", f"{more} more of the kind")
