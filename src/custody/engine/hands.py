"""The hands of a worker: threads that take from what is ready, and wait when nothing is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from custody.engine.work import Work


class Hands:
    def __init__(self, work: Callable[[Work], None]) -> None:
        self._work = work
        self._stopping = False
        self.ready: deque[Work] = deque()
        self.change = threading.Condition()  # something was put, or left, or all is to end
        self.hungry = threading.Event()  # there may be room for more

    def start(self, count: int) -> None:
        for number in range(count):
            threading.Thread(target=self._hand, name=f"custody-hand-{number}", daemon=True).start()

    def put(self, works: Iterable[Work], first: bool = False) -> None:
        """To be done after all that is ready, or before it."""
        with self.change:
            if first:
                self.ready.extendleft(reversed([*works]))
            else:
                self.ready.extend(works)
            self.change.notify_all()

    def stop(self) -> list[Work]:
        """Nothing more is begun; what nobody has begun is given back."""
        self._stopping = True
        with self.change:
            works = list(iter(self.next_one, None))
            self.change.notify_all()
        return works

    def wait(self, seconds: float) -> None:
        with self.change:
            self.change.wait(seconds)

    def next_one(self) -> Work | None:
        try:
            return self.ready.popleft()  # needs no lock: two never get the same
        except IndexError:
            return None

    def _hand(self) -> None:
        while (work := self.next_one() or self._wait_for_one()) is not None:
            self._work(work)

    def _wait_for_one(self) -> Work | None:
        """None when there will be no more."""
        self.hungry.set()
        with self.change:
            while (work := self.next_one()) is None and not self._stopping:
                self.change.wait()
            return work
