"""Whose turn it is to write: everybody is answered, whoever is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from custody.errors import Unavailable
from custody.kernel.stores.sql.future import Reply
from custody.kernel.stores.sql.group_commit import GroupCommit, Request

SOON = 60.0


class Busy:
    """A line whose first leader holds it up until it is told to go on."""

    def __init__(self, lead: Callable[[Request[str, str]], str]) -> None:
        self.line: GroupCommit[str, str] = GroupCommit(self._lead)
        self._next = lead
        self._held, self._go_on = threading.Event(), threading.Event()
        self._threads = ThreadPoolExecutor(20)
        self.first = self._threads.submit(self.line.do, "first")
        assert self._held.wait(SOON)

    def _lead(self, mine: Request[str, str]) -> str:
        if mine.thing != "first":
            return self._next(mine)
        self._held.set()
        assert self._go_on.wait(SOON)
        return "FIRST"

    def wants(self, thing: str) -> Future[str]:
        waiting = len(self.line)
        future = self._threads.submit(self.line.do, thing)
        while len(self.line) == waiting and not future.done():
            pass
        return future

    def go_on(self) -> None:
        self._go_on.set()
        self.first.result(SOON)

    def close(self) -> None:
        self._go_on.set()
        self._threads.shutdown()


@pytest.fixture
def busy() -> Iterator[Callable[[Callable[[Request[str, str]], str]], Busy]]:
    made: list[Busy] = []

    def make(lead: Callable[[Request[str, str]], str]) -> Busy:
        made.append(Busy(lead))
        return made[-1]

    yield make
    for one in made:
        one.close()


Make = Callable[[Callable[[Request[str, str]], str]], Busy]


def aloud(mine: Request[str, str]) -> str:
    return mine.thing.upper()


def test_whoever_waits_leads_in_turn(busy: Make) -> None:
    shop = busy(aloud)
    waiting = [shop.wants(thing) for thing in "abc"]
    shop.go_on()
    assert [future.result(SOON) for future in waiting] == ["A", "B", "C"]
    assert shop.line.do("later") == "LATER"


def test_a_leader_answers_those_it_takes_along(busy: Make) -> None:
    def lead(mine: Request[str, str]) -> str:
        while one := shop.line.take():
            one.reply.give(f"{one.thing} with {mine.thing}")
        return mine.thing

    shop = busy(lead)
    waiting = [shop.wants(thing) for thing in "abc"]
    shop.go_on()
    assert [future.result(SOON) for future in waiting] == ["a", "b with a", "c with a"]


def test_one_that_does_not_fit_leads_next(busy: Make) -> None:
    def lead(mine: Request[str, str]) -> str:
        while one := shop.line.take(lambda thing: thing != "c"):
            one.reply.give(f"{one.thing} with {mine.thing}")
        return mine.thing

    shop = busy(lead)
    waiting = [shop.wants(thing) for thing in "abcd"]
    shop.go_on()
    assert [future.result(SOON) for future in waiting] == ["a", "b with a", "c", "d with c"]


@pytest.mark.parametrize(("trouble", "told"), [(ValueError, ValueError), (KeyboardInterrupt, Unavailable)])
def test_when_a_leader_fails_those_it_took_along_are_told_and_the_rest_go_on(
    busy: Make, trouble: type[BaseException], told: type[BaseException]
) -> None:
    def lead(mine: Request[str, str]) -> str:
        if mine.thing != "a":
            return mine.thing.upper()
        shop.line.take()
        raise trouble

    shop = busy(lead)
    leader, taken, other = [shop.wants(thing) for thing in "abc"]
    shop.go_on()
    with pytest.raises(trouble):
        leader.result(SOON)
    with pytest.raises(told):
        taken.result(SOON)
    assert other.result(SOON) == "C"


def _interrupts(monkeypatch: pytest.MonkeyPatch, before: Callable[[Reply[str | None]], None]) -> None:
    """Interrupt this thread when it waits, after something has happened."""
    me, came = threading.current_thread(), Reply.came

    def interrupted(reply: Reply[str | None], seconds: float) -> bool:
        if threading.current_thread() is not me:
            return came(reply, seconds)
        before(reply)
        raise KeyboardInterrupt

    monkeypatch.setattr(Reply, "came", interrupted)


@pytest.mark.parametrize("turn_came", [False, True])
def test_whoever_is_interrupted_while_waiting_leaves_the_line_to_the_others(
    busy: Make, monkeypatch: pytest.MonkeyPatch, turn_came: bool
) -> None:
    shop = busy(aloud)

    def before(reply: Reply[str | None]) -> None:
        if turn_came:
            shop._go_on.set()
            reply._gate.acquire()

    _interrupts(monkeypatch, before)
    with pytest.raises(KeyboardInterrupt):
        shop.line.do("interrupted")
    monkeypatch.undo()
    other = shop.wants("other")
    shop.go_on()
    assert other.result(SOON) == "OTHER"
    assert shop.line.do("later") == "LATER"


def test_whoever_is_interrupted_when_just_taken_along_takes_the_turn_from_nobody(
    busy: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = busy(aloud)
    _interrupts(monkeypatch, lambda _: shop.line.take() and None)
    with pytest.raises(KeyboardInterrupt):
        shop.line.do("interrupted")
    monkeypatch.undo()
    other = shop.wants("other")
    assert not other.done(), "the first still leads: nobody may write beside it"
    shop.go_on()
    assert other.result(SOON) == "OTHER"
