"""Asking for something about a channel, the way the configuration says: one function for commands and pages alike.

As a job of the engine, a letter in an Azure queue or a signal to a workflow of Temporal. Whoever would always make
a job would promise, where others coordinate, what nobody does: an erasure among it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from custody.channels.config import ChannelConfig
from custody.channels.context import Request
from custody.channels.jobs import REMOVE, job_of
from custody.channels.removal.orders import ordered
from custody.errors import Refused
from custody.kernel.model.authority.acting import Acting
from custody.kernel.model.job import Filter
from custody.kernel.stores import Store

Ask = Callable[[Request, Acting], str]  # what is asked and by whom; answers what became of it, in words


@dataclass(frozen=True, slots=True)
class Asking:
    """How this installation is asked."""

    ask: Ask
    holds: bool = True  # may a channel be held? Only the engine looks at holds


def by_jobs(store: Store) -> Asking:
    def ask(request: Request, acting: Acting) -> str:
        pending = any(
            job.kind == REMOVE and job.ended is None
            for job in store.queue.every(Filter(kind="channel/*", lane=str(request.channel)))
        )
        if request.what == "remove" or pending:  # an order whose job was taken back is none
            request = ordered(store, request, acting.agent, anew=not pending)
        made = store.queue.submit_one(job_of(request), acting)
        if not made.new and store.queue.get(made.id).ended == "failed":
            raise Refused(
                f"this was asked before and failed as job {made.id}",
                code="channel.failed",
                hint=f"`custody job show {made.id}` says why, `custody job resume {made.id}` tries again",
            )
        said = "" if made.new else ", asked for before and not yet done"
        if not made.new and request.what == "remove":
            along = store.queue.get(made.id).facts.get("along") or ()
            said += f"; what goes with it was said then: {', '.join(map(str, along)) or 'nothing'}"
        return f"job {made.id}{said}"

    return Asking(ask)


def asking_of(store: Store, config: ChannelConfig, home: Path) -> Asking:
    if config.queues == "azure":
        return Asking(lambda request, acting: _by_letter(config, home, _ordered(store, request, acting)), holds=False)
    if config.queues == "temporal":
        return Asking(lambda request, acting: _by_signal(config, _ordered(store, request, acting)), holds=False)
    return by_jobs(store)


def _ordered(store: Store, request: Request, acting: Acting) -> Request:
    """The order is the store's; what is sent after it says only that there is one."""
    return ordered(store, request, acting.agent)


def _by_letter(config: ChannelConfig, home: Path, request: Request) -> str:
    from custody.channels.coordinators.azure_queues import open_queues

    open_queues(config, home).send(request)
    return "a letter was sent"


def _by_signal(config: ChannelConfig, request: Request) -> str:
    from custody.channels.coordinators.temporal import ask_for

    ask_for(config, request)
    return "its workflow was told"
