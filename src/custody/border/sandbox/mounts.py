"""Makes the folders of the host reachable for bwrap.

Everything is opened first (roots.py) and handed on as what was opened, never by its name: whoever swaps a folder for a
link while it is being mounted gains nothing.

If the worker is root, bwrap runs as a user that cannot walk to the work folder. So its deadman takes a mount
namespace of its own and binds what the sandbox may see onto a small tmpfs that nobody else ever sees; the
kernel takes it away with the process. An ordinary worker needs none of this: bwrap runs as the same user, and gets the
descriptors.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from custody.border.sandbox.spec import Spec
from custody.errors import BadInput, NotFound, Unavailable

_STAGES = ("/mnt", "/srv", "/media", "/run")
_NEW_MOUNTS = 0x00020000
_BIND, _REC, _PRIVATE, _NOSUID, _NODEV = 0x1000, 0x4000, 0x40000, 0x2, 0x4
_libc = ctypes.CDLL(None, use_errno=True)


def reachable(spec: Spec, uid: int | None) -> list[str | int]:
    """The work folder and what is mounted, as bwrap is told of them: descriptors, or places on the stage."""
    if uid is not None:
        _call(_libc.unshare(_NEW_MOUNTS))  # before anything is opened: mounts are not bound across namespaces
        _mount("none", "/", "", _REC | _PRIVATE)
    opened: list[int] = []
    try:
        opened.append(_opened(spec.work))
        opened += [mount.source.open() for mount in spec.mounts]
        if uid is None:
            return list[str | int](opened)
        give_to(spec.work, uid)
        found = _staged(opened, _free([spec.work, *(mount.source.path for mount in spec.mounts)]))
    except BaseException:
        _close(opened)
        raise
    _close(opened)
    return found


def _close(opened: Sequence[int]) -> None:
    for descriptor in opened:
        os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        kind = NotFound if isinstance(error, FileNotFoundError) else BadInput
        raise kind(f"cannot be mounted: {error.strerror}", code="sandbox.mount", where=str(path)) from error


def give_to(folder: Path, uid: int) -> None:
    """Make the work folder belong to the sandbox's user. Links are changed themselves, never followed."""
    os.chown(folder, uid, uid)
    for _, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, uid, dir_fd=descriptor, follow_symlinks=False)


def _free(paths: Sequence[Path]) -> str:
    """A folder that nothing which is to be seen lies in."""
    in_use = [os.path.realpath(path) for path in (*paths, Path.cwd())]
    free = [place for place in _STAGES if not any(path.startswith(f"{place}/") for path in in_use)]
    stage = next((place for place in free if os.path.isdir(place)), "")
    if not stage:
        raise Unavailable(f"none of {', '.join(_STAGES)} is free", code="sandbox.setup", hint="mkdir /mnt")
    return stage


def _staged(opened: Sequence[int], stage: str) -> list[str | int]:
    """Bind each onto a small tmpfs that only this process and its children see."""
    _mount("custody", stage, "tmpfs", _NOSUID | _NODEV, options="mode=755,size=1m")
    found: list[str | int] = []
    for number, descriptor in enumerate(opened):
        target = f"{stage}/{number}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        _mount(f"/proc/self/fd/{descriptor}", target, "", _BIND | _REC)
        found.append(target)
    return found


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    _call(_libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None))


def _call(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise Unavailable(
            f"a mount namespace could not be made: {os.strerror(number)}",
            code="sandbox.setup",
            hint="run the worker as an ordinary user, or with CAP_SYS_ADMIN",
        )
