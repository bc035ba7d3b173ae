"""A disk's refusals as ours: what is wrong, with which blob, and what to do. No command ends with a traceback for one.

Three sorts, because they are answered differently: a disk that is full is tried again; a file that is not a file is
damage; and what a disk does not give may be whole, so nobody writes anything in its place.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from custody.channels.blobs.port import Broken, Shut
from custody.errors import Unavailable

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_FILE = frozenset({errno.EISDIR, errno.ELOOP, errno.ENXIO})
Method = TypeVar("Method", bound=Callable[..., Any])


def refusal(error: OSError, where: str) -> Unavailable:
    said = error.strerror or type(error).__name__
    if error.errno in FULL:
        hint = "make room; nothing that was kept is lost, and the next run goes on"
        return Unavailable(f"the disk takes no more ({said})", code="blob.no-room", where=where, hint=hint)
    if error.errno in NO_FILE:
        return Broken(f"it is not a file any more ({said})", where=where)
    hint = "give it back, or move it away: what is missing can be mended"
    return Shut(f"the disk does not give it ({said})", where=where, hint=hint)


@contextmanager
def refusals(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise refusal(error, where) from error


def typed(method: Method) -> Method:
    """For methods whose first argument is a blob's name."""

    @wraps(method)
    def call(self: Any, name: str, *args: Any, **named: Any) -> Any:
        with refusals(name):
            return method(self, name, *args, **named)

    return call  # type: ignore[return-value]
