"""Whose a collection is. Rights count in a collection by its name, whichever application has given it that name: an
archive's collection is called like the archive, that of deposits like their profile.

So two of one name are one collection, and whoever may look at, change or delete in one may in the other. That is
agreed to by an operator (a grant), or one of them has another name.
"""

from __future__ import annotations

from collections.abc import Collection

from custody.errors import BadInput, Refused
from custody.formats.shell import BLANK, command
from custody.kernel.applications import gathered, installed
from custody.kernel.model.authority.grant import COLLECTION
from custody.kernel.model.job import Filter
from custody.kernel.model.names.names import alike
from custody.kernel.stores import Store

DEPOSITS = "deposits"
REVISION = "revision"
MOST = 1000


def is_archive(store: Store, name: str) -> bool:
    asked = [part.archive_named for part in installed() if part.archive_named]
    return any(store.db.glance(lambda tx, one=one: tx.run(one, name=name)) for one in asked)  # type: ignore[misc]


def archives(store: Store) -> list[str]:
    """The names of those that are looked after."""
    asked = [part.archive_list for part in installed() if part.archive_list]
    return [str(row[0]) for one in asked for row in store.db.glance(lambda tx, one=one: tx.run(one))]  # type: ignore[misc]


def is_agreed(store: Store, name: str) -> bool:
    """Whether an operator has said that an archive and others share this collection."""
    return bool(store.grants.of(f"archive/{name}", COLLECTION))


def deposited(store: Store, name: str) -> bool:
    """Whether anything was handed in to it."""
    kinds = gathered(lambda part: part.deposits)
    return any(store.queue.list(Filter(kind=kind, collection=name), limit=1) for kind in kinds) or bool(
        store.records.items(collection=name, type_="object", limit=1)
    )


def others_in(store: Store, name: str, profiles: Collection[str] = ()) -> str:
    """What there is of this collection besides an archive; empty: nothing."""
    if name in profiles:
        return f"the profile {name} takes deposits"
    if deposited(store, name):
        return "something was deposited"
    for job in store.queue.list(Filter(collection=name), limit=MOST):
        if not job.kind.startswith(gathered(lambda part: part.in_archives)):
            return f"there are jobs of {job.kind}"
    for item in store.records.items(collection=name, limit=MOST):
        if REVISION not in item.types:
            return f"there is the item {item.id}"
    return ""


def must_be_free(store: Store, name: str, profiles: Collection[str], location: str) -> None:
    """Before an archive gets this name."""
    must_look_like_none(store, name, profiles, location)
    if others := others_in(store, name, profiles):
        add = f"custody archive add {name} {location} --share-collection --why …"
        raise Refused(
            f"there is a collection {name} already ({others}): whoever may look at, change or delete that could do so "
            "with this archive",
            code="collection.shared",
            where=name,
            hint=f"give the archive another name; or, if that is meant: `{add}`",
        )


def must_look_like_none(store: Store, name: str, profiles: Collection[str], location: str) -> None:
    """Before an archive gets this name, whatever an operator agrees to: one that reads as another collection's gets
    rights that were meant for that."""
    used = [str(row[0]) for row in store.db.read(lambda tx: tx.run("collections_in_use"))]
    if other := alike(name, (*profiles, *used)):
        raise BadInput(
            f"{name!r} looks like the collection {other}, which is another",
            code="archive.name",
            where=location,
            hint="choose a name that nobody takes for that one",
        )


def must_not_be_an_archive(store: Store, name: str) -> None:
    """Before the first deposit to a profile of this name, or of one that looks like it; where there were deposits
    before it goes on, and the doctor tells."""
    if (other := alike(name, archives(store))) and not deposited(store, name):
        raise Refused(
            f"the profile {name!r} looks like the archive {other}, which is another: their collections would be taken "
            "for one another",
            code="collection.alike",
            where="profile",
            hint="give the profile another name",
        )
    if is_archive(store, name) and not is_agreed(store, name) and not deposited(store, name):
        raise Refused(
            f"there is an archive {name}, whose collection this would be: whoever may look at, change or delete one "
            "could do so with the other",
            code="collection.shared",
            where="profile",
            hint=f"give the profile another name; or, if that is meant: `{agreeing(name)}`",
        )


def agreeing(name: str) -> str:
    return command("archive grant", name, COLLECTION, DEPOSITS, why=BLANK)
