"""Any program as a robot: the item comes in as JSON on standard input, what it found goes out as lines of JSON.

    {"finding": "R104", "reason": "page 3 is torn", "file": "3.tif"}    something is wrong: the event is a failure
    {"warning": "R105", "reason": "page 4 is faint"}                    someone should look; the line moves on
    {"note": {"pages": 12}}                                             facts for the history
    {"postpone": 3600, "why": "the scanner is away"}                    not now; nothing is recorded
    {"changed": {"fingerprint": "sha256:…", "pages": 12}}               the work changed the item's content

Other lines are kept as its output. Exit code 0: done, as the lines say. 1: the item failed, for the findings or, if
there are none, for what it said on standard error. 75: not now, tried again with growing pauses. Anything else, or a
signal: a surprise, tried again and then left to a person.

It runs in a sandbox (sandboxed.py), unless its label says `sandbox = false`: then it runs as a process group in the
worker's environment, for code of one's own, and every process of it carries a mark, so that whoever takes over after a
worker's death can find what is left on this machine, end it, and know that it has. What it leaves in CUSTODY_OUTPUT is
kept where its label says (`keep`), when it went well.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from custody.border import processes
from custody.border.copy_out import Allowance
from custody.errors import BadInput, Unavailable
from custody.formats.text.readers import read_json
from custody.kernel.model.item import Item
from custody.kernel.model.job import Job
from custody.kernel.model.names.reserved import check_detail, check_note
from custody.robots.programs.input import as_json, as_variables
from custody.robots.programs.outputs import folder_name, keep
from custody.robots.programs.sandboxed import Confinement, Said, TimedOut, Turn, Yard, run_confined
from custody.robots.robot import RESERVED_CODE, Report

MARK = "CUSTODY_RUN"
NOT_NOW, SAYS_NO = 75, 1
MOST_SAID = 4 << 20
MOST_COMPLAINED = 4_000
MOST_OUTPUT = 2_000
DEATH_WITHIN = 10.0
TICK = 0.5
MOST_NAMED = 100
MOST_KEPT = 65_536
"""MiB, of a program that no sandbox limits."""
ONCE = Turn()


@dataclass(frozen=True, slots=True)
class Program:
    """A command, the folder of its label, and whether it is let out of the sandbox."""

    command: tuple[str, ...]
    folder: Path = field(default_factory=Path.cwd)
    confined: Confinement | None = None
    keep: Path | None = None

    def __call__(self, item: Item, report: Report) -> None:
        """Run it now: for tests, and for trying it out."""
        self.run(item, report)

    def run(self, item: Item, report: Report, turn: Turn = ONCE) -> None:
        """Run it on an item; when this returns or raises, nothing of it is alive."""
        if self.confined is None:
            with _folder(self.keep) as made:
                self._conclude(self._in_the_open(item, turn, made), item, report, Path(made))
            return
        with _yard_of(turn) as yard, yard.room(turn.mark, turn.number) as room:
            said = run_confined(self.command, self.folder, self.confined, item, turn=turn, yard=yard, room=room)
            self._conclude(said, item, report, room.made)

    def end(self, mark: str, yard: Yard | None) -> None:
        """Make sure that nothing of an earlier run is left on this machine."""
        if self.confined is None:
            end_all(mark)
        elif yard is not None:
            yard.end(mark)

    def _conclude(self, said: Said, item: Item, report: Report, made: Path) -> None:
        _judge(*said, report, item)
        well = not report.findings and not report.postponed
        if not self.keep or not well:
            return
        most = self.confined.disk if self.confined else MOST_KEPT
        names, other = keep(made, self.keep, item.id, Allowance(most))
        report.ours |= {"kept": str(self.keep / folder_name(item.id))} if names else {}
        report.ours |= {"made": names[:MOST_NAMED]}  # be it nothing: then what was kept before is still there
        report.ours |= {"left_out": dict(list(other.items())[:MOST_NAMED])} if other else {}

    def _in_the_open(self, item: Item, turn: Turn, made: str) -> Said:
        variables = (
            as_variables(item) | ({"CUSTODY_OUTPUT": made} if made else {}) | ({MARK: turn.mark} if turn.mark else {})
        )
        with tempfile.TemporaryFile() as question:
            question.write(as_json(item).encode())
            question.seek(0)
            process = self._start(question, variables)
        turn.on_stop(lambda: _kill_group(process))
        try:
            said, complained = _listen(process, turn.timeout)
        finally:
            _kill_group(process)
            process.wait()
            if turn.mark:
                end_all(turn.mark)
        return process.returncode, said, complained

    def _start(self, question: IO[bytes], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.command,
                stdin=question,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.folder,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        except OSError as error:
            raise BadInput(
                f"cannot start {self.command[0]}: {error.strerror}", code="robot.start", hint="is it executable?"
            ) from error


@contextlib.contextmanager
def _folder(kept: Path | None) -> Iterator[str]:
    """Where it may put what it makes, if anybody wants it."""
    if kept is None:
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="custody-robot-") as made:
        yield made


@contextlib.contextmanager
def _yard_of(turn: Turn) -> Iterator[Yard]:
    """The worker's, or one that is there for a single call."""
    if turn.yard is not None:
        yield turn.yard
        return
    with tempfile.TemporaryDirectory(prefix="custody-robot-") as folder:
        with contextlib.closing(Yard(Path(folder))) as yard:
            yield yard


