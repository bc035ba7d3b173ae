"""Whose turn it is to write: one leads, and takes along whoever waits.

There is no thread for it. Whoever comes alone leads at once. Whoever comes while another leads waits for that commit,
which costs a disk's turn anyway, and then is taken along by the next leader, or is told to lead. The turn is passed
on in any case, also by one who is interrupted, and everybody is answered.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from custody.model.errors import Refused, Unavailable
from custody.stores.reply import Reply

T = TypeVar("T")
R = TypeVar("R")

RETURN_SECONDS = 0.0005
"""So long at most is a crowd waited for; a commit takes as long."""


@dataclass(eq=False, slots=True)
class Wish(Generic[T, R]):
    """What one of them wants done."""

    thing: T
    reply: Reply[R | None] = field(default_factory=Reply)  # None: it is your turn to lead
    leads: bool = False
    waits: bool = False
    entered: int = 0  # by this thread


class Line(Generic[T, R]):
    """`lead` does what the leader wants and answers it; it may `take` others along, and then answers them too."""

    def __init__(self, lead: Callable[[Wish[T, R]], R]) -> None:
        self._lead = lead
        self._lock = threading.RLock()  # a signal's handler may come while its own thread has it
        self._busy = False
        self._inside: set[int] = set()  # threads: one that came again would wait for itself
        self._waiting: deque[Wish[T, R]] = deque()
        self._taken: list[Wish[T, R]] = []
        self._crowd = 0  # so many were taken along last time

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, thing: T) -> R:
        mine: Wish[T, R] = Wish(thing)
        trouble: BaseException | None = None
        try:
            self._enter(mine)
            answer = None if mine.leads else mine.reply.wait()
            return self._lead(mine) if mine.leads else answer  # type: ignore[return-value]
        except BaseException as error:
            trouble = error
            raise
        finally:
            if mine.leads or mine.waits:
                self._leave(mine, trouble)
            if mine.entered:
                self._inside.discard(mine.entered)

    def hold(self, thing: T, seconds: float) -> Wish[T, R] | None:
        """Take the turn, and keep it: nobody writes until it is let go. None if it does not come in that time."""
        mine: Wish[T, R] = Wish(thing)
        self._enter(mine)
        if not mine.leads:
            try:
                mine.reply.wait(seconds)
            except TimeoutError:
                self.let_go(mine)
                return None
        return mine

    def let_go(self, mine: Wish[T, R]) -> None:
        self._leave(mine, None)
        self._inside.discard(mine.entered)

    def let_the_crowd_return(self) -> None:
        """Those just served together are about to ask again: without them we would commit for one, then for all."""
        if not self._crowd:
            return
        until = time.monotonic() + RETURN_SECONDS
        while len(self._waiting) * 2 < self._crowd and time.monotonic() < until:
            time.sleep(0)  # lets other threads run

    def take(self, fits: Callable[[T], bool] = lambda _: True) -> Wish[T, R] | None:
        """The next in line, if there is one and it fits. For the leader alone."""
        if not self._waiting:
            return None
        with self._lock:
            if not self._waiting or not fits(self._waiting[0].thing):
                return None
            one = self._waiting.popleft()
            one.waits = False
            self._taken.append(one)
            return one

    def put_back(self, taken: Sequence[Wish[T, R]]) -> None:
        """To the front again: nothing was done for them."""
        with self._lock:
            self._taken = [one for one in self._taken if one not in taken]
            for one in reversed(taken):
                one.waits = True
                self._waiting.appendleft(one)

    def _enter(self, mine: Wish[T, R]) -> None:
        here = threading.get_ident()
        with self._lock:
            if here in self._inside:
                raise _is_inside()
            mine.entered = here
            self._inside.add(here)
            mine.leads, mine.waits = not self._busy, self._busy
            self._busy = True
            if mine.waits:
                self._waiting.append(mine)

    def _leave(self, mine: Wish[T, R], trouble: BaseException | None) -> None:
        with self._lock:
            if mine.waits:
                self._waiting.remove(mine)
            if not mine.leads:  # asked under the lock: whoever gave up waiting may just have been taken along
                return
            for one in self._taken:
                if not one.reply.given:
                    one.reply.fail(trouble if isinstance(trouble, Exception) else _interrupted())
            self._crowd, self._taken = len(self._taken), []
            self._pass_on()

    def _pass_on(self) -> None:
        self._busy = bool(self._waiting)
        if self._busy:
            following = self._waiting.popleft()
            following.waits, following.leads = False, True
            following.reply.give(None)


def _is_inside() -> Refused:
    return Refused(
        "this thread is in the middle of another verb of the store: it would wait for itself",
        code="store.inside",
        hint="in a signal's handler, only take note of it (worker.stop() does), and submit outside of it",
    )


def _interrupted() -> Unavailable:
    return Unavailable(
        "the program was interrupted while this was being written",
        code="store.interrupted",
        hint="see whether it is there; with a key it can be submitted again",
    )
