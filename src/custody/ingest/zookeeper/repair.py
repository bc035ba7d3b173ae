"""Finding and mending what a service that stopped half-way has left: every orphan that operators know by name.

Our own moves leave none: each is one `multi`. Others write node by node, and a crash between two of them leaves a job
in no queue, or in two, or a batch that nobody will report. Each finding carries its own repair, which is refused if
anything about it changed since; and only what is found twice, some time apart, is mended: what is under way is not.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.client.multi import Check, Create, Delete, Op, Set, moved, nobody_has
from custody.ingest.zookeeper.client.session import Session
from custody.ingest.zookeeper.rows import PAGE, Seen, read
from custody.ingest.zookeeper.verbs.delete import removal

PATIENCE = 2.0  # seconds between two looks
HARMLESS = frozenset({"job.misplaced", "batch.left"})
"""What workers mend by themselves: nothing is taken away by it. The rest is for a person to decide."""


@dataclass(frozen=True, slots=True)
class Orphan:
    code: str
    path: str
    text: str
    repair: tuple[Op, ...] = field(compare=False, default=())


@dataclass(frozen=True, slots=True)
class Names:
    """Who is mentioned where: enough to see which jobs are worth a closer look."""

    jobs: frozenset[str]
    batches: tuple[str, ...]
    places: Mapping[str, frozenset[str]]  # of every job that is in a queue or on a list
    uuids: Mapping[str, str]
    our_jobs: frozenset[str]
    our_batches: frozenset[str]


def read_names(session: Session) -> Names:
    batches = tuple(name for name in session.names(tree.BATCHES) if tree.is_batch(name))
    folders = [f"{tree.QUEUES}/{name}" for name in session.names(tree.QUEUES)]
    folders += [f"{tree.home(name)}/states/{which}" for name in batches for which in tree.BATCH_LISTS]
    places: dict[str, set[str]] = {}
    for folder, found in zip(folders, session.names_many(folders), strict=True):
        for name in found:
            places.setdefault(name.rpartition("-")[2], set()).add(f"{folder}/{name}")
    uuids = session.names(tree.UUIDS)
    told = session.get_many([f"{tree.UUIDS}/{uuid}" for uuid in uuids])
    return Names(
        jobs=frozenset(name for name in session.names(tree.JOBS) if name.startswith("jid")),
        batches=batches,
        places={name: frozenset(found) for name, found in places.items()},
        uuids={uuid: node.data.decode() for uuid, node in zip(uuids, told, strict=True) if node},
        our_jobs=frozenset(session.names(tree.OUR_JOBS)),
        our_batches=frozenset(session.names(tree.OUR_BATCHES)),
    )


def find(session: Session, closely: bool = True, also: Iterable[str] = (), queues: Iterable[str] = ()) -> list[Orphan]:
    """Everything that is out of place. Not `closely`: only what the names alone make suspicious, and what is named:
    some jobs, and all of some queues."""
    names = read_names(session)
    jobs = sorted(names.jobs if closely else (_suspicious(names, queues) | set(also)) & names.jobs)
    return [
        *(_locks(session, names) if closely else ()),  # first: what is behind one is mended when it is gone
        *_jobs(session, names, jobs),
        *_mentions(names),
        *_batches(session, names),
        *_ours(session, names),
        *_claims(session, names),
    ]


def _suspicious(names: Names, queues: Iterable[str]) -> set[str]:
    watched = tuple(f"{tree.QUEUES}/{queue}/" for queue in queues)
    places = {name: names.places.get(name, frozenset()) for name in names.jobs}
    return {name for name, found in places.items() if len(found) != 2 or any(at.startswith(watched) for at in found)}


def find_twice(session: Session, seconds: float | None = None) -> list[Orphan]:
    """What is out of place now and was so some time ago: nobody is just about to put it right."""
    before = find(session)
    if not before:
        return []
    time.sleep(PATIENCE if seconds is None else seconds)
    again = find(session)
    return [orphan for orphan in again if orphan in before]


def mend(session: Session, found: Sequence[Orphan]) -> list[Orphan]:
    """Put right what can be; answers what is left."""
    mendable = [orphan for orphan in found if orphan.repair]
    verdicts = session.commit_many([orphan.repair for orphan in mendable])
    failed = [orphan for orphan, verdict in zip(mendable, verdicts, strict=True) if not verdict.done]
    return [*failed, *(orphan for orphan in found if not orphan.repair)]


def _jobs(session: Session, names: Names, wanted: Sequence[str]) -> Iterator[Orphan]:
    batches = {seen.name: seen for seen in read(session, names.batches) if seen}
    for start in range(0, len(wanted), PAGE):
        page = wanted[start : start + PAGE]
        for name, seen in zip(page, read(session, page), strict=True):
            found = names.places.get(name, frozenset())
            if seen is None:
                yield _half_made(session, name, found)
            elif seen.batch not in names.batches:
                yield _fatherless(session, seen, found)
            elif not seen.lock or not seen.lock.owner:
                yield from _misplaced(seen, found, batches.get(seen.batch))


def _half_made(session: Session, name: str, found: Iterable[str]) -> Orphan:
    gone = (*(Delete(path) for path in sorted(found)), *removal(session, [tree.home(name), tree.ours(name)]))
    return Orphan("job.half-made", tree.home(name), f"{name} has no readable status: whoever made it stopped", gone)


def _fatherless(session: Session, seen: Seen, found: Iterable[str]) -> Orphan:
    check = Check(f"{tree.home(seen.name)}/status", seen.version)
    gone = removal(session, [tree.home(seen.name), tree.ours(seen.name)])
    text = f"{seen.name} belongs to {seen.batch}, which does not exist"
    return Orphan("job.no-batch", tree.home(seen.name), text, (check, *(Delete(path) for path in sorted(found)), *gone))


def _misplaced(seen: Seen, found: frozenset[str], batch: Seen | None) -> Iterator[Orphan]:
    wanted = tree.places(seen.name, seen.batch, seen.status.state, seen.priority)
    if batch is not None and batch.kept_back and batch.kept_back.endswith(seen.name):
        wanted = frozenset(path for path in wanted if not path.startswith(tree.QUEUES))
    if wanted == found:
        return
    texts = [f"is not at {path}" for path in sorted(wanted - found)]
    texts += [f"is still at {path}" for path in sorted(found - wanted)]
    home = tree.home(seen.name)
    repair = (Check(f"{home}/status", seen.version), *nobody_has(home), *moved(found, wanted))
    yield Orphan("job.misplaced", home, f"{seen.name} ({seen.status.state}) {' and '.join(texts)}", repair)


def _mentions(names: Names) -> Iterator[Orphan]:
    """Entries of jobs that do not exist."""
    for name, found in sorted(names.places.items()):
        if name not in names.jobs:
            for path in sorted(found):
                yield Orphan("entry.no-job", path, f"{path} names a job that does not exist", (Delete(path),))


def _batches(session: Session, names: Names) -> Iterator[Orphan]:
    found = read(session, names.batches)
    states = session.names_many([f"{tree.home(name)}/states" for name in names.batches])
    busy = {path.split("/")[2] for paths in names.places.values() for path in paths if path.startswith(tree.BATCHES)}
    for name, seen, lists in zip(names.batches, found, states, strict=True):
        home = tree.home(name)
        if seen is None:
            gone = tuple(removal(session, [home, tree.ours(name)])) if name not in busy else ()
            yield Orphan("batch.half-made", home, f"{name} has no readable status: whoever made it stopped", gone)
            continue
        if seen.uuid and seen.uuid not in names.uuids:
            path = f"{tree.UUIDS}/{seen.uuid}"
            yield Orphan("batch.no-uuid", home, f"{name} is not at {path}", (Create(path, name.encode()),))
        if seen.taken and not lists and seen.status.state in ("pending", "processing") and not seen.lock:
            yield _taken_and_left(seen)
    for uuid, name in names.uuids.items():
        if name not in names.batches:
            path = f"{tree.UUIDS}/{uuid}"
            yield Orphan("uuid.no-batch", path, f"{path} names {name}, which does not exist", (Delete(path),))


def _taken_and_left(seen: Seen) -> Orphan:
    """Someone took it and stopped before its first job: no service would ever look at it again."""
    home = tree.home(seen.name)
    back = tree.write_status(tree.Status("pending", seen.changed), of_batch=True)
    repair = (*nobody_has(home), Delete(f"{home}/states"), Set(f"{home}/status", back, seen.version))
    return Orphan("batch.left", home, f"{seen.name} was taken, but became no jobs", repair)


def _ours(session: Session, names: Names) -> Iterator[Orphan]:
    lost = [*sorted(names.our_jobs - names.jobs), *sorted(names.our_batches - set(names.batches))]
    for name in lost:
        repair = tuple(removal(session, [tree.ours(name)]))
        yield Orphan("record.no-job", tree.ours(name), f"we keep a record of {name}, which does not exist", repair)


def _claims(session: Session, names: Names) -> Iterator[Orphan]:
    for entry in session.names(tree.HELD):
        name, path = entry.rpartition("-")[0], f"{tree.HELD}/{entry}"
        if name not in names.jobs and name not in names.batches:
            yield Orphan("claim.no-job", path, f"{path} is about {name}, which does not exist", (Delete(path),))


def _locks(session: Session, names: Names) -> Iterator[Orphan]:
    """Locks that belong to no session never go away by themselves."""
    paths = [f"{tree.home(name)}/lock" for name in (*names.batches, *sorted(names.jobs))]
    for path, node in zip(paths, session.get_many(paths), strict=True):
        if node is not None and node.owner == 0:
            yield Orphan("lock.no-owner", path, f"{path} belongs to no session", (Delete(path, node.version),))
