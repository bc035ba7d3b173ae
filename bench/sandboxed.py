"""How soon a task's first process runs once it is ready, and how soon one does in a bare sandbox.

Both tell by connecting to us, so the moment is the kernel's, not that of a log or a store.
"""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from custody.kernel.engine import Serving, Settings, Worker
from custody.kernel.model.job import NewJob
from custody.kernel.stores import Store
from custody.workflows.kinds import WorkflowConfig, kinds, open_shop
from custody.workflows.makers import TASK_KIND

SAY_SO = "exec 3<>/dev/tcp/127.0.0.1/{port}"
PATIENCE = 60.0


@contextmanager
def _listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


def _until_heard(server: socket.socket, started: float) -> float:
    server.accept()[0].close()
    return (time.perf_counter() - started) * 1000


def bare_starts(folder: Path, count: int) -> list[float]:
    """Milliseconds until a shell in a sandbox has said something, with nobody around it."""
    took = []
    with _listening() as server:
        argv = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", str(folder), str(folder)]
        argv += ["--unshare-pid", "--unshare-ipc", "--die-with-parent", "bash", "-c"]
        argv += [SAY_SO.format(port=server.getsockname()[1])]
        for _ in range(count):
            started = time.perf_counter()
            with subprocess.Popen(argv):
                took.append(_until_heard(server, started))
    return took


@contextmanager
def task_starts(store: Store, archive: str, folder: Path) -> Iterator[Callable[[], float]]:
    """With an idle worker: each call makes a task ready and answers how many milliseconds passed until it ran."""
    shop = open_shop(store, WorkflowConfig(), folder)
    worker = Worker(store, Serving(tuple(kinds(shop))), Settings(threads=2, schedules=False))
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    with _listening() as server:
        numbers = iter(range(1_000_000))

        def start() -> float:
            number = next(numbers)
            payload = {
                "archive": archive,
                "revision": 1,
                "run": "commit",
                "task": f"start{number}",
                "cancels": [],
                "depends": [],
                "definition": "",
                "recipe": {"script": SAY_SO.format(port=server.getsockname()[1]), "shell": "bash", "network": True},
            }
            started = time.perf_counter()
            job = store.queue.submit_one(NewJob(TASK_KIND, payload, lane=archive, collection=archive)).id
            took = _until_heard(server, started)
            while store.queue.get(job).ended is None:
                time.sleep(0.01)
            return took

        start()
        try:
            yield start
        finally:
            worker.stop()
            thread.join()
            shop.sandboxes.__exit__(None, None, None)
