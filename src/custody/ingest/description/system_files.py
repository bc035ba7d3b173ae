"""Describing an object in its working folder: the system files, and the manifest that storage is handed."""

from __future__ import annotations

import hashlib
import mimetypes
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from custody.errors import BadInput
from custody.formats import checkm
from custody.formats.checkm.form import STORAGE, Row
from custody.formats.checkm.writer import write_storage
from custody.formats.digest_table import digest_file
from custody.ingest.adapters import Adapters
from custody.ingest.description import metadata
from custody.ingest.description.metadata import Deposit, Description
from custody.ingest.storage.http_node import Window
from custody.ingest.submission.staging import name_in
from custody.kernel.engine.work import Work

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MANIFEST = "mrt-manifest.txt"
MOST_OWN = 16 << 20
DEPOSITORS_OWN = frozenset({"mrt-erc.txt", "mrt-dc.xml", "mrt-delete.txt", "mrt-datacite.xml", "mrt-embargo.txt"})
"""Names of ours that a depositor may use, because they are addressed to us."""


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def description(work: Work, folder: Path) -> Description:
    """What is known of the object: the depositor's own records go before the form and the manifest."""
    payload, producer, form = work.payload, folder / "producer", work.payload.get("dc", {})
    given = Description(
        primary=work.facts.get("primary", ""),
        local_ids=tuple(payload.get("local_ids", ())),
        creator=payload.get("creator") or form.get("creator", ""),
        title=payload.get("title") or form.get("title") or payload.get("filename", ""),
        date=payload.get("date") or form.get("date", ""),
        more={name: (value,) for name, value in form.items()},
    )
    own_dc, own_erc = producer / "mrt-dc.xml", producer / "mrt-erc.txt"
    dc = metadata.read_dublin_core(_own_bytes(own_dc)) if own_dc.is_file() else {}
    erc = metadata.read_erc(_own_text(own_erc)) if own_erc.is_file() else Description()
    return replace(metadata.merged(given, dc, erc), primary=given.primary)  # whatever a record of theirs calls it


def write_system_files(work: Work, world: Adapters, node: str, producer: str, system: str) -> str:
    """Write our files beside the depositor's, and the manifest of all of them; answers the content's fingerprint.

    Written anew by every attempt: they depend only on what is kept and on the depositor's files.
    """
    folder = world.disk.folder(work.job)
    about = description(work, folder)
    (folder / system).mkdir(exist_ok=True)
    _scratch(folder / system / MANIFEST).unlink(missing_ok=True)  # of an attempt that was killed, or had no room
    for name, text in metadata.system_files(about, _deposit(work, world, node)).items():
        _write(folder / system / name, text)
    rows = [_row(number, path, folder, _address(world)) for number, path in enumerate(_files(folder), start=1)]
    _write(folder / system / MANIFEST, "".join(write_storage(rows)))
    mine = (f"{row.digest} {row.name}\n" for row in rows if row.name.startswith(f"{producer}/"))
    return hashlib.sha256("".join(mine).encode()).hexdigest()


def stored_rows(folder: Path) -> Iterator[Row]:
    """Every file that goes to storage, as processing wrote it down, and the manifest itself."""
    path = folder / "system" / MANIFEST
    with path.open("rb") as source:
        yield from checkm.read(source, check_name=lambda name: None, kinds=(STORAGE,), where=MANIFEST)
    yield _row(0, path, folder, _here)


def deletes(folder: Path) -> tuple[str, ...]:
    """Files that an update takes out, as the depositor's mrt-delete.txt lists them."""
    listed = folder / "producer" / "mrt-delete.txt"
    return metadata.read_deletes(_own_text(listed)) if listed.is_file() else ()


def _own_bytes(path: Path) -> bytes:
    """A file that the depositor addressed to us; one that is too large to be read is none."""
    if path.stat().st_size > MOST_OWN:
        raise BadInput(f"larger than {MOST_OWN >> 20} MiB", code="text.too_large", where=path.name)
    return path.read_bytes()


def _own_text(path: Path) -> str:
    try:
        text = _own_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"not UTF-8 at byte {error.start}", code="text.encoding", where=path.name) from error
    if "\0" in text:  # no database can write that down
        raise BadInput("there is a NUL in it: this is no text", code="text.encoding", where=path.name)
    return text


def _deposit(work: Work, world: Adapters, node: str) -> Deposit:
    payload, profile = work.payload, world.profile(work.payload["profile"])
    return Deposit(
        batch=str(work.job.parent or 0),
        job=str(work.job.id),
        submitted=moment(work.job.created),
        file=payload.get("filename") or name_in(payload["payload"]),
        type=payload["type"],
        profile=profile.name,
        collections=profile.collections or (profile.name,),
        storage_service=profile.storage.service or "ocfl",
        storage_node=node,
        owner=profile.owner,
        supplied_identifier=payload.get("primary_id", ""),
        digest_type=payload.get("digest_type", ""),
        digest_value=payload.get("digest_value", ""),
        note=payload.get("note", ""),
        object_type=profile.object_type,
        object_role=profile.object_role,
        aggregate=profile.aggregate,
    )


def _files(folder: Path) -> Iterator[Path]:
    for part in ("producer", "system"):
        for path in sorted((folder / part).rglob("*")):
            if path.is_file() and path.name != MANIFEST:
                yield path


def _here(path: Path) -> str:
    return f"file:{quote(str(path))}"


def _address(world: Adapters) -> Callable[[Path], str]:
    """Where whoever stores a file finds it: on this machine, or through the window that we leave open."""
    return Window(world.disk.root, world.files).url_of if world.files else _here


def _row(number: int, path: Path, folder: Path, address: Callable[[Path], str]) -> Row:
    name = path.relative_to(folder).as_posix()
    digest = digest_file(path, ["sha256"])["sha256"]
    mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Row(
        line=number,
        url=address(path),
        name=name,
        algorithm="sha256",
        digest=digest,
        size=path.stat().st_size,
        mime=mime,
    )


def _write(path: Path, text: str) -> None:
    scratch = _scratch(path)
    with scratch.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.rename(path)


def _scratch(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")
