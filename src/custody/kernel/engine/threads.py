"""The hands of a worker: threads that take from what is ready, and wait when nothing is.

They can be asked to let what is ready lie, so that one piece of work is done with nothing else beside it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable

from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.work import Work


class Threads:
    def __init__(self, work: Callable[[Work], None]) -> None:
        self._work = work
        self._pid = os.getpid()
        self._stopping = False
        self._paused = False  # only what is to be done alone is begun
        self._at_work: list[bool] = []
        self._alone: deque[Work] = deque()
        self.ready: deque[Work] = deque()
        self.change = threading.Condition()  # something was put, or left, or all is to end
        self.hungry = threading.Event()  # there may be room for more

    def start(self, count: int) -> None:
        self._at_work = [False] * count
        for number in range(count):
            name = f"custody-hand-{number}"
            threading.Thread(target=self._hand, args=(number,), name=name, daemon=True).start()

    def put(self, works: Iterable[Work], first: bool = False) -> bool:
        """To be done after all that is ready, or before it. False when nothing more is begun."""
        with self.change:
            if self._stopping:
                return False
            if first:
                self.ready.extendleft(reversed([*works]))
            else:
                self.ready.extend(works)
            self.change.notify_all()
        return True

    def stop(self) -> list[Work]:
        """Nothing more is begun; what nobody has begun is given back."""
        self._stopping = True
        with self.change:
            self.resume()
            works = [*iter(self.next_one, None)]
            self.change.notify_all()
        return works

    def take_back(self, count: int) -> list[Work]:
        """Of those that are ready, so many that would be begun last; suspects have waited long enough already."""
        works: list[Work] = []
        try:
            while len(works) < count and not self.ready[-1].job.suspect:
                works.append(self.ready.pop())
        except IndexError:
            pass  # all the others were begun meanwhile
        return works

    def take_back_if(self, unwanted: Callable[[Work], bool]) -> list[Work]:
        """All of those that are ready which are not to be begun."""
        with self.change:
            taken = [*iter(self._next_ready, None)]
            left = [work for work in taken if not unwanted(work)]
            self.ready.extendleft(reversed(left))
            self.change.notify_all()
        kept = {id(work) for work in left}
        return [work for work in taken if id(work) not in kept]

    # One by itself

    def pause(self) -> None:
        """Begin nothing more; what is under way goes on."""
        self._paused = True

    def rest(self) -> bool:
        """Nothing is under way."""
        return not any(self._at_work)

    def put_alone(self, work: Work) -> None:
        """To be done now, and nothing beside it until `resume`."""
        with self.change:
            self._alone.append(work)
            self.change.notify_all()

    def resume(self) -> None:
        with self.change:
            self._paused = False
            self.ready.extendleft(iter(self._next_alone, None))
            self.change.notify_all()

    def wait(self, seconds: float) -> None:
        with self.change:
            self.change.wait(seconds)

    def next_one(self) -> Work | None:
        try:  # needs no lock: two never get the same
            return (self._alone if self._paused else self.ready).popleft()
        except IndexError:
            return None

    def _next_ready(self) -> Work | None:
        try:
            return self.ready.popleft()
        except IndexError:
            return None

    def _next_alone(self) -> Work | None:
        try:
            return self._alone.popleft()
        except IndexError:
            return None

    def _hand(self, number: int) -> None:
        while (work := self._begin(number) or self._wait_for_one(number)) is not None:
            self._work(work)
            stay(self._pid, "a hand's work")

    def _begin(self, number: int) -> Work | None:
        # Said before it looks: whoever pauses us and then asks whether we rest either is seen here or sees this.
        self._at_work[number] = True
        work = self.next_one()
        if work is None:
            self._at_work[number] = False
        return work

    def _wait_for_one(self, number: int) -> Work | None:
        """None when there will be no more."""
        self.hungry.set()
        with self.change:
            while (work := self._begin(number)) is None and not self._stopping:
                self.change.wait()
            return work
