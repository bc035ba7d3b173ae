"""One session with ZooKeeper: reads and `multi`s, many at once on one connection, and honest about lost answers.

Everything is sent before anything is waited for, so that a hundred requests cost little more than one. Reads are
asked again when the connection broke; a `multi` whose answer got lost is *unknown*, and whoever sent it has
to look for its own mark.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from custody.ingest.zookeeper.operations import Check, Create, Delete, Op, Set
from custody.model.errors import Unavailable

AWAY = (ConnectionLoss, SessionExpiredError, ConnectionClosedError, OperationTimeoutError, KazooTimeoutError)
PAUSE = 0.05  # seconds between two tries of a read


@dataclass(frozen=True, slots=True)
class Node:
    """What was found at a path. Times are microseconds of the server's clock."""

    data: bytes
    version: int
    made: int
    changed: int
    children: int
    births: int  # how many children were ever made here: the next sequential name
    owner: int  # the session, for a node that goes with it


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a `multi`: all of it, or nothing, or nobody knows."""

    answer: Literal["done", "refused", "unknown"]
    why: str = ""  # the kind of refusal, such as NoNodeError
    op: Op | None = None  # what was refused

    @property
    def done(self) -> bool:
        return self.answer == "done"


class Session:
    def __init__(self, hosts: str, seconds: float, patience: float = 15.0) -> None:
        self.seconds, self._patience = seconds, patience
        quiet = logging.getLogger("custody.zookeeper")
        quiet.setLevel(logging.CRITICAL)
        self.zk = KazooClient(hosts, timeout=seconds, logger=quiet)
        try:
            self.zk.start(timeout=patience)
        except (KazooException, KazooTimeoutError) as error:
            self.close()
            raise down(error) from error

    def close(self) -> None:
        self.zk.stop()
        self.zk.close()

    @property
    def id(self) -> int:
        session: tuple[int, bytes] | None = self.zk.client_id
        return session[0] if session else -1

    # Reading

    def get(self, path: str) -> Node | None:
        return self.get_many([path])[0]

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Each node, or None where there is none."""
        return [None if found is None else _node(found[0], found[1]) for found in self._ask(self.zk.get_async, paths)]

    def look_many(self, paths: Sequence[str], patience: float | None = None) -> list[Node | None]:
        """The same without the data. `patience`: how long to wait for an answer, where that matters."""
        return [None if stat is None else _node(b"", stat) for stat in self._ask(self.zk.exists_async, paths, patience)]

    def names(self, path: str, ring: Callable[[], None] | None = None) -> list[str]:
        """The children, sorted; none where there is no such node. `ring` is called once when they change."""
        watch = (lambda _event: ring()) if ring else None
        (found,) = self._ask(lambda each: self.zk.get_children_async(each, watch=watch), [path])
        return sorted(found or ())

    def names_many(self, paths: Sequence[str]) -> list[list[str]]:
        found = self._ask(self.zk.get_children_async, paths)
        return [sorted(names or ()) for names in found]

    def _ask(self, question: Callable[[str], Any], paths: Sequence[str], patience: float | None = None) -> list[Any]:
        """Ask until there is an answer or patience is at an end: a server that starts again takes a moment."""
        seconds = self._patience if patience is None else patience
        end = time.monotonic() + seconds
        while True:
            sent = [question(path) for path in paths]
            try:
                return [_answer(each, seconds) for each in sent]
            except AWAY as error:
                if time.monotonic() >= end:
                    raise down(error) from error
                time.sleep(min(PAUSE, seconds))
            except KazooException as error:
                raise down(error) from error

    # Writing

    def commit(self, ops: Sequence[Op]) -> Verdict:
        return self.commit_many([ops])[0]

    def commit_many(self, moves: Iterable[Sequence[Op]]) -> list[Verdict]:
        """Each is one `multi`, done or refused by itself; each is sent before the next is even made."""
        sent = [(ops, self._send(ops)) for ops in moves]
        return [self._verdict(ops, answer) for ops, answer in sent]

    def _send(self, ops: Sequence[Op]) -> Any:
        return send(self.zk, ops)

    def _verdict(self, ops: Sequence[Op], sent: Any) -> Verdict:
        try:
            answers = sent.get(timeout=self._patience)
        except AWAY as error:
            return Verdict("unknown", type(error).__name__)
        except KazooException as error:
            raise down(error) from error
        for op, answer in zip(ops, answers, strict=False):
            if isinstance(answer, AWAY):
                return Verdict("unknown", type(answer).__name__)
            if isinstance(answer, Exception) and not isinstance(answer, RolledBackError | RuntimeInconsistency):
                return Verdict("refused", type(answer).__name__, op)
        return Verdict("done")

    def ensure(self, path: str) -> None:
        try:
            self.zk.retry(self.zk.ensure_path, path)
        except (KazooException, KazooTimeoutError) as error:
            raise down(error) from error


def _answer(sent: Any, seconds: float) -> Any:
    try:
        return sent.get(timeout=seconds)
    except NoNodeError:
        return None


def _node(data: bytes, stat: Any) -> Node:
    # What the server tells counts births and deaths of children; twice the births less those alive gives the births.
    births = (stat.cversion + stat.numChildren) // 2
    return Node(
        data, stat.version, stat.ctime * 1000, stat.mtime * 1000, stat.numChildren, births, stat.ephemeralOwner
    )  # fmt: skip


def down(error: Exception) -> Unavailable:
    return Unavailable(
        f"ZooKeeper does not answer: {type(error).__name__}",
        code="store.down",
        hint="is it running, is the address right?",
    )


def send(zk: Any, ops: Sequence[Op]) -> Any:
    """One `multi`, on its way; the answer is waited for by whoever asks it."""
    request = zk.transaction()
    for op in ops:
        match op:
            case Create():
                request.create(op.path, op.data, ephemeral=op.ephemeral, sequence=op.sequence)
            case Set():
                request.set_data(op.path, op.data, op.version)
            case Delete():
                request.delete(op.path, op.version)
            case Check():
                request.check(op.path, op.version)
    return request.commit_async()
