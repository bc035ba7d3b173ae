"""Which name an object gets, and on which node it lives: the first half of processing.

Two deposits of one local id at once must share one identifier, so it is looked up, minted and reserved under a lease on
each local id. The job holds it, not its worker: when that one is killed, whoever takes the job over takes the lease
with it, and minting and reserving again say the same. The identifier is kept the moment it is known: whoever tries
again finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from custody.engine.work import Work
from custody.ingest import describing
from custody.ingest.keys import request_of
from custody.ingest.profile import Profile
from custody.ingest.world import World
from custody.model.outcome import Failed, Wait

LEASE_SECONDS = 60.0
LOCKED_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Named:
    primary: str
    node: str  # an object stays where its first version is, whatever its collection's profile says by now


def identify(work: Work, world: World, profile: Profile) -> Named | Failed | Wait:
    names, leases = list(work.payload.get("local_ids", [])), []
    try:
        for name in sorted(names):
            lease = world.store.leases.inherit(f"localid/{profile.owner}/{name}", work.job.subject, LEASE_SECONDS)
            if lease is None:
                return Wait(LOCKED_SECONDS, f"another job is looking up local id {name}")
            leases.append(lease)
        return _identify(work, world, profile, names)
    finally:
        for lease in leases:
            world.store.leases.settle(lease)


def _identify(work: Work, world: World, profile: Profile, names: Sequence[str]) -> Named | Failed:
    """Supplied, known by a local id, kept by an earlier attempt, or minted now."""
    supplied, known = work.payload.get("primary_id", ""), world.inventory.ark_of(profile.owner, names)
    if supplied and known and supplied != known:
        return Failed(
            "identifier.mismatch", f"local id {', '.join(names)} belongs to {known}, but {supplied} was supplied",
            detail={"supplied": supplied, "found": known},
        )  # fmt: skip
    # What a local id is known by goes before what we kept: minted for it and not yet reserved when we died, the name
    # is another's by now, and ours was never used.
    primary = supplied or known or work.facts.get("primary", "")
    there = world.inventory.find(primary) if primary else None  # what is minted now cannot be there
    if there and (there.owner, there.collection) != (profile.owner, profile.name):
        named = primary if supplied else f"local id {', '.join(names)} belongs to {primary}, which"
        return Failed("identifier.forbidden", f"{named} is an object of another collection", detail={"found": primary})
    if not primary:
        about = describing.description(work, world.disk.folder(work.job))
        primary = world.minters[profile.name].mint(request_of(work.job), about, profile.identifier.target)
    if work.facts.get("primary") != primary:
        work.keep(primary=primary)
    world.inventory.reserve(profile.owner, names, primary)
    return Named(str(primary), there.node if there else profile.storage.node)
