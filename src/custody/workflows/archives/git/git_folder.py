"""A git repository's folder, read by ourselves: its branches, its HEAD, and whether it is of a kind that can be read.

Everything is opened from the folder above it, without following links. So nothing outside of the repository is read,
whatever its owner has put where a ref should be.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from custody.border.file_types import sort
from custody.border.sandbox.host_tool import Owner
from custody.errors import CustodyError, Refused, Unavailable
from custody.workflows.archives.git.git_format import is_head, wrong_format
from custody.workflows.archives.git.git_objects import CORRUPT, is_id
from custody.workflows.archives.ownership.owned import FOLDER, GIT
from custody.workflows.archives.ownership.plain_files import FILE, must_be_files, must_be_plain, odd
from custody.workflows.archives.ownership.standing import Standing, opened, owner_of, standing

BRANCHES = "refs/heads/"
LARGEST = 64 << 20  # of packed-refs
MOST_REFS = 200_000
DEPTH = 32
SORTS = {errno.ELOOP: "a link", errno.ENXIO: "a pipe, a socket or a device"}
NOT_FOLLOWED = "links inside a repository are not followed: whoever owns it has to put the folder back"
_WRONG = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|\.\Z|/\Z")  # as check-ref-format has it
_PARTIAL = re.compile(rb"(?i)^\s*(partialclone|promisor)\b", re.MULTILINE)
_REFTABLE = re.compile(rb"(?i)^\s*refstorage\s*=\s*\"?reftable", re.MULTILINE)


class GitFolder:
    """The open folder of a repository. Whoever opens it closes it."""

    def __init__(self, repository: Path) -> None:
        self.path, self.where = repository, str(repository)
        self.fd = opened(repository)
        self.objects = -1
        self.unreadable = dict[
            str, str
        ]()  # branches, or folders of some, that were met and cannot be read; what each is
        try:
            self.objects = self._folder("objects")
            self._must_be_readable()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> GitFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for descriptor in (self.fd, self.objects):
            if descriptor >= 0:
                os.close(descriptor)
        self.fd = self.objects = -1

    def standing(self) -> Standing:
        return standing(self.fd, GIT, self.path)

    @property
    def owner(self) -> Owner:
        return owner_of(self.fd)

    @property
    def identity(self) -> tuple[int, int, int]:
        """Another repository in its place has another, also if it was given the same place on the disk."""
        about = os.fstat(self.objects)
        try:
            made = os.stat("config", dir_fd=self.fd, follow_symlinks=False).st_ctime_ns
        except OSError:
            made = 0
        return about.st_dev, about.st_ino, made

    def must_be_plain(self, ids: Sequence[str]) -> None:
        """What git will read of these objects is files: packs, or a file for each."""
        must_be_plain(self.objects, "pack", self.where)
        must_be_plain(self.objects, "info", self.where)
        must_be_files(self.objects, [f"{id_[:2]}/{id_[2:]}" for id_ in ids], self.where)

    def head(self) -> str:
        """The branch that HEAD names; nothing if it names none."""
        said = self._read("HEAD", 4096).decode("utf-8", "surrogateescape").strip()
        return said.removeprefix("ref: ").strip() if said.startswith("ref: ") else ""

    def main(self) -> str:
        """The same, also where HEAD cannot be read: then nothing."""
        with suppress(CustodyError):
            return self.head()
        return ""

    def names(self) -> set[str]:
        """Of every branch. None is opened: there may be more than anybody reads in time."""
        found = set[str]()
        for ref in (ref for some in (self._loose(), (ref for ref, _ in self._packed())) for ref in some):
            found.add(ref)
            if len(found) > MOST_REFS:
                raise Refused(
                    f"it has more than {MOST_REFS:,} branches",
                    code="archive.branches",
                    where=self.where,
                    hint="delete those that nobody needs: then it is looked at again by itself",
                )
        return found

    def branches(self, wanted: Collection[str]) -> dict[str, str]:
        """The commits of these branches, as far as they are there. A loose ref counts before a packed one; they may be
        packed while we look."""
        found = self._tips(wanted)
        packed = {ref: id_ for ref, id_ in self._packed() if ref in wanted}
        return packed | found | self._tips(wanted)

    def branch(self, ref: str) -> str:
        """Where one branch stands; nothing if there is none."""
        return self.branches((ref,)).get(ref, "") if is_good(ref) else ""

    def legacy(self, name: str) -> bytes:
        """A small file that an earlier version has left here; empty if there is none."""
        try:
            return self._read(name, LARGEST)
        except CustodyError:
            return b""

    # Looking.

    def _must_be_readable(self) -> None:
        config = self._read("config", 1 << 20) if self._has("config") else b""
        if wrong := wrong_format(config):
            raise Refused(wrong[0], code="archive.format", where=self.where, hint=wrong[1])
        if self._has("HEAD") and not is_head(self._read("HEAD", 4096)):
            raise self._other("its HEAD names neither a branch nor a commit", "git symbolic-ref HEAD refs/heads/main")
        if _REFTABLE.search(config) or self._has("reftable"):
            raise self._other("its branches are in a reftable", "git clone --bare --ref-format=files")
        if _PARTIAL.search(config):
            raise self._other("it is a partial clone: what it lacks is elsewhere", "git clone --bare, without --filter")
        if self._has("shallow"):
            raise self._other("it is shallow: its history is cut off", "git fetch --unshallow")
        if self._has("commondir") or self._has("gitdir"):
            raise self._other("it is the folder of a worktree", "name the repository itself")
        if self._has("objects/info/alternates"):
            raise self._other(
                "it borrows objects of another repository, which is not read",
                "git repack -a -d, then remove its objects/info/alternates",
            )

    def _other(self, why: str, hint: str) -> Refused:
        return Refused(why, code="archive.kind", where=self.where, hint=hint)

    def _has(self, path: str) -> bool:
        try:
            os.stat(path, dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _folder(self, name: str) -> int:
        try:
            return os.open(name, FOLDER, dir_fd=self.fd)
        except FileNotFoundError:
            message = "there is no git repository here"
            raise Unavailable(message, code="archive.unreachable", where=self.where) from None
        except OSError as error:
            raise self._no_folder(name, error) from None

    def _no_folder(self, name: str, error: OSError) -> CustodyError:
        try:
            what = sort(os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mode) or "a file"
        except OSError:
            what = "gone"
        if isinstance(error, PermissionError):
            return self._odd(name, error)
        return Unavailable(f"{name} is {what}, not a folder", code=CORRUPT, where=self.where, hint=NOT_FOLLOWED)

    def _odd(self, name: str, error: OSError) -> CustodyError:
        if isinstance(error, PermissionError):
            return Unavailable(f"{name} cannot be read", code="archive.unreachable", where=self.where)
        return odd(name, SORTS.get(error.errno or 0, f"what cannot be opened ({error.strerror})"), self.where)

    def _read(self, name: str, most: int, above: int | None = None) -> bytes:
        try:
            descriptor = os.open(name, FILE, dir_fd=self.fd if above is None else above)
        except OSError as error:
            raise self._odd(name, error) from None
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise odd(name, sort(os.fstat(descriptor).st_mode) or "a folder", self.where)
            data = file.read(most + 1)
        if len(data) > most:
            raise Refused(f"{name} is too large", code="archive.kind", where=self.where)
        return data

    def _packed(self) -> Iterator[tuple[str, str]]:
        if not self._has("packed-refs"):
            return
        for line in io.BytesIO(self._read("packed-refs", LARGEST)):
            id_, _, name = line.rstrip(b"\r\n").partition(b" ")
            if name.startswith(b"refs/heads/"):  # most are tags
                ref = name.decode("utf-8", "surrogateescape")
                if is_good(ref) and is_id(id_.decode("ascii", "replace")):
                    yield ref, id_.decode()

    def _loose(self) -> Iterator[str]:
        refs = self._folder("refs")
        try:
            yield from self._below(refs, "heads", BRANCHES, DEPTH)
        finally:
            os.close(refs)

    def _below(self, above: int, name: str, ref: str, depth: int) -> Iterator[str]:
        try:
            here = os.open(name, FOLDER, dir_fd=above)
        except FileNotFoundError:
            return  # none, or removed just now
        except OSError as error:
            if ref != BRANCHES:
                self.unreadable[ref] = "closed to us"
                return
            raise self._no_folder(ref.rstrip("/"), error) from None
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if depth:
                            yield from self._below(here, entry.name, f"{ref}{entry.name}/", depth - 1)
                    elif entry.is_file(follow_symlinks=False) and is_good(ref + entry.name):
                        yield ref + entry.name
                    elif is_good(ref + entry.name) and (what := _sort_of(entry)):
                        self.unreadable[ref + entry.name] = what
        finally:
            os.close(here)

    def _tips(self, wanted: Collection[str]) -> dict[str, str]:
        """Of those that are loose."""
        return {ref: tip for ref in wanted if (tip := self._tip(ref))}

    def _tip(self, ref: str, hops: int = 1) -> str:
        """The commit of a loose ref; of one that is another name for a branch, that branch's: only one hop."""
        try:
            said = self._said(ref).decode("utf-8", "surrogateescape").strip()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return ""  # packed, or removed just now
        except (CustodyError, OSError) as error:
            if self._has(ref):
                self.unreadable[ref] = "no file" if getattr(error, "code", "") == CORRUPT else "closed to us"
            return ""
        if is_id(said):
            return said
        target = said.removeprefix("ref: ").strip()
        if said.startswith(f"ref: {BRANCHES}") and hops and is_good(target):
            return self._tip(target, hops=0) or dict(self._packed()).get(target, "")
        if not said.startswith("ref: ") and not self._said_again(ref, said):
            self.unreadable[ref] = "without a commit's name"
        return ""

    def _said_again(self, ref: str, before: str) -> bool:
        """Whether it says something else by now: whoever writes it begins with an empty file."""
        with suppress(CustodyError, OSError):
            return self._said(ref).decode("utf-8", "surrogateescape").strip() != before
        return True

    def is_unreadable(self, ref: str) -> bool:
        """Whether it, or a folder that it is in, was met and could not be read."""
        return any(ref == one or ref.startswith(f"{one.rstrip('/')}/") for one in self.unreadable)

    def _said(self, ref: str) -> bytes:
        *folders, last = ref.split("/")
        here = os.dup(self.fd)
        try:
            for part in folders:
                below = os.open(part, FOLDER, dir_fd=here)
                os.close(here)
                here = below
            return self._read(last, 4096, here)
        finally:
            os.close(here)


def _sort_of(entry: os.DirEntry[str]) -> str:
    """What it is instead of a file; nothing if it is gone."""
    with suppress(OSError):
        return sort(entry.stat(follow_symlinks=False).st_mode)
    return ""


def is_good(ref: str) -> bool:
    return not _WRONG.search(ref) and len(ref) < 1000
