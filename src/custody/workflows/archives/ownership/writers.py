"""Who besides its owner may write to a file or folder: by its mode, and by its access control list if it has one.

As grants name them: `gid:N` for the members of a group, `anyone` for everybody on this machine, `uid:N` for somebody
whom the list names.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import struct

ANYONE = "anyone"
NOBODY: frozenset[str] = frozenset()
_LIST = "system.posix_acl_access"
_VERSION = 2
_USER, _GROUP_ITSELF, _GROUP = 0x02, 0x04, 0x08  # whom an entry is for: somebody, the file's group, another group
_WRITE = 2
_NONE = (errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP)


def writers(about: os.stat_result, name: str, above: int | None = None) -> frozenset[str]:
    """`name`, in the open folder above it, is asked for its list: the mode's bits for the group bound all that one
    allows, so only where they allow to write anybody need ask."""
    mode = about.st_mode
    if not mode & (stat.S_IWGRP | stat.S_IWOTH) or stat.S_ISLNK(mode):  # of every link it says so; nobody writes to one
        return NOBODY
    if mode & stat.S_IWOTH:
        return frozenset({ANYONE})
    try:
        place = name if above is None else f"/proc/self/fd/{above}/{name}"
        told = os.getxattr(place, _LIST, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NONE:
            return frozenset({ANYONE})  # nobody knows
        return frozenset({f"gid:{about.st_gid}"})
    return _named(told, about.st_gid)


def _named(told: bytes, group: int) -> frozenset[str]:
    """Whom a list lets write. One that we cannot read may let everybody."""
    if len(told) < 4 or (len(told) - 4) % 8 or struct.unpack_from("<I", told)[0] != _VERSION:
        return frozenset({ANYONE})
    found = set[str]()
    for tag, allowed, number in struct.iter_unpack("<HHI", told[4:]):
        if not allowed & _WRITE:
            continue
        if tag == _USER:
            found.add(f"uid:{number}")
        elif tag in (_GROUP_ITSELF, _GROUP):
            found.add(f"gid:{group if tag == _GROUP_ITSELF else number}")
    return frozenset(found)


def covers(who: frozenset[str], uid: int, known: dict[tuple[int, str], bool]) -> bool:
    """Whether somebody is one of these. Whom the system does not know is no member of a group."""
    if not who:
        return False
    for one in who:
        if (uid, one) not in known:
            known[uid, one] = one in (ANYONE, f"uid:{uid}") or (one.startswith("gid:") and _is_in(uid, int(one[4:])))
    return any(known[uid, one] for one in who)


def _is_in(uid: int, gid: int) -> bool:
    try:
        somebody = pwd.getpwuid(uid)
    except KeyError:
        return False
    return gid in os.getgrouplist(somebody.pw_name, somebody.pw_gid)


def named_group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"gid {gid}"
