"""Small requests that arrive while one is under way go into the next transaction together.

No thread of its own: whoever comes alone is served at once, and whoever comes while another is being served waits
for that commit, which costs a disk's turn anyway, and then shares the next one with all who came meanwhile.
If what they share is refused, each is served again by itself, so that nobody suffers for a neighbour.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from custody.model.errors import BadInput, NotFound, Refused

T = TypeVar("T")
R = TypeVar("R")

MOST = 1000
"""Things in one transaction; a request of more than half of it does not wait for company."""
RETURN_SECONDS = 0.0005
"""So long at most is a crowd waited for; a commit takes as long."""


class _Request(Generic[T, R]):
    """Somebody who waits: until there is an answer, or until it is their turn to serve."""

    __slots__ = ("_answer", "_error", "_gate", "things")

    def __init__(self, things: list[T]) -> None:
        self.things = things
        self._gate = threading.Lock()  # a bare one: an event or a future costs several times as much
        self._gate.acquire()
        self._answer: list[R] | None = None
        self._error: BaseException | None = None

    def wait(self) -> list[R] | None:
        """The answer; None: it is your turn to serve."""
        self._gate.acquire()
        if self._error is not None:
            raise self._error
        return self._answer

    def tell(self, answer: list[R] | None = None, error: BaseException | None = None) -> None:
        self._answer, self._error = answer, error
        self._gate.release()

    @property
    def is_answered(self) -> bool:
        return self._answer is not None or self._error is not None


class Together(Generic[T, R]):
    """`serve` does many things in one transaction, and answers each in its place."""

    def __init__(self, serve: Callable[[list[T]], list[R]]) -> None:
        self._serve = serve
        self._lock = threading.Lock()
        self._busy = False
        self._crowd = 0  # so many were served together last time
        self._waiting: list[_Request[T, R]] = []

    def do(self, things: list[T]) -> list[R]:
        if len(things) * 2 > MOST:
            return self._serve(things)
        mine = self._wait_in_line(things)
        answer = mine.wait() if mine else None
        return self._lead(things) if answer is None else answer

    def _wait_in_line(self, things: list[T]) -> _Request[T, R] | None:
        """None when nobody is being served: then there is nothing to wait for."""
        with self._lock:
            if not self._busy:
                self._busy = True
                return None
            mine: _Request[T, R] = _Request(things)
            self._waiting.append(mine)
            return mine

    def _lead(self, things: list[T]) -> list[R]:
        """Serve our own request and those that wait, then let the next one lead."""
        self._let_the_crowd_return()
        company = self._company(len(things))
        try:
            return self._serve_all(things, company)
        except BaseException as error:
            for request in company:
                if not request.is_answered:
                    request.tell(error=error)
            raise
        finally:
            with self._lock:
                self._busy = bool(self._waiting)
                if self._waiting:
                    self._waiting.pop(0).tell()

    def _let_the_crowd_return(self) -> None:
        """Those just served together are about to ask again: without them we would commit for one, then for all."""
        until = time.monotonic() + RETURN_SECONDS
        while len(self._waiting) * 2 < self._crowd and time.monotonic() < until:
            time.sleep(0)  # lets other threads run

    def _company(self, size: int) -> list[_Request[T, R]]:
        company: list[_Request[T, R]] = []
        with self._lock:
            while self._waiting and size + len(self._waiting[0].things) <= MOST:
                company.append(self._waiting.pop(0))
                size += len(company[-1].things)
            self._crowd = len(company)
        return company

    def _serve_all(self, things: list[T], company: list[_Request[T, R]]) -> list[R]:
        shared = things + [thing for request in company for thing in request.things]
        try:
            answers = self._serve(shared)
        except (BadInput, Refused, NotFound):
            if not company:
                raise
            for request in company:
                self._serve_alone(request)
            return self._serve(things)
        at = len(things)
        for request in company:
            request.tell(answers[at : at + len(request.things)])
            at += len(request.things)
        return answers[: len(things)]

    def _serve_alone(self, request: _Request[T, R]) -> None:
        try:
            request.tell(self._serve(request.things))
        except Exception as error:
            request.tell(error=error)
