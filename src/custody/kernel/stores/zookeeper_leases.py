"""Named leases on ZooKeeper, for those who have one: the same three verbs, fenced.

    /custody/leases/NAME         persistent; its data names the holder; its *version* is the token
    /custody/leases/NAME/held    ephemeral; while it exists, the holder's session lives

A lock on ZooKeeper is not a fence: an ephemeral node that is made anew starts at version 0 again, and a holder that
was stopped past its session finds everything as it left it. So the token is the version of the *persistent* node,
which rises at every claim, and every claim, renewal and return is one `multi` that checks it. Whether the holder
lives is ZooKeeper's own judgement (its session), so no clock of ours is asked.

A lost answer is found out: the node's data carries the claim's own id.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from custody.errors import BadInput, LeaseLost, Unavailable
from custody.kernel.model.lease import Lease
from custody.kernel.stores.shown_url import shown

logging.getLogger("kazoo").addHandler(logging.NullHandler())  # what matters of it is said by our own errors
ROOT = "/custody/leases"
PASSING = "/custody/passing"
TRIES = 5


class ZooKeeperLeases:
    """Leases below one root. `seconds` of a claim cannot exceed the session's own time-out, which decides."""

    def __init__(
        self, hosts: str, session_seconds: float = 10.0, root: str = ROOT, connect_seconds: float = 15.0
    ) -> None:
        self._root, self.session_seconds = root, session_seconds
        self._zk = KazooClient(hosts, timeout=session_seconds)
        try:
            self._zk.start(timeout=connect_seconds)
            self._zk.ensure_path(root)
        except (KazooException, KazooTimeoutError) as error:
            self._zk.stop()
            self._zk.close()
            raise _down(error) from error

    @classmethod
    def open(cls, url: str, session_seconds: float = 10.0) -> ZooKeeperLeases:
        """zookeeper://host:port,host:port/chroot"""
        parts = urlsplit(url)
        if parts.scheme != "zookeeper" or not parts.netloc:
            raise BadInput(
                f"{shown(url)} is not an address of ZooKeeper", code="store.url", hint="zookeeper://127.0.0.1:2181"
            )
        return cls(parts.netloc + parts.path.rstrip("/"), session_seconds)

    def claim(self, name: str, holder: str, seconds: float) -> Lease | None:
        """The lease, or None while someone holds it."""
        claim_id = f"{holder} {time.monotonic_ns()}"
        for _ in range(TRIES):
            try:
                return self._claim(name, holder, claim_id)
            except (ConnectionLoss, SessionExpiredError):
                continue  # perhaps it was done: the next look will tell
            except (KazooException, KazooTimeoutError) as error:
                raise _down(error) from error
        raise Unavailable("ZooKeeper does not answer", code="store.down")

    def _claim(self, name: str, holder: str, claim_id: str) -> Lease | None:
        path = self._path(name)
        self._answer(self._zk.ensure_path_async(path))
        data, stat = self._answer(self._zk.get_async(path))
        found = _read(data)
        held = self._exists(f"{path}/held")
        if held is not None:
            mine = found.get("claim") == claim_id and held.ephemeralOwner == self._session()
            return self._lease(name, holder, stat.version, found["since"]) if mine else None
        since = int(stat.mtime) * 1000
        request = self._zk.transaction()
        request.set_data(path, _write(holder, claim_id, since), version=stat.version)
        request.create(f"{path}/held", ephemeral=True)
        if _refusal(self._answer(request.commit_async())):
            return None  # someone was quicker
        return self._lease(name, holder, stat.version + 1, since)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Ask whether it is still ours; ZooKeeper's session does the keeping."""
        path = self._path(lease.name)
        try:
            held = self._exists(f"{path}/held")
            request = self._zk.transaction()
            request.check(path, version=lease.token)
            refused = _refusal(self._answer(request.commit_async()))
        except (KazooException, KazooTimeoutError) as error:
            raise _down(error) from error
        if refused or held is None or held.ephemeralOwner != self._session():
            raise LeaseLost(f"the lease on {lease.name} is no longer ours", hint="stop what it protected")
        return self._lease(lease.name, lease.holder, lease.token, lease.since)

    def settle(self, lease: Lease) -> bool:
        """Give it back. False when it was no longer ours."""
        path = self._path(lease.name)
        return self._end(path, lease.token)

    def take_away(self, name: str, who: str, why: str) -> bool:
        """An administrator breaks a lease; the version rises, so its holder is fenced out."""
        path = self._path(name)
        stat = self._exists(path)
        return stat is not None and self._end(path, stat.version)

    def _end(self, path: str, version: int) -> bool:
        request = self._zk.transaction()
        request.set_data(path, b"{}", version=version)
        request.delete(f"{path}/held")
        try:
            return not _refusal(self._answer(request.commit_async()))
        except (KazooException, KazooTimeoutError) as error:
            raise _down(error) from error

    def get(self, name: str) -> Lease | None:
        path = self._path(name)
        try:
            if self._exists(f"{path}/held") is None:
                return None
            data, stat = self._answer(self._zk.get_async(path))
        except NoNodeError:
            return None
        except (KazooException, KazooTimeoutError) as error:
            raise _down(error) from error
        found = _read(data)
        return self._lease(name, found.get("holder", ""), stat.version, found.get("since", 0)) if found else None

    def passing(self) -> PassingLocks:
        """Locks on names that come and go by the million, over the same session."""
        self._answer(self._zk.ensure_path_async(PASSING))
        return PassingLocks(self._zk, self.session_seconds)

    def close(self) -> None:
        self._zk.stop()
        self._zk.close()

    def __enter__(self) -> ZooKeeperLeases:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lease(self, name: str, holder: str, token: int, since: int) -> Lease:
        return Lease(
            name=name, holder=holder, token=token, until=0, since=since
        )  # no `until`: the session decides, not a clock

    def _exists(self, path: str) -> Any:
        return self._answer(self._zk.exists_async(path))

    def _answer(self, asked: Any) -> Any:
        """What was asked for; without a connection nobody would ever answer, so it is waited for no longer than a
        session lives: after that what was held is not ours anyway."""
        return asked.get(timeout=self.session_seconds)

    def _session(self) -> int:
        session: tuple[int, bytes] | None = self._zk.client_id
        return session[0] if session else -1

    def _path(self, name: str) -> str:
        return f"{self._root}/{quote(name, safe='')}"


