"""Who ends for lack of work has looked for it first: chores that may find some are waited for, and asked once more."""

from __future__ import annotations

import threading
import time

from custody.kernel.engine import Kind, Serving, Settings, Worker
from custody.kernel.engine.kinds import Chore
from custody.kernel.model.job import NewJob
from custody.kernel.model.outcome import Outcome, Passed
from custody.kernel.stores import Store, open_store

SOON = 60.0


def quiet(store: Store, handler: object, chore: Chore) -> None:
    Worker(store, Serving((Kind("parcel", handler),), (chore,)), Settings()).run_until_quiet()  # type: ignore[arg-type]


def test_nobody_ends_for_lack_of_work_while_a_chore_still_looks_for_some() -> None:
    with open_store("sqlite://:memory:") as store:

        def slow() -> None:
            time.sleep(0.3)  # a repository takes its time to answer
            if not [*store.queue.every()]:
                store.queue.submit_one(NewJob("parcel"))

        quiet(store, lambda work: Passed(), Chore("looking", 3600, slow, finds=True))
        assert [job.state for job in store.queue.every()] == ["done"]


def test_what_came_while_the_last_work_was_done_is_looked_for_before_the_end() -> None:
    with open_store("sqlite://:memory:") as store:
        outside: list[NewJob] = [NewJob("parcel", {"n": 1})]
        looks: list[int] = []

        def look() -> None:
            looks.append(len(outside))
            while outside:
                store.queue.submit_one(outside.pop())

        def handle(work: object) -> Outcome:
            if len(looks) == 1:
                outside.append(NewJob("parcel", {"n": 2}))  # so a task commits
            return Passed()

        quiet(store, handle, Chore("looking", 3600, look, finds=True))
        assert [job.state for job in store.queue.every()] == ["done", "done"]
        assert looks == [1, 1, 0], "until a look finds nothing"


def test_chores_that_find_no_work_are_not_waited_for() -> None:
    go_on = threading.Event()
    with open_store("sqlite://:memory:") as store:
        worker = Worker(store, Serving((), (Chore("dusting", 3600, lambda: go_on.wait(SOON)),)), Settings())
        thread = threading.Thread(target=worker._work_until_quiet)
        worker.start()
        try:
            thread.start()
            thread.join(SOON / 2)
            assert not thread.is_alive()
        finally:
            go_on.set()
            worker.shut_down()


def test_who_is_told_to_stop_does_not_wait_for_a_chore_that_looks() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def silent() -> None:
        begun.set()
        go_on.wait(SOON)

    with open_store("sqlite://:memory:") as store:
        worker = Worker(store, Serving((), (Chore("looking", 3600, silent, finds=True),)), Settings())
        worker.start()
        thread = threading.Thread(target=worker._work_until_quiet)
        try:
            thread.start()
            assert begun.wait(SOON)
            assert thread.is_alive()
            worker.stop()
            thread.join(SOON / 2)
            assert not thread.is_alive()
        finally:
            go_on.set()
            worker.shut_down()
