"""Processes that answer questions, kept while there are any: to start one takes longer than to ask it.

Each is used by one thread at a time. One that anything went wrong with is not asked again.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

IDLE_SECONDS = 60.0  # without a question, after which a process is ended


class Asked(Protocol):
    used: float  # when it was last asked

    @property
    def alive(self) -> bool: ...

    def greet(self) -> None: ...

    def close(self) -> None: ...


T = TypeVar("T", bound=Asked)


class Pool(Generic[T]):
    """The processes that nobody uses just now, by what they answer for."""

    all: "list[Pool[Asked]]" = []  # noqa: RUF012, UP037

    def __init__(self) -> None:
        self._begin()
        Pool.all.append(self)  # type: ignore[arg-type]

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Hashable, list[T]] = {}
        self._watching = False
        # bwrap ends with the thread that began it: this one lives as long as the process.
        self._nurse = ThreadPoolExecutor(1, "nurse")

    @contextmanager
    def one(self, key: Hashable, make: Callable[[], T]) -> Iterator[T]:
        known = self._taken(key)
        found = known or self._nurse.submit(make).result()  # begun there, and not talked with: others wait for it
        try:
            if known is None:
                found.greet()
            yield found
        except BaseException:
            found.close()  # nobody knows what it would answer next
            raise
        self._give_back(key, found)

    def _taken(self, key: Hashable) -> T | None:
        while True:
            with self._lock:
                found = self._idle[key].pop() if self._idle.get(key) else None
            if found is None or found.alive:
                return found
            found.close()

    def _give_back(self, key: Hashable, found: T) -> None:
        found.used = time.monotonic()
        with self._lock:
            self._idle.setdefault(key, []).append(found)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="idle", daemon=True).start()

    def _watch(self) -> None:
        while self._watching:
            time.sleep(IDLE_SECONDS / 4)
            since = time.monotonic() - IDLE_SECONDS
            with self._lock:
                old = [one for found in self._idle.values() for one in found if one.used < since]
                kept = {key: [one for one in found if one.used >= since] for key, found in self._idle.items()}
                self._idle = {key: found for key, found in kept.items() if found}
                self._watching = bool(self._idle)
            for one in old:
                one.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for one in (one for found in idle.values() for one in found):
            one.close()


def _forked() -> None:
    """The parent's processes are the parent's."""
    for pool in Pool.all:
        pool._begin()


def _end() -> None:
    for pool in Pool.all:
        pool.close()


os.register_at_fork(after_in_child=_forked)
atexit.register(_end)
