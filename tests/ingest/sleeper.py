"""A worker on the tree whose hands do not move until they are told to: `python sleeper.py URL FOLDER HANDS`.

Its name is in FOLDER/PID, a line of FOLDER/begun for each job it began; FOLDER/go is what its hands wait for.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from custody.ingest.states import JOB, JOB_KIND
from custody.ingest.zookeeper.store import open_tree
from custody.kernel.engine import Kind, Serving, Settings, Work, Worker
from custody.kernel.model.outcome import Outcome, Passed

LEASE = 1.0  # seconds


def main() -> None:
    url, folder, hands = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])

    def wait(work: Work) -> Outcome:
        with (folder / "begun").open("a") as begun:
            begun.write(f"{work.job.id}\n")
        while not (folder / "go").exists():
            time.sleep(0.005)
        return Passed()

    with open_tree(url, LEASE) as store:
        serving = Serving((Kind(JOB_KIND, wait, state="pending", machine=JOB),))
        worker = Worker(store, serving, Settings(threads=hands, lease=LEASE, poll=0.1))
        (folder / str(os.getpid())).write_text(worker.holder)
        worker.run_forever()


if __name__ == "__main__":
    main()
