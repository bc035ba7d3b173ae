"""The system calls a sandbox does without, as a filter program that bwrap loads.

Namespaces hide the host; this filter takes away the calls through which kernels have been escaped from and
that no archive task needs: mounting, tracing, keys, loading code into the kernel, making namespaces. It is a
list of refusals, not of permissions, so that an ordinary program never notices it. Nor can a set-uid or set-gid file be
made: inside it would mean nothing, and outside it would run as the worker.

The program is classic BPF, written here as bytes because the format is eight bytes per instruction and a
library would be one more thing to trust. Processors that are not in the table run without a filter, and
`sandbox.available` says so.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16

_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… flag that clone takes
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # typing into somebody else's terminal
_SET_ID = 0o6000
_MAKES = 0o100 | 0o20000000  # O_CREAT and O_TMPFILE: otherwise whatever stands in place of a mode means nothing
# Unix, IPv4, IPv6, netlink. Above all not vsock, which reaches the hypervisor from any network namespace.
_FAMILIES = (1, 2, 10, 16)

# Calls that every processor numbers alike (424 and up).
_COMMON = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
}
_X86_64 = {
    "uselib": 134,
    "modify_ldt": 154,
    "pivot_root": 155,
    "adjtimex": 159,
    "chroot": 161,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "sethostname": 170,
    "setdomainname": 171,
    "iopl": 172,
    "ioperm": 173,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "ptrace": 101,
    "syslog": 103,
    "lookup_dcookie": 212,
    "clock_settime": 227,
    "mbind": 237,
    "set_mempolicy": 238,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "migrate_pages": 256,
    "unshare": 272,
    "move_pages": 279,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "clock_adjtime": 305,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
}
_AARCH64 = {
    "lookup_dcookie": 18,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "chroot": 51,
    "quotactl": 60,
    "acct": 89,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "clock_settime": 112,
    "syslog": 116,
    "ptrace": 117,
    "reboot": 142,
    "sethostname": 161,
    "setdomainname": 162,
    "settimeofday": 170,
    "adjtimex": 171,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "swapon": 224,
    "swapoff": 225,
    "mbind": 235,
    "set_mempolicy": 237,
    "migrate_pages": 238,
    "move_pages": 239,
    "perf_event_open": 241,
    "fanotify_init": 262,
    "name_to_handle_at": 264,
    "open_by_handle_at": 265,
    "clock_adjtime": 266,
    "setns": 268,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "finit_module": 273,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
}


@dataclass(frozen=True, slots=True)
class _Processor:
    arch: int  # the kernel's AUDIT_ARCH value
    refused: dict[str, int]
    clone: int
    ioctl: int
    socket: int
    starting: tuple[int, int]  # execve, execveat
    modes: dict[int, int]  # which argument of chmod, fchmod, mknod … is a mode
    opening: dict[int, int]  # which one of open and openat; the flags stand before it
    first_foreign: int = 0  # numbers from here on belong to another calling convention (x32)


_PROCESSORS = {
    "x86_64": _Processor(
        0xC000003E,
        _X86_64 | _COMMON,
        clone=56,
        ioctl=16,
        socket=41,
        starting=(59, 322),
        first_foreign=0x40000000,
        modes={85: 1, 90: 1, 91: 1, 133: 1, 259: 2, 268: 2},  # creat, chmod, fchmod, mknod, mknodat, fchmodat
        opening={2: 2, 257: 3},
    ),
    "aarch64": _Processor(
        0xC00000B7,
        _AARCH64 | _COMMON,
        clone=220,
        ioctl=29,
        socket=198,
        starting=(221, 281),
        modes={33: 2, 52: 1, 53: 2},
        opening={56: 3},  # mknodat, fchmod, fchmodat
    ),
}
_CLONE3, _OPENAT2 = 435, 437
_FCHMODAT2 = {452: 2}


def program(machine: str = "", *, starts: bool = True) -> bytes:
    """The filter for this processor, or nothing if we have no table for it. Without `starts`: no other program."""
    processor = _PROCESSORS.get(machine or platform.machine())
    return b"".join(_instructions(processor, starts)) if processor else b""


def refused_calls(machine: str = "") -> dict[str, int]:
    """Name and number of each call that is always refused (for tests and the documentation)."""
    processor = _PROCESSORS.get(machine or platform.machine())
    return dict(processor.refused) if processor else {}


def _instructions(processor: _Processor, starts: bool) -> list[bytes]:
    code = [
        _op(_LOAD, _ARCH),
        _op(_EQUAL, processor.arch, 1, 0),
        _op(_RETURN, _KILL),  # 32-bit calls have other numbers and would slip past everything below
        _op(_LOAD, _NUMBER),
    ]
    if processor.first_foreign:
        code += [_op(_AT_LEAST, processor.first_foreign, 0, 1), _op(_RETURN, _KILL)]
    for number in (*processor.refused.values(), *(() if starts else processor.starting)):
        code += [_op(_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    # Both hide what they want behind a pointer; "no such call" makes every C library fall back to clone and openat.
    for number in (_CLONE3, _OPENAT2):
        code += [_op(_EQUAL, number, 0, 1), _refuse(errno.ENOSYS)]
    no_set_id = [_op(_ANY_BIT, _SET_ID, 0, 1), _refuse(errno.EPERM)]
    for number, mode in (processor.modes | _FCHMODAT2).items():
        code += _when(number, [_argument(mode), *no_set_id])
    for number, mode in processor.opening.items():
        code += _when(number, [_argument(mode - 1), _op(_ANY_BIT, _MAKES, 0, 3), _argument(mode), *no_set_id])
    code += _when(processor.clone, [_argument(0), _op(_ANY_BIT, _NEW_NAMESPACES, 0, 1), _refuse(errno.EPERM)])
    code += _when(
        processor.ioctl,
        [_argument(1), _op(_EQUAL, _TIOCSTI, 1, 0), _op(_EQUAL, _TIOCLINUX, 0, 1), _refuse(errno.EPERM)],
    )
    allowed = [_op(_EQUAL, family, len(_FAMILIES) - place, 0) for place, family in enumerate(_FAMILIES)]
    code += _when(processor.socket, [_argument(0), *allowed, _refuse(errno.EAFNOSUPPORT)])
    return [*code, _op(_RETURN, _ALLOW)]


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """Run `body` for one call only; what it does not refuse is allowed."""
    return [_op(_EQUAL, number, 0, len(body) + 1), *body, _op(_RETURN, _ALLOW)]


def _argument(index: int) -> bytes:
    return _op(_LOAD, _ARGUMENTS + 8 * index)  # the low half, on little-endian machines


def _refuse(number: int) -> bytes:
    return _op(_RETURN, _ERRNO | number)


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)
