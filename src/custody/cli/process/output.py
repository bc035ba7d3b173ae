"""Standard output of a command: where it cannot be written to, that is found out, told, and is no success.

A reader may have left (`| head -1`), a disk be full, or the program be started without any (`>&-`). Of a closed pipe
nothing is said, as is usual, and the exit code is that of SIGPIPE; of anything else there is a sentence on standard
error. What a command has *done* is told there in either case: whoever does not know it would do it again.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress

TYPE_CHECKING = False  # `typing` alone takes longer than help
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

COULD_NOT, PIPE_CLOSED = 2, 128 + 13
READING = frozenset(
    {
        "list",
        "show",
        "why",
        "info",
        "check",
        "report",
        "link",
        "graph",
        "plan",
        "lint",
        "grants",
        "search",
        "log",
        "runs",
        "failures",
        "late",
        "orphans",
        "dry-run",
        "matrix",
        "gaps",
        "tiers",
        "fsck",
        "verify",
        "export",
        "deleted",
        "head",
        "prove",
        "verifier",
        "premis",
        "blocks",
        "slots",
        "--help",
        "-h",
    }
)
"""Verbs that change nothing: what they say can be asked for again."""
ASKING = frozenset({"doctor", "top", "completion"})
"""Nouns without verbs of which the same holds."""
LONGEST = 2000
"""Characters of what is told on standard error instead."""
HINT = "what it acknowledged is done: look before you repeat it"


class Unsaid(Exception):
    """Standard output could not be written to. No OSError: the reader of options would end the process by itself."""

    def __init__(self, error: OSError, text: bytes) -> None:
        super().__init__(error.strerror)
        self.errno, self.text = error.errno, text


class _Descriptor(io.FileIO):
    """Standard output itself."""

    def write(self, text: Any, /) -> int:
        try:
            return super().write(text) or 0
        except OSError as error:
            raise Unsaid(error, bytes(text)) from None


class _Unheard(io.FileIO):
    """Standard error: where nobody hears it, there is nobody to tell that to, and the work goes on."""

    def write(self, text: Any, /) -> int:
        with suppress(OSError):
            return super().write(text) or 0
        return len(text)


def open_streams() -> None:
    """Have all three, so that no file that is opened later takes the place of one; and know it when output fails."""
    if sys.stdin is None:
        _fill(0, os.O_RDONLY)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        _fill(2, os.O_WRONLY)
    if sys.stderr is sys.__stderr__:
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(_Unheard(2, "w", closefd=False)), errors="backslashreplace", line_buffering=True
        )
    if sys.stdout is None:
        _fill(1, os.O_RDONLY)  # to write there fails
    elif sys.stdout is not sys.__stdout__ or not isinstance(sys.stdout, io.TextIOWrapper):
        return  # somebody else's, who calls us as a function
    before = sys.stdout
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(1, "w", closefd=False)),
        encoding=before.encoding if before else "utf-8",
        errors="backslashreplace",
        line_buffering=bool(before and before.line_buffering),
        write_through=bool(before and before.write_through),
    )


def _fill(descriptor: int, flags: int) -> None:
    with suppress(OSError):
        os.fstat(descriptor)
        return
    opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)


def end(code: object, arguments: Sequence[str]) -> int:
    """Write what is left; the exit code, which is no success where something was not told."""
    number = code if isinstance(code, int) else 0 if code is None else 1
    try:
        sys.stdout.flush()
    except Unsaid as lost:
        return could_not_tell(lost, arguments, failed=bool(number))
    return number


def could_not_tell(lost: Unsaid, arguments: Sequence[str], failed: bool = False) -> int:
    """Say on standard error what was not told, where it cannot be asked for again."""
    say_no_more()
    is_quiet = lost.errno == errno.EPIPE
    said = lost.text.decode(errors="replace").strip()[:LONGEST]
    told = f"custody: standard output could not be written to ({lost})"
    if failed and said:
        print(f"{told}; it was to say: {said}", file=sys.stderr)
    elif said and _changes_something(arguments):
        shown = "a token, which is shown once: revoke it" if arguments[0] == "token" else said
        print(f"{told}; it was to say: {shown}\n  {HINT}", file=sys.stderr)
    elif not is_quiet:
        print(told, file=sys.stderr)
    return PIPE_CLOSED if is_quiet else COULD_NOT


def _changes_something(arguments: Sequence[str]) -> bool:
    if len(arguments) < 2 or "--help" in arguments:
        return False
    return arguments[0] not in ASKING and arguments[1] not in READING


def say_no_more() -> None:
    """What is still to be written would fail once more, at the very end."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
