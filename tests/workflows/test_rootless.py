"""Containers without root: a worker that is an ordinary user runs tasks in images too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import custody
from rig.need import need
from rig.podman import IMAGE, SETTINGS, pack_busybox
from rig.program import as_user, reachable_python, room, tool, unprivileged_user

# No numbers but one's own can be mapped, so files of others in an image become ours; and no mounts of its own kind.
STORAGE = """\
[storage]
driver = "vfs"
graphroot = "{folder}/store"
runroot = "{folder}/run"
[storage.options.vfs]
ignore_chown_errors = "true"
"""


@pytest.fixture
def without_root() -> Iterator[tuple[Path, list[str], dict[str, str]]]:
    """A folder of an ordinary user with a podman store in it; the words and variables to act as that user."""
    need("podman")
    user = unprivileged_user()
    folder = room("rootless", user)
    (folder / "containers.conf").write_text(SETTINGS.format(folder=folder))
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    root = folder / "root.tar"
    pack_busybox(Path(tool("busybox")), root)
    environ = {
        "PATH": os.environ["PATH"] + ":/usr/sbin:/usr/bin",
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    words = as_user(user)
    try_it = ["run", "--detach", "--pull=never", IMAGE, "true"]  # its end podman sees late, 20 s on some machines
    for command in (["import", str(root), IMAGE], try_it, ["rm", "--all", "--force"]):
        done = subprocess.run(
            [*words, tool("podman"), *command], env=environ, cwd="/", capture_output=True, timeout=120
        )
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"podman runs no container without root here: {done.stderr.decode().strip()[-300:]}")
    yield folder, words, environ
    for command in (
        ["rm", "--all", "--force"],
        ["system", "migrate"],
    ):  # which ends the process that holds the namespace
        subprocess.run([*words, tool("podman"), *command], env=environ, cwd="/", capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def test_an_ordinary_user_runs_a_task_in_an_image(without_root: tuple[Path, list[str], dict[str, str]]) -> None:
    folder, words, environ = without_root
    python = reachable_python(words)
    source = Path(custody.__file__).parents[1]
    environ |= {"PYTHONPATH": f"{source}:{sysconfig.get_path('purelib')}", "PYTHONDONTWRITEBYTECODE": "1"}
    script = Path(__file__).with_name("runs_rootless.py")
    done = subprocess.run(
        [*words, python, script, folder, IMAGE], env=environ, cwd="/", capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["user"] != 0
    # Anywhere in it, podman may say that it ignores limits on machines with old control groups.
    said = told["output"].replace("Resource limits are not supported and ignored on cgroups V1 rootless systems", "")
    assert [line for line in said.splitlines() if line] == ["from the archive", "***"], (
        "it read its revision and its secret, which is masked"
    )
    assert told["code"] == 7
    assert told["ours"], "what it leaves belongs to the worker"
    left = subprocess.run([*words, tool("podman"), "ps", "-aq"], env=environ, cwd="/", capture_output=True, text=True)
    assert left.stdout == ""
