"""The window through which a task talks to its worker: a socket that is put into its sandbox.

One line of JSON in, one out, one at a time. What is asked for is decided by the answer function; here it only
matters that a task which sends nonsense, too much, or nothing at all can harm nobody but itself.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from custody.errors import BadInput, CustodyError
from custody.formats.text.readers import TextLimits, read_json

Answer = Callable[[Mapping[str, Any]], dict[str, Any]]
QUESTION = TextLimits(size=1 << 20, depth=20)
PATIENCE = 30.0  # seconds for a question to arrive


class Window:
    def __init__(self, place: Path, answer: Answer) -> None:
        self.place = place
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX)
        self._bell, self._ear = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="custody-window", daemon=True)

    def __enter__(self) -> Window:
        self.place.parent.mkdir(parents=True, exist_ok=True)
        self.place.parent.chmod(0o755)  # inside, it is looked into by somebody who is nobody here
        self.place.unlink(missing_ok=True)
        folder = os.open(self.place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._socket.bind(f"/proc/self/fd/{folder}/{self.place.name}")  # socket paths are short
        finally:
            os.close(folder)
        self.place.chmod(0o666)
        self._socket.listen(4)
        self._socket.setblocking(False)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Returns when nothing that was asked for is still being done."""
        self._bell.close()
        self._thread.join()
        self._ear.close()
        self._socket.close()
        self.place.unlink(missing_ok=True)

    def _serve(self) -> None:
        while self._somebody_comes():
            with suppress(BlockingIOError):  # he has left again
                wire, _ = self._socket.accept()
                with wire, suppress(OSError):
                    wire.settimeout(PATIENCE)
                    wire.sendall(json.dumps(self._reply(wire)).encode() + b"\n")

    def _somebody_comes(self) -> bool:
        """Wait for the next; False when the window is closed."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        waiting.register(self._ear, select.POLLIN)
        return all(descriptor != self._ear.fileno() for descriptor, _ in waiting.poll())

    def _reply(self, wire: socket.socket) -> dict[str, Any]:
        with wire.makefile("rb") as lines:
            line = lines.readline(QUESTION.size + 1)
        try:
            asked = read_json(line, limits=QUESTION)
        except BadInput:
            asked = None
        if not isinstance(asked, dict):
            return {"ok": False, "error": "one line of JSON was expected", "code": "window.question"}
        try:
            return {"ok": True, **self._answer(asked)}
        except CustodyError as error:
            return {"ok": False, "error": error.message, "code": error.code, "hint": error.hint}
        except Exception as error:  # whoever asks is told, and the window stays open for the next
            return {"ok": False, "error": f"{type(error).__name__}: {error}", "code": "window.surprise", "hint": ""}
