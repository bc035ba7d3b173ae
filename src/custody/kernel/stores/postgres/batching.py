"""Small requests that arrive while one is under way go into the next transaction together
(kernel/stores/sql/group_commit.py).

If what they share is refused, each is served again by itself, so that nobody suffers for a neighbour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from custody.errors import BadInput, NotFound, Refused
from custody.kernel.stores.sql.group_commit import GroupCommit, Request

T = TypeVar("T")
R = TypeVar("R")

MOST = 1000
"""Things in one transaction; a request of more than half of it does not wait for company."""


class Together(Generic[T, R]):
    """`serve` does many things in one transaction, and answers each in its place."""

    def __init__(self, serve: Callable[[list[T]], list[R]]) -> None:
        self._serve = serve
        self._line: GroupCommit[list[T], list[R]] = GroupCommit(self._lead)

    def do(self, things: list[T]) -> list[R]:
        return self._serve(things) if len(things) * 2 > MOST else self._line.do(things)

    def _lead(self, mine: Request[list[T], list[R]]) -> list[R]:
        self._line.let_the_crowd_return()
        return self._serve_all(mine.thing, self._company(len(mine.thing)))

    def _company(self, size: int) -> list[Request[list[T], list[R]]]:
        company: list[Request[list[T], list[R]]] = []
        room = MOST - size
        while one := self._line.take(lambda things, room=room: len(things) <= room):  # type: ignore[misc]
            company.append(one)
            room -= len(one.thing)
        return company

    def _serve_all(self, things: list[T], company: list[Request[list[T], list[R]]]) -> list[R]:
        shared = things + [thing for one in company for thing in one.thing]
        try:
            answers = self._serve(shared)
        except (BadInput, Refused, NotFound):
            if not company:
                raise
            for one in company:
                self._serve_alone(one)
            return self._serve(things)
        at = len(things)
        for one in company:
            one.reply.give(answers[at : at + len(one.thing)])
            at += len(one.thing)
        return answers[: len(things)]

    def _serve_alone(self, one: Request[list[T], list[R]]) -> None:
        try:
            one.reply.give(self._serve(one.thing))
        except Exception as error:
            one.reply.fail(error)
