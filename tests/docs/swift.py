"""A `custody` that is loaded once and not anew for every command: each still runs in a process of its own.

    python tests/docs/swift.py SOCKET        loads the program, then serves commands until it is ended

Whoever calls hands over words, folder, environment and the three streams; a child of this process becomes the command.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

CALLER = """\
#!{python} -SE
import json, os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect({path!r})
asked = {{"words": sys.argv[1:], "here": os.getcwd(), "env": dict(os.environ)}}
socket.send_fds(line, [json.dumps(asked).encode()], [0, 1, 2])
told = line.recv(1)
sys.exit(told[0] if told else 2)
"""
MOST = 1 << 20


@contextmanager
def swift_commands() -> Iterator[Path]:
    """A folder for the PATH, with a `custody` in it."""
    with tempfile.TemporaryDirectory(prefix="custody-swift-") as name:
        folder, path = Path(name), f"{name}/socket"
        caller = folder / "custody"
        caller.write_text(CALLER.format(python=sys.executable, path=path))
        caller.chmod(0o755)
        server = subprocess.Popen([sys.executable, __file__, path], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield folder
        finally:
            server.terminate()
            server.communicate(timeout=60)


def serve(path: str) -> None:
    from custody.cli import all_nouns, app_of

    import_module("custody.cli.composition")
    for noun in all_nouns():
        app_of(noun)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how those ended who answer by themselves
    while True:
        line, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            answer(line)
            return
        line.close()


def answer(line: socket.socket) -> None:
    from custody.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, streams, _, _ = socket.recv_fds(line, MOST, 3)
    asked = json.loads(data)
    child = os.fork()
    if child == 0:
        line.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(asked["here"])
        os.environ.clear()
        os.environ.update(asked["env"])
        if "PYTHONPATH" in asked["env"]:  # what is installed there is not known here
            os.execv(sys.executable, [sys.executable, "-m", "custody", *asked["words"]])
        main(asked["words"])  # ends the process
    line.sendall(bytes([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255]))
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