def mark_of(job: Job) -> str:
    """Names the work of one job, in any attempt: the time it was made keeps stores apart."""
    return f"{job.kind} {job.id} {job.created}"


def end_all(mark: str) -> None:
    """Make sure that nothing with this mark lives on this machine."""
    wanted = f"{MARK}={mark}".encode()
    clean = 0
    while clean < 2:  # one that dies while we look may have had a child that we missed
        left = [found for found in processes.all_processes() if wanted in processes.environment(found.pid).split(b"\0")]
        clean = 0 if left else clean + 1
        if not all([processes.kill(process, DEATH_WITHIN) for process in left]):
            raise Unavailable(f"what was left of {mark} does not die", code="robot.undead", hint="a disk may hang")


def _listen(process: subprocess.Popen[bytes], timeout: float | None) -> tuple[bytes, bytes]:
    """What it says until it ends. Those it leaves behind may hold the pipes open: its own end is what counts."""
    until = None if timeout is None else time.monotonic() + timeout
    said: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
    ended = os.pidfd_open(process.pid)
    with selectors.DefaultSelector() as watch, contextlib.closing(os.fdopen(ended)):
        for name, pipe in (("out", process.stdout), ("err", process.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            watch.register(pipe, selectors.EVENT_READ, name)
        watch.register(ended, selectors.EVENT_READ, "end")
        over = False
        while not over:
            if until is not None and time.monotonic() >= until:
                raise TimedOut
            left = TICK if until is None else min(TICK, max(0.0, until - time.monotonic()))
            names = {key.data for key, _ in watch.select(left)}
            over = "end" in names
            for name, pipe in (("out", process.stdout), ("err", process.stderr)):
                if (over or name in names) and pipe is not None and not _take(pipe, said[name], over):
                    with contextlib.suppress(KeyError):
                        watch.unregister(pipe)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return bytes(said["out"]), bytes(said["err"])


def _take(pipe: IO[bytes], said: bytearray, all_of_it: bool) -> bool:
    """Read what is there; False at its end. More than anyone would read is let go."""
    while True:
        try:
            piece = os.read(pipe.fileno(), 65536)
        except BlockingIOError:
            return True
        if not piece:
            return False
        said += piece[: max(0, MOST_SAID - len(said))]
        if not all_of_it:
            return True


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _judge(code: int, said: bytes, complained: bytes, report: Report, item: Item) -> None:
    words = complained[-MOST_COMPLAINED:].decode(errors="replace").strip()
    if code == NOT_NOW:
        raise Unavailable(words or "it said: not now", code="robot.not-now")
    if code not in (0, SAYS_NO):
        ended = f"it was ended by {_signal(-code)}" if code < 0 else f"exit code {code}"
        raise Unavailable(f"{ended}: {words}" if words else ended, code=f"exit.{code}")
    for line in _lines(said):
        _hear(line, report, item)
    if code == SAYS_NO and not report.findings:
        report.add("exit.1", words or "it said no, and nothing else")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _lines(said: bytes) -> Iterator[str]:
    return (line for line in said.decode(errors="replace").splitlines() if line.strip())


def _hear(line: str, report: Report, item: Item) -> None:
    if not line.lstrip().startswith("{"):
        report.ours["output"] = f"{report.ours.get('output', '')}{line}\n"[:MOST_OUTPUT]
        return
    try:
        told = read_json(line, "its answer")
        (word,) = (name for name in _WORDS if name in told)
        if unknown := told.keys() - _FIELDS.get(word, told.keys()):
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        _WORDS[word](told, report, item)
    except (BadInput, ValueError, StopIteration, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, BadInput) and error.code.startswith("robot."):
            raise
        raise BadInput(
            f"its answer cannot be read: {line[:200]}",
            code="robot.answer",
            hint=f"one of {', '.join(_WORDS)} in each line, and nothing that is unknown: docs/reference/robots.md",
        ) from error


def _rest(told: dict[str, Any], *words: str) -> dict[str, Any]:
    return {str(name): value for name, value in told.items() if name not in words}


def _more(told: dict[str, Any], word: str) -> dict[str, Any]:
    """What is kept beside a finding; its code is the word's own value, and no second one."""
    if "code" in told:
        raise ValueError
    return _rest(told, word, "reason")


def _words(value: object) -> str:
    """Text, or a number as text: a list or a map is no code and no reason."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return str(value)


def _code(value: object) -> str:
    if not (code := _words(value).strip()):
        raise ValueError
    return code


def _finding(told: dict[str, Any], report: Report, _: Item) -> None:
    report.add(_code(told["finding"]), _words(told.get("reason", "")), **_more(told, "finding"))


def _warning(told: dict[str, Any], report: Report, _: Item) -> None:
    report.warn(_code(told["warning"]), _words(told.get("reason", "")), **_more(told, "warning"))


def _note(told: dict[str, Any], report: Report, item: Item) -> None:
    check_note(told["note"], item.id, RESERVED_CODE)
    report.note(**told["note"])


def _postpone(told: dict[str, Any], report: Report, _: Item) -> None:
    if isinstance(told["postpone"], bool) or not isinstance(told["postpone"], int | float):
        raise TypeError
    report.postpone(told["postpone"], _words(told.get("why", "")))


def _changed(told: dict[str, Any], report: Report, item: Item) -> None:
    detail = _rest(told["changed"], "fingerprint")
    check_detail(detail, item.id, RESERVED_CODE)  # before it is spread: `self` would be no word for Python either
    report.changed(item, _code(told["changed"]["fingerprint"]), **detail)


_WORDS: Mapping[str, Callable[[dict[str, Any], Report, Item], None]] = {
    "finding": _finding,
    "warning": _warning,
    "note": _note,
    "postpone": _postpone,
    "changed": _changed,
}

_FIELDS = {"note": {"note"}, "postpone": {"postpone", "why"}, "changed": {"changed"}}
"""All that may stand in such a line; what else there is of a finding or a warning is kept beside it."""


def program(
    command: Sequence[str], folder: Path, confined: Confinement | None = None, keep: Path | None = None
) -> Program:
    """A command as one writes it in a label: a path with a slash is relative to the label's own folder."""
    first, *rest = command
    return Program((str(folder / first) if "/" in first else first, *rest), folder, confined, keep)
