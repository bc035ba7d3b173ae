"""Another service of the fleet: it knows the tree and kazoo, and nothing of the code under test.

It writes as the deployed services do: one call for each node, no `multi`, an ephemeral lock, JSON with their names. So a
crash between two calls leaves what theirs would leave. As a program it takes the Recording step (and Storing):

    python peer.py HOSTS FOLDER STATE…

Each job it works on leaves a line in FOLDER/jid…, so that work done twice can be seen.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

NEXT = {"storing": "Recording", "recording": "Notify"}
BATCH_LIST = {"Failed": "batch-failed", "Completed": "batch-completed", "Deleted": "batch-deleted"}


def now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S +0000", time.gmtime())


class Peer:
    def __init__(self, hosts: str, timeout: float = 10.0) -> None:
        self.zk = KazooClient(hosts, timeout=timeout)
        self.zk.start(timeout=30)

    def close(self) -> None:
        self.zk.stop()
        self.zk.close()

    # making

    def create_batch(self, submission: dict[str, Any]) -> str:
        path = self.zk.create("/batches/bid", sequence=True, makepath=True)
        name = str(path.rpartition("/")[2])
        self.put(f"/batches/{name}/submission", submission)
        self.put(f"/batches/{name}/status", {"status": "Pending", "last_modified": now(), "message": ""})
        if "batchID" in submission:
            self.zk.create(f"/batch-uuids/{submission['batchID']}", name.encode(), makepath=True)
        return name

    def create_job(self, batch: str, configuration: dict[str, Any], state: str, priority: int, **status: Any) -> str:
        path = self.zk.create("/jobs/jid", sequence=True, makepath=True)
        name = str(path.rpartition("/")[2])
        self.zk.create(f"{path}/bid", batch.encode())
        self.put(f"{path}/configuration", configuration)
        self.put(f"{path}/identifiers", {"primary_id": "", "local_id": []})
        self.zk.create(f"{path}/priority", str(priority).encode())
        self.zk.create(f"{path}/space_needed", b"0")
        first = {"status": state, "last_modified": now(), "last_successful_status": None, "retry_count": 0}
        self.put(f"{path}/status", {**first, "message": "", **status})
        self.zk.create(f"/jobs/states/{state.lower()}/{priority:02d}-{name}", makepath=True)
        which = BATCH_LIST.get(state, "batch-processing")
        self.zk.create(f"/batches/{batch}/states/{which}/{name}", makepath=True)
        return name

    def put(self, path: str, value: dict[str, Any]) -> None:
        self.zk.create(path, json.dumps(value).encode(), makepath=True)

    # reading

    def get(self, path: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.zk.get(path)[0])
        return value

    # working

    def take(self, state: str) -> str | None:
        """The first job of a queue, by name, that nobody has locked."""
        for entry in sorted(self.zk.get_children(f"/jobs/states/{state}")):
            name = str(entry[3:])
            try:
                self.zk.create(f"/jobs/{name}/lock", ephemeral=True)
            except (NodeExistsError, NoNodeError):
                continue
            if self.get(f"/jobs/{name}/status")["status"].lower() == state:
                return name
            self.unlock(name)
        return None

    def move(self, name: str, to: str) -> None:
        """As deployed: the job's data, then the old entry, then the new one; call by call."""
        status = self.get(f"/jobs/{name}/status")
        old, priority = status["status"], int(self.zk.get(f"/jobs/{name}/priority")[0])
        status |= {"status": to, "last_modified": now(), "last_successful_status": old}
        self.zk.set(f"/jobs/{name}/status", json.dumps(status).encode())
        self.zk.delete(f"/jobs/states/{old.lower()}/{priority:02d}-{name}")
        self.zk.create(f"/jobs/states/{to.lower()}/{priority:02d}-{name}")

    def unlock(self, name: str) -> None:
        try:
            self.zk.delete(f"/jobs/{name}/lock")
        except NoNodeError:
            pass

    def work(self, state: str, folder: Path, seconds: float = 0.0) -> str | None:
        name = self.take(state)
        if name is None:
            return None
        with (folder / name).open("a") as record:
            record.write(f"{state}\n")
        time.sleep(seconds)
        self.move(name, NEXT[state])
        self.unlock(name)
        return name


def main() -> None:
    hosts, folder, *states = sys.argv[1:]
    peer = Peer(hosts, timeout=1.0)
    while True:
        if not [name for state in states if (name := peer.work(state, Path(folder), 0.01))]:
            time.sleep(0.02)


if __name__ == "__main__":
    main()
