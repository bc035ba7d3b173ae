"""What can be handed in."""

from __future__ import annotations

from typing import Final

TYPES: Final = {
    # the payload is …
    "file": "one file, which is one object",
    "container": "one zip or tar, whose files are one object",
    "object-manifest": "a list of the files of one object",
    "batch-manifest": "a list of object manifests",
    "container-batch-manifest": "a list of containers",
    "single-file-batch-manifest": "a list of files, each an object",
}
