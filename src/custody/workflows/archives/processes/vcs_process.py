"""Calls the command line tools of version control systems.

With a clean environment (no configuration of whoever runs the worker, no prompts, one language), a time
limit, and errors in our own words.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from custody.border import modes
from custody.errors import Unavailable

_PATH = "/usr/local/bin:/usr/bin:/bin"
DYING = 10.0  # seconds for all that a process has begun to be gone after it was killed
BEAT_SECONDS = 0.2  # between questions whether it may go on
SILENT, STOPPED = "archive.silent", "archive.stopped"
_PACKAGES = {"svn": "subversion", "svnlook": "subversion", "git": "git"}


class ToolFailed(Exception):
    """The tool ran and said no."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code, self.said = code, said


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    return {"PATH": _PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **(more or {})}


Seconds = float | Callable[[], float]
"""How long something may take; or how much longer, asked again and again, since leases are renewed and work is
stopped."""


_given_up: ContextVar[Callable[[], bool]] = ContextVar("given_up", default=lambda: False)


@contextmanager
def unless(given_up: Callable[[], bool]) -> Iterator[None]:
    """Whatever is asked of a repository meanwhile, by this thread, is asked only as long as somebody wants to know."""
    token = _given_up.set(given_up)
    try:
        yield
    finally:
        _given_up.reset(token)


def given_up() -> bool:
    return _given_up.get()()


def time_left(seconds: Seconds) -> Callable[[], float]:
    """How much longer an answer is waited for; nothing at all once nobody wants it."""
    until = time.monotonic() + (0 if callable(seconds) else seconds)
    left = seconds if callable(seconds) else lambda: until - time.monotonic()
    return lambda: 0 if given_up() else left()


def call(
    argv: Sequence[str], *, seconds: Seconds = 60, given: bytes = b"", env: Mapping[str, str] | None = None
) -> bytes:
    """What the tool printed. `ToolFailed` with what it said if it did not end well."""
    pipe, left = subprocess.PIPE, time_left(seconds)
    with _line_of_life() as (mark, wait_for_all):
        try:
            process = subprocess.Popen(
                argv,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=_environment(env),
                cwd="/",
                pass_fds=(mark,),
                umask=modes.given(),
            )
        except FileNotFoundError:
            raise _not_installed(argv[0]) from None
        with process:
            try:
                printed, said = _answer(process, given, left)
            except BaseException:
                process.kill()
                process.wait()
                wait_for_all()
                raise
            finally:
                process.kill()  # has no effect on one that has ended
    if process.returncode:
        raise ToolFailed(process.returncode, said.decode(errors="replace").strip())
    return printed


@contextmanager
def _line_of_life() -> Iterator[tuple[int, Callable[[], None]]]:
    """A descriptor for a process, which all that it begins has too; and how to wait until none of them is left."""
    ours, theirs = os.pipe()
    closed = False

    def wait_for_all() -> None:
        nonlocal closed
        os.close(theirs)
        closed = True
        select.select([ours], [], [], DYING)

    try:
        yield theirs, wait_for_all
    finally:
        os.close(ours)
        if not closed:
            os.close(theirs)


def _answer(process: subprocess.Popen[bytes], given: bytes, left: Callable[[], float]) -> tuple[bytes, bytes]:
    told: bytes | None = given
    since = time.monotonic()
    while True:
        try:
            return process.communicate(told, timeout=max(0, min(BEAT_SECONDS, left())))
        except subprocess.TimeoutExpired as error:
            told = None  # it is told once
            if left() <= 0:
                raise _silent(str(process.args[0]), round(time.monotonic() - since, 1)) from error  # type: ignore[index]


def call_for_head(
    argv: Sequence[str], most: int, *, seconds: Seconds, given: bytes = b"", env: Mapping[str, str] | None = None
) -> tuple[bytes, int]:
    """The first bytes that a tool prints, and how many there are in all: what an archive keeps may be larger than our
    memory. `given` is short, a password."""
    left, pipe = time_left(seconds), subprocess.PIPE
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=said, env=_environment(env), cwd="/", umask=modes.given()
            )
        except FileNotFoundError:
            raise _not_installed(argv[0]) from None
        with process:
            try:
                head, total = _head_and_size(process, most, given, left)
            finally:
                process.kill()  # has no effect on one that has ended
        if process.returncode:
            said.seek(0)
            raise ToolFailed(process.returncode, said.read().decode(errors="replace").strip())
        return head, total


def _head_and_size(
    process: subprocess.Popen[bytes], most: int, given: bytes, left: Callable[[], float]
) -> tuple[bytes, int]:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError), process.stdin as asked:  # it may have ended without asking
        asked.write(given)
    head, total, since = bytearray(), 0, time.monotonic()
    while True:
        if not select.select([process.stdout], [], [], max(0, min(BEAT_SECONDS, left())))[0]:
            if left() <= 0:
                raise _silent(str(process.args[0]), round(time.monotonic() - since, 1))  # type: ignore[index]
            continue
        piece = os.read(process.stdout.fileno(), 1 << 20)
        if not piece:
            break
        head += piece[: max(0, most - len(head))]
        total += len(piece)
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0, left()))
    return bytes(head), total


def _not_installed(tool: str) -> Unavailable:
    hint = f"apt-get install {_PACKAGES.get(tool, tool)}"
    return Unavailable(f"{tool} is not installed", code="archive.tool", hint=hint)


def _silent(tool: str, seconds: float) -> Unavailable:
    if given_up():
        return Unavailable(f"{tool} is not waited for", code=STOPPED)
    return Unavailable(f"{tool} gave no answer within {seconds:g} seconds", code=SILENT)
