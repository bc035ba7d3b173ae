"""Block blobs on one page: what the table needs from a blob store, and what a store may refuse.

A blob is an ordered list of named blocks. Blocks are *staged* first and seen by nobody; a *commit* names the
whole new list, in order, and swings the blob to it in one step. An id in that list means the block staged
since the last commit or, failing that, the one already there. A commit drops every other staged block,
whoever staged it, and replaces metadata, tags and tier together with the list: what is not sent is lost.

`local.py` keeps blobs on a local disk, `azure.py` in Azure Blob Storage; one conformance suite tests both.
Times in the answers are the store's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from custody.errors import BadInput, NotFound, Refused, Unavailable

Tier = Literal["Hot", "Cool", "Cold"]  # all can be read at once; Archive cannot, so it is not offered

MOST_BLOCKS = 50_000  # enforced by us: not every server that speaks the protocol does
LONGEST_ID = 64


class NoBlob(NotFound):
    code = "blob.not-found"


class Changed(Refused):
    """The blob is not, or no longer, what the caller said it must be."""

    code = "blob.changed"


class BlocksMissing(Refused):
    """The list names a block that is neither staged nor committed; nothing was changed."""

    code = "blob.blocks-missing"


class Broken(Unavailable):
    """What is stored under this name is no blob any more: nothing that could be read is lost by writing it anew."""

    code = "blob.damaged"


class Shut(Broken):
    """It may be whole, but is not given, or not understood, here: nobody writes anything in its place."""

    code = "blob.shut"


class Older(Broken):
    """It was written here, and later ones were written after it: somebody has put an earlier copy in its place."""

    code = "blob.older"


class Foreign(Broken):
    """It says itself that it is another's: somebody has put it in this place."""

    code = "blob.foreign"


class Leased(Refused):
    """Somebody else holds the blob's lease, or the lease that was shown is not the current one."""

    code = "blob.leased"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a commit sets besides the blocks."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    tier: Tier = "Hot"


@dataclass(frozen=True, slots=True)
class BlockList:
    """The committed blocks, in order."""

    etag: str
    ids: tuple[str, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Properties:
    name: str
    etag: str
    size: int
    facts: Facts
    modified: datetime
    tier_changed: datetime | None = None
    accessed: datetime | None = None  # the first read of a day; None until it is read


@dataclass(frozen=True, slots=True)
class Content:
    data: bytes
    etag: str
    metadata: Mapping[str, str]


class Blobs(Protocol):
    def stage(self, name: str, blocks: Iterable[tuple[str, bytes]], *, lease: str = "") -> None:
        """Upload blocks that the next commit may name."""

    def commit(
        self,
        name: str,
        ids: Sequence[str],
        facts: Facts = ...,
        *,
        if_match: str = "",
        if_absent: bool = False,
        lease: str = "",
    ) -> str:
        """Make the blob exactly these blocks; answers its new ETag."""

    def blocks(self, name: str) -> BlockList: ...

    def head(self, name: str, *, unless: str = "") -> Properties | None:
        """Everything about a blob but its content; None when its ETag still is `unless`."""

    def read(self, name: str, start: int = 0, size: int | None = None, *, if_match: str = "") -> Content:
        """A range of the content, cut at its end."""

    def list(self, prefix: str) -> Iterator[Properties]:
        """Committed blobs whose names begin so, in the order of their names; of a broken one its name and size."""

    def folders(self, prefix: str) -> Iterator[str]:
        """The names between this prefix, which ends with a slash, and the next slash, of whatever is there."""

    def delete(self, name: str, *, if_match: str = "", lease: str = "") -> None: ...

    def set_aside(self, name: str, to: str) -> None:
        """Keep whatever is left of a blob under a name that is free, as plain bytes; its own is free after that."""

    def set_tier(self, name: str, tier: Tier) -> None:
        """Move between tiers; the ETag stays."""

    def set_tags(self, name: str, tags: Mapping[str, str]) -> None:
        """Replace all tags; the ETag stays."""

    def acquire(self, name: str, seconds: int) -> str:
        """Take the lease for 15 to 60 seconds; until it ends only its holder may change the blob."""

    def renew(self, name: str, lease: str) -> None: ...

    def release(self, name: str, lease: str) -> None: ...


# --- What every store refuses alike, before it does anything ---

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_METADATA_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_METADATA_TEXT = re.compile(r"[!-~]([ -~]*[!-~])?")  # it travels in a header: not empty, no space at the ends
_TAG_TEXT = re.compile(r"[A-Za-z0-9 +\-./:=_]*")


def check_name(name: str) -> str:
    """Names are also paths on a disk: plain words between slashes, never `..`, never hidden."""
    if len(name) > 900 or not _NAME.fullmatch(name):
        raise BadInput("not a blob name", code="blob.name", where=repr(name), hint="letters, digits, . _ - between /")
    return name


def check_ids(name: str, ids: Sequence[str]) -> None:
    if len(ids) > MOST_BLOCKS:
        raise BadInput(f"{len(ids)} blocks in one blob", code="blob.full", where=name, hint=f"at most {MOST_BLOCKS}")
    widths = set(map(len, ids if "".join(ids).isascii() else (one.encode() for one in ids)))
    if len(widths) > 1:
        raise BadInput("block ids of one blob have one length", code="blob.block-id", where=name)
    if widths and not 1 <= widths.pop() <= LONGEST_ID:
        raise BadInput("a block id has 1 to 64 bytes", code="blob.block-id", where=name)


def check_facts(name: str, facts: Facts) -> None:
    _check_metadata(name, facts.metadata)
    check_tags(name, facts.tags)


def _check_metadata(name: str, metadata: Mapping[str, str]) -> None:
    for key, value in metadata.items():
        if not _METADATA_NAME.fullmatch(key) or not _METADATA_TEXT.fullmatch(value):
            raise BadInput(
                "metadata is plain ASCII under lower-case names", code="blob.metadata", where=f"{name}:{key}"
            )
    if sum(len(key) + len(value) for key, value in metadata.items()) > 8192:
        raise BadInput("more than 8 KiB of metadata", code="blob.metadata", where=name)


def check_tags(name: str, tags: Mapping[str, str]) -> None:
    if len(tags) > 10:
        raise BadInput(f"{len(tags)} tags", code="blob.tags", where=name, hint="at most 10")
    for key, value in tags.items():
        fits = 1 <= len(key) <= 128 and len(value) <= 256
        if not fits or not _TAG_TEXT.fullmatch(key) or not _TAG_TEXT.fullmatch(value):
            raise BadInput("not a tag a store would index", code="blob.tags", where=f"{name}:{key}")


def check_lease_seconds(seconds: int) -> None:
    if not 15 <= seconds <= 60:
        raise BadInput(f"a lease of {seconds} s", code="blob.lease", hint="15 to 60 seconds")
