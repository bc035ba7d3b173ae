"""Sets this process apart from the machine it runs on: of everything there it keeps the network.

Afterwards it is a user without rights, the first process of a namespace of its own, in an empty root in memory with
the few small files by which names are looked up; it can neither write, nor start anything else, nor be looked into.
What it has to import it has imported before.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from custody.border.sandbox import seccomp
from custody.errors import Unavailable

_NEW_USER, _NEW_MOUNTS, _NEW_PIDS = 0x10000000, 0x00020000, 0x20000000
_NEW_IPC, _NEW_UTS, _NEW_CGROUP = 0x08000000, 0x04000000, 0x02000000
_REC, _PRIVATE, _NOSUID, _NODEV, _NOEXEC, _READ_ONLY, _REMOUNT = 0x4000, 0x40000, 0x2, 0x4, 0x8, 0x1, 0x20
_DETACH = 2
_SET_DUMPABLE, _SET_SECCOMP, _NO_NEW_PRIVILEGES = 4, 22, 38
_CAPABILITIES_3 = 0x20080522
_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf")
_LOOKUP = "hosts: files dns\n"
_STAGE = "/proc"  # is always there, and not needed any more
_libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def begin_anew(uid: int | None) -> int:
    """Become that user, in namespaces of one's own; those that come after this process are in them, itself is not
    yet. Answers what `fork` does: 0 in the one that goes on, its number in the one that is left behind."""
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        _call(_libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0), "prctl")  # or its own /proc would not be its own
    user, group = os.getuid(), os.getgid()
    _call(_libc.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_PIDS | _NEW_IPC | _NEW_UTS | _NEW_CGROUP), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return os.fork()


def set_apart(memory: int, files: int) -> None:
    """The rest of it: no files, no capabilities, limits, a filter."""
    _empty_root(_kept())
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: files,
        resource.RLIMIT_DATA: memory,
    }
    for kind, value in wanted.items():
        resource.setrlimit(kind, (value, value))
    _call(_libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0), "prctl")
    _call(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    _call(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    if rules := seccomp.program(starts=False):
        loaded = _Filter(len(rules) // 8, rules)
        _call(_libc.prctl(_SET_SECCOMP, 2, ctypes.byref(loaded), 0, 0), "seccomp")


def _kept() -> Mapping[str, bytes]:
    found = {"/etc/nsswitch.conf": _LOOKUP.encode()}
    for name in _FILES:
        with suppress(OSError):
            found[name] = Path(name).read_bytes()
    return found


def _empty_root(files: Mapping[str, bytes]) -> None:
    _mount("none", "/", "", _REC | _PRIVATE)
    _mount("custody", _STAGE, "tmpfs", _NOSUID | _NODEV | _NOEXEC, options="mode=755,size=2m")
    os.chdir(_STAGE)
    os.mkdir("etc", 0o755)
    for name, content in files.items():
        Path(name.lstrip("/")).write_bytes(content)
    _call(_libc.syscall(155 if platform.machine() == "x86_64" else 41, b".", b"."), "pivot_root")
    _call(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")
    _mount("none", "/", "", _REMOUNT | _READ_ONLY | _NOSUID | _NODEV | _NOEXEC)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    done = _libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None)
    _call(done, "mount")


def _call(result: int, what: str) -> None:
    if result:
        reason = os.strerror(ctypes.get_errno())
        raise Unavailable(
            f"the proxy cannot be set apart ({what}: {reason})",
            code="sandbox.egress",
            hint="user namespaces must be allowed, as for every sandbox: `custody doctor`",
        )
