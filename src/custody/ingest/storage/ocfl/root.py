"""The default storage: an OCFL 1.1 root on disk.

Objects are only ever added to: `store` makes version 1, or the next version, and nothing that was stored
is changed. The work is done in a staging folder beside the root, on the same file system:

    copy and digest every file → link the versions there are → write the inventories → sync it all
    → one step: rename (version 1) or exchange (any later version) → remove what was staged

so a crash at any point leaves the object as it was or as it was to be, valid in either case. The same
request again answers the version it made. Two writers on one object: the second is refused. No link is followed on
the way to an object or in it, and nothing is written where somebody else may put one (`border/below.py`).

Left to others: whether names are safe (`border`), when objects are stored (`steps`), what they are called.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from custody.border import below
from custody.errors import BadInput, KeyConflict, NotFound, Refused, Unavailable
from custody.formats.digest_table import digest_file
from custody.formats.ocfl.inventory import (
    FIXITY,
    Content,
    Inventory,
    Version,
    check_paths,
    check_request,
    from_json,
    object_folder,
    sidecar_of,
)
from custody.ingest.storage.ocfl.change import (
    Change,
    Given,
    Stored,
    checked_digests,
    new_state,
    regular_file,
    wanted_digests,
)
from custody.ingest.storage.ocfl.durable import Durable, lock_folder, unlock_folder

INVENTORY, SIDECAR = "inventory.json", "inventory.json.sha512"
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class OcflRoot:
    """A storage root; `open_root.open_root` makes or checks one."""

    def __init__(self, path: Path, staging: Path, disk: Durable, user: tuple[str, str]) -> None:
        self.path, self.staging, self.disk, self.user = path, staging, disk, user

    # -- reading -----------------------------------------------------------------------------------

    def folder(self, identifier: str) -> Path:
        """Where an object is, or is to be; `Refused` if a link is on the way there."""
        place = self.path / object_folder(identifier)
        below.must_be_plain(self.path, place)
        return place

    def relative(self, identifier: str) -> str:
        """Where an object is, below this root."""
        return object_folder(identifier)

    def holds(self, identifier: str) -> bool:
        """Is there anything where this object would be?"""
        return self.folder(identifier).exists()

    def inventory(self, identifier: str) -> Inventory:
        """What an object holds, in all its versions."""
        folder = self.folder(identifier)
        try:
            data, sidecar = below.read(folder, INVENTORY), below.read(folder, SIDECAR)
        except (FileNotFoundError, NotFound):
            raise NotFound(f"no object {identifier!r}", code="object.unknown") from None
        found = from_json(data, sidecar)
        if found.id != identifier:
            raise Refused(f"{folder} holds {found.id!r}, not {identifier!r}", code="object.foreign")
        return found

    def file(self, identifier: str, name: str, version: int | None = None) -> Path:
        """Where the bytes of one file are."""
        inventory = self.inventory(identifier)
        digest = version_of(inventory, version).state.get(name)
        if digest is None:
            raise NotFound(f"{identifier!r} has no file {name!r}", code="object.file")
        return self.folder(identifier) / inventory.paths()[digest]

    # -- writing -----------------------------------------------------------------------------------

    def store(self, identifier: str, change: Change) -> Stored:
        """Make the next version of an object, durably, or answer the one this request made before."""
        if not identifier:
            raise BadInput("an object needs an identifier", code="object.identifier")
        check_request(change.request)
        if change.files:
            check_paths(dict.fromkeys(change.files, ""))
        if change.deletes and not change.update:
            raise BadInput("files are deleted only in an update", code="object.deletes")
        below.must_be_ours(self.path, self.folder(identifier))
        try:
            with self._bench(identifier) as bench:
                return self._store(identifier, change, bench)
        except OSError as error:
            if error.errno in _PASSING:
                name = errno.errorcode[error.errno or 0]
                raise Unavailable(f"storage cannot write: {error}", code="storage.disk", errno=name) from error
            raise

    def _store(self, identifier: str, change: Change, bench: Path) -> Stored:
        try:
            before = self.inventory(identifier)
        except NotFound:
            before = Inventory(identifier, (), {})
        if made := before.made_by(change.request):
            return self._again(before, change, made)
        if change.head is not None and change.head != len(before.versions):
            raise Refused(
                f"{identifier!r} is at version {len(before.versions)}, the change is from {change.head}",
                code="object.moved",
            )
        work = _Staged(self, before, bench / "new")
        digests = {name: work.take(name, given) for name, given in sorted(change.files.items())}
        state = new_state(before.head.state if before.head else None, digests, change)
        if before.head and before.head.state == state:
            return Stored(before.head.number, self.folder(identifier), new=False)
        after = before.followed_by(
            state,
            work.added,
            created=change.created,
            message=change.message,
            request=change.request,
            user=self.user,
        )
        work.finish(after)
        self._place(identifier, bench, first=before.head is None)
        return Stored(len(after.versions), self.folder(identifier), new=True)

    def _again(self, before: Inventory, change: Change, made: Version) -> Stored:
        digests = {}
        for name, given in change.files.items():
            digests[name] = checked_digests(given, digest_file(regular_file(given.path), wanted_digests(given)))[
                "sha512"
            ]
        if new_state(before.before(made), digests, change) != made.state:
            raise KeyConflict(
                f"request {change.request} made version {made.number} of {before.id!r} with other content",
                code="object.request",
            )
        return Stored(made.number, self.folder(before.id), new=False)

    def _place(self, identifier: str, bench: Path, *, first: bool) -> None:
        place = self.folder(identifier)
        if not first:
            self.disk.put_in_place(bench / "new", place, bench / "old")
            return
        # An empty folder makes a root invalid, so the folders above come into being with the object.
        missing = [each for each in place.parents if self.path in each.parents and not each.exists()]
        top = missing[-1] if missing else place
        staged = bench / "new"
        if missing:
            staged = bench / "above"
            self.disk.folder((staged / place.relative_to(top)).parent)
            self.disk.rename(bench / "new", staged / place.relative_to(top))
            self.disk.sync_folders(staged)
        try:
            self.disk.rename(staged, top)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
            # Another object has just made the same folder above: take the bench apart and look again.
            self.disk.rename(staged / place.relative_to(top), bench / "new")
            self.disk.remove(staged)
            self._place(identifier, bench, first=True)

    @contextmanager
    def _bench(self, identifier: str) -> Iterator[Path]:
        """A folder to work in, for one writer of one object at a time; a lock that dies with its process."""
        bench = self.staging / hashlib.sha256(identifier.encode()).hexdigest()[:32]
        lock = lock_folder(bench, self.disk)
        if lock is None:
            raise Refused(
                f"{identifier!r} is being written by another worker",
                code="object.busy",
                hint="try again shortly",
            )
        try:
            self._clear(bench)
            try:
                yield bench
            finally:
                self._clear(bench)
        finally:
            unlock_folder(bench, lock, self.disk)

    def _clear(self, bench: Path) -> None:
        """Remove what is staged; but put back an object that a crash left between two renames."""
        old = bench / "old"
        if old.exists():
            kept = from_json(below.read(old, INVENTORY), below.read(old, SIDECAR))
            # `old` is whole as long as it has that name: it is removed under another.
            self.disk.remove(bench / "waste")
            back = bench / "waste" if self.folder(kept.id).exists() else self.folder(kept.id)
            self.disk.rename(old, back)
        for each in ("waste", "new", "above", "part"):
            self.disk.remove(bench / each)

    def tidy(self) -> int:
        """Finish what crashes left in the staging folder; says how many benches were cleared. Benches in
        use are left alone."""
        cleared = 0
        for bench in sorted(self.staging.iterdir()):
            lock = lock_folder(bench, self.disk) if bench.is_dir() and not bench.is_symlink() else None
            if lock is not None:
                try:
                    self._clear(bench)
                    cleared += 1
                finally:
                    unlock_folder(bench, lock, self.disk)
        return cleared


class _Staged:
    """The next version of an object, being built out of sight."""

    def __init__(self, root: OcflRoot, before: Inventory, new: Path) -> None:
        self.disk, self.new, self.part = root.disk, new, new.parent / "part"
        self.version = f"v{len(before.versions) + 1}"
        self.added: dict[str, Content] = {}
        self._known = set(before.paths())
        self._place = root.folder(before.id)
        self._sizes = set(self._stored_sizes(before))
        self.disk.folder(new)

    def _stored_sizes(self, before: Inventory) -> Iterator[int]:
        for path in before.content:
            try:
                yield (self._place / path).stat().st_size
            except FileNotFoundError:
                raise Refused(
                    f"{path} of {before.id!r} is missing",
                    code="object.damaged",
                    hint="verify the object first",
                ) from None

    def take(self, name: str, given: Given) -> str:
        """Digest a file and stage it, unless the object has these bytes already."""
        source = regular_file(given.path)
        wanted = wanted_digests(given)
        if source.stat().st_size in self._sizes:  # it may be one we have: look before copying
            digests = checked_digests(given, digest_file(source, wanted))
            if digests["sha512"] in self._known:
                return digests["sha512"]
        digests = checked_digests(given, self.disk.copy(source, self.part, wanted))
        sha512 = digests.pop("sha512")
        if sha512 in self._known:
            self.disk.remove(self.part)
            return sha512
        target = f"{self.version}/content/{name}"
        self.disk.folder((self.new / target).parent)
        self.disk.sync(self.part)
        self.disk.step(f"rename {self.part} -> {self.new / target}")
        os.rename(self.part, self.new / target)
        self._known.add(sha512)
        self.added[target] = Content(sha512, {each: digests[each] for each in FIXITY if each in digests})
        return sha512

    def finish(self, after: Inventory) -> None:
        """Everything else an object consists of, and sync it all."""
        data = after.as_json()
        if len(after.versions) > 1:
            self.disk.link_tree(self._place, self.new, frozenset([INVENTORY, SIDECAR]))
        else:
            self.disk.write(self.new / "0=ocfl_object_1.1", b"ocfl_object_1.1\n")
        self.disk.folder(self.new / self.version)
        for folder in (self.new / self.version, self.new):
            self.disk.write(folder / INVENTORY, data)
            self.disk.write(folder / SIDECAR, sidecar_of(data))
        self.disk.sync_folders(self.new)


def version_of(inventory: Inventory, number: int | None = None) -> Version:
    """A version by its number, or the newest."""
    number = len(inventory.versions) if number is None else number
    if not 1 <= number <= len(inventory.versions):
        raise NotFound(f"{inventory.id!r} has no version {number}", code="object.version")
    return inventory.versions[number - 1]
