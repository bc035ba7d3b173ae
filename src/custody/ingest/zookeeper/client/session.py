"""One session with ZooKeeper: reads and `multi`s, many at once on one connection, and honest about lost answers.

Everything is sent before anything is waited for, so that a hundred requests cost little more than one. Reads are
asked again when the connection broke; a `multi` whose answer got lost is *unknown*, and whoever sent it has
to look for its own mark.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    UnimplementedError,
)
from kazoo.handlers.threading import KazooTimeoutError

from custody.errors import Unavailable
from custody.ingest.zookeeper.client import packets
from custody.ingest.zookeeper.client.multi import Op

T = TypeVar("T")

AWAY = (ConnectionLoss, SessionExpiredError, ConnectionClosedError, OperationTimeoutError, KazooTimeoutError)
PAUSE = 0.05  # seconds between two tries of a read
AT_ONCE = 1_000  # reads in one request
TOGETHER, TOGETHER_BYTES = 50, 200_000  # moves in one `multi`; well below what a server takes in one packet


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


DONE = Verdict("done")


@dataclass(frozen=True, slots=True)
class Ringing:
    """A watch. All of one bell are equal: however often the library is told of it, it keeps one."""

    ring: Callable[[], None]

    def __call__(self, event: object) -> None:
        self.ring()


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

    def get_many(self, paths: Sequence[str], patience: float | None = None) -> list[Node | None]:
        """Each node, or None where there is none. `patience`: how long to wait for an answer, where that matters."""
        answers = self._ask(lambda: self._bulk(packets.GET, paths), packets.found_nodes, patience)
        return [None if found is None else _node(*found) for answer in answers for found in answer or ()]

    def names(self, path: str, ring: Callable[[], None] | None = None) -> list[str]:
        """The children, sorted; none where there is no such node. `ring` is called once when they change."""
        watch = Ringing(ring) if ring else None
        (found,) = self._ask(lambda: [self.zk.get_children_async(path, watch=watch)], sorted)
        return found or []

    def names_many(self, paths: Sequence[str]) -> list[list[str]]:
        answers = self._ask(lambda: self._bulk(packets.CHILDREN, paths), packets.found_names)
        return [sorted(names) for answer in answers for names in answer or ()]

    def _bulk(self, kind: int, paths: Sequence[str]) -> list[Any]:
        whole = [self.zk.chroot + path for path in paths]
        return [
            packets.call(self.zk, packets.Reads(kind, whole[start : start + AT_ONCE]))
            for start in range(0, len(whole), AT_ONCE)
        ]

    def _ask(
        self, question: Callable[[], list[Any]], read: Callable[[Any], T], patience: float | None = None
    ) -> list[T | None]:
        """Ask until there is an answer or patience is at an end: a server that starts again takes a moment."""
        seconds = self._patience if patience is None else patience
        end = time.monotonic() + seconds
        while True:
            sent = question()
            try:
                return [_answer(each, read, seconds) for each in sent]
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
        """Each is all or nothing, done or refused by itself; each is sent before many more are even made.

        A request costs the client far more than what is in it, so moves go many in one `multi`. If anything in it is
        refused all of it is, and then each is asked for alone: as if they had never gone together.
        """
        sent = [(bundle, self._send([op for ops in bundle for op in ops])) for bundle in _bundled(moves)]
        return [verdict for bundle, answer in sent for verdict in self._verdicts(bundle, answer)]

    def _send(self, ops: Sequence[Op]) -> Any:
        return packets.call(self.zk, packets.Multi(self.zk.chroot, ops))

    def _verdicts(self, bundle: Sequence[Sequence[Op]], sent: Any) -> list[Verdict]:
        together = self._verdict([op for ops in bundle for op in ops], sent)
        if len(bundle) == 1 or together.answer != "refused":
            return [together] * len(bundle)
        alone = [(ops, self._send(ops)) for ops in bundle]
        return [self._verdict(ops, answer) for ops, answer in alone]

    def _verdict(self, ops: Sequence[Op], sent: Any) -> Verdict:
        try:
            codes = sent.get(timeout=self._patience)
        except AWAY as error:
            return Verdict("unknown", type(error).__name__)
        except KazooException as error:
            raise down(error) from error
        for op, code in zip(ops, codes, strict=False):
            if code not in packets.NOT_THE_CAUSE:
                return Verdict("refused", packets.name_of_error(code), op)
        return DONE

    def ensure(self, path: str) -> None:
        try:
            self.zk.retry(self.zk.ensure_path, path)
        except (KazooException, KazooTimeoutError) as error:
            raise down(error) from error


def _bundled(moves: Iterable[Sequence[Op]]) -> Iterator[list[Sequence[Op]]]:
    bundle: list[Sequence[Op]] = []
    size = 0
    for ops in moves:
        own = sum(len(op.path) + len(getattr(op, "data", b"")) for op in ops)
        if bundle and (len(bundle) == TOGETHER or size + own > TOGETHER_BYTES):
            yield bundle
            bundle, size = [], 0
        bundle.append(ops)
        size += own
    if bundle:
        yield bundle


def _answer(sent: Any, read: Callable[[Any], T], seconds: float) -> T | None:
    try:
        return read(sent.get(timeout=seconds))
    except NoNodeError:
        return None


def _node(data: bytes, stat: packets.Stat) -> Node:
    # What the server tells counts births and deaths of children; twice the births less those alive gives the births.
    births = (stat.cversion + stat.children) // 2
    return Node(
        data=data,
        version=stat.version,
        made=stat.ctime * 1000,
        changed=stat.mtime * 1000,
        children=stat.children,
        births=births,
        owner=stat.owner,
    )


def down(error: Exception) -> Unavailable:
    if isinstance(error, UnimplementedError):
        return Unavailable("this ZooKeeper cannot read in bulk", code="store.old", hint="it must be 3.6 or newer")
    return Unavailable(
        f"ZooKeeper does not answer: {type(error).__name__}",
        code="store.down",
        hint="is it running, is the address right?",
    )
