"""The steps of a job: each takes its work and the world, and returns what happened.

A step does not know the next state; the table in states.py does. Doing a step again is harmless in every one: what
must not be done twice is kept at once, and what was written is found again by its name or its request.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from custody.border.folder import Folder
from custody.errors import CustodyError, LeaseLost, Refused, Unavailable
from custody.formats import checkm
from custody.formats.checkm.form import OBJECT
from custody.ingest.adapters import Adapters
from custody.ingest.batch import notices
from custody.ingest.description import system_files
from custody.ingest.steps import download
from custody.ingest.steps.identify import Named, begin_first, exists, identify
from custody.ingest.storage import nodes
from custody.ingest.storage.http_node import DOWN
from custody.ingest.storage.inventory import Entry, File
from custody.ingest.storage.ocfl.change import Change, Given
from custody.ingest.submission.idempotency import request_of
from custody.ingest.submission.staging import is_staged, name_in
from custody.kernel.engine.work import Work
from custody.kernel.model.event import NewEvent
from custody.kernel.model.item import NewItem
from custody.kernel.model.outcome import Failed, Outcome, Passed, Wait
from custody.kernel.model.suspicion import ENOUGH

Step = Callable[[Work, Adapters], Outcome]

TRIES = 5
BUSY_SECONDS = 0.2
MOST_DELETES = 128 << 10  # of names that are taken out: they stand twice in the tree, in nodes of half a megabyte
MOST_BYTES = 2**53 - 1  # what a server or a manifest claims beyond that cannot be told in the history
LATER = 10  # added to the priority of a job whose size nobody knows, or that is very large
PRODUCER, SYSTEM = "producer", "system"


def pending(work: Work, world: Adapters) -> Outcome:
    """Is what was handed in what the depositor says it is, and can it be read? Failing here is final; so a manifest
    that cannot be had just now is left to downloading, where a failure can be mended and resumed."""
    payload = work.payload
    if payload["type"] != "object-manifest":
        download.check_name(payload.get("filename") or name_in(payload["payload"]))
        if is_staged(payload["payload"]):
            download.check_digest(world.staging.path(payload["payload"]), work)
        return Passed()
    try:
        staged = _stage_manifest(work, world)
    except LeaseLost:
        raise
    except CustodyError as error:
        if work.stopped or (isinstance(error, Unavailable) and work.job.attempts < TRIES):
            raise
        return Passed({"later": str(error)})
    return _read_manifest(work, world, staged)


def _read_manifest(work: Work, world: Adapters, staged: str) -> Passed | Failed:
    """Kept when it is known to be good: every later look must see the same bytes."""
    download.check_digest(world.staging.path(staged), work)
    with world.staging.open(staged) as source:
        where = download.where(work)
        rows = sum(1 for _ in checkm.read(source, check_name=download.check_name, kinds=(OBJECT,), where=where))
    if not rows:
        return Failed("manifest.empty", "the manifest lists no files")
    return Passed(detail={"files": rows}, keep={"files": rows, "manifest": staged})


def _has_manifest(work: Work) -> bool:
    return work.payload["type"] != "object-manifest" or "manifest" in work.facts


def estimating(work: Work, world: Adapters) -> Outcome:
    """How much room will it need? Never fails: what cannot be known runs later and says so; what is wrong with it fails
    in downloading, where somebody can mend and resume it."""
    try:
        if work.job.crashes >= ENOUGH:  # in any other state it would be put aside now
            why = "workers died of looking at it"
        elif _has_manifest(work):
            return _estimated(work, world)
        else:
            why = "its manifest could not be had"
    except LeaseLost:
        raise
    except CustodyError as error:
        if work.stopped:
            raise
        why = str(error)
    return Passed({"unknown": why}, keep={"space_needed": None}, priority=_later(work))


def _estimated(work: Work, world: Adapters) -> Passed:
    profile = world.profile(work.payload["profile"])
    rows = list(download.wanted_rows(work, world))
    asked = [row.url for row in rows if row.size is None and not is_staged(row.url)]
    fetcher = world.fetchers[work.payload["profile"]]
    answers = iter(fetcher.head_many(asked, parallel=download.at_once(work, world), cancel=lambda: work.stopped))
    told_or_staged = [download.known_size(row, world) for row in rows]
    sizes = [next(answers) if size is None else size for size in told_or_staged]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        unknown = {"unknown": len(sizes) - len(known), "known": min(sum(known), MOST_BYTES)}
        return Passed(unknown, keep={"space_needed": None}, priority=_later(work))
    total = min(sum(known), MOST_BYTES)
    large = total > profile.limits.large
    return Passed({"space_needed": total}, keep={"space_needed": total}, priority=_later(work) if large else None)


def downloading(work: Work, world: Adapters) -> Outcome:
    """Fetch every file into the working folder, checked; any that cannot be had after its tries fails the job."""
    folder = world.disk.folder(work.job)
    producer = folder / PRODUCER
    producer.mkdir(parents=True, exist_ok=True)
    kind = work.payload["type"]
    if kind == "container":
        return download.unpack_container(work, world, folder, producer)
    if not _has_manifest(work):
        read = _read_manifest(work, world, _stage_manifest(work, world))
        if isinstance(read, Failed):
            return read
        work.keep(**read.keep)
    if download.may_be_list(work, world) and (refused := _list_after_all(work, world)):
        return refused
    profile, rows = world.profile(work.payload["profile"]), list(download.wanted_rows(work, world))
    if excess := download.too_much(rows, profile):
        return excess
    faults = download.fetch(rows, work, world, producer)
    if faults:
        return download.failure(faults, listed_in_manifest="manifest" in work.facts)
    size = download.size_below(folder)
    if size > profile.limits.object_size:  # of files whose size nobody had told
        return Failed("object.too_large", f"{size} bytes, and {profile.name} takes {profile.limits.object_size}")
    told = download.of_files(producer)
    return Passed(told, keep={"space_needed": size, **told})


def _list_after_all(work: Work, world: Adapters) -> Failed | None:
    """It was handed in without a word of what it is, and can be had now: the list of an object's files is read as one,
    and one of several objects is not kept as if it were a document."""
    staged = _stage_manifest(work, world)
    profile = download.profile_named(world, staged)
    if profile == OBJECT.profile:
        read = _read_manifest(work, world, staged)
        if isinstance(read, Failed):
            return read
        work.keep(**read.keep)
        return None
    if not profile:
        return None
    name = download.where(work)
    return Failed(
        "manifest.late",
        f"{name} is a list of several objects ({profile}), and could not be had before;"
        " nothing of it is deposited: hand it in again, and delete this",
    )


def processing(work: Work, world: Adapters) -> Outcome:
    """Give the object its identifiers, describe it, and write down every file with its digest."""
    if gone := _gone(world.disk.folder(work.job), PRODUCER):
        return gone
    named = identify(work, world, world.profile(work.payload["profile"]))
    if not isinstance(named, Named):
        return named
    files = system_files.write_system_files(work, world, named.node, PRODUCER, system=SYSTEM)
    told = _handed_over(work, world, named)
    if isinstance(told, Failed):
        return told
    return Passed(keep={"digest_of_manifest": files, **told}, lane=nodes.lane_of(named.node))


def _handed_over(work: Work, world: Adapters, named: Named) -> dict[str, str] | Failed:
    """What whoever stores and records it needs to know, if others do that: they are on other machines."""
    folder = world.disk.folder(work.job)
    told = {
        "storage_manifest": system_files.address_of(world, (folder / SYSTEM / system_files.MANIFEST).resolve()),
        "storage_node": named.node,
        "inventory_manifest": nodes.manifest_address(world.nodes.get(named.node), named.primary),
    }
    if "storing" not in world.external or not work.payload.get("update"):
        return told
    deletes = "".join(f"{name}\n" for name in system_files.deletes(folder))
    if len(deletes.encode()) > MOST_DELETES:
        return Failed(
            "delete.too_large",
            f"mrt-delete.txt has more than {MOST_DELETES >> 10} KiB, and the service that stores it"
            " is told of no more at once: take them out in several updates",
        )
    return {**told, "storage_delete": deletes}


def storing(work: Work, world: Adapters) -> Outcome:
    """Hand the object over to its storage node: a new version, or the one this very job made before."""
    profile, node = world.profile(work.payload["profile"]), work.facts["storage_node"]
    folder = world.disk.folder(work.job)
    if gone := _gone(folder, SYSTEM):
        return gone
    files = {
        row.name: Given(folder / row.name, {row.algorithm: row.digest}) for row in system_files.stored_rows(folder)
    }
    first = begin_first(work, world, profile)
    if not isinstance(first, bool):
        return first
    storage = world.node(node)
    update = bool(work.payload.get("update"))
    change = Change(
        files=files,
        request=request_of(work.job),
        created=system_files.moment(work.job.created),
        message=f"batch {work.job.parent}, job {work.job.id}",
        update=update,
        deletes=system_files.deletes(folder) if update else (),
        head=0 if first else None,
    )
    try:
        if first and not work.facts.get("handed_over") and storage.relative(work.facts["primary"]) is None:
            if storage.holds(work.facts["primary"]):
                return exists(work, world)
            work.keep(handed_over=True)  # what the service holds from now on may be ours
        stored = storage.store(work.facts["primary"], change)
    except Refused as refused:
        if first and refused.code == "object.moved":
            return exists(work, world)
        if refused.code != "object.busy":
            raise
        return Wait(BUSY_SECONDS, "another job is writing a version of the same object")
    except Unavailable as trouble:
        if trouble.code != DOWN:
            raise
        nodes.pause(world.store, node, trouble)
        return Wait(BUSY_SECONDS, trouble.message)
    return Passed({"version": stored.version}, keep={"version": stored.version}, lane=profile.name)


def recording(work: Work, world: Adapters) -> Outcome:
    """Write the object into the inventory; from now on it is an item that robots can act on."""
    profile, ark = world.profile(work.payload["profile"]), work.facts["primary"]
    folder, node = world.disk.folder(work.job), work.facts["storage_node"]
    if gone := _gone(folder, SYSTEM):
        return gone
    about = system_files.description(work, folder)
    version = work.facts["version"]
    given = {row.name: File(row.name, row.digest, row.size or 0, row.mime) for row in system_files.stored_rows(folder)}
    files = list({**_carried_over(work, world, ark, version, folder=folder), **given}.values())
    world.inventory.record(
        Entry(
            ark=ark,
            owner=profile.owner,
            collection=profile.name,
            node=node,
            title=about.title,
            creator=about.creator,
            date=about.date,
            version=version,
            job=work.job.id,
            batch=work.job.parent or 0,
            local_ids=list(about.local_ids),
            files=files,
        )
    )
    item = NewItem(
        ark,
        frozenset({"object"}),
        profile.name,
        fingerprint=work.facts["digest_of_manifest"],
        detail={"title": about.title, "version": version, "node": node, "files": len(files)},
        place=world.place(node, ark),
    )
    told = {"version": version, "job": work.job.id, "batch": work.job.parent, "files": len(files)}
    return Passed(told, items=[item], events=[NewEvent(ark, "ingested", detail=told)])


def _carried_over(work: Work, world: Adapters, ark: str, version: int, folder: Path) -> dict[str, File]:
    """What an update leaves as it was: a version is all of its files, not only those that came with it."""
    if not work.payload.get("update"):
        return {}
    recorded = [each.version for each in world.inventory.versions(ark) if each.version <= version]
    gone = frozenset(system_files.deletes(folder))
    before = world.inventory.files(ark, max(recorded, default=0))  # or itself, recorded by a try that died after it
    return {file.name: file for file in before if file.name not in gone}


def notify(work: Work, world: Adapters) -> Outcome:
    """Tell whoever asked to be told; only now, when the object can be read. Then the working folder goes."""
    profile = world.profile(work.payload["profile"])
    if profile.callback.url:
        try:
            told = {"callback": notices.call_back(work, world, profile)}
        except LeaseLost:
            raise
        except CustodyError as error:
            if work.stopped:
                raise
            said = f"it is deposited, but its callback was not taken: {error}"
            return Failed(error.code, said, transient=isinstance(error, Unavailable))
    else:
        told = {}
    world.disk.remove(work.job)
    return Passed(told)


STEPS: dict[str, Step] = {
    "pending": pending,
    "estimating": estimating,
    "downloading": downloading,
    "processing": processing,
    "storing": storing,
    "recording": recording,
    "notify": notify,
}
"""Provisioning is missing here because it is a pass: it looks at all that wait at once. See kinds.py."""


def _stage_manifest(work: Work, world: Adapters) -> str:
    """The manifest as it is now."""
    url = work.payload["payload"]
    if is_staged(url):
        return str(url)
    scratch = world.disk.folder(work.job)
    scratch.mkdir(parents=True, exist_ok=True)
    with Folder(scratch) as folder:
        world.fetchers[work.payload["profile"]].download(url, folder, "manifest.checkm", cancel=lambda: work.stopped)
    staged = world.staging.put_file(scratch / "manifest.checkm")
    (scratch / "manifest.checkm").unlink()
    return staged.url


def _gone(folder: Path, part: str) -> Failed | None:
    """What earlier steps left must be there: an object of nothing but our own records would look like a deposit."""
    if any(path.is_file() for path in (folder / part).rglob("*")):
        return None
    return Failed("files.gone", f"its files are not in {folder}: put them back, or delete it and hand it in anew")


def _later(work: Work) -> int:
    return min(99, work.job.priority + LATER)
