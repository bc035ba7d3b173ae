"""What is written down about work that was lost, so that nobody has to guess why it said nothing."""

from __future__ import annotations

from custody.kernel.engine.listeners import Listener, report
from custody.kernel.engine.pipe.run import NOT_DEAD
from custody.kernel.engine.pipe.values import Lost
from custody.kernel.engine.work import Work
from custody.kernel.model.suspicion import CLEAN
from custody.kernel.ports import Queue, Records, Store


def note_loss(store: Store, lost: Lost, listener: Listener) -> None:
    """Tell those who watch, and the store."""
    work, why = lost
    listener.lost(work.job, why)
    if why.startswith(NOT_DEAD):
        excuse(store.queue, work, listener)
    elif why in ("", "lost"):  # it was refused a renewal, or to keep a fact
        note_refusal(store.records, work, "renewed", code="lease.lost", why="someone else has claimed or moved it")
    elif why == "unconfirmed":  # nobody refused it, but what it had to say was not said either
        told = "nobody could be asked in time whether it still had the job"
        note_refusal(store.records, work, "nothing", code="lease.unconfirmed", why=told, type_="silenced")


def note_refusal(records: Records, work: Work, said: str, *, code: str, why: str, type_: str = "refused") -> None:
    """Write down a late word from someone who lost the job."""
    holder = work.claim.holder
    told = {"job": work.job.id, "said": said, "code": code, "why": why, "token": work.claim.token}
    try:
        records.note(f"worker/{holder}", type_, holder, **told)
    except Exception:
        pass  # the store is away again; those who watch are told all the same


def excuse(queue: Queue, work: Work, listener: Listener) -> None:
    """Take back what its claim said against a job: this worker's end says nothing about it."""
    try:
        queue.suspect([work.claim], CLEAN)
    except Exception as error:
        report(listener, error, "excusing a job")  # then it counts as a crash, which is the safe mistake
