"""Where claims go on while something keeps what was claimed before from being cleared away."""

from __future__ import annotations

from typing import Any

from custody.kernel.stores.postgres.verbs.claim import BEGINNING, FEWEST, SLOW_SECONDS, TIMES, Front, claim_many
from custody.kernel.stores.rows import Row

PARCELS, LETTERS = "parcel|queued||", "letter|queued||"


class Server:
    """Has so many jobs in each queue, and takes its time when it is asked to begin at the beginning."""

    def __init__(self, **ready: int) -> None:
        self.now, self.slow = 100.0, 0.0
        self.asked: list[dict[str, tuple[int, int]]] = []
        self._ready = {f"{kind}|queued||": [(50, number) for number in range(count)] for kind, count in ready.items()}

    def run(self, values: dict[str, Any]) -> list[Row]:
        after = dict(zip(values["queues"], zip(values["priorities"], values["ids"], strict=True), strict=True))
        self.asked.append(after)
        self.now += self.slow if BEGINNING in after.values() else 0.001
        taken = [(queue, job) for queue in after for job in self._take(queue, after[queue], values["share"])]
        return [self._row(queue, *job) for queue, job in taken[: values["limit"]]]

    def add(self, queue: str, job: tuple[int, int]) -> None:
        self._ready[queue] = sorted([*self._ready[queue], job])

    def _take(self, queue: str, after: tuple[int, int], share: int) -> list[tuple[int, int]]:
        taken = [job for job in self._ready[queue] if job > after][:share]
        self._ready[queue] = [job for job in self._ready[queue] if job not in taken]
        return taken

    @staticmethod
    def _row(queue: str, priority: int, number: int) -> Row:
        kind, state, place, lane = queue.split("|")
        return (number, kind, None, state, 1, None, lane, place, "", priority)

    def clock(self) -> float:
        return self.now


def ids(rows: list[Row]) -> list[int]:
    return [row[0] for row in rows]


def test_as_long_as_claims_are_quick_each_begins_at_the_beginning() -> None:
    server = Server(parcel=10)
    front = Front(server.clock, fewest=1)
    for first in (0, 2, 4):
        assert ids(claim_many(server.run, [PARCELS], 2, front)) == [first, first + 1]
    assert server.asked == [{PARCELS: BEGINNING}] * 3


def test_after_a_slow_one_they_go_on_where_it_stopped_and_come_back_in_time() -> None:
    server = Server(parcel=10)
    server.slow = 3 * SLOW_SECONDS
    front = Front(server.clock, fewest=1)
    for _ in range(3):
        claim_many(server.run, [PARCELS], 2, front)
    assert server.asked == [{PARCELS: BEGINNING}, {PARCELS: (50, 1)}, {PARCELS: (50, 3)}]
    server.add(PARCELS, (0, 99))  # it is urgent, and not seen yet
    assert ids(claim_many(server.run, [PARCELS], 2, front)) == [6, 7]
    server.now += TIMES * server.slow
    assert ids(claim_many(server.run, [PARCELS], 2, front)) == [99, 8]


def test_too_little_behind_the_place_sends_them_back_to_the_beginning_at_once() -> None:
    server = Server(parcel=5)
    server.slow = 1.0
    front = Front(server.clock, fewest=1)
    claim_many(server.run, [PARCELS], 4, front)
    server.add(PARCELS, (50, 2))  # given back
    assert ids(claim_many(server.run, [PARCELS], 4, front)) == [4, 2]
    assert server.asked[1:] == [{PARCELS: (50, 3)}, {PARCELS: BEGINNING}]
    assert claim_many(server.run, [PARCELS], 4, front) == []
    assert len(server.asked) == 4, "an empty queue is asked once"


def test_a_queue_with_too_little_does_not_send_another_back() -> None:
    server = Server(parcel=10, letter=1)
    server.slow = 1.0
    front = Front(server.clock, fewest=1)
    claim_many(server.run, [PARCELS], 2, front)
    server.slow = 0.0
    claim_many(server.run, [LETTERS], 2, front)
    claim_many(server.run, [PARCELS], 2, front)
    assert server.asked[-1] == {PARCELS: (50, 1)}


def test_a_claim_of_a_few_always_begins_at_the_beginning() -> None:
    server = Server(parcel=3 * FEWEST)
    server.slow = 1.0  # the disk, perhaps
    front = Front(server.clock)
    claim_many(server.run, [PARCELS], FEWEST - 1, front)
    claim_many(server.run, [PARCELS], FEWEST, front)
    server.add(PARCELS, (0, 9999))
    assert ids(claim_many(server.run, [PARCELS], 1, front)) == [9999]
    assert server.asked == [{PARCELS: BEGINNING}] * 3
