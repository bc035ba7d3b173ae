"""A robot's program in a sandbox: it sees its item read-only, what its label names, and a folder for what it makes.

    /inputs/item         the item's folder, read-only             (CUSTODY_FOLDER)
    /inputs/program/…    the program, and what its label needs
    /work                where it begins, and may write           (CUSTODY_OUTPUT)

Nothing else of this machine but /usr: no store, no other item, no environment, no network but a way to those hosts that
the label asks for and an operator has granted. The lease reaches inside: when the worker no longer knows the item to be
its own, the sandbox dies on time, although nobody may be left to tell it. What the program says: program.py.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from custody.border import leftovers, modes
from custody.border.egress.allowance import Permit, Rules, read_named
from custody.border.roots import NO_ROOTS, Root, Roots, ours
from custody.border.sandbox.output import ERR, OUT
from custody.border.sandbox.sandbox import Available, Running, Sandboxes, available
from custody.border.sandbox.spec import (
    DISK,
    EXITED,
    LEASE,
    LOST,
    MEMORY,
    NOT_STARTED,
    STOPPED,
    TIMEOUT,
    End,
    Limits,
    Mount,
    Spec,
)
from custody.errors import BadInput, CustodyError, Unavailable
from custody.kernel.model.item import Item
from custody.kernel.model.names.reserved import FOLDER
from custody.robots.programs.input import as_json, as_variables, located

MIB = 1024 * 1024
BEAT_SECONDS = 0.2
UNASKED_SECONDS = 30.0
"""How far ahead a run is confirmed that no worker's lease stands behind."""
ITEM, PROGRAM, WORK = "/inputs/item", "/inputs/program", "/work"
QUESTION = "/inputs/item.json"
YARD = "work-robots"
"""Where sandboxes are, beside a custody.toml."""
WITH_ITEM = ("sh", "-c", f'exec "$@" <{QUESTION}', "custody-robot")
REASONS = {
    MEMORY: ("robot.memory", "it used more memory than it may"),
    DISK: ("robot.disk", "it wrote more than it may"),
}


class TimedOut(Exception):
    """It was killed, and is dead, because its time was over."""


class Interrupted(Exception):
    """It was ended, and is dead, because nobody confirmed in time that the item was still ours: not its own doing."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a label says of the sandbox: [sandbox] in NAME.robot.toml."""

    network: bool | tuple[str, ...] = False  # True: all that is granted
    memory: int = 2048  # MiB, together where control groups work
    disk: int = 4096  # MiB in its folder
    processes: int = 256
    variables: tuple[str, ...] = ()  # of the worker's environment, handed on
    needs: tuple[str, ...] = ()  # files and folders beside the label


@dataclass(frozen=True, slots=True)
class Room:
    """The name of one run, and a folder for it."""

    name: str
    folder: Path

    @property
    def made(self) -> Path:
        """What the program makes goes here."""
        return self.folder / "made"


class Yard:
    """The sandboxes of one machine that robots share, with a folder for each run; made when first needed."""

    def __init__(self, folder: Path | None = None, roots: Roots = NO_ROOTS, network: Rules | None = None) -> None:
        self.roots = roots  # below which items are
        self.network = network or Rules()
        self.folder = folder or own_folder()
        self._lock = threading.Lock()
        self._opened: Sandboxes | None = None
        self._found: Available | None = None

    def look(self) -> Available:
        """Do sandboxes work here? Found out once."""
        with self._lock:
            self._found = self._found or available()
            return self._found

    def open(self) -> Sandboxes:
        if not (found := self.look()):
            raise missing("this program", found)
        with self._lock:
            if self._opened is None:
                for part in (self.folder, self.folder / "work"):
                    _make_own(part)
                self._opened = Sandboxes(self.folder / "boxes").__enter__()
            return self._opened

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.__exit__(None, None, None)
                self._opened = None

    def end(self, mark: str) -> None:
        """Make sure that nothing of an earlier run under this mark is left on this machine."""
        boxes, prefix = self.open(), _prefix(mark)
        for name in boxes.names():
            running = boxes.find(name) if name.startswith(prefix) else None
            if running is not None:
                running.stop(0)
                running.remove()
        for left in (self.folder / "work").glob(f"{prefix}*"):
            leftovers.clear(left)

    @contextmanager
    def room(self, mark: str, number: int) -> Iterator[Room]:
        """For one run; gone afterwards."""
        self.open()
        name = f"{_prefix(mark)}{number}" if mark else f"call-{os.getpid()}-{time.monotonic_ns()}"
        room = Room(name, self.folder / "work" / name)
        leftovers.clear(room.folder)
        for folder in (room.folder, room.made):
            folder.mkdir()
            folder.chmod(0o700)
        try:
            yield room
        finally:
            leftovers.clear(room.folder)