class PassingLocks:
    """One ephemeral node while a name is held, and nothing afterwards: for items, of which there are very many.

    No node stays that could remember how often it was claimed, so these do not fence: what is done under such a
    lock must be written under a token of its own (a job's). The token here is the node's creation, which is unique.
    """

    def __init__(self, zk: Any, seconds: float) -> None:
        self._zk, self._seconds = zk, seconds
        self._mine: set[str] = set()  # held, or being asked for, by threads of this process
        self._lock = threading.Lock()

    def claim(self, name: str, holder: str, seconds: float) -> Lease | None:
        """The lock, or None while someone holds it."""
        with self._lock:
            if name in self._mine:
                return None
            self._mine.add(name)
        lease = None
        try:
            lease = self._claim(name, holder)
        finally:
            if lease is None:
                self._mine.discard(name)
        return lease

    def _claim(self, name: str, holder: str) -> Lease | None:
        claim_id = f"{holder} {time.monotonic_ns()}"
        for _ in range(TRIES):
            try:
                self._zk.create_async(_place(name), _write(holder, claim_id, 0), ephemeral=True).get(
                    timeout=self._seconds
                )
            except NodeExistsError:
                pass  # someone's; or our own, when an earlier answer was lost
            except (ConnectionLoss, SessionExpiredError):
                continue
            except (KazooException, KazooTimeoutError) as error:
                raise _down(error) from error
            found = self._look(name)
            if found is not None and found[1] == claim_id:
                return found[0]
            if found is not None and not self._is_left_over(name):
                return None
        raise Unavailable("ZooKeeper does not answer, or the lock comes and goes", code="store.down")

    def _is_left_over(self, name: str) -> bool:
        """Of this very session, and no thread of ours holds it: its return was lost, and it would last for ever."""
        try:
            stat = self._zk.exists_async(_place(name)).get(timeout=self._seconds)
            session = self._zk.client_id
            if stat is not None and not (session and stat.ephemeralOwner == session[0]):
                return False
            if stat is not None:
                self._zk.delete_async(_place(name)).get(timeout=self._seconds)
        except NoNodeError:
            pass
        except (KazooException, KazooTimeoutError) as error:
            raise _down(error) from error
        return True

    def renew(self, lease: Lease, seconds: float) -> Lease:
        found = self._look(lease.name)
        if found is None or found[0].token != lease.token:
            raise LeaseLost(f"the lock on {lease.name} is no longer ours", hint="stop what it protected")
        return lease

    def settle(self, lease: Lease) -> bool:
        """Give it back. False when it was no longer ours."""
        try:
            return self._settle(lease)
        finally:
            self._mine.discard(lease.name)  # whatever was answered: what is left over is known by its session

    def _settle(self, lease: Lease) -> bool:
        found = self._look(lease.name)
        if found is None or found[0].token != lease.token:
            return False
        try:
            self._zk.delete_async(_place(lease.name)).get(timeout=self._seconds)
        except NoNodeError:
            return False  # its session ended just now
        except (KazooException, KazooTimeoutError) as error:
            raise _down(error) from error
        return True

    def get(self, name: str) -> Lease | None:
        found = self._look(name)
        return found[0] if found else None

    def _look(self, name: str) -> tuple[Lease, str] | None:
        try:
            data, stat = self._zk.get_async(_place(name)).get(timeout=self._seconds)
        except NoNodeError:
            return None
        except (KazooException, KazooTimeoutError) as error:
            raise _down(error) from error
        found = _read(data)
        since = int(stat.ctime) * 1000
        return Lease(name=name, holder=found.get("holder", ""), token=int(stat.czxid), until=0, since=since), str(
            found.get("claim", "")
        )


def _place(name: str) -> str:
    return f"{PASSING}/{quote(name, safe='')}"


def _write(holder: str, claim_id: str, since: int) -> bytes:
    return json.dumps({"holder": holder, "claim": claim_id, "since": since}).encode()


def _read(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data) if data else {}
    return found


def _refusal(answers: list[Any]) -> bool:
    """Was a `multi` refused? All of it is done, or none; connection trouble is raised."""
    for answer in answers:
        if isinstance(answer, BadVersionError | NodeExistsError | NoNodeError):
            return True
        if isinstance(answer, ConnectionLoss | SessionExpiredError):
            raise answer
    return any(isinstance(answer, Exception) for answer in answers)


def _down(error: Exception) -> Unavailable:
    return Unavailable(
        f"ZooKeeper does not answer: {type(error).__name__}",
        code="store.down",
        hint="is it running, is the address right?",
    )
