"""The thread pool of a worker: it takes from what is ready, waits when nothing is, and queues what came of it.

It can be asked to let what is ready lie, so that one piece of work is done with nothing else beside it.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from custody.kernel.engine.pipe.values import Finished, Lost
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.work import Work

MOST_TOGETHER = 1000  # settled in one commit
MOST_UNSETTLED = 128
"""So many wait to be settled, at most, beside as many that are being settled: a process that is killed has said nothing
of them, and they run again."""


class Threads:
    def __init__(self, run: Callable[[Work], Finished | Lost]) -> None:
        self._run = run  # never raises
        self._pid = os.getpid()
        self._stopping = False
        self._paused = False  # only what is to be done alone is begun
        self._at_work: list[bool] = []
        self._alone: deque[Work] = deque()
        self.ready: deque[Work] = deque()
        self.change = threading.Condition()  # something was put, or left, or all is to end
        self.hungry = threading.Event()  # there may be room for more
        self._done: queue.SimpleQueue[Finished | Lost | None] = queue.SimpleQueue()
        self._under_way = 0  # of what is done, being settled
        self.closed = threading.Event()  # all that was done by then is settled

    def start(self, count: int) -> None:
        self._at_work = [False] * count
        for number in range(count):
            name = f"custody-thread-{number}"
            threading.Thread(target=self._loop, args=(number,), name=name, daemon=True).start()

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

    # What came of it

    def done(self) -> Iterator[list[Finished | Lost]]:
        """Yield all that ended while the last batch was settled, together. Ends after `close`, when nothing is under
        way: what was lost is not waited for, but is told as such when it ends, and what was left behind says nothing
        any more."""
        while True:
            if (first := self._done.get()) is None:
                self.closed.set()
                if self.rest():
                    return
                continue
            if self.closed.is_set() and not (isinstance(first, Lost) and first.why != "shutdown"):
                continue
            batch = [first]
            while not self.closed.is_set() and len(batch) < MOST_TOGETHER and (more := self._next_done()):
                batch.append(more)
            self._under_way = len(batch)
            yield batch
            self._under_way = 0

    @property
    def waiting(self) -> int:
        """How many are done and not yet settled."""
        return self._done.qsize() + self._under_way

    def close(self) -> None:
        """Have what is done settled, and nothing more expected; `closed` says when."""
        self._done.put(None)

    def tell_left(self) -> None:
        """Wake whoever waits for work to leave: there may be room for more."""
        with self.change:
            self.change.notify_all()
        self.hungry.set()

    def _next_done(self) -> Finished | Lost | None:
        try:
            end = self._done.get_nowait()
        except queue.Empty:
            return None
        if end is None:
            self._done.put(None)
        return end

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

    def _next_alone(self) -> Work | None:
        try:
            return self._alone.popleft()
        except IndexError:
            return None

    def _loop(self, number: int) -> None:
        while (work := self._begin(number) or self._wait_for_one(number)) is not None:
            end = self._run(work)
            stay(self._pid, "a thread's work")
            self._done.put(end)
            if self._done.qsize() >= MOST_UNSETTLED:
                self._let_settle()
        if self.closed.is_set():
            self._done.put(None)  # it may have been the last one

    def _let_settle(self) -> None:
        """Wait until the settler has caught up: what it is behind is what a kill would repeat."""
        with self.change:
            while self._done.qsize() >= MOST_UNSETTLED and not self._stopping:
                self.change.wait(0.05)

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
