"""Becomes a command whose lookups are told: `launcher.py SOCKET CALL FILTER COMMAND…`.

A program of its own, which needs nothing of ours: it is started instead of the command, loads the filter, hands the
descriptor by which the kernel tells to whoever listens at the socket, and becomes the command. If nobody takes it, no
command is run.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys

_NO_NEW_PRIVILEGES, _SET_FILTER, _NEW_LISTENER = 38, 1, 8


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def main(place: str, call: str, code: str, *argv: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with socket.socket(socket.AF_UNIX) as way:
        way.connect(place)
        held = ctypes.create_string_buffer(bytes.fromhex(code))
        given = _Program(len(code) // 16, ctypes.addressof(held))
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        told = libc.syscall(int(call), _SET_FILTER, _NEW_LISTENER, ctypes.byref(given))
        if told < 0:
            number = ctypes.get_errno()
            raise SystemExit(f"lookups cannot be told: {os.strerror(number)}")
        socket.send_fds(way, [b"!"], [told])
        os.close(told)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(*sys.argv[1:])
