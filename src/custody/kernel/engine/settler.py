"""The settler: what was finished while a commit was under way is settled together in the next one.

Whatever one job says, its neighbours are not kept waiting: words that the store cannot accept become a failure of
that job alone, and a store that cannot be reached is asked again for as long as the lease is trusted.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from custody.errors import Unavailable, Unsafe
from custody.kernel.engine.judge import judge, revoked, surprise
from custody.kernel.engine.kinds import Serving
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.work import Work
from custody.kernel.model.job import Answer, Change
from custody.kernel.model.outcome import Failed
from custody.kernel.ports import Store

MOST = 1000
RETRY_SECONDS = 0.2
OUTDATED = frozenset({"lease.lost", "state.conflict", "not-found", "leased"})
"""Refusals of a late word. Any other is about the words themselves."""
AWAY = (Unavailable, Unsafe)
"""It is the store that cannot be told, whatever the words."""


Heard: TypeAlias = tuple[Work, Change, Answer]


@dataclass(slots=True)
class Finished:
    """A piece of work and what is to be said about it."""

    work: Work
    change: Change
    rephrased: bool = False  # its first words could not be written


class Settler:
    def __init__(
        self,
        store: Store,
        serving: Serving,
        on_settled: Callable[[Sequence[Heard], float], None],
        on_lost: Callable[[Work], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._serving, self._on_settled, self._on_lost = store, serving, on_settled, on_lost
        self._clock = clock
        self._pid = os.getpid()
        self._inbox: queue.SimpleQueue[Finished | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="custody-settler", daemon=True)
        self._under_way = 0
        self._closing = False

    def start(self) -> None:
        self._thread.start()

    def put(self, work: Work, change: Change) -> None:
        self._inbox.put(Finished(work, change))

    @property
    def waiting(self) -> int:
        """How many are finished and not yet settled."""
        return self._inbox.qsize() + self._under_way

    def close(self) -> None:
        """Settle what is there, then end. What cannot be said now is not said again: its lease is kept no more."""
        self._closing = True
        self._inbox.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def settle(self, finished: list[Finished]) -> None:
        """Settle, trying again while the store cannot be reached: the moves' own ids make that safe."""
        while finished:
            try:
                finished = self.attempt(finished)
            except AWAY:
                finished = self._still_trusted(finished)
                time.sleep(RETRY_SECONDS if finished else 0)

    def attempt(self, finished: list[Finished]) -> list[Finished]:
        """Say it once; answers what has to be said again, in other words. Raises when the store cannot be reached."""
        asked_at = self._clock()
        stay(self._pid, "settling")
        try:
            answers = self._store.queue.settle([entry.change for entry in finished])
        except AWAY:
            raise
        except Exception as error:
            return self._one_by_one(finished, error)
        heard: list[Heard] = []
        again: list[Finished] = []
        for entry, answer in zip(finished, answers, strict=True):
            if answer.done or self._is_final(entry, answer):
                heard.append((entry.work, entry.change, answer))
            else:
                again += self._in_other_words(entry, answer)
        self._on_settled(heard, asked_at)
        return again

    def _is_final(self, entry: Finished, answer: Answer) -> bool:
        """It was refused, and there is nothing more to say."""
        if answer.code == "revoked" or (answer.code not in OUTDATED and not entry.rephrased):
            return False
        self.note_refusal(entry.work, entry.change.type, answer.code, answer.why)
        return True

    def _in_other_words(self, entry: Finished, answer: Answer) -> list[Finished]:
        if answer.code == "revoked":
            return self._as_revoked(entry)
        return self._as_failed(entry.work, Failed(answer.code, answer.why))

    def _one_by_one(self, finished: list[Finished], error: Exception) -> list[Finished]:
        """Something in these words cannot be written at all. Find whose, and let the others pass."""
        if len(finished) > 1:
            return [again for entry in finished for again in self._by_itself(entry)]
        if finished[0].rephrased:
            return self._give_up(finished[0].work)
        return self._as_failed(finished[0].work, surprise(error))

    def _by_itself(self, entry: Finished) -> list[Finished]:
        try:
            return self.attempt([entry])
        except AWAY:
            return [entry]

    def _as_failed(self, work: Work, failed: Failed) -> list[Finished]:
        kind = self._serving.of(work.job)
        tried = work.tried(kind.tries) if failed.transient else 0
        change = judge(kind, work.claim, failed, work.facts, 0.5, self._store.new_move(), tried)
        return [Finished(work, change, rephrased=True)]

    def _as_revoked(self, entry: Finished) -> list[Finished]:
        work = entry.work
        try:
            how = self._store.queue.get(work.job.id).revoked or "cancel"
            said = revoked(self._serving.of(work.job), work.claim, how, self._store.new_move())
        except AWAY:
            return [entry]  # it will be refused again, and then we look again
        except Exception:
            return self._give_up(work)
        return [Finished(work, said, rephrased=True)]

    def _give_up(self, work: Work) -> list[Finished]:
        work.stop("unspeakable")  # nothing can be said about it: its lease will end
        self._on_lost(work)
        return []

    def _still_trusted(self, finished: list[Finished]) -> list[Finished]:
        if self._closing:
            return []
        for entry in finished:
            if entry.work.lost:
                self._on_lost(entry.work)
        return [entry for entry in finished if not entry.work.lost]

    def note_refusal(self, work: Work, said: str, code: str, why: str, what: str = "refused") -> None:
        """A late word from someone who lost the job: written down, so that nobody has to guess."""
        holder = work.claim.holder
        told = {"job": work.job.id, "said": said, "code": code, "why": why, "token": work.claim.token}
        try:
            self._store.records.note(f"worker/{holder}", what, holder, **told)
        except Exception:
            pass  # the store is away again; those who watch are told all the same

    def _loop(self) -> None:
        while (first := self._inbox.get()) is not None:
            finished = [first]
            while len(finished) < MOST and (more := self._waiting()):
                finished.append(more)
            self._under_way = len(finished)
            self.settle(finished)
            self._under_way = 0

    def _waiting(self) -> Finished | None:
        try:
            entry = self._inbox.get_nowait()
        except queue.Empty:
            return None
        if entry is None:
            self._inbox.put(None)
        return entry
