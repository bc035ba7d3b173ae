"""What a checkm 0.7 manifest is made of: its kinds, their columns, one row, one fault, the limits.

Values only. `reader` reads, `row` holds the rules of each column, `writer` writes.

    #%checkm_0.7
    #%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest
    #%prefix | mrt: | http://merritt.cdlib.org/terms#
    #%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#
    #%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | … | nfo:fileName | mrt:mimeType
    https://archive.example/letter.pdf | sha-256 | 8eb3… | 2041 |  | letter.pdf | application/pdf
    #%eof
"""

from __future__ import annotations

import re
from dataclasses import dataclass

REGISTRY = "http://uc3.cdlib.org/registry/"
PREFIXES = {
    "mrt": "http://merritt.cdlib.org/terms#",
    "nfo": "http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#",
}

_FILE = (
    "nfo:fileUrl",
    "nfo:hashAlgorithm",
    "nfo:hashValue",
    "nfo:fileSize",
    "nfo:fileLastModified",
    "nfo:fileName",
)
_OBJECT = ("mrt:primaryIdentifier", "mrt:localIdentifier", "mrt:creator", "mrt:title", "mrt:date")

# Control characters (a tab is looked at apart) and marks that make text read in another order than it is.
UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")

CONTAINERS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".bz2")
CHECKM = (".checkm",)


@dataclass(frozen=True, slots=True)
class ManifestType:
    """One of the Merritt profiles: what its rows are and which columns they have, in this order."""

    profile: str
    row_is: str
    """the type of job a row makes; a row of an object manifest makes none, it is a file of the object"""
    columns: tuple[str, ...]
    folder: str = "ingest/manifest"
    endings: tuple[str, ...] = ()
    """how a file name must end, if that matters"""

    @property
    def batch(self) -> bool:
        return self.row_is not in {"file of the object", "row"}

    @property
    def url(self) -> str:
        return f"{REGISTRY}{self.folder}/{self.profile}"


OBJECT = ManifestType("mrt-ingest-manifest", "file of the object", (*_FILE, "mrt:mimeType"))
BATCH_OF_MANIFESTS = ManifestType("mrt-batch-manifest", "object-manifest", (*_FILE, *_OBJECT), endings=CHECKM)
BATCH_OF_CONTAINERS = ManifestType("mrt-container-batch-manifest", "container", (*_FILE, *_OBJECT), endings=CONTAINERS)
BATCH_OF_FILES = ManifestType("mrt-single-file-batch-manifest", "file", (*_FILE, *_OBJECT))
STORAGE = ManifestType("mrt-add-manifest", "file of the object", (*_FILE, "mrt:mimeType"), folder="store/manifest")

KINDS = (OBJECT, BATCH_OF_MANIFESTS, BATCH_OF_CONTAINERS, BATCH_OF_FILES)
BATCHES = (BATCH_OF_MANIFESTS, BATCH_OF_CONTAINERS, BATCH_OF_FILES)
UNKNOWN = ManifestType("", "row", _FILE)
"""when the profile is missing: the columns that all kinds share can still be checked"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a manifest. `line` is how a depositor speaks of it."""

    line: int
    url: str
    name: str
    algorithm: str = ""
    digest: str = ""
    size: int | None = None
    modified: str = ""
    mime: str = ""
    primary: str = ""
    local_ids: tuple[str, ...] = ()
    creator: str = ""
    title: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, where, and what to do. A warning is worth telling and stops nothing."""

    line: int
    column: int
    code: str
    message: str
    hint: str = ""
    warning: bool = False

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"line {self.line}, column {self.column}: {self.message}{hint}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Past these a manifest is refused: a depositor splits it, the reader's memory stays bounded."""

    size: int = 64 << 20
    lines: int = 1_000_000
    line: int = 64 << 10
    names: int = 4_000_000
    """names and the folders they imply"""
