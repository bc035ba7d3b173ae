"""A private podman store with one small image in it, and the settings under which containers run anywhere.

In a machine that is itself a container, podman's defaults fail: it may not raise the limits it wants to set,
and crun does not take mixed control groups. runc and modest limits do; see `SETTINGS`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rig.program import CannotStart, Program, left_over, room, tool

IMAGE = "localhost/custody/busybox:1"
PYTHON_IMAGE = "localhost/custody/python:1"
APPLETS = ("sh", "cat", "echo", "env", "false", "id", "ls", "mkdir", "rm", "sleep", "touch", "true", "wget")

WITHOUT_LIMITS = """\
#!/bin/sh
count=$#
while [ $count -gt 0 ]; do
    count=$((count - 1))
    if [ "$1" = --ulimit ]; then shift 2; count=$((count - 1)); else set -- "$@" "$1"; shift; fi
done
exec {client} "$@"
"""

SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
netns = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{folder}/tmp"
"""

STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/store"
runroot = "{folder}/run"
"""


class Podman:
    """`environ` makes any podman command use this store; the image `IMAGE` is in it."""

    def __init__(self) -> None:
        for folder in left_over("podman"):
            if folder.stat().st_uid == os.geteuid():  # its settings name programs: nobody else's are obeyed
                end_store(folder)
        self.folder = room("podman")
        (self.folder / "containers.conf").write_text(SETTINGS.format(folder=self.folder))
        (self.folder / "storage.conf").write_text(STORAGE.format(folder=self.folder))
        self.environ = environ(self.folder)

    def start(self) -> None:
        """No server to start: put the image into the store, and see that it runs."""
        root = self.folder / "root.tar"
        pack_busybox(Path(tool("busybox")), root)
        self.podman("import", str(root), IMAGE)
        self.podman("run", "--rm", "--pull=never", IMAGE, "true")

    def add_python(self) -> str:
        """An image with a Python in it, made of this machine's own; its name."""
        root = self.folder / "python.tar"
        if not root.exists():
            pack_busybox(Path(tool("busybox")), root)
            pack_python(root)
            self.podman("import", str(root), PYTHON_IMAGE)
        return PYTHON_IMAGE

    def podman(self, *words: str, seconds: float = 60) -> str:
        done = subprocess.run(
            [tool("podman"), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environ,
            timeout=seconds,
        )
        if done.returncode:
            raise CannotStart(f"podman {words[0]} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    @contextmanager
    def docker(self) -> Iterator[dict[str, str]]:
        """Docker's own client, served by this store; under these variables `docker` finds it.

        The service refuses limits for single resources that it is asked for in Docker's language (podman 4.3), so the
        client is called through a script that leaves these words out; all the rest is Docker's own.
        """
        client = shutil.which("docker")
        if client is None:
            raise CannotStart("there is no docker client here")
        service, bin_ = Program("podman-service", self.folder / "service.log"), self.folder / "bin"
        bin_.mkdir(exist_ok=True)
        (bin_ / "docker").write_text(WITHOUT_LIMITS.format(client=client))
        (bin_ / "docker").chmod(0o755)
        address = f"unix://{self.folder}/service.socket"
        found = {"DOCKER_HOST": address, "DOCKER": str(bin_ / "docker")}

        def ready() -> None:
            subprocess.run([client, "version"], env=os.environ | found, capture_output=True, check=True, timeout=30)

        try:
            service.run([tool("podman"), "system", "service", "--time=0", address], ready, environ=self.environ)
            yield found
        finally:
            service.end()

    def remove(self) -> None:
        end_store(self.folder)


def environ(folder: Path) -> dict[str, str]:
    settings = {"CONTAINERS_CONF": "containers.conf", "CONTAINERS_STORAGE_CONF": "storage.conf"}
    return os.environ | {name: str(folder / file) for name, file in settings.items()}


def end_store(folder: Path) -> None:
    """Containers outlive who started them, so those of a killed test run are ended here too."""
    # The store is named twice: a lost settings file must not make this "remove all" of somebody's own store.
    store = [tool("podman"), "--root", str(folder / "store"), "--runroot", str(folder / "run")]
    for words in (["rm", "--all", "--force", "--time", "0"], ["rmi", "--all", "--force"]):
        subprocess.run([*store, *words], capture_output=True, env=environ(folder), timeout=60)
    subprocess.run(["umount", folder / "store" / "overlay"], capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def pack_busybox(busybox: Path, target: Path) -> None:
    """A root file system of one program under many names."""
    with tarfile.open(target, "w") as tar:
        for folder in ("bin", "tmp", "work", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        tar.add(busybox.resolve(), "bin/busybox")
        for name in APPLETS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)


LOADED = """
import __future__, json, os, socket, sys
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
print(sys.base_prefix, *{file for file in files if file and file.startswith(sys.base_prefix)}, sep="\\n")
"""


def pack_python(target: Path) -> None:
    """Add the interpreter that runs us, and no more of its library than a small client needs."""
    interpreter = Path(sys.executable).resolve()
    said = subprocess.run([interpreter, "-I", "-c", LOADED], capture_output=True, text=True, check=True).stdout
    prefix, *modules = said.split("\n")[:-1]
    places = {f"usr/{Path(file).relative_to(prefix)}": Path(file) for file in modules}
    places["usr/bin/python3"] = interpreter
    for library in shared_libraries([interpreter, *(Path(file) for file in modules if file.endswith(".so"))]):
        places[str(library).lstrip("/")] = library
    with tarfile.open(target, "a") as tar:
        for place, file in places.items():
            tar.add(file.resolve(), place)
        entry = tarfile.TarInfo("usr/bin/env")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/bin/busybox"
        tar.addfile(entry)


def shared_libraries(files: Iterable[Path]) -> set[Path]:
    """Where the loader finds what these need, itself among them."""
    said = subprocess.run(["ldd", *files], capture_output=True, text=True).stdout
    return {Path(found) for found in re.findall(r"(/\S+) \(0x", said)}
