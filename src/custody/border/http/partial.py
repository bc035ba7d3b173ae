"""A file that is still arriving, and can go on arriving after a crash.

The bytes collect in `.partial/` below the target folder and get their name only when they are whole and on
the disk. Beside a long one lies a note: how many bytes had come, their digest, and the server's mark for
this version of the file. After a crash only bytes that still have that digest are kept, so a note needs no
fsync: one that lies is found out. A lock keeps a second worker, whose predecessor is not quite dead, away.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from custody.border.folder import Folder, disk_errors
from custody.errors import BadInput, CustodyError, NotFound, Refused, Unavailable
from custody.formats.digests import ALWAYS, Digests
from custody.formats.text.readers import read_json

PARTIALS = ".partial"
NOTE_EVERY = 8 << 20  # bytes; what a crash may cost
_READ = 1 << 20
_OPENING_TRIES = 5


class Partial:
    """The bytes of one file so far. `source` says what they are bytes of; another source starts anew."""

    def __init__(self, folder: Folder, name: str, source: str, algorithms: Iterable[str] = ()) -> None:
        self.name = name
        self.length = 0
        self.resumed = 0  # bytes that an earlier attempt had left
        self.marks: dict[str, str] = {}
        self._folder = folder
        self._source = hashlib.sha256(source.encode()).hexdigest()
        self._algorithms = tuple(algorithms)
        self._digests = Digests(self._algorithms)
        self._noted = 0
        self._has_note = False
        self._path = f"{PARTIALS}/{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        self._note_path = f"{self._path}.json"
        self._file = -1
        self._open()

    def write(self, piece: bytes | memoryview) -> None:
        view = memoryview(piece)
        with disk_errors(self.name):
            # At its place, whatever a write that failed half-way has left there.
            while view:
                view = view[os.pwrite(self._file, view, self.length + len(piece) - len(view)) :]
        self._digests.update(piece)
        self.length += len(piece)
        if self.length - self._noted >= NOTE_EVERY:
            self._write_note()

    def restart(self) -> None:
        """Forget the bytes so far."""
        with disk_errors(self.name):
            os.ftruncate(self._file, 0)
        self.length = self.resumed = self._noted = 0
        self.marks = {}
        self._digests = Digests(self._algorithms)

    def digests(self) -> dict[str, str]:
        return self._digests.values()

    def finish(self) -> None:
        """The file is whole: put it on the disk and give it its name; `Folder.settle` makes that last."""
        with disk_errors(self.name):
            os.ftruncate(self._file, self.length)
            os.fsync(self._file)
        self._folder.move(self._path, self.name)
        self._forget_note()
        self.close()

    def pause(self) -> None:
        """Leave what there is for the next attempt."""
        if self.length:
            try:
                self._write_note()
            except CustodyError:
                pass  # then the next attempt starts from an older note, or from nothing
            self.close()
        else:
            self.discard()

    def discard(self) -> None:
        if self._file >= 0:
            self._folder.remove(self._path)
            self._forget_note()
            self.close()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        for _ in range(_OPENING_TRIES):
            try:
                self._file = self._folder.create(self._path)
            except NotFound:
                continue  # somebody has just tidied the empty folder away
            except Refused as error:
                if error.code != "name.exists":
                    raise
                if not self._open_existing():
                    continue
            self._lock()
            if self._folder.names_the_same(self._path, self._file):
                return self._take_up()
            self.close()  # between opening and locking, its owner had finished or discarded it
        raise _busy(self.name)

    def _open_existing(self) -> bool:
        try:
            self._file = self._folder.open(self._path, writing=True)
        except NotFound:
            return False
        return True

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise _busy(self.name) from error

    def _take_up(self) -> None:
        """Keep the bytes that the note vouches for."""
        if os.fstat(self._file).st_size == 0:
            return
        self._has_note = True
        note = self._read_note()
        length = note.get("length")
        if not isinstance(length, int) or note.get("source") != self._source or not self._reread(length):
            return self.restart()
        if self._digests.values()[ALWAYS] != note.get(ALWAYS):
            return self.restart()
        self.length = self.resumed = self._noted = length
        self.marks = _as_marks(note.get("marks"))

    def _reread(self, length: int) -> bool:
        with disk_errors(self.name):
            left = length
            while left > 0:
                piece = os.read(self._file, min(left, _READ))
                if not piece:
                    return False
                self._digests.update(piece)
                left -= len(piece)
        return left == 0

    def _read_note(self) -> Mapping[str, Any]:
        try:
            descriptor = self._folder.open(self._note_path)
        except NotFound:
            return {}
        try:
            with disk_errors(self.name):
                note = read_json(os.read(descriptor, 1 << 16))
        except BadInput:
            return {}  # cut off by a crash
        finally:
            os.close(descriptor)
        return note if isinstance(note, dict) else {}

    def _write_note(self) -> None:
        note = {
            "source": self._source,
            "length": self.length,
            ALWAYS: self._digests.values()[ALWAYS],
            "marks": self.marks,
        }
        fresh = f"{self._note_path}.new"
        self._folder.remove(fresh)
        descriptor = self._folder.create(fresh)
        try:
            with disk_errors(self.name):
                os.write(descriptor, json.dumps(note).encode())
        finally:
            os.close(descriptor)
        self._folder.move(fresh, self._note_path)
        self._noted = self.length
        self._has_note = True

    def _forget_note(self) -> None:
        if self._has_note:
            self._folder.remove(self._note_path)
            self._folder.remove(f"{self._note_path}.new")


def _as_marks(found: Any) -> dict[str, str]:
    """The server's marks go into a header again: only printable ASCII."""
    if not isinstance(found, dict):
        return {}
    return {
        str(name): value
        for name, value in found.items()
        if isinstance(value, str) and value.isascii() and value.isprintable()
    }


def _busy(name: str) -> Unavailable:
    return Unavailable("somebody else is fetching this file", code="fetch.busy", where=name)
