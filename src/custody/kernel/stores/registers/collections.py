"""Whose a collection is. Rights count in a collection by its name, whichever application has given it that name: an
archive's collection is called like the archive, that of deposits like their profile.

So two of one name are one collection, and whoever may look at, change or delete in one may in the other. That is
agreed to by an operator (a grant), or one of them has another name.
"""

from __future__ import annotations

from collections.abc import Collection

from custody.errors import Refused
from custody.formats.shell import BLANK, command
from custody.kernel.model.authority.grant import COLLECTION
from custody.kernel.model.job import Filter
from custody.kernel.stores import Store

DEPOSITS = "deposits"
BATCH = "ingest/batch"
OF_ARCHIVES = ("workflow/", "robot/")  # kinds of jobs; robots work on what is there
REVISION = "revision"
MOST = 1000


def is_archive(store: Store, name: str) -> bool:
    return bool(store.db.glance(lambda tx: tx.run("wf_archive", name=name)))


def is_agreed(store: Store, name: str) -> bool:
    """Whether an operator has said that an archive and others share this collection."""
    return bool(store.grants.of(f"archive/{name}", COLLECTION))


def deposited(store: Store, name: str) -> bool:
    """Whether anything was handed in to it."""
    return bool(
        store.queue.list(Filter(kind=BATCH, collection=name), limit=1)
        or store.records.items(collection=name, type_="object", limit=1)
    )


def others_in(store: Store, name: str, profiles: Collection[str] = ()) -> str:
    """What there is of this collection besides an archive; empty: nothing."""
    if name in profiles:
        return f"the profile {name} takes deposits"
    if deposited(store, name):
        return "something was deposited"
    for job in store.queue.list(Filter(collection=name), limit=MOST):
        if not job.kind.startswith(OF_ARCHIVES):
            return f"there are jobs of {job.kind}"
    for item in store.records.items(collection=name, limit=MOST):
        if REVISION not in item.types:
            return f"there is the item {item.id}"
    return ""


def must_be_free(store: Store, name: str, profiles: Collection[str], location: str) -> None:
    """Before an archive gets this name."""
    if others := others_in(store, name, profiles):
        add = f"custody archive add {name} {location} --share-collection --why …"
        raise Refused(
            f"there is a collection {name} already ({others}): whoever may look at, change or delete that could do so "
            "with this archive",
            code="collection.shared",
            where=name,
            hint=f"give the archive another name; or, if that is meant: `{add}`",
        )


def must_not_be_an_archive(store: Store, name: str) -> None:
    """Before the first deposit to a profile of this name; where there were deposits before it goes on, and the doctor
    tells."""
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
