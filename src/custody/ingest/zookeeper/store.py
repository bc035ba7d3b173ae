"""A store whose queue is a tree on ZooKeeper, from one address.

    zookeeper://host:port,host:port/root?with=sqlite:///custody.db

`root` keeps several installations apart; the deployed services use none. `with` names the database for inventory,
items and history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, urlsplit

from custody.errors import BadInput
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.client.session import Session
from custody.ingest.zookeeper.follower import follow_all
from custody.ingest.zookeeper.queue import TreeQueue
from custody.ingest.zookeeper.rows import Limits, Tree
from custody.kernel.stores import Store, open_store
from custody.kernel.stores.queue import SqlQueue
from custody.kernel.stores.shown_url import shown

DATABASE = "sqlite:///custody.db"
SESSION_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Address:
    hosts: str
    root: str
    database: str = field(repr=False)  # its address may hold a password

    @property
    def url(self) -> str:
        return f"zookeeper://{self.hosts}{self.root}?with={self.database}"


def read_address(url: str) -> Address:
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    if parts.scheme != "zookeeper" or not parts.netloc or set(asked) - {"with"}:
        raise BadInput(
            f"{shown(url)} is not an address of a tree",
            code="store.url",
            hint="zookeeper://127.0.0.1:2181/root?with=sqlite:///custody.db",
        )
    return Address(parts.netloc, parts.path.rstrip("/"), asked.get("with", [DATABASE])[0])


@contextmanager
def open_session(address: Address, seconds: float = SESSION_SECONDS) -> Iterator[Session]:
    """A session below the root, which is made when it is not there."""
    if address.root:
        top = Session(address.hosts, seconds)
        try:
            top.ensure(address.root)
        finally:
            top.close()
    session = Session(address.hosts + address.root, seconds)
    try:
        yield session
    finally:
        session.close()


@contextmanager
def open_tree(
    url: str,
    session_seconds: float = SESSION_SECONDS,
    external: Iterable[str] = (),
    place: str = "",
    limits: Limits | None = None,
) -> Iterator[Store]:
    """The session's time-out is the lease: a worker that is not heard of for so long has lost what it had claimed."""
    address = read_address(url)
    with open_store(address.database) as store, open_session(address, session_seconds) as session:
        for folder in tree.FOLDERS:
            session.ensure(folder)
        at = Tree(session=session, db=store.db, limits=limits or Limits(), external=frozenset(external), place=place)
        follow_all(at)
        queue = TreeQueue(at, SqlQueue(store.db))
        yield replace(store, url=address.url, queue=queue, elsewhere=queue.view)
