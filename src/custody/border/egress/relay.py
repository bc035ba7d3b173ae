"""Passing bytes between two connections, both ways at once, neither waiting for the other."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

_ROOM = 256 << 10


class Silent(Exception):
    """Nothing has passed for too long."""


class Pipe:
    """One way. `count` hears of every byte before it is passed on, and may refuse; `most` is where it ends."""

    def __init__(
        self,
        source: socket.socket,
        target: socket.socket,
        count: Callable[[int], None],
        first: bytes = b"",
        most: int | None = None,
    ) -> None:
        self.source, self.target = source, target
        self._count, self._left = count, most
        self._waiting = bytearray()
        self.ended = False  # nothing more will come
        self.over = False  # and all has been passed on
        self._take(first)

    @property
    def wants_more(self) -> bool:
        return not self.ended and len(self._waiting) < _ROOM

    @property
    def has_some(self) -> bool:
        return bool(self._waiting)

    def read(self) -> None:
        with suppress(BlockingIOError):
            data = self.source.recv(_ROOM if self._left is None else min(_ROOM, self._left))
            self.ended = not data
            self._take(data)

    def write(self) -> None:
        with suppress(BlockingIOError):
            while self._waiting:
                with memoryview(self._waiting) as view:
                    sent = self.target.send(view[:_ROOM])
                del self._waiting[:sent]
        if self.ended and not self._waiting and not self.over:
            self.over = True
            if self._left is None:
                with suppress(OSError):  # it has closed both ways already
                    self.target.shutdown(socket.SHUT_WR)

    def _take(self, data: bytes) -> None:
        if data:
            self._count(len(data))
            self._waiting += data
        if self._left is not None:
            self._left -= len(data)
            self.ended = self.ended or self._left <= 0


def pump(pipes: Sequence[Pipe], silence: float, enter: Callable[[], None], until: Callable[[], bool]) -> None:
    """Pass on until then; each time only when `enter` returns, which may wait. `Silent` if nothing comes for so many
    seconds."""
    enter()
    for pipe in pipes:
        pipe.source.setblocking(False)
        pipe.target.setblocking(False)
        pipe.write()
    last = time.monotonic()
    while not until():
        wanted: dict[int, int] = {}
        for pipe in pipes:
            if pipe.wants_more:
                wanted[pipe.source.fileno()] = wanted.get(pipe.source.fileno(), 0) | select.POLLIN
            if pipe.has_some:
                wanted[pipe.target.fileno()] = wanted.get(pipe.target.fileno(), 0) | select.POLLOUT
        if not _ready(wanted, silence - (time.monotonic() - last)):
            raise Silent
        enter()
        last = time.monotonic()
        for pipe in pipes:
            if pipe.wants_more:
                pipe.read()
            pipe.write()


def _ready(wanted: dict[int, int], seconds: float) -> bool:
    if not wanted:
        return False
    poll = select.poll()
    for descriptor, events in wanted.items():
        poll.register(descriptor, events)
    return bool(poll.poll(max(0.0, seconds) * 1000))
