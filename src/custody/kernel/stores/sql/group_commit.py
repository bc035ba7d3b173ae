"""Whose turn it is to write: one leads, and takes along whoever waits.

There is no thread for it. Whoever comes alone leads at once. Whoever comes while another leads waits for that commit,
which costs a disk's turn anyway, and then is taken along by the next leader, or is told to lead.

What a signal's handler raises (Ctrl-C, an alarm) appears anywhere in the main thread, also in the middle of passing the
turn on or of answering. So nothing here rests on that being done. Each wish has a lock of its own that is held as long
as its thread is here, by a `with` that no signal can come between: a leader that is not here any more leads no more,
and whoever comes next, or has waited a moment, takes the turn; whom it took along and did not answer is told so.

And the main thread leads for itself alone: what a handler raises there looks like any other error, and would be handed
to the others as the end of their own work. Whoever else leads takes it along.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from custody.errors import Refused, Unavailable
from custody.kernel.stores.sql.future import Reply

T = TypeVar("T")
R = TypeVar("R")

RETURN_SECONDS = 0.0005
"""So long at most is a crowd waited for; a commit takes as long."""
LOOK_SECONDS = 0.05
"""After which whoever waits looks whether the leader is still there."""


def in_main_thread() -> bool:
    """Is it here that Python runs the handlers of signals?"""
    return threading.get_ident() == threading.main_thread().ident


class Held(Protocol):
    """A lock, or what is as good as one."""

    def locked(self) -> bool: ...


@dataclass(eq=False, slots=True)
class Request(Generic[T, R]):
    """What one of them wants done."""

    thing: T
    reply: Reply[R | None] = field(default_factory=Reply)  # None: it is your turn to lead
    here: Held = field(default_factory=threading.Lock)  # as long as its thread is in line
    by: Request[T, R] | None = None  # the leader who has taken it along
    leads_alone: bool = field(default_factory=in_main_thread)
    was_passed_over: bool = False


class GroupCommit(Generic[T, R]):
    """`lead` does what the leader wants and answers it; it may `take` others along, and then answers them too."""

    def __init__(self, lead: Callable[[Request[T, R]], R]) -> None:
        self._lead = lead
        self._lock = threading.RLock()  # a signal's handler may come while its own thread has it
        self._leader: Request[T, R] | None = None
        self._inside: dict[int, Request[T, R]] = {}  # by thread: one that came again would wait for itself
        self._waiting: deque[Request[T, R]] = deque()
        self._taken: list[Request[T, R]] = []
        self._crowd = 0  # so many were taken along last time

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, thing: T) -> R:
        mine: Request[T, R] = Request(thing)
        trouble: BaseException | None = None
        with mine.here:  # type: ignore[attr-defined]  # however we go
            try:
                self._enter(mine)
                if self._leader is not mine and not self._comes_to_lead(mine, None):
                    return mine.reply.taken()  # type: ignore[return-value]
                return self._lead(mine)
            except BaseException as error:
                trouble = error
                raise
            finally:
                self._leave(mine, trouble)

    def hold(self, mine: Request[T, R], seconds: float) -> bool:
        """Take the turn, and keep it: nobody writes until it is let go, or `here` is held no longer. False if it does
        not come in that time."""
        try:
            self._enter(mine)
            if self._leader is not mine:
                self._comes_to_lead(mine, time.monotonic() + seconds)
        except _TooLate:
            self.let_go(mine)
            return False
        return True

    def let_go(self, mine: Request[T, R]) -> None:
        self._leave(mine, None)
        with self._lock:
            self._inside = {thread: one for thread, one in self._inside.items() if one is not mine}

    def is_held_by(self, mine: Request[T, R] | None) -> bool:
        """Is it nobody's turn, or that of the one who holds it?"""
        return self._leader is None or self._leader is mine

    def let_the_crowd_return(self) -> None:
        """Those just served together are about to ask again: without them we would commit for one, then for all."""
        if not self._crowd or self._leads_alone():
            return
        until = time.monotonic() + RETURN_SECONDS
        while len(self._waiting) * 2 < self._crowd and time.monotonic() < until:
            time.sleep(0)  # lets other threads run

    def take(self, fits: Callable[[T], bool] = lambda _: True) -> Request[T, R] | None:
        """The next in line, if there is one and it fits. For the leader alone."""
        if not self._waiting or self._leads_alone():
            return None
        with self._lock:
            self._drop_those_gone()
            if not self._waiting or not fits(self._waiting[0].thing):
                return None
            one = self._waiting[0]
            one.by = self._leader
            self._taken.append(one)
            return self._waiting.popleft()

    def put_back(self, taken: Sequence[Request[T, R]]) -> None:
        """To the front again: nothing was done for them."""
        with self._lock:
            for one in reversed(taken):
                self._waiting.appendleft(one)
                one.by = None
            self._taken = [one for one in self._taken if one not in taken]

    def _enter(self, mine: Request[T, R]) -> None:
        here = threading.get_ident()
        with self._lock:
            other = self._inside.get(here)
            if other is not None and other.here.locked():
                raise is_inside()
            self._inside[here] = mine  # first: a handler that asks from here on is refused, and waits for nobody
            if not self._is_led():
                self._leader, self._taken = mine, []
            else:
                self._waiting.append(mine)

    def _is_led(self) -> bool:
        return self._leader is not None and self._leader.here.locked()

    def _comes_to_lead(self, mine: Request[T, R], until: float | None) -> bool:
        """Wait: true if it is my turn, false if I was answered."""
        while not mine.reply.came(LOOK_SECONDS):
            with self._lock:
                if self._is_lost(mine):
                    raise _interrupted()
                if mine.by is None and not self._is_led():
                    self._leader, self._taken = mine, []  # the one before was interrupted and could not tell
                elif mine.by is None and self._leader is not mine and mine not in self._waiting:
                    self._waiting.append(mine)
            if self._leader is mine:
                break
            if until is not None and time.monotonic() > until:
                raise _TooLate
        if self._leader is not mine:
            return False
        with self._lock, suppress(ValueError):  # where whoever passed it on was interrupted before he crossed it out
            self._waiting.remove(mine)
        return True

    def _is_lost(self, mine: Request[T, R]) -> bool:
        """Was it taken along by one who is gone and has not answered?"""
        return mine.by is not None and not mine.by.here.locked() and not mine.reply.given

    def _drop_those_gone(self) -> None:
        while self._waiting and (self._waiting[0].reply.given or not self._waiting[0].here.locked()):
            self._waiting.popleft()

    def _leave(self, mine: Request[T, R], trouble: BaseException | None) -> None:
        with self._lock:
            if self._leader is mine:  # asked under the lock: whoever gave up waiting may just have been taken along
                for one in self._taken:
                    if not one.reply.given:
                        one.reply.fail(trouble if isinstance(trouble, Exception) else _interrupted())
                self._crowd, self._taken = len(self._taken), []
                self._pass_on()
            elif mine.by is None and not mine.reply.given:
                with suppress(ValueError):
                    self._waiting.remove(mine)
            here = threading.get_ident()
            if self._inside.get(here) is mine:
                del self._inside[here]

    def _pass_on(self) -> None:
        self._drop_those_gone()
        following = self._next_leader()
        self._leader = following
        if following is not None:
            self._waiting.remove(following)
            following.reply.give(None)

    def _next_leader(self) -> Request[T, R] | None:
        """The first; or if that leads for itself alone the one behind it, which will take it along: once."""
        if not self._waiting:
            return None
        first = self._waiting[0]
        if not first.leads_alone or first.was_passed_over or len(self._waiting) == 1:
            return first
        first.was_passed_over = True
        second = self._waiting[1]
        return second if second.here.locked() and not second.reply.given else first

    def _leads_alone(self) -> bool:
        return self._leader is None or self._leader.leads_alone


class _TooLate(Exception):
    """It is not yet one's turn. No TimeoutError, which a program's own alarm raises."""


def is_inside() -> Refused:
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