def own_folder() -> Path:
    """Where a user's robots have their sandboxes on this machine, if nobody has said where: never in a folder in which
    others could have made it before. The machine is in its name, as several may share one home."""
    given = os.environ.get("XDG_STATE_HOME", "")
    state = Path(given) if given.startswith("/") else Path("~/.local/state").expanduser()
    return state / "custody" / f"robots-{os.uname().nodename}"


def _make_own(folder: Path) -> None:
    try:
        modes.make_closed(folder, "robots' programs")
    except CustodyError as error:
        hint = "say with XDG_STATE_HOME, or by a custody.toml in it, which folder is to be used"
        raise Unavailable(error.message, code="robot.yard", hint=f"remove it; or {hint}") from error


def missing(who: str, found: Available) -> Unavailable:
    return Unavailable(
        f"{who} runs in a sandbox, and {found.reason}",
        code="robot.sandbox",
        hint=f"{found.hint}; or say `sandbox = false` in its label, if it is a program of your own",
    )


def _prefix(mark: str) -> str:
    return f"robot-{hashlib.sha256(mark.encode()).hexdigest()[:16]}-"


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of a program: whose it is, how long it may last, and how it hears that it must stop."""

    mark: str = ""  # names the work in any attempt, so that what is left of it can be found
    number: int = 0  # of the attempt
    timeout: float | None = None
    on_stop: Callable[[Callable[[], None]], None] = field(default=lambda _: None)
    trusted: Callable[[], float] = field(default=lambda: time.monotonic() + UNASKED_SECONDS)
    yard: Yard | None = None
    permit: Permit | None = None  # where it may go, if it asks


Said = tuple[int, bytes, bytes]
"""The exit code as subprocess says it, standard output, standard error."""


def run_confined(
    command: tuple[str, ...], folder: Path, asked: Confinement, item: Item, turn: Turn, yard: Yard, room: Room
) -> Said:
    """Run it, and know how it ended; when this returns or raises, nothing of it is alive."""
    boxes, roots = yard.open(), yard.roots
    seen = roots.seen(item.place)
    item = located(item, NO_ROOTS)
    if seen:
        item = replace(item, detail={**item.detail, FOLDER: ITEM})
    question = room.folder / "item.json"
    question.write_text(as_json(item))
    question.chmod(0o644)  # inside, it is read by somebody who is nobody here
    words, own = _inside(command, folder, asked)
    given = {name: os.environ[name] for name in asked.variables if name in os.environ}
    if asked.network and turn.permit is None:
        raise BadInput(
            "it asks for the network, which is granted to robots that run from a store", code="robot.network"
        )
    permit = turn.permit if asked.network else None
    running = boxes.start(
        Spec(
            name=room.name,
            work=room.made,
            argv=(*WITH_ITEM, *words),
            mounts=(Mount(ours(question), QUESTION), *([Mount(seen, ITEM)] if seen else []), *own),
            env={**given, **as_variables(item), "CUSTODY_OUTPUT": WORK},
            network=permit.egress(asked.network) if permit else None,
            timeout=turn.timeout,
            grace=0.0,
            lease=max(0.0, turn.trusted() - time.monotonic()),
            limits=Limits(memory=asked.memory * MIB, disk=asked.disk * MIB, processes=asked.processes),
        )
    )
    stop = threading.Event()
    turn.on_stop(stop.set)
    try:
        end = _watched(running, turn, stop)
        return _code(end), _printed(running, OUT), _printed(running, ERR)
    finally:
        running.stop(0)
        running.remove()


def _inside(command: tuple[str, ...], folder: Path, asked: Confinement) -> tuple[list[str], list[Mount]]:
    """The command as it is called inside, and the files beside the label that it needs there."""
    words, mounts = [], {need: beside(folder, need) for need in asked.needs}
    for word in command:
        path = folder / word
        own = "\0" not in word and not word.startswith("-") and path.is_file() and path.resolve().is_relative_to(folder)
        if own:
            name = str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name
            mounts[name] = path
        words.append(f"{PROGRAM}/{name}" if own else word)
    root = Root("the label's folder", folder, across=True)
    sources = {name: root.find(str(path.resolve().relative_to(folder))) for name, path in mounts.items()}
    return words, [Mount(source, f"{PROGRAM}/{name}") for name, source in sources.items()]


def beside(folder: Path, need: str) -> Path:
    """What a label needs, in its own folder or below, links followed."""
    path = folder if "\0" in need else (folder / need).resolve()
    if not path.exists() or not path.is_relative_to(folder) or path == folder:
        raise BadInput(f"it needs {need}, which is not beside its label", code="robot.needs", where=str(folder))
    return path


def _watched(running: Running, turn: Turn, stop: threading.Event) -> End:
    """Until it ends: pass on how long the item is known to be ours."""
    while (end := running.wait(BEAT_SECONDS)) is None:
        if stop.is_set():
            return running.stop(0)
        until = turn.trusted()
        running.confirm(until, turn.permit.leave(until) if turn.permit else None)
    return end


def _code(end: End) -> int:
    if end.reason == TIMEOUT:
        raise TimedOut
    if end.reason == NOT_STARTED and end.detail.startswith("bwrap:"):  # such as a folder that was replaced meanwhile
        raise Unavailable(f"its sandbox could not be made: {end.detail}", code="robot.setup")
    if end.reason == NOT_STARTED:
        raise BadInput(f"cannot start: {end.detail}", code="robot.start", hint="is it executable, and in /usr?")
    if end.reason in (LEASE, LOST, STOPPED):
        raise Interrupted
    if end.reason != EXITED or end.code is None:
        code, reason = REASONS.get(end.reason, ("robot.ended", "it was ended"))
        raise Unavailable(f"{reason}: {end.detail}" if end.detail else reason, code=code)
    return end.code if end.code <= 128 else 128 - end.code


def _printed(running: Running, stream: str) -> bytes:
    return b"".join(chunk.data for chunk in running.follow() if chunk.stream == stream)


def confinement(given: Mapping[str, Any] | bool, where: str) -> Confinement | None:
    """What a label says: a table, or `false` for a program of one's own, which runs as the worker does."""
    if isinstance(given, bool):
        return Confinement() if given else None
    asked: dict[str, Any] = {}
    for key, value in given.items():
        if key in ("variables", "needs"):
            fits = isinstance(value, list) and all(isinstance(word, str) for word in value)
            asked[key] = tuple(value) if fits else ()
        elif key == "network":
            fits = isinstance(value, bool | list)
            asked[key] = _places(value, where) if isinstance(value, list) else value
        elif key in ("memory", "disk", "processes"):
            fits = isinstance(value, int) and not isinstance(value, bool) and value > 0
            asked[key] = value
        else:
            known = ", ".join(Confinement.__slots__)
            raise BadInput(f"unknown key sandbox.{key}", code="robot.label", where=where, hint=f"known: {known}")
        if not fits:
            raise BadInput(f"sandbox.{key} = {value!r} is not what it must be", code="robot.label", where=where)
    return Confinement(**asked)


def _places(given: list[Any], where: str) -> tuple[str, ...]:
    try:
        return tuple(str(read_named(str(each))) for each in given)
    except CustodyError as error:
        raise BadInput(f"sandbox.network: {error.message}", code="robot.label", where=where, hint=error.hint) from error
