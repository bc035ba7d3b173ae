"""Runs a program of this machine on a folder that somebody else may have made, such as a repository.

The program sees /usr, what it is given and nothing else: no network, no other process, no file of ours. If the worker
is root, it runs as the owner of what it reads, in the groups that the system says he is in, without any right beyond
that; otherwise as the worker itself, in a user namespace, where the groups of the worker's process stay with it. So
whatever the folder makes it do, it does as its owner and to its owner.
"""

from __future__ import annotations

import functools
import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from custody.border.sandbox import bwrap

MEMORY = 2 << 30
_TMP = "/tmp"  # noqa: S108 -- inside, its own
_RIGHTS = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")  # to become the owner; they end with that
PATH = "/usr/local/bin:/usr/bin:/bin"
_ENV = {"PATH": PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", "TMPDIR": _TMP}


@dataclass(frozen=True, slots=True)
class Owner:
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Sight:
    """What the program sees: folders of the host by the place where it finds them. Those given as a number are open
    already: nobody can put another in their place."""

    read: Mapping[str, str | int] = field(default_factory=dict)
    written: Mapping[str, str | int] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)  # read-only, with what a descriptor holds
    env: Mapping[str, str] = field(default_factory=dict)
    over: Mapping[str, str] = field(default_factory=dict)  # read-only, in the place of what is there in the others

    @property
    def descriptors(self) -> tuple[int, ...]:
        all_ = (*self.read.values(), *self.written.values(), *self.files.values())
        return tuple(place for place in all_ if isinstance(place, int))


def command(argv: Sequence[str], owner: Owner, sight: Sight) -> list[str]:
    """The whole command line. Nothing in it is secret: paths, and what the program is asked."""
    made = ["bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    made += ["--unshare-uts", "--unshare-cgroup-try", *_way("/etc/any"), *bwrap.system()]
    made += ["--proc", "/proc", "--dev", "/dev", "--size", str(64 << 20), "--perms", "1777", "--tmpfs", _TMP]
    for how, seen in (("--ro-bind", sight.read), ("--bind", sight.written)):
        for place, source in seen.items():
            made += [*_way(place), f"{how}-fd" if isinstance(source, int) else how, str(source), place]
    for place, folder in sight.over.items():
        made += ["--ro-bind", folder, place]
    for place, descriptor in sight.files.items():
        made += [*_way(place), "--perms", "0444", "--ro-bind-data", str(descriptor), place]
    made += ["--remount-ro", "/", "--chdir", "/", "--clearenv"]
    for name, value in (_ENV | dict(sight.env)).items():
        made += ["--setenv", name, value]
    limits = ["prlimit", "--core=0", f"--data={MEMORY}", "--nofile=1024", "--"]
    if switches(owner):
        made += ["--cap-drop", "ALL", *(word for right in _RIGHTS for word in ("--cap-add", right))]
        become = ["setpriv", f"--reuid={owner.uid}", f"--regid={owner.gid}", _groups(owner), "--no-new-privs"]
        return [*made, "--", *become, "--inh-caps=-all", "--bounding-set=-all", *limits, *argv]
    made += ["--unshare-user", "--disable-userns", "--uid", str(bwrap.UID), "--gid", str(bwrap.UID)]
    return [*made, "--", *limits, *argv]


def _groups(owner: Owner) -> str:
    """Those that he would have if he logged in: what only one of them may do is his to do. A hook that only one of
    them may run is a gate that git, without it, would pass by."""
    try:
        somebody = pwd.getpwuid(owner.uid)
    except KeyError:
        return "--clear-groups"  # whom the system does not know is in none
    return f"--groups={','.join(map(str, os.getgrouplist(somebody.pw_name, somebody.pw_gid)))}"


def _way(place: str) -> list[str]:
    """The folders above a place: bwrap would make them for itself alone."""
    above = [str(folder) for folder in reversed(PurePosixPath(place).parents) if str(folder) != "/"]
    return [word for folder in above for word in ("--perms", "0755", "--dir", folder)]


def held(data: bytes) -> int:
    """A descriptor with these bytes, for `Sight.files`; they never touch a disk. Whoever asks for it closes it."""
    descriptor = os.memfd_create("custody", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def switches(owner: Owner) -> bool:
    """Whether we can become somebody else."""
    return os.geteuid() == 0 and owner.uid != 0


@functools.cache
def works() -> bool:
    """Whether programs can be confined on this machine, as whoever we are."""
    argv = command(["true"], Owner(os.geteuid(), os.getegid()), Sight())
    try:
        return subprocess.run(argv, capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
