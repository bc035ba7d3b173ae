"""Wake-ups between processes: NOTIFY, but never in a transaction that does work.

A commit that notifies takes a lock that every other such commit waits for, so the verbs only ring the bell of
their own process; a thread beside them tells the other processes, at most once every few milliseconds however
often it rang. Whoever listens rings its own bell. All of this is a hint: switched off, or with the connection
lost, everything still completes within the poll interval.

To listen takes a session of one's own, which no pooler lends: behind one, `?listen=URL` names a direct address for it,
and without one nobody listens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg

from custody.errors import CustodyError
from custody.kernel.stores.postgres.connection import Connection
from custody.kernel.stores.postgres.prepared import say
from custody.kernel.stores.postgres.server.address import Address
from custody.kernel.stores.postgres.server.failover import Way
from custody.kernel.stores.wakeups import Bell

TOPIC = "custody"
QUIET_SECONDS = 0.005  # between two notifications
RECONNECT_SECONDS = 1.0
LISTEN_SECONDS = 0.1  # after which the listener looks whether it should end
CLOSE_SECONDS = 2.0
# A hint need not survive, and the disk has its turn to give to others. Both are one transaction, and it ends with it.
NOTIFY = f"set local synchronous_commit = off; notify {TOPIC}".encode()
NOTHING = -1
"""No ring has this number."""
DEAF = "wake-ups cannot be heard through a pooler, so this process looks for work every poll interval"


class SharedBell(Bell):
    """A bell that other processes hear, too."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__()
        self._tell = tell

    def ring(self) -> None:
        super().ring()
        self._tell()

    def ring_here(self) -> None:
        """Rung by another process: to be heard in this one only."""
        super().ring()


class Messenger:
    """The two threads: one that tells (started by the first ring), one that listens (started by `listen`)."""

    def __init__(self, address: Address, way: Way) -> None:
        self._address, self._way = address, way
        self.bell = SharedBell(self._tell) if address.notify else Bell()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._owed = False  # it rang, and nobody has been told
        self._wake = Bell()  # no event, whose lock one who is interrupted while ringing would keep
        self._closed = threading.Event()
        self._speaker = 0  # the server's name for our own voice, which we need not hear

    def listen(self, pooled: bool) -> str:
        """Begin to listen; answers why not, if it cannot be done."""
        if not self._address.notify:
            return ""
        if pooled and not self._address.listen:
            return DEAF
        self._start("custody-listen", self._listen)
        return ""

    def close(self) -> None:
        """What is owed is told first: a command that submits and ends is still heard at once."""
        self._closed.set()
        self._wake.ring()
        for thread in self._threads:
            thread.join(CLOSE_SECONDS)

    def _tell(self) -> None:
        if not self._owed:
            self._owed = True
            self._start("custody-notify", self._notify)
            self._wake.ring()

    def _start(self, name: str, work: Callable[[Connection], None]) -> None:
        with self._lock:
            if not self._closed.is_set() and all(thread.name != name for thread in self._threads):
                self._threads.append(threading.Thread(target=self._keep_on, args=(work,), name=name, daemon=True))
                self._threads[-1].start()

    def _keep_on(self, work: Callable[[Connection], None]) -> None:
        """A lost connection costs hints, nothing else: try again in a while."""
        elsewhere = self._address.listen and work == self._listen
        way = Way(self._address.to_listen()) if elsewhere else self._way
        while True:
            try:
                with way.connect() as db:
                    work(db)
            except (CustodyError, psycopg.Error):
                self._closed.wait(RECONNECT_SECONDS)
            if self._closed.is_set():
                return

    def _notify(self, db: Connection) -> None:
        self._speaker = db.session.pid
        heard = NOTHING  # for what is owed since the last connection
        while self._wake.wait(heard, threading.TIMEOUT_MAX):
            heard = self._wake.heard()
            if self._owed:
                self._owed = False
                say(db, NOTIFY)
            if self._closed.wait(QUIET_SECONDS):
                return

    def _listen(self, db: Connection) -> None:
        db.execute(f"listen {TOPIC}")
        self._ring()  # for what was said while nobody listened
        while not self._closed.is_set():
            for note in db.notifies(timeout=LISTEN_SECONDS, stop_after=1):
                if note.pid != self._speaker:
                    self._ring()

    def _ring(self) -> None:
        if isinstance(self.bell, SharedBell):
            self.bell.ring_here()
