"""Which name an object gets, and on which node it lives: the first half of processing. And whether it is new: what is
asked once more before anything is stored.

Two deposits of one local id at once must share one identifier, so it is looked up, minted and reserved under a lease on
each local id. The job holds it, not its worker: when that one is killed, whoever takes the job over takes the lease
with it, and minting and reserving again say the same. The identifier is kept the moment it is known: whoever tries
again finds it. Whose a name is, is decided in identifiers/taken_names.py.

A depositor hears that a name cannot be used, and nothing of whose it is: what somebody may not see looks as if it were
not there. Whoever looks after all collections finds the rest in the history, under identifier/NAME.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from custody.errors import NotFound, Unavailable
from custody.formats.identifiers import ark, one_form
from custody.ingest.adapters import Adapters
from custody.ingest.description import system_files
from custody.ingest.profile import Profile
from custody.ingest.submission.idempotency import request_of
from custody.kernel.engine.work import Work
from custody.kernel.model.outcome import Failed, Wait

LEASE_SECONDS = 60.0
LOCKED_SECONDS = 0.2
MOST_TAKEN = 1000
"""So many names in a row may be taken before the minter is thought to be at fault."""
_REQUEST = re.compile("job-([0-9]+)-[0-9]+")


@dataclass(frozen=True, slots=True)
class Named:
    primary: str
    node: str  # an object stays where its first version is, whatever its collection's profile says by now


def identify(work: Work, world: Adapters, profile: Profile) -> Named | Failed | Wait:
    names, leases = list(work.payload.get("local_ids", [])), []
    try:
        for name in sorted({one_form(name) for name in names}):
            lease = world.store.leases.inherit(f"localid/{profile.owner}/{name}", work.job.subject, LEASE_SECONDS)
            if lease is None:
                return Wait(LOCKED_SECONDS, f"another job is looking up local id {name}")
            leases.append(lease)
        return _identify(work, world, profile, names)
    finally:
        for lease in leases:
            world.store.leases.settle(lease)


def _identify(work: Work, world: Adapters, profile: Profile, names: Sequence[str]) -> Named | Failed:
    """Supplied, known by a local id, kept by an earlier attempt, or minted now."""
    known = world.inventory.arks_of(profile.owner, names)
    for name, found in sorted(known.items()):
        if not _is_ours(world, profile, found):
            return _forbidden(work, world, f"local id {name}", found)
    if len(set(known.values())) > 1:
        told = ", ".join(f"{name} is {found}" for name, found in sorted(known.items()))
        return Failed("identifier.ambiguous", f"these local ids belong to different objects: {told}")
    by_local_id = next(iter(known.values()), "")
    brought = str(work.payload.get("primary_id", ""))
    supplied = _as_kept(work, world, profile, brought, by_local_id=by_local_id) if brought else ""
    if isinstance(supplied, Failed):
        return supplied
    if supplied and by_local_id and supplied != by_local_id:
        return Failed(
            "identifier.mismatch",
            f"local id {', '.join(names)} belongs to {by_local_id}, but {supplied} was supplied",
            detail={"supplied": supplied, "found": by_local_id},
        )
    # What a local id is known by goes before what we kept: minted for it and not yet reserved when we died, the name
    # is another's by now, and ours was never used.
    primary = supplied or by_local_id
    if primary and not _take(work, world, profile, primary):
        return _forbidden(work, world, primary, primary)
    if not primary:
        minted = _minted(work, world, profile)
        if isinstance(minted, Failed):
            return minted
        primary = minted
    if work.facts.get("primary") != primary:
        work.keep(primary=primary)
    world.inventory.reserve(profile.owner, names, primary)
    there = world.inventory.find(primary) if supplied or by_local_id else None  # what is minted now cannot be there
    return Named(primary, there.node if there else profile.storage.node)


def _as_kept(work: Work, world: Adapters, profile: Profile, brought: str, by_local_id: str) -> str | Failed:
    """A name that was brought along as it is kept here: in its one form, or as an equal one was spelled before."""
    found = world.names.equals(ark(brought))
    if by_local_id in found:
        return by_local_id
    ours = [each for each in found if _is_ours(world, profile, each)]
    if len(ours) > 1:
        told = ", ".join(ours)
        said = f"{brought} is the name of {len(ours)} objects that were made when equal names were two: {told}"
        return Failed("identifier.ambiguous", f"{said}. Say which by a local id of it")
    return next(iter([*ours, *found]), ark(brought))


def _is_ours(world: Adapters, profile: Profile, primary: str) -> bool:
    """Does the name belong to this collection, or to nobody yet?"""
    there = world.inventory.find(primary)
    if there is not None:
        return (there.owner, there.collection) == (profile.owner, profile.name)
    name = world.names.find(primary)
    return name is None or name.collection in ("", profile.name)


def _take(work: Work, world: Adapters, profile: Profile, primary: str) -> bool:
    there, name = world.inventory.find(primary), world.names.find(primary)
    if there is not None and not _is_ours(world, profile, primary):
        return False
    if there is None and name is None and not profile.identifier.take_over and is_minted_here(world, primary):
        return False
    over = name if name and name.may_pass_on and there is None and not _is_under_way(world, name.request) else None
    return world.names.take(primary, profile.name, request_of(work.job), over)


def is_minted_here(world: Adapters, primary: str) -> bool:
    """Is it on a shoulder on which only we give out names?"""
    own = [each.identifier for each in world.profiles.values() if each.identifier.minter == "local"]
    return ark(primary).startswith(tuple(f"ark:/{each.naan}/{each.shoulder}" for each in own))


def _minted(work: Work, world: Adapters, profile: Profile) -> str | Failed:
    """A name that nobody has: the one that we kept, or the first that is free."""
    request, minter = request_of(work.job), world.minters[profile.name]
    kept = str(work.facts.get("primary", ""))
    if kept and world.names.take_new(kept, profile.name, request):
        return kept
    about = system_files.description(work, world.disk.folder(work.job))
    for _ in range(MOST_TAKEN):
        primary = minter.mint(request, about, profile.identifier.target)
        free = not _is_stored(world, profile.storage.node, primary)
        if free and world.names.take_new(primary, profile.name, request):
            return primary
        if not minter.goes_on:
            _tell(work, world, primary, "minted, but taken")
            said = "the minter gave a name that is in use here: nothing was stored; resume it when the minter is mended"
            return Failed("identifier.taken", said)
    raise Unavailable(f"{MOST_TAKEN} names in a row are in use", code="identifier.taken", where=profile.name)


def _is_stored(world: Adapters, node: str, primary: str) -> bool:
    """Does a root of this machine hold it, unknown to the inventory? A service is asked when it is about to store."""
    storage = world.nodes.get(node)
    return storage is not None and storage.relative(primary) is not None and storage.holds(primary)


def begin_first(work: Work, world: Adapters, profile: Profile) -> bool | Failed | Wait:
    """Whether what is about to be stored is an object's first version, of which nothing may be in storage. Refused when
    the name has come to be another collection's; and a second deposit under it waits until the first is recorded."""
    primary, request = work.facts["primary"], request_of(work.job)
    begin = partial(world.names.begin, primary, owner=profile.owner, collection=profile.name, request=request)
    begun = begin()
    if begun is not None and begun[0] != request and not begun[1] and not _is_under_way(world, begun[0]):
        begun = begin(instead_of=begun[0])
    if begun is None:
        return _forbidden(work, world, primary, primary)
    writer, recorded = begun
    if recorded or "recording" in world.external:  # what others record is not in our inventory
        return False
    return True if writer == request else Wait(LOCKED_SECONDS, "another job stores the first version of this object")


