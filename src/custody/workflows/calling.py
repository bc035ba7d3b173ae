"""Calls the command line tools of version control systems.

With a clean environment (no configuration of whoever runs the worker, no prompts, one language), a time
limit, and errors in our own words.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from custody.model.errors import Unavailable

_PATH = "/usr/local/bin:/usr/bin:/bin"
BEAT_SECONDS = 0.2  # between questions whether it may go on
_PACKAGES = {"svn": "subversion", "svnlook": "subversion", "git": "git"}


class Failed(Exception):
    """The tool ran and said no."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code, self.said = code, said


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    return {"PATH": _PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **(more or {})}


Seconds = float | Callable[[], float]
"""How long something may take; or how much longer, asked again and again, since leases are renewed and work is
stopped."""


def call(
    argv: Sequence[str], *, seconds: Seconds = 60, given: bytes = b"", env: Mapping[str, str] | None = None
) -> bytes:
    """What the tool printed. `Failed` with what it said if it did not end well."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=_environment(env), cwd="/")
    except FileNotFoundError:
        raise _not_installed(argv[0]) from None
    with process:
        try:
            printed, said = _answer(process, given, seconds, time.monotonic())
        finally:
            process.kill()  # has no effect on one that has ended
    if process.returncode:
        raise Failed(process.returncode, said.decode(errors="replace").strip())
    return printed


def _answer(process: subprocess.Popen[bytes], given: bytes, seconds: Seconds, since: float) -> tuple[bytes, bytes]:
    told: bytes | None = given
    while True:
        try:
            return process.communicate(told, timeout=min(BEAT_SECONDS, seconds()) if callable(seconds) else seconds)
        except subprocess.TimeoutExpired as error:
            told = None  # it is told once
            if not callable(seconds) or seconds() <= 0:
                raise _silent(str(process.args[0]), round(time.monotonic() - since, 1)) from error  # type: ignore[index]


def call_for_head(
    argv: Sequence[str], most: int, *, seconds: float, given: bytes = b"", env: Mapping[str, str] | None = None
) -> tuple[bytes, int]:
    """The first bytes that a tool prints, and how many there are in all: what an archive keeps may be larger than our
    memory. `given` is short, a password."""
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, env=_environment(env), cwd="/"
            )
        except FileNotFoundError:
            raise _not_installed(argv[0]) from None
        limit = threading.Timer(seconds, process.kill)
        limit.start()
        try:
            head, total = _head_and_size(process, most, given)
        finally:
            limit.cancel()
            process.kill()  # has no effect on one that has ended
            code = process.wait()
        if code < 0:
            raise _silent(argv[0], seconds)
        if code:
            said.seek(0)
            raise Failed(code, said.read().decode(errors="replace").strip())
        return head, total


def _head_and_size(process: subprocess.Popen[bytes], most: int, given: bytes) -> tuple[bytes, int]:
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as printed:
        with suppress(BrokenPipeError), process.stdin as asked:  # it may have ended without asking
            asked.write(given)
        head = printed.read(most)
        total = len(head)
        while piece := printed.read(1 << 20):
            total += len(piece)
    process.wait()
    return head, total


def _not_installed(tool: str) -> Unavailable:
    hint = f"apt-get install {_PACKAGES.get(tool, tool)}"
    return Unavailable(f"{tool} is not installed", code="archive.tool", hint=hint)


def _silent(tool: str, seconds: float) -> Unavailable:
    return Unavailable(f"{tool} gave no answer within {seconds:g} seconds", code="archive.silent")
