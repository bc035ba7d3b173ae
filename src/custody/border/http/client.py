"""Asking a server and following where it leads.

Each hop is a URL judged like the first one (`urls.py`) and a connection to a judged address (`pool.py`). We
send no cookies and no credentials, so none can be carried to another host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from custody.border.http import answers
from custody.border.http.addresses import Resolver
from custody.border.http.deadlines import Deadline
from custody.border.http.http11 import Head, Piece, Stale, Wire
from custody.border.http.policy import Policy
from custody.border.http.pool import Connector, Pool
from custody.border.http.urls import Target, follow
from custody.errors import Refused

_ANSWER_BYTES = 64 << 10  # of the answer to a callback are kept


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said, after redirects."""

    head: Head
    target: Target
    body: Iterator[Piece]


class Client:
    """Asks under one policy, keeping connections open in between."""

    def __init__(self, policy: Policy, resolver: Resolver, connector: Connector) -> None:
        self._policy = policy
        self._pool = Pool(policy, resolver, connector)

    @contextmanager
    def answer(
        self, method: str, target: Target, watch: Deadline, fields: Mapping[str, str] | None = None
    ) -> Iterator[Answer]:
        """Ask, follow redirects, and lend the answer; the connection goes back afterwards."""
        for _ in range(self._policy.redirects + 1):
            wire, head = self._asked(method, target, watch, fields)
            try:
                if head.status < 300:
                    yield Answer(head, target, wire.body(head, target, watch))
                    return
                wire.drain(head, target, watch)
                if head.status not in answers.REDIRECTS:
                    yield Answer(head, target, iter(()))
                    return
            finally:
                self._pool.give(wire)
            target = follow(target, answers.location(head, target), self._policy)
        raise Refused(
            f"the server redirects more than {self._policy.redirects} times",
            code="url.too_many_redirects",
            where=target.shown,
        )

    def _asked(
        self, method: str, target: Target, watch: Deadline, fields: Mapping[str, str] | None
    ) -> tuple[Wire, Head]:
        wire = self._pool.take(target, watch)
        try:
            return wire, wire.ask(method, target, watch, fields)
        except Stale:
            self._pool.give(wire)
        except BaseException:
            self._pool.give(wire)
            raise
        wire = self._pool.take(target, watch, fresh=True)
        try:
            return wire, wire.ask(method, target, watch, fields)
        except BaseException:
            self._pool.give(wire)
            raise

    def size(self, target: Target, watch: Deadline) -> int | None:
        """The size of a file, if the server tells."""
        with self.answer("HEAD", target, watch) as answer:
            for _ in answer.body:
                pass
            if answer.head.status == 200 and (size := answers.told_size(answer.head, answer.target)) is not None:
                return size
            if answer.head.status in (404, 410, 429, 503):
                return None
        # Many servers refuse HEAD, or sign their URLs for GET only.
        with self.answer("GET", target, watch, {"Range": "bytes=0-0"}) as answer:
            if answer.head.status == 206:
                return answers.content_range(answer.head, answer.target)[1]
            if answer.head.status == 200:
                return answers.told_size(answer.head, answer.target)
        return None

    def post(self, target: Target, watch: Deadline, body: bytes, fields: Mapping[str, str]) -> tuple[int, bytes]:
        """Send once, on a connection of its own. Redirects are not followed."""
        answers.check_fields(fields, target)
        wire = self._pool.take(target, watch, fresh=True)
        try:
            head = wire.ask("POST", target, watch, fields, body=body)
            if not 200 <= head.status < 300:
                raise answers.status_error(head, target)
            watch.phase(self._policy.answer_seconds, "http.silent", "the server does not finish its answer")
            answer = b""
            for piece in wire.body(head, target, watch):
                answer += bytes(piece[: _ANSWER_BYTES - len(answer)])
                if len(answer) == _ANSWER_BYTES:
                    break
            return head.status, answer
        finally:
            self._pool.give(wire)

    def close(self) -> None:
        self._pool.close()
