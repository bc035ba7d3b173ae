"""Files that came with messages, kept under the digest of their content, each once in its channel's folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from custody.channels.blobs.disk_errors import refusals
from custody.channels.blobs.port import Blobs, Changed, Facts, NoBlob
from custody.errors import Unsafe

BLOCK = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Kept:
    digest: str
    size: int
    folder: str

    @property
    def name(self) -> str:
        return name_of(self.folder, self.digest)


def name_of(folder: str, digest: str) -> str:
    return f"media/{folder}/{digest}"


def keep(blobs: Blobs, pieces: Iterable[bytes], most: int, folder: str) -> Kept:
    """Store a file of at most so many bytes; one that is already there is not stored again."""
    digest, size = sha256(), 0
    with (
        refusals("the folder of temporary files"),
        tempfile.TemporaryFile() as spool,
    ):  # the name is known only when all of it has come
        for piece in pieces:
            size += len(piece)
            if size > most:
                raise Unsafe(f"a file of more than {most} bytes", code="media.size")
            digest.update(piece)
            spool.write(piece)
        kept = Kept(digest.hexdigest(), size, folder)
        if not _is_there(blobs, kept):
            spool.seek(0)
            _store(blobs, kept, iter(lambda: spool.read(BLOCK), b""))
    return kept


def _is_there(blobs: Blobs, kept: Kept) -> bool:
    try:
        return blobs.head(kept.name) is not None
    except NoBlob:
        return False


def _store(blobs: Blobs, kept: Kept, blocks: Iterable[bytes]) -> None:
    ids = []
    for number, block in enumerate(blocks):
        ids.append(f"{number:06d}-{sha256(block).hexdigest()[:8]}")
        blobs.stage(kept.name, [(ids[-1], block)])
    try:
        blobs.commit(kept.name, ids, Facts({"kind": "media"}), if_absent=True)
    except Changed:
        return  # somebody else stored the same bytes just now
