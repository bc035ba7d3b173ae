"""Runs by itself: opens a new store again and again, dying one statement later each time; then opens it for good.

A child that leaves through os._exit has closed nothing and rolled nothing back, as if it had been killed. The
parent prints, for each death, what the next start made of what was left.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import apsw

from custody.kernel.stores import open_store
from custody.kernel.stores.sql.migrations import migrations
from kernel.stores.acts import submit
from kernel.stores.clock import HandClock


def dying_child(url: str, after: int) -> int:
    """Whether a process that dies before its statement number `after` got that far."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = iter(range(after))

    def count(cursor: object, sql: str, bindings: object) -> bool:
        if next(left, None) is None:
            os._exit(9)
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = count

    apsw.connection_hooks.append(hook)
    open_store(url, HandClock())
    os._exit(0)


def main(folder: Path) -> None:
    for deaths in range(1000):
        url = f"sqlite:///{folder / str(deaths)}.db"
        code = dying_child(url, deaths)
        with open_store(url, HandClock()) as store:
            rows = store.db.read(lambda tx: tx.run("counts"))
            assert rows == [], rows
            assert submit(store) == 1
        if code == 0:
            print(f"{deaths} deaths, {len(migrations('sqlite'))} migrations, all recovered")
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
