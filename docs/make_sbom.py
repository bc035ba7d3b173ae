"""Writes requirements/sbom.json anew: what an installation consists of, as CycloneDX, from the lock file alone.

    python docs/make_sbom.py

Versions and hashes are those that `pip install --require-hashes` insists on, so the list is what is installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "requirements"
PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[\w,-]+\])?==([\w.+!-]+)(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(lock: str) -> Iterator[dict[str, Any]]:
    for name, version, rest in PIN.findall(lock):
        yield {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name.lower()}@{version}",
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in HASH.findall(rest)],
        }


def bill(lock: str) -> str:
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "custody"}},
        "components": sorted(components(lock), key=lambda each: str(each["name"])),
    }
    return json.dumps(whole, indent=1) + "\n"


if __name__ == "__main__":
    (FOLDER / "sbom.json").write_text(bill((FOLDER / "run.txt").read_text()))
