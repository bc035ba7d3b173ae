"""Staging: bytes that were uploaded, or that must be read again exactly as they were, kept by their digest.

A staged file has a URL, `staged:SHA256/name`, that every worker sharing the folder can read. The same bytes are
kept once. A file is there, whole and on the disk, before anyone is told its URL.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from custody.border import below, modes
from custody.errors import BadInput, NotFound
from custody.formats.digest_table import chunks_of

SCHEME = "staged:"
PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Staged:
    url: str
    size: int
    sha256: str


class Staging:
    def __init__(self, root: Path) -> None:
        self.root = root
        modes.make_folder(root)

    def put(self, pieces: Iterable[bytes], name: str) -> Staged:
        """Keep these bytes; answers only when they are on the disk."""
        digest, size = hashlib.sha256(), 0
        scratch = self.root / f".new-{os.urandom(8).hex()}"
        try:
            with scratch.open("xb") as file:
                for piece in pieces:
                    digest.update(piece)
                    size += len(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            sha256 = digest.hexdigest()
            target = self._path(sha256)
            below.must_be_ours(self.root, target)
            target.parent.mkdir(exist_ok=True)
            scratch.rename(target)
        finally:
            scratch.unlink(missing_ok=True)
        _sync_folder(target.parent)
        _sync_folder(self.root)
        return Staged(f"{SCHEME}{sha256}/{name}", size, sha256)

    def put_file(self, path: Path) -> Staged:
        return self.put(chunks_of(path), path.name)

    def path(self, url: str) -> Path:
        """Where the bytes of a staged URL are."""
        sha256, _, _ = url.removeprefix(SCHEME).partition("/")
        if not url.startswith(SCHEME) or len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise BadInput(f"{url!r} is not a staged file", code="url.staged")
        path = self._path(sha256)
        below.must_be_plain(self.root, path)
        if not path.is_file():
            raise NotFound(f"{url} is no longer staged", code="staged.gone", hint="submit it again")
        return path

    def open(self, url: str) -> BinaryIO:
        """Its bytes, opened without following a link, also one that was put there just now."""
        path = self.path(url)
        try:
            return open(below.opened(self.root, str(path.relative_to(self.root))), "rb")
        except NotFound:
            raise NotFound(f"{url} is no longer staged", code="staged.gone", hint="submit it again") from None

    def copy(self, url: str, target: Path) -> None:
        """A copy for a working folder, on the disk before this returns."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self.open(url) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, PIECE)
            copy.flush()
            os.fsync(copy.fileno())

    def sweep(self, keep: Collection[str], seconds: float) -> int:
        """Remove what is older than so many seconds and not to be kept; answers how many files went.

        Ages are told by the file system's own clock: bytes that are put again are young again.
        """
        young = self._now() - seconds
        removed = 0
        for path in self.root.glob("*/*"):
            if path.parent.is_symlink():
                continue  # what lies elsewhere is not ours to remove
            if path.name not in keep and path.lstat().st_mtime < young:
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _now(self) -> float:
        with tempfile.NamedTemporaryFile(dir=self.root, prefix=".now-") as probe:
            return os.stat(probe.name).st_mtime

    def _path(self, sha256: str) -> Path:
        return self.root / sha256[:2] / sha256


def is_staged(url: str) -> bool:
    return url.startswith(SCHEME)


def name_in(url: str) -> str:
    """What the file at an address is called. A query is for the server, and may be somebody's key to it."""
    path = url if is_staged(url) else unquote(url.partition("#")[0].partition("?")[0])
    return path.rsplit("/", 1)[-1]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
