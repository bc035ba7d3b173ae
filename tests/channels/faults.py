"""A blob store that fails at the k-th call: before or after it did what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from custody.channels.blobs.port import Blobs
from custody.errors import Unavailable

CHANGES = {"stage", "commit", "delete"}


class Crash(BaseException):
    """The process is gone. Not an Exception, so that no code under test can go on after it."""


class Faulty:
    """`how` is crash-before, crash-after, lost-answer (it was done) or refused (it was not)."""

    def __init__(self, blobs: Blobs, at: int, how: str, only: frozenset[str] | set[str] = frozenset()) -> None:
        self.blobs, self.at, self.how, self.only = blobs, at, how, only
        self.calls: list[str] = []
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.blobs, name)

        def call(*args: Any, **named: Any) -> Any:
            if self.only and name not in self.only:
                return method(*args, **named)
            number = len(self.calls)
            self.calls.append(name)
            if number != self.at:
                return method(*args, **named)
            self.failed = True
            if self.how == "crash-before":
                raise Crash
            if self.how == "refused":
                raise Unavailable("the network is down", where=args[0])
            answer = method(*args, **named)
            if name == "list":
                answer = list(answer)
            if self.how == "crash-after":
                raise Crash
            raise Unavailable(f"no answer, and it was {answer}", where=args[0])

        return call


class Interrupted:
    """A store in which something else happens just before the k-th call."""

    def __init__(self, blobs: Blobs, at: int, action: Callable[[], None]) -> None:
        self.blobs, self.at, self.action = blobs, at, action
        self.calls = 0
        self.done = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.blobs, name)

        def call(*args: Any, **named: Any) -> Any:
            if self.calls == self.at:
                self.done = True
                self.action()
            self.calls += 1
            return method(*args, **named)

        return call
