"""Small requests that arrive while one is under way go into the next transaction together.

No timer and no thread: whoever comes alone is served at once, and whoever comes while another is being served
waits for that commit, which costs a disk's turn anyway, and then shares the next one with all who came meanwhile.
If what they share is refused, each is served again by itself, so that nobody suffers for a neighbour.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from custody.model.errors import BadInput, NotFound, Refused

T = TypeVar("T")
R = TypeVar("R")

MOST = 1000
"""Things in one transaction; a request of more than half of it does not wait for company."""


@dataclass(eq=False, slots=True)
class _Request(Generic[T, R]):
    things: list[T]
    answer: Future[list[R] | None] = field(default_factory=Future)  # None: it is your turn to serve


class Together(Generic[T, R]):
    """`serve` does many things in one transaction, and answers each in its place."""

    def __init__(self, serve: Callable[[list[T]], list[R]]) -> None:
        self._serve = serve
        self._lock = threading.Lock()
        self._busy = False
        self._waiting: list[_Request[T, R]] = []

    def do(self, things: list[T]) -> list[R]:
        if len(things) * 2 > MOST:
            return self._serve(things)
        mine = self._wait_in_line(things)
        answer = mine.answer.result() if mine else None
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
        company = self._company(len(things))
        try:
            return self._serve_all(things, company)
        except BaseException as error:
            for request in company:
                if not request.answer.done():
                    request.answer.set_exception(error)
            raise
        finally:
            with self._lock:
                self._busy = bool(self._waiting)
                if self._waiting:
                    self._waiting.pop(0).answer.set_result(None)

    def _company(self, size: int) -> list[_Request[T, R]]:
        company: list[_Request[T, R]] = []
        with self._lock:
            while self._waiting and size + len(self._waiting[0].things) <= MOST:
                company.append(self._waiting.pop(0))
                size += len(company[-1].things)
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
            request.answer.set_result(answers[at : at + len(request.things)])
            at += len(request.things)
        return answers[: len(things)]

    def _serve_alone(self, request: _Request[T, R]) -> None:
        try:
            request.answer.set_result(self._serve(request.things))
        except Exception as error:
            request.answer.set_exception(error)
