"""The settler: what was finished while a commit was under way is settled together in the next one.

Whatever one job says, its neighbours are not kept waiting: words that the store cannot accept become a failure of
that job alone, and a store that cannot be reached is asked again for as long as the lease is trusted.
Ends are yielded as soon as they are known: what was settled is let go before the others are said again, or its lease
would be renewed meanwhile, and the next one, claimed with its end, would not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from custody.errors import Unavailable, Unsafe
from custody.kernel.engine.judge import judge, revoked, surprise
from custody.kernel.engine.kinds import Serving
from custody.kernel.engine.pipe.losses import note_refusal
from custody.kernel.engine.pipe.values import End, Finished, Lost, Settled
from custody.kernel.engine.recovery.strays import stay
from custody.kernel.engine.work import Work
from custody.kernel.model.job import Answer
from custody.kernel.model.outcome import Failed
from custody.kernel.ports import Store

RETRY_SECONDS = 0.2
OUTDATED = frozenset({"lease.lost", "state.conflict", "not-found", "leased"})
"""Refusals of a late word. Any other is about the words themselves."""
AWAY = (Unavailable, Unsafe)
"""It is the store that cannot be told, whatever the words."""


class Said(NamedTuple):
    """What came of one attempt: ends, and what has to be said again, in other words."""

    ends: list[End]
    again: list[Finished]


class Settler:
    def __init__(self, store: Store, serving: Serving, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._serving, self._clock = store, serving, clock
        self._pid = os.getpid()
        self._closing = False

    def close(self) -> None:
        """Say nothing twice from now on: what cannot be said now is left, and its lease is kept no more."""
        self._closing = True

    def settle(self, done: Sequence[Finished | Lost]) -> Iterator[list[End]]:
        """Settle, trying again while the store cannot be reached: the moves' own ids make that safe."""
        finished = [entry for entry in done if isinstance(entry, Finished)]
        if len(finished) < len(done):
            yield [end for end in done if isinstance(end, Lost)]
        while finished:
            again: list[Finished] = []
            try:
                for said in self.attempt(finished):
                    again += said.again
                    if said.ends:
                        yield said.ends
            except AWAY:
                said = self.still_trusted(finished)
                again = said.again
                if said.ends:
                    yield said.ends
                time.sleep(RETRY_SECONDS if again else 0)
            finished = again

    def attempt(self, finished: list[Finished]) -> Iterator[Said]:
        """Say it once. Raises when the store cannot be reached, before anything is yielded."""
        asked_at = self._clock()
        stay(self._pid, "settling")
        try:
            answers = self._store.queue.settle([entry.change for entry in finished])
        except AWAY:
            raise
        except Exception as error:
            yield from self._one_by_one(finished, error)
            return
        ends: list[End] = []
        again: list[Finished] = []
        for entry, answer in zip(finished, answers, strict=True):
            if answer.done or self._is_final(entry, answer):
                ends.append(Settled(entry.work, entry.change, answer, asked_at))
            else:
                rephrased = self._in_other_words(entry, answer)
                (ends.append(rephrased) if isinstance(rephrased, Lost) else again.append(rephrased))
        yield Said(ends, again)

    def still_trusted(self, finished: list[Finished]) -> Said:
        """Which of those that could not be said may be said again, and which are lost."""
        if self._closing:
            return Said([], [])
        lost: list[End] = [Lost(entry.work, entry.work.stop_reason) for entry in finished if entry.work.lost]
        return Said(lost, [entry for entry in finished if not entry.work.lost])

    def _is_final(self, entry: Finished, answer: Answer) -> bool:
        """It was refused, and there is nothing more to say."""
        if answer.code == "revoked" or (answer.code not in OUTDATED and not entry.rephrased):
            return False
        note_refusal(self._store.records, entry.work, entry.change.type, code=answer.code, why=answer.why)
        return True

    def _in_other_words(self, entry: Finished, answer: Answer) -> Finished | Lost:
        if answer.code == "revoked":
            return self._as_revoked(entry)
        return self._as_failed(entry.work, Failed(answer.code, answer.why))

    def _one_by_one(self, finished: list[Finished], error: Exception) -> Iterator[Said]:
        """Find whose words cannot be written at all, and let the others pass."""
        if len(finished) > 1:
            for entry in finished:
                yield from self._by_itself(entry)
        elif finished[0].rephrased:
            yield Said([_given_up(finished[0].work)], [])
        else:
            yield Said([], [self._as_failed(finished[0].work, surprise(error))])

    def _by_itself(self, entry: Finished) -> Iterator[Said]:
        try:
            yield from self.attempt([entry])
        except AWAY:
            yield Said([], [entry])

    def _as_failed(self, work: Work, failed: Failed) -> Finished:
        kind = self._serving.of(work.job)
        tried = work.tried(kind.tries) if failed.transient else 0
        change = judge(kind, work.claim, failed, facts=work.facts, chance=0.5, move=self._store.new_move(), tried=tried)
        return Finished(work, change, rephrased=True)

    def _as_revoked(self, entry: Finished) -> Finished | Lost:
        work = entry.work
        try:
            how = self._store.queue.get(work.job.id).revoked or "cancel"
            said = revoked(self._serving.of(work.job), work.claim, how, move=self._store.new_move())
        except AWAY:
            return entry  # it will be refused again, and then we look again
        except Exception:
            return _given_up(work)
        return Finished(work, said, rephrased=True)


def _given_up(work: Work) -> Lost:
    work.stop("unspeakable")  # nothing can be said about it: its lease will end
    return Lost(work, work.stop_reason)
