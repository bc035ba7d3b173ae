"""The settler: what was finished while a commit was under way is settled together in the next one."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from custody.engine.judge import revoked
from custody.engine.kinds import Serving
from custody.engine.work import Work
from custody.model.errors import CustodyError
from custody.model.job import Answer, Change
from custody.ports import Store

MOST = 500
RETRY_SECONDS = 0.2

Finished = tuple[Work, Change]


class Settler:
    def __init__(self, store: Store, serving: Serving, on_settled: Callable[[Work, Change, Answer], None]) -> None:
        self._store, self._serving, self._on_settled = store, serving, on_settled
        self._inbox: queue.SimpleQueue[Finished | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="custody-settler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, work: Work, change: Change) -> None:
        self._inbox.put((work, change))

    def close(self) -> None:
        """Settle what is there, then end."""
        self._inbox.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def settle(self, finished: list[Finished]) -> None:
        """Settle, trying again while the store cannot be reached: the moves' own ids make that safe."""
        while True:
            try:
                answers = self._store.queue.settle([change for _, change in finished])
            except CustodyError:
                finished = [(work, change) for work, change in finished if not work.lost]
                if not finished:
                    return
                time.sleep(RETRY_SECONDS)
                continue
            break
        again: list[Finished] = []
        for (work, change), answer in zip(finished, answers, strict=True):
            if answer.code == "revoked":
                again.append((work, self._as_revoked(work)))
            else:
                self._tell(work, change, answer)
        if again:
            self.settle(again)

    def _as_revoked(self, work: Work) -> Change:
        job = self._store.queue.get(work.job.id)
        kind = self._serving.of(work.job)
        return revoked(kind, work.claim, job.revoked or "cancel", work.facts, self._store.new_move())

    def _tell(self, work: Work, change: Change, answer: Answer) -> None:
        if not answer.done:
            # A late word from someone who lost the job: refused, and written down so that nobody has to guess.
            self._store.records.note(
                f"worker/{work.claim.holder}", "refused", work.claim.holder,
                job=work.job.id, said=change.type, code=answer.code, why=answer.why, token=work.claim.token,
            )  # fmt: skip
        self._on_settled(work, change, answer)

    def _loop(self) -> None:
        while (first := self._inbox.get()) is not None:
            finished = [first]
            while len(finished) < MOST and (more := self._waiting()):
                finished.append(more)
            self.settle(finished)

    def _waiting(self) -> Finished | None:
        try:
            entry = self._inbox.get_nowait()
        except queue.Empty:
            return None
        if entry is None:
            self._inbox.put(None)
        return entry
