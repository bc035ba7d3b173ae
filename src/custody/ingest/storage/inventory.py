"""The inventory: what has been recorded, readable at once. Recording the same version twice is recording it once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from custody.errors import NotFound, Refused
from custody.formats.identifiers import one_form
from custody.kernel.stores import Store
from custody.kernel.stores.rows import Tx, item_from
from custody.kernel.stores.rules.spellings import formers, settle


@dataclass(frozen=True, slots=True)
class Object:
    ark: str
    owner: str
    collection: str
    node: str
    title: str
    creator: str
    date: str
    version: int
    created: int
    changed: int


@dataclass(frozen=True, slots=True)
class File:
    name: str
    sha256: str
    size: int
    mime: str


@dataclass(frozen=True, slots=True)
class Version:
    version: int
    job: int
    batch: int
    files: int
    bytes: int
    recorded: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one object, to be recorded."""

    ark: str
    owner: str
    collection: str
    node: str
    title: str
    creator: str
    date: str
    version: int
    job: int
    batch: int
    local_ids: Sequence[str]
    files: Sequence[File]


class Inventory:
    def __init__(self, store: Store) -> None:
        self._db = store.db

    def arks_of(self, owner: str, local_ids: Sequence[str]) -> Mapping[str, str]:
        """The objects that go by these local ids, by the id; an id that nobody has is left out."""

        def look(tx: Tx) -> dict[str, str]:
            found = {name: ark_of(tx, owner, name) for name in local_ids}
            return {name: ark for name, ark in found.items() if ark}

        if not local_ids:
            return {}
        settle(self._db)
        return self._db.read(look)

    def reserve(self, owner: str, local_ids: Sequence[str], ark: str) -> None:
        """These names are this object's, from now on; refused when one is another's."""

        def work(tx: Tx) -> None:
            for name in sorted(local_ids):
                if not ark_of(tx, owner, name):
                    tx.run("inv_reserve", owner=owner, local_id=one_form(name), ark=ark)
                if ark_of(tx, owner, name) != ark:
                    raise Refused(f"local id {name} belongs to another object", code="identifier.mismatch")

        if local_ids:
            self._db.write(work)

    def record(self, entry: Entry) -> None:
        """Write down a version. Refuses one of an object, or an item, that is another collection's: no deposit moves
        anything from one collection to another."""

        def work(tx: Tx) -> None:
            _check_collection(tx, entry)
            tx.run(
                "inv_put_object",
                ark=entry.ark,
                owner=entry.owner,
                collection=entry.collection,
                node=entry.node,
                title=entry.title,
                creator=entry.creator,
                date=entry.date,
                version=entry.version,
            )
            size = sum(file.size for file in entry.files)
            tx.run(
                "inv_put_version",
                ark=entry.ark,
                version=entry.version,
                job=entry.job,
                batch=entry.batch,
                files=len(entry.files),
                bytes=size,
            )
            for file in entry.files:
                tx.run(
                    "inv_put_file",
                    ark=entry.ark,
                    version=entry.version,
                    name=file.name,
                    digest=file.sha256,
                    size=file.size,
                    mime=file.mime,
                )

        self._db.write(work)

    def find(self, ark: str) -> Object | None:
        rows = self._db.read(lambda tx: tx.run("inv_object", ark=ark))
        return Object(*rows[0]) if rows else None

    def get(self, ark: str) -> Object:
        found = self.find(ark)
        if found is None:
            raise NotFound(f"the inventory has no object {ark}", code="object.unknown")
        return found

    def list(self, collection: str = "", after: str = "", limit: int = 100) -> Sequence[Object]:
        rows = self._db.read(lambda tx: tx.run("inv_objects", collection=collection, after=after, limit=limit))
        return [Object(*row) for row in rows]

    def versions(self, ark: str) -> Sequence[Version]:
        return [Version(*row) for row in self._db.read(lambda tx: tx.run("inv_versions", ark=ark))]

    def local_ids(self, ark: str) -> Sequence[str]:
        return [row[0] for row in self._db.read(lambda tx: tx.run("inv_local_ids", ark=ark))]

    def files(self, ark: str, version: int, page: int = 1000) -> Iterator[File]:
        after = ""
        while rows := self._files(ark, version, after, page):
            yield from rows
            after = rows[-1].name

    def _files(self, ark: str, version: int, after: str, limit: int) -> Sequence[File]:
        rows = self._db.read(lambda tx: tx.run("inv_files", ark=ark, version=version, after=after, limit=limit))
        return [File(*row) for row in rows]


def ark_of(tx: Tx, owner: str, local_id: str) -> str:
    """The object that goes by a local id: so spelled, in its one form, or as an equal one was spelled before."""
    plain = one_form(local_id)
    for spelled in dict.fromkeys((local_id, plain, *formers(tx, owner, plain))):
        for row in tx.run("inv_ark_of", owner=owner, local_id=spelled):
            return str(row[0])
    return ""


def _check_collection(tx: Tx, entry: Entry) -> None:
    objects, items = tx.run("inv_object", ark=entry.ark), tx.run("item", id=entry.ark)
    of_another = bool(objects) and (objects[0][1], objects[0][2]) != (entry.owner, entry.collection)
    if of_another or (items and item_from(items[0]).collection not in ("", entry.collection)):
        raise Refused(f"{entry.ark} is no object of this collection", code="identifier.forbidden")
