"""Tells what the system says of a call from what a signal's handler raises within it.

`TimeoutError`, which an alarm raises, is an `OSError`, too: taken for the system's word it says that a store's file is
gone, which nobody takes back. An error of the call itself has no frame below the one that called; a handler's has.
"""

from __future__ import annotations

from types import TracebackType


def must_be_its_own(error: OSError) -> None:
    """Raise it again if a handler has raised it. For the function that made the call, which is one of `os`."""
    if not _is_its_own(error.__traceback__):
        raise error


class _Errors:
    """Leaves out what the system refuses, within a `with` that makes one call of `os`."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        return isinstance(error, OSError) and _is_its_own(at)


its_own_errors = _Errors()


def _is_its_own(at: TracebackType | None) -> bool:
    return at is None or at.tb_next is None
