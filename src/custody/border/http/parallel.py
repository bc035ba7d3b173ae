"""Work spread over threads, with a limit for each host.

A thread takes the next piece of work whose host has room, in the order they were given, hosts in turn; so
one slow host holds up neither the others nor more threads than it may have.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from custody.border.http.deadlines import SLICE

Item = TypeVar("Item")
Result = TypeVar("Result")
Stop = Callable[[], bool]


def spread(
    items: Sequence[Item],
    host_of: Callable[[Item], Hashable],
    work: Callable[[Item, Stop], Result],
    *,
    parallel: int,
    per_host: int,
) -> list[Result]:
    """Do the work for every item; the results are in the items' order.

    An exception ends everything: the others are told to stop, waited for, and it is raised here.
    """
    line = _Line([host_of(item) for item in items], per_host)
    results: dict[int, Result] = {}
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            while (place := line.take()) is not None:
                results[place] = work(items[place], line.stopped.is_set)
                line.done(place)
        except BaseException as error:
            failures.append(error)
            line.stop()

    threads = [
        threading.Thread(target=serve, name=f"fetch-{number}", daemon=True)
        for number in range(min(parallel, len(items)))
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        line.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    if failures:
        raise failures[0]
    return [results[place] for place in range(len(items))]


class _Line:
    """Who is next. Places of items, one queue for each host."""

    def __init__(self, hosts: Sequence[Hashable], per_host: int) -> None:
        self.stopped = threading.Event()
        self._hosts = hosts
        self._per_host = per_host
        self._waiting: dict[Hashable, deque[int]] = {}
        for place, host in enumerate(hosts):
            self._waiting.setdefault(host, deque()).append(place)
        self._open = deque(self._waiting)  # hosts with work and room for it
        self._busy: Counter[Hashable] = Counter()
        self._changed = threading.Condition()

    def take(self) -> int | None:
        """The place of the next item; waits while every host with work is busy; None at the end."""
        with self._changed:
            while not self._open:
                if self.stopped.is_set() or not self._waiting:
                    return None
                self._changed.wait(SLICE)
            if self.stopped.is_set():
                return None
            host = self._open.popleft()
            place = self._waiting[host].popleft()
            self._busy[host] += 1
            if not self._waiting[host]:
                del self._waiting[host]
            elif self._busy[host] < self._per_host:
                self._open.append(host)
            return place

    def done(self, place: int) -> None:
        host = self._hosts[place]
        with self._changed:
            self._busy[host] -= 1
            if host in self._waiting and self._busy[host] == self._per_host - 1:
                self._open.append(host)  # it was full, and so in no queue, until now
                self._changed.notify()

    def stop(self) -> None:
        self.stopped.set()
        with self._changed:
            self._changed.notify_all()
