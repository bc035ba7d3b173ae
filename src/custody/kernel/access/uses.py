"""When a token was last used: noted while a request is served, written a moment later by a thread of its own, for each
once a minute at most."""

from __future__ import annotations

import threading
import time
from typing import Final

from custody.errors import CustodyError
from custody.kernel.stores.rows import Tx
from custody.kernel.stores.sql.database import Database

MINUTE: Final = 60.0


class Uses:
    def __init__(self, db: Database, seconds: float = MINUTE) -> None:
        self._db, self._seconds = db, seconds
        self._lock = threading.Lock()
        self._noted: set[int] = set()  # not written yet
        self._written: dict[int, float] = {}  # and when, by our own clock
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    def note(self, token: int) -> None:
        """In no time: what is to be written waits for its turn."""
        if time.monotonic() - self._written.get(token, -self._seconds) < self._seconds:
            return
        with self._lock:
            self._noted.add(token)
            if self._thread is None and not self._end.is_set():
                self._thread = threading.Thread(target=self._write_soon, name="custody-uses", daemon=True)
                self._thread.start()

    def write(self) -> None:
        """What was noted, now. A store that is away is told next time."""
        with self._lock:
            noted, self._noted = sorted(self._noted), set()
        if not noted:
            return

        def work(tx: Tx) -> None:
            for token in noted:
                tx.run("token_used", id=token)

        try:
            self._db.write(work)
        except CustodyError:
            with self._lock:
                self._noted.update(noted)
            return
        now = time.monotonic()
        with self._lock:
            self._written = {token: at for token, at in self._written.items() if now - at < self._seconds}
            self._written |= dict.fromkeys(noted, now)

    def close(self) -> None:
        self._end.set()
        self.write()

    def _write_soon(self) -> None:
        """All that is noted meanwhile goes with it."""
        self._end.wait(min(1.0, self._seconds))
        with self._lock:
            self._thread = None
        self.write()
