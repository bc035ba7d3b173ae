"""The services that only some applications need: storage, workflows and containers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from rig.azurite import ACCOUNT, Azurite
from rig.need import need
from rig.podman import IMAGE, Podman
from rig.program import CannotStart, is_running
from rig.redis import Redis
from rig.temporal import Temporal


def signed(azurite: Azurite, method: str, key: str, container: str) -> urllib.request.Request:
    """A request about a container, signed as Azure wants it."""
    date = formatdate(usegmt=True)
    headers = f"x-ms-date:{date}\nx-ms-version:2021-12-02\n"
    resource = f"/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
    text = f"{method}\n" + "\n" * 11 + headers + resource
    digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    request = urllib.request.Request(f"{azurite.url()}/{container}?restype=container", method=method)
    request.add_header("x-ms-date", date)
    request.add_header("x-ms-version", "2021-12-02")
    request.add_header("Authorization", f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}")
    return request


def status(request: urllib.request.Request) -> int:
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def test_azurite_keeps_a_container_for_who_has_the_key(azurite: Azurite) -> None:
    stranger = base64.b64encode(b"guess").decode()
    assert status(signed(azurite, "PUT", stranger, "letters")) == 403
    assert status(signed(azurite, "PUT", azurite.key, "letters")) == 201
    assert status(signed(azurite, "GET", azurite.key, "letters")) == 200
    assert f"AccountKey={azurite.key}" in azurite.connection_string


def test_azurite_keeps_its_data_when_it_is_stopped_and_started(azurite: Azurite) -> None:
    status(signed(azurite, "PUT", azurite.key, "kept"))
    first = azurite.program.pid
    azurite.stop()
    assert not is_running(first)
    azurite.start()
    assert status(signed(azurite, "GET", azurite.key, "kept")) == 200


@pytest.fixture
def own_temporal() -> Iterator[Temporal]:
    need("temporal")
    server = Temporal()
    server.start()
    yield server
    server.remove()


def call(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_temporal_keeps_a_workflow_through_a_crash(own_temporal: Temporal) -> None:
    workflow = f"{own_temporal.http}/namespaces/default/workflows/kept"
    call(workflow, {"workflowType": {"name": "Mirror"}, "taskQueue": {"name": "channels"}})
    first = own_temporal.program.pid

    own_temporal.stop("kill")
    assert not is_running(first)
    own_temporal.start()

    assert call(workflow)["workflowExecutionInfo"]["status"] == "WORKFLOW_EXECUTION_STATUS_RUNNING"


def test_a_container_runs_with_its_own_files_and_no_network(podman: Podman) -> None:
    said = podman.podman("run", "--rm", IMAGE, "sh", "-c", "ls /; ls /sys/class/net")
    assert said.split() == [*sorted(said.split()[:-1]), "lo"]
    assert "busybox" in podman.podman("run", "--rm", IMAGE, "ls", "/bin")


@pytest.mark.kills
def test_the_containers_of_a_killed_test_run_are_ended_by_the_next(podman: Podman) -> None:
    run = """
import os, signal
from rig.podman import IMAGE, Podman
store = Podman()
store.start()
name = store.podman("run", "--detach", IMAGE, "sleep", "300").strip()
print(store.podman("inspect", "--format", "{{.State.Pid}}", name).strip(), store.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, env=environ)
    pid, folder = killed.stdout.split()
    assert is_running(int(pid))

    Podman().remove()

    assert not is_running(int(pid))
    assert not Path(folder).exists()


def test_a_container_that_fails_says_so(podman: Podman) -> None:
    with pytest.raises(CannotStart, match="ended with 1"):
        podman.podman("run", "--rm", IMAGE, "false")


def test_redis_keeps_what_it_has_answered_for_when_it_is_killed() -> None:
    need("redis")
    server = Redis()
    try:
        server.start()
        assert server.ask("SET parcel sent") == b"+OK\r\n"
        server.program.end(signal.SIGKILL)
        server.start()
        assert server.ask("RENAME parcel box") == b"+OK\r\n", "it is still there"
    finally:
        server.remove()
