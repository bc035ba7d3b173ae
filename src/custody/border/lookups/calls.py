"""Which system calls look something up by its name, and the filter that has each of them told before it is done.

What is not told could be asked for unseen: so calls of another processor's numbering end the process, and io_uring,
which opens files without a call for each, is not there.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _TELL, _KILL, _ERRNO = 0x7FFF0000, 0x7FC00000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _IO_URING = 0, 4, 425


@dataclass(frozen=True, slots=True)
class Calls:
    arch: int  # the kernel's AUDIT_ARCH value
    seccomp: int
    execve: int
    connect: int
    plain: frozenset[int]  # the path is the first argument, relative to the current folder
    at: frozenset[int]  # a folder is the first argument, the path the second
    first_foreign: int = 0  # numbers from here on belong to another calling convention (x32)


_AT = frozenset({437, 439})  # openat2, faccessat2
_PROCESSORS: Mapping[str, Calls] = {
    "x86_64": Calls(
        0xC000003E,
        seccomp=317,
        execve=59,
        connect=42,
        first_foreign=0x40000000,
        plain=frozenset({2, 4, 6, 21, 59, 80, 89}),  # open, stat, lstat, access, execve, chdir, readlink
        at=_AT | {257, 262, 267, 269, 322, 332},  # openat, newfstatat, readlinkat, faccessat, execveat, statx
    ),
    "aarch64": Calls(
        0xC00000B7,
        seccomp=277,
        execve=221,
        connect=203,
        plain=frozenset({221, 49}),
        at=_AT | {56, 79, 78, 48, 281, 291},
    ),
}


def of_this_machine() -> Calls | None:
    return _PROCESSORS.get(platform.machine())


def program(calls: Calls) -> bytes:
    """Classic BPF, eight bytes per instruction."""
    code = [_op(_LOAD, _ARCH), _op(_EQUAL, calls.arch, 1, 0), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    if calls.first_foreign:
        code += [_op(_AT_LEAST, calls.first_foreign, 0, 1), _op(_RETURN, _KILL)]
    code += [_op(_EQUAL, _IO_URING, 0, 1), _op(_RETURN, _ERRNO | errno.ENOSYS)]
    for number in sorted(calls.plain | calls.at | {calls.connect}):
        code += [_op(_EQUAL, number, 0, 1), _op(_RETURN, _TELL)]
    return b"".join([*code, _op(_RETURN, _ALLOW)])


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)
