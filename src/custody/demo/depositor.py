"""The depositor of the demo: files, manifests and a web server that misbehaves a little.

Everything is made from a number, so that two demos are the same.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from custody.demo.standins.web_server import FileServer
from custody.formats.checkm.form import BATCH_OF_MANIFESTS, OBJECT, Row
from custody.formats.checkm.writer import write

TITLES = (
    "Field notebook 3",
    "Map of the lower harbour",
    "Letters to a sister",
    "Parish register, 1841",
    "Glass negatives",
    "Minutes of the reading society",
    "A herbarium of mosses",
    "Tide tables",
    "Plans of the new school",
    "Recipes and remedies",
    "Diary of a lighthouse keeper",
    "Photographs of the flood",
)
WRONG_DIGEST, MISSING, BUSY = (4, 9), 11, 7


def write_objects(root: Path, count: int, seed: int = 1) -> None:
    """Folders object-1 … object-n with a few files each."""
    chance = random.Random(seed)
    for number in range(1, count + 1):
        folder = root / f"object-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        for page in range(1, chance.randint(2, 4)):
            lines = chance.randint(20, 400)
            text = "".join(f"{TITLES[number % 12]}, page {page}, line {line}\n" for line in range(lines))
            (folder / f"page-{page}.txt").write_text(text)


def write_manifests(root: Path, server: str, count: int) -> Path:
    """A manifest for each object, and one of all of them; two objects promise digests their files do not have."""
    rows = []
    for number in range(1, count + 1):
        path = root / f"object-{number}.checkm"
        files = [_file(root, file, server, number) for file in sorted((root / f"object-{number}").iterdir())]
        path.write_text("".join(write(OBJECT, files)))
        title = TITLES[(number - 1) % len(TITLES)]
        rows.append(
            Row(
                line=number,
                url=f"{server}/{path.name}",
                name=path.name,
                local_ids=(f"demo-{number}",),
                title=title,
                creator="The Demo Society",
                date=str(1800 + 7 * number),
            )
        )
    batch = root / "batch.checkm"
    batch.write_text("".join(write(BATCH_OF_MANIFESTS, rows)))
    return batch


def misbehave(server: FileServer) -> None:
    """One file is missing until someone puts it there, one server is busy at first."""
    server.misbehave(f"/object-{MISSING}/page-1.txt", "gone")
    server.misbehave(f"/object-{BUSY}/page-1.txt", "busy", times=2)


def _file(root: Path, file: Path, server: str, number: int) -> Row:
    data = file.read_bytes()
    digest = hashlib.sha256(data + b"!" if number in WRONG_DIGEST else data).hexdigest()
    name = file.relative_to(root).as_posix()
    return Row(line=1, url=f"{server}/{name}", name=file.name, algorithm="sha256", digest=digest, size=len(data))
