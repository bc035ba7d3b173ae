"""Small requests that arrive while one is under way go into the next transaction together.

No thread of its own: whoever comes alone is served at once, and whoever comes while another is being served waits
for that commit, which costs a disk's turn anyway, and then shares the next one with all who came meanwhile.
If what they share is refused, each is served again by itself, so that nobody suffers for a neighbour.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from custody.model.errors import BadInput, NotFound, Refused
from custody.stores.reply import Reply

T = TypeVar("T")
R = TypeVar("R")

MOST = 1000
"""Things in one transaction; a request of more than half of it does not wait for company."""
RETURN_SECONDS = 0.0005
"""So long at most is a crowd waited for; a commit takes as long."""


@dataclass(eq=False, slots=True)
class _Request(Generic[T, R]):
    things: list[T]
    reply: Reply[list[R] | None] = field(default_factory=Reply)  # None: it is your turn to serve


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
        answer = mine.reply.wait() if mine else None
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
        company: list[_Request[T, R]] = []
        try:
            self._let_the_crowd_return()
            company += self._company(len(things))
            return self._serve_all(things, company)
        except BaseException as error:
            for request in company:
                if not request.reply.given:
                    request.reply.fail(error)
            raise
        finally:
            with self._lock:
                self._busy = bool(self._waiting)
                if self._waiting:
                    self._waiting.pop(0).reply.give(None)

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
            request.reply.give(answers[at : at + len(request.things)])
            at += len(request.things)
        return answers[: len(things)]

    def _serve_alone(self, request: _Request[T, R]) -> None:
        try:
            request.reply.give(self._serve(request.things))
        except Exception as error:
            request.reply.fail(error)
