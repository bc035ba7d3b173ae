"""A store in trouble, and small things that the tests of troubled workers share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from custody.kernel.engine import Kind, Serving, Work, Worker
from custody.kernel.model.job import Answer, Change, Claim, NewJob
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.stores import Store
from faults.verbs import VerbDatabase

T = TypeVar("T")
Trouble = Callable[[str], Exception | None]


class Troubled(VerbDatabase):
    """Asks before and after each verb whether there is trouble."""

    before: Trouble = staticmethod(lambda verb: None)
    after: Trouble = staticmethod(lambda verb: None)

    def verb(self, act: Callable[[], T], name: str = "write") -> T:
        if error := self.before(name):
            raise error
        value = act()
        if error := self.after(name):
            raise error
        return value

    def seen(self, act: Callable[[], T]) -> T:
        if error := self.before("read"):
            raise error
        return act()

    def claim(self, queues: list[str], holder: str, lease: int, limit: int, move: str) -> list[Claim]:
        name = f"claim {queues[0].partition('|')[0]}"
        return self.verb(lambda: self._db.claim(queues, holder, lease, limit, move), name)

    def renew(self, claims: list[Claim], lease: int) -> dict[int, str]:
        return self.verb(lambda: self._db.renew(claims, lease), "renew")

    def settle(self, changes: list[Change]) -> list[Answer]:
        said = "settle " + " ".join(str(change.detail.get("say", "")) for change in changes)
        return self.verb(lambda: self._db.settle(changes), said)


def serving(handler: Callable[[Work], Any], kind: str = "parcel", **options: Any) -> Serving:
    return Serving((Kind(kind, handler, **options),))


def submit(store: Store, kind: str = "parcel", **fields: Any) -> int:
    return store.queue.submit_one(NewJob(kind, **fields)).id


def passes(work: Work) -> Outcome:
    return Passed()


def in_thread(worker: Worker) -> threading.Thread:
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    return thread
