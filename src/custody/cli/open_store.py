"""Opening whatever a store's address names: a database, or a tree on ZooKeeper with a database beside it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from custody.config import Config, find
from custody.errors import BadInput, CustodyError, NotFound
from custody.kernel import stores
from custody.kernel.stores import Store

LEASE_SECONDS = 30.0
LONGEST = 18  # digits: no number of a job has more


PATIENCE = 30.0
"""Seconds for which what runs for good waits for a server that is just starting."""
TELL_SECONDS = 5.0


class Waiting:
    """Says now and then what is waited for."""

    def __init__(self) -> None:
        self._said_at = -TELL_SECONDS

    def __call__(self, error: CustodyError) -> None:
        if time.monotonic() - self._said_at >= TELL_SECONDS:
            self._said_at = time.monotonic()
            print(f"waiting: {error.message}", file=sys.stderr, flush=True)


class Progress:
    """Says now and then how far a long look has come."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def __call__(self, what: str, count: int) -> None:
        if time.monotonic() - self._said_at >= TELL_SECONDS:
            self._said_at = time.monotonic()
            print(f"looked at {count:,} {what} …", file=sys.stderr, flush=True)


@contextmanager
def open_store(
    url: str,
    config: Config | None = None,
    lease: float = LEASE_SECONDS,
    place: str = "",
    patience: float = 0.0,
    *,
    existing: bool = False,
) -> Iterator[Store]:
    """On ZooKeeper the session's time-out is the lease, and the configuration says what other services do."""
    if not url.startswith("zookeeper:"):
        with stores.open_store(url, patience=patience, told=Waiting(), existing=existing) as store:
            yield store
        return
    from custody.ingest.config import external_states
    from custody.ingest.zookeeper import open_tree
    from custody.ingest.zookeeper.store import read_address

    if existing:
        stores.open_store(read_address(url).database, existing=True).close()
    found = config or find(None)
    external = external_states(found.ingest) if found else ()
    with open_tree(url, lease, external, place or (found.ingest.place if found else "")) as tree:
        yield tree


def number(text: str) -> int:
    """A job's or a batch's number; on ZooKeeper also its name, such as jid0000000012."""
    from custody.ingest.zookeeper.tree import id_of

    if re.fullmatch(r"[bj]id\d{10}", text):
        return id_of(text)
    if not text.isascii() or not text.isdigit():
        raise BadInput(f"{text!r} is no number of a job", code="job.number", hint="12, or jid0000000012")
    if len(text) > LONGEST:
        raise NotFound(f"there is no job {text}", code="job.unknown", hint="`custody job list` shows what there is")
    return int(text)


def label(job: int) -> str:
    """As people know it."""
    from custody.ingest.zookeeper.tree import shown

    return shown(job)
