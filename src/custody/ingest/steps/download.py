"""Getting the files of an object into its working folder: which they are, fetching them, unpacking, limits.

What is fetched, and how safely, is `border`'s business; when, and what follows, is that of the steps.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from custody.border.folder import Folder
from custody.border.http.fetch import Fetched, Wanted
from custody.border.unpack.members import UnpackLimits
from custody.border.unpack.unpacker import unpack
from custody.errors import BadInput, CustodyError, Unavailable
from custody.formats import checkm
from custody.formats.bagit import check_bag, find_bag
from custody.formats.checkm.form import OBJECT, Row
from custody.formats.digest_table import digest_file
from custody.formats.names import safe_parts
from custody.ingest.adapters import Adapters
from custody.ingest.batch import remarks
from custody.ingest.description import system_files
from custody.ingest.profile import Profile
from custody.ingest.submission.staging import is_staged, name_in
from custody.kernel.engine.work import Work
from custody.kernel.model.outcome import Failed, Outcome, Passed

OURS = ("mrt-", "system/")


def check_name(name: str) -> None:
    """A depositor's file name: safe to write below a folder, and none of ours."""
    safe_parts(name)
    if name.startswith(OURS) and name not in system_files.DEPOSITORS_OWN:
        raise BadInput(f"{name} is a name we use ourselves", code="name.reserved", hint="give the file another name")


def where(work: Work) -> str:
    line = work.payload.get("line")
    name = work.payload.get("filename") or name_in(work.payload["payload"])
    return f"{name} (line {line} of the batch)" if line else name


def check_digest(path: Path, work: Work) -> None:
    """Is what was handed in, a file, a container or a manifest, what the depositor says it is?"""
    name, value = work.payload.get("digest_type"), work.payload.get("digest_value")
    if not name:
        return
    found = digest_file(path, [name])[name]
    if found.lower() != str(value).lower():
        raise BadInput(
            f"the {name} digest of the payload is {found}, not {value}",
            code="digest.mismatch",
            where=where(work),
            hint="the payload changed on its way, or the digest belongs to another file",
            expected=value,
            found=found,
        )


def wanted_rows(work: Work, world: Adapters) -> Iterator[Row]:
    """The files to fetch: the rows of an object manifest, or the payload itself."""
    payload = work.payload
    if payload["type"] == "object-manifest":
        with world.staging.open(work.facts["manifest"]) as source:
            yield from checkm.read(source, check_name=check_name, kinds=(OBJECT,), where=where(work))
        return
    yield Row(
        line=payload.get("line", 1),
        url=payload["payload"],
        name=payload.get("filename") or name_in(payload["payload"]),
        algorithm=payload.get("digest_type", ""),
        digest=payload.get("digest_value", ""),
        size=payload.get("size"),
    )


def known_size(row: Row, world: Adapters) -> int | None:
    """The size without asking anyone: told by the manifest, or staged here."""
    return world.staging.path(row.url).stat().st_size if row.size is None and is_staged(row.url) else row.size


def at_once(work: Work, world: Adapters) -> int:
    return world.profile(work.payload["profile"]).limits.downloads


def fetch(rows: list[Row], work: Work, world: Adapters, producer: Path) -> list[tuple[Row, CustodyError]]:
    """Every file that is not there yet; answers the rows that could not be had."""
    for row in rows:
        if is_staged(row.url):
            safe_parts(row.name)
            world.staging.copy(row.url, producer / row.name)
    remote = [row for row in rows if not is_staged(row.url)]
    wanted = [Wanted(row.url, row.name, row.size, _digests(row)) for row in remote]
    with Folder(producer) as folder:
        fetcher = world.fetchers[work.payload["profile"]]
        results = fetcher.download_many(wanted, folder, parallel=at_once(work, world), cancel=lambda: work.stopped)
    return [(row, result) for row, result in zip(remote, results, strict=True) if not isinstance(result, Fetched)]


def _digests(row: Row) -> dict[str, str]:
    return {row.algorithm: row.digest} if row.algorithm else {}


def failure(faults: list[tuple[Row, CustodyError]], listed_in_manifest: bool) -> Failed:
    """Named by the line of the object's own manifest, if it has one; the row in the batch is known from elsewhere."""
    row, first = faults[0]
    line = f"line {row.line}: " if listed_in_manifest else ""
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    listed = [
        {"line": row.line, "file": row.name, "code": error.code, "why": str(error)} for row, error in faults[:100]
    ]
    return Failed(
        first.code,
        f"{line}{row.name} could not be fetched: {first}{more}",
        transient=all(isinstance(error, Unavailable) for _, error in faults),
        detail={"files": listed},
    )


def _unpack_limits(profile: Profile) -> UnpackLimits:
    limits = profile.limits
    members = min(limits.files, UnpackLimits().members)
    return UnpackLimits(size=limits.object_size, members=members, encoding=profile.containers.encoding or None)


def too_much(rows: Sequence[Row], profile: Profile) -> Failed | None:
    """What a collection does not take is refused before a byte of it is fetched."""
    limits = profile.limits
    if len(rows) > limits.files:
        return Failed("object.too_many", f"{len(rows)} files, and {profile.name} takes {limits.files} in an object")
    told = sum(row.size or 0 for row in rows)
    if told > limits.object_size:
        return Failed("object.too_large", f"{told} bytes, and {profile.name} takes {limits.object_size} in an object")
    return None


def unpack_container(work: Work, world: Adapters, folder: Path, producer: Path) -> Outcome:
    profile = world.profile(work.payload["profile"])
    box = folder / "container"
    box.mkdir(exist_ok=True)
    row = next(wanted_rows(work, world))
    faults = fetch([row], work, world, box)
    if faults:
        return failure(faults, listed_in_manifest=False)
    with Folder(producer) as target:
        target.clear()
        unpack(box / row.name, target, _unpack_limits(profile), cancel=lambda: work.stopped)
    names = [path.relative_to(producer).as_posix() for path in _files_below(producer)]
    if not names:
        return Failed("container.empty", f"there are no files in {row.name}")
    for name in names:
        check_name(name)
    bag = find_bag(producer)
    if unsound := _bag_faults(bag) if bag else None:
        return unsound
    told = {remarks.FACT: found} if (found := remarks.remarks(producer, names, bag)) else {}
    shutil.rmtree(box)
    return Passed(told, keep={"space_needed": size_below(folder), **told})


def of_files(producer: Path) -> dict[str, list[str]]:
    """What is to be said of files that came one by one."""
    found = remarks.remarks(producer, [path.relative_to(producer).as_posix() for path in _files_below(producer)])
    return {remarks.FACT: found} if found else {}


def _bag_faults(found: Path) -> Failed | None:
    """A bag brings its own digests: they must be right."""
    faults = check_bag(found).faults
    if not faults:
        return None
    return Failed(
        faults[0].code, f"the bag is not sound: {faults[0]}", detail={"faults": [str(each) for each in faults[:50]]}
    )


def size_below(folder: Path) -> int:
    return sum(path.lstat().st_size for path in _files_below(folder))


def _files_below(folder: Path) -> Iterable[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
