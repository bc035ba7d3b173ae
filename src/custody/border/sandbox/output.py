"""What a sandbox printed, on disk, in numbered chunks.

The output is kept whole up to a limit. Beyond it the first half and the most recent half stay and the middle
goes: the output is written into sixteen files of equal size, and when all are full the oldest of the later
eight is removed. Each chunk says at which byte of the whole output it begins, so a reader sees by itself
where bytes are missing and how many; nothing has to be written down when they are dropped.

One process writes (the deadman), any number read while it does. A reader never waits for a writer: a chunk
that is not wholly there yet is not there.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from custody.border.sandbox.masking import Masker

OUT, ERR = "out", "err"
FILES, HEAD_FILES = 16, 8
SMALLEST_LIMIT = 4096
_TOGETHER = 0.01  # seconds
_LARGEST = 65536

_HEADER = struct.Struct("<QQdBI")  # number, offset, seconds, stream, length
_STREAMS = (OUT, ERR)
_NAME = re.compile(r"output-(\d{6,})\Z")


@dataclass(frozen=True, slots=True)
class Chunk:
    number: int  # 1, 2, 3 … without gaps as written; a gap means that chunks were dropped
    offset: int  # where in the whole output it begins
    at: float  # seconds since the start
    stream: str  # OUT or ERR
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class Recorder:
    """Writes chunks into a folder. A full disk loses output, never the sandbox."""

    def __init__(self, folder: str | os.PathLike[str], limit: int) -> None:
        self._folder = os.fspath(folder)
        self._room = -(-limit // FILES)
        self._index = -1
        self._used = self._room  # so that the first chunk opens the first file
        self._file = -1
        self.number = 0
        self.total = 0  # bytes printed
        self.lost = 0  # bytes not kept because the disk refused them
        self._removed = 0
        self._sizes: dict[int, int] = {}

    @property
    def dropped(self) -> int:
        return self._removed + self.lost

    def add(self, stream: str, data: bytes, at: float) -> None:
        while data:
            if self._used >= self._room:
                self._next_file()
            piece, data = data[: self._room - self._used], data[self._room - self._used :]
            self._write(stream, piece, at)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, stream: str, piece: bytes, at: float) -> None:
        self.number += 1
        header = _HEADER.pack(self.number, self.total, at, _STREAMS.index(stream), len(piece))
        self.total += len(piece)
        self._used += len(piece)
        if _append(self._file, header + piece):
            self._sizes[self._index] = self._sizes.get(self._index, 0) + len(piece)
        else:
            self.lost += len(piece)

    def _next_file(self) -> None:
        self.close()
        self._index += 1
        self._used = 0
        if self._index >= FILES:
            self._remove(self._index - (FILES - HEAD_FILES))
        path = os.path.join(self._folder, f"output-{self._index:06}")
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            self._file = -1

    def _remove(self, index: int) -> None:
        try:
            os.unlink(os.path.join(self._folder, f"output-{index:06}"))
        except FileNotFoundError:
            pass
        self._removed += self._sizes.pop(index, 0)


def _append(file: int, data: bytes) -> bool:
    """All of it or nothing: half a chunk would make the rest of the file unreadable."""
    if file < 0:
        return False
    before = os.lseek(file, 0, os.SEEK_CUR)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    except OSError:
        os.lseek(file, before, os.SEEK_SET)
        os.ftruncate(file, before)
        return False
    return True


class Gatherer:
    """Masks what is printed, gathers small writes that come together into one chunk, and records it.

    Times are seconds since the start; `due` says when `flush` is next wanted.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int, hidden: set[bytes]) -> None:
        self.recorder = Recorder(folder, limit)
        self.due: float | None = None
        self._maskers = {stream: Masker(hidden) for stream in _STREAMS}
        self._stream = OUT
        self._waiting: list[bytes] = []
        self._size = 0
        self._last = b""

    def add(self, stream: str, data: bytes, at: float) -> bool:
        """True if chunks were written."""
        written = stream != self._stream and self.flush(at)
        self._stream = stream
        shown = self._maskers[stream].feed(data)
        self._waiting.append(shown)
        self._size += len(shown)
        self.due = at + _TOGETHER if self.due is None else self.due
        return self.flush(at) if self._size >= _LARGEST else written

    def flush(self, at: float, *, final: bool = False) -> bool:
        data = b"".join(self._waiting)
        self._waiting, self._size, self.due = [], 0, None
        self._record(self._stream, data, at)
        if final:
            for stream, masker in self._maskers.items():
                self._record(stream, masker.flush(), at)
        return bool(data)

    def last_words(self) -> str:
        """The last line of the error stream."""
        lines = self._last.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _record(self, stream: str, data: bytes, at: float) -> None:
        if data:
            self.recorder.add(stream, data, at)
            self._last = data[-1000:] if stream == ERR else self._last


class Follower:
    """Reads chunks in order while they are written; each call of `new` goes on where the last one stopped."""

    def __init__(self, folder: str | os.PathLike[str], after: int = 0) -> None:
        self._folder = Path(folder)
        self._after = after
        self._index = -1
        self._position = 0

    def new(self) -> Iterator[Chunk]:
        for index in self._files():
            if index > self._index:
                self._index, self._position = index, 0
            for chunk in self._read(index):
                if chunk.number > self._after:
                    self._after = chunk.number
                    yield chunk

    def _files(self) -> list[int]:
        found = (_NAME.match(name) for name in os.listdir(self._folder))
        return sorted(index for match in found if match and (index := int(match.group(1))) >= self._index)

    def _read(self, index: int) -> Iterator[Chunk]:
        try:
            with open(self._folder / f"output-{index:06}", "rb") as file:
                file.seek(self._position)
                while chunk := _next_chunk(file):
                    self._position = file.tell()
                    yield chunk
        except FileNotFoundError:  # it was the oldest, and has just been dropped
            return


def _next_chunk(file: BinaryIO) -> Chunk | None:
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    number, offset, at, stream, length = _HEADER.unpack(header)
    data = file.read(length)
    return (
        Chunk(number=number, offset=offset, at=at, stream=_STREAMS[stream], data=data) if len(data) == length else None
    )


def chunks(folder: str | os.PathLike[str]) -> Iterator[Chunk]:
    """All that was kept, in order."""
    return Follower(folder).new()


def whole(folder: str | os.PathLike[str], total: int | None = None) -> bytes:
    """The kept output as one text; where bytes were dropped a line says how many.

    `total` is the number of bytes printed, if known: with it a loss at the very end is marked too.
    """
    parts, end = [], 0
    for chunk in chunks(folder):
        parts += [_cut(chunk.offset - end), chunk.data]
        end = chunk.end
    return b"".join((*parts, _cut((total or end) - end)))


def _cut(missing: int) -> bytes:
    return f"\n[custody: {missing} bytes of output dropped here]\n".encode() if missing else b""