def exists(work: Work, world: Adapters) -> Failed:
    """Say that storage has something under a name that is new here."""
    _tell(work, world, work.facts["primary"], "in storage, but not recorded")
    return Failed(
        "object.exists",
        "there is an object of that name in storage, and it is not in the inventory: nothing was stored",
    )


def _is_under_way(world: Adapters, request: str) -> bool:
    """Is the job that asks by this request still to come to an end?"""
    found = _REQUEST.fullmatch(request)
    if not found:
        return False
    try:
        job = world.store.queue.get(int(found[1]))
    except NotFound:
        return False
    return request_of(job) == request and job.ended is None


def _forbidden(work: Work, world: Adapters, what: str, found: str) -> Failed:
    _tell(work, world, found, "refused", named=what)
    hint = "leave it out, and the object gets a name of its own" if what == found else "choose another one"
    return Failed(
        "identifier.forbidden", f"{what} names no object of this collection, and cannot be given here: {hint}"
    )


def _tell(work: Work, world: Adapters, primary: str, what: str, **told: str) -> None:
    """For those who look after all collections."""
    name, there = world.names.find(primary), world.inventory.find(primary)
    whose = there.collection if there else name.collection if name else ""
    told = {"job": work.job.subject, "into": work.job.collection, "belongs_to": whose, **told}
    world.store.records.note(f"identifier/{primary}", what, work.claim.holder, **told)
