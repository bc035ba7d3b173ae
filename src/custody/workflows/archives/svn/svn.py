"""Subversion repositories: a folder on this machine, or file://, svn://, http:// and https:// addresses.

Everything goes through the `svn` client with an address, so that one way of asking serves all; a repository on this
machine answers through an svnserve of its own that runs as its owner (`svn_folder.py`). Only the two questions that
are asked every few seconds (youngest, uuid) are answered by its folder.

Subversion has no branches, only folders. By default revision N follows N-1; with `lines` a revision follows
the last one that changed the same line, and a merge recorded in `svn:mergeinfo` adds a second parent.
"""

from __future__ import annotations

import base64
import fnmatch
import re
import tempfile
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from custody.errors import BadInput, NotFound
from custody.workflows.archives.ownership.standing import Standing, must_be_readable
from custody.workflows.archives.port import ADDED, CHANGED, COMMIT_KEY, DELETED, REPLACED, Change, Entry, Meta
from custody.workflows.archives.processes.silent_repositories import asking
from custody.workflows.archives.processes.vcs_process import Seconds, ToolFailed, call, call_for_head
from custody.workflows.archives.svn import svn_commit, svn_export
from custody.workflows.archives.svn.svn_folder import SCHEME, SvnFolder
from custody.workflows.archives.svn.svn_wire import Questions
from custody.workflows.archives.svn.svn_words import told
from custody.workflows.archives.working_copy.draft import Draft
from custody.workflows.archives.working_copy.size_limits import LIMITS, Limits, Measure

# `svn+ssh` and its kind start programs named in a configuration file; they are not for a worker.
_SCHEMES = ("file", "svn", "http", "https")
_ACTIONS = {"A": ADDED, "M": CHANGED, "D": DELETED, "R": REPLACED}
ANSWER_WITHIN = 30.0  # seconds for the two questions that are asked again and again


T = TypeVar("T")


class SvnArchive:
    """One repository. The password is given to `svn` through a pipe, never on its command line."""

    def __init__(self, location: str, *, username: str = "", password: str = "") -> None:
        local = _local_path(location)
        self.local = SvnFolder(local) if local else None
        self._quick = Questions(self.local) if self.local else None
        self.url = self.local.url if self.local else _address(location)
        self.where = self.local.where if self.local else self.url
        self._username, self._password = username, password

    def __repr__(self) -> str:
        return f"SvnArchive({self.where!r})"

    def standing(self) -> Standing | None:
        return self.local.standing() if self.local else None

    def uuid(self) -> str:
        if self.local:
            return self.local.uuid()
        return self._info().findtext("entry/repository/uuid", "")

    def must_be_whole(self) -> None:
        """A folder inside a repository is not one: it is missing in the revisions before it was made. One on this
        machine is looked at whether we may read it: its youngest revision, which anybody can read, does not say so."""
        if self.local:
            self.local.youngest()  # what is wrong with itself is told first
            must_be_readable(self.local.standing(), self.where)
            self._asked(lambda ask: ask.kind("", 0))  # one that Subversion itself does not open is not added
            return
        told = self._info()  # both as Subversion spells them
        root = told.findtext("entry/repository/root", "")
        if root != told.findtext("entry/url", ""):
            raise BadInput("this is a folder inside a repository", code="archive.address", where=self.where, hint=root)

    def youngest(self) -> int:
        if self.local:
            return self.local.youngest()
        entry = self._info().find("entry")
        return int(entry.get("revision", "0")) if entry is not None else 0

    def parents(self, revision: int, lines: Sequence[str] = ()) -> tuple[int, ...]:
        touched = self._touched(revision, lines) if lines else []
        found = {parent for line in touched for parent in self._parents_on(line, revision)}
        if not touched and revision > 1:
            found = {revision - 1}
        return tuple(sorted(found))

    def main(self, upto: int) -> int:
        return upto

    def list(self, revision: int, folder: str) -> Sequence[Entry]:
        if self._quick:
            return self._asked(lambda ask: ask.entries(self._inside(folder, revision), revision))
        listing = self._xml(["ls", "--xml", self.at(folder, revision)]).find("list")
        entries = listing.findall("entry") if listing is not None else []
        base = f"{folder.strip('/')}/" if folder.strip("/") else ""
        if len(entries) == 1 and entries[0].get("kind") == "file" and self._is_file(folder, revision):
            raise NotFound(f"{folder} is a file", code="archive.path", where=self.where)
        return [Entry(base + entry.findtext("name", ""), entry.get("kind") == "dir") for entry in entries]

    def tree(self, revision: int, path: str) -> Sequence[Entry]:
        if path.strip("/") and self._is_file(path, revision):
            return [Entry(path.strip("/"), False)]
        if self._quick:
            return self._asked(lambda ask: svn_export.tree(ask, self._inside(path, revision), revision))
        listing = self._xml(["ls", "--xml", "--recursive", self.at(path, revision)], seconds=3600).find("list")
        base = f"{path.strip('/')}/" if path.strip("/") else ""
        entries = listing.findall("entry") if listing is not None else []
        return [Entry(base + entry.findtext("name", ""), entry.get("kind") == "dir") for entry in entries]

    def properties(self, revision: int, path: str) -> Mapping[str, str]:
        target = self._xml(["proplist", "--verbose", "--xml", self.at(path, revision)]).find("target")
        found = target.findall("property") if target is not None else []
        return {prop.get("name", ""): _property(prop) for prop in found}

    def read(self, revision: int, path: str) -> bytes:
        if self._quick:
            return self.head(revision, path, 1 << 62)[0]
        return self._svn(["cat", "--ignore-keywords", self.at(path, revision)])

    def runs(self, revision: int, path: str) -> bool:
        if self._quick:
            return svn_commit.PROGRAM in self._asked(lambda ask: ask.properties(self._inside(path, revision), revision))
        return svn_commit.PROGRAM in self.properties(revision, path)

    def head(self, revision: int, path: str, most: int, seconds: float = 120) -> tuple[bytes, int]:
        if self._quick:
            return self._asked(lambda ask: ask.head(self._inside(path, revision), revision, most, seconds))
        with self._as_ourselves(["svn", "cat"]) as argv:
            words = [*argv, "--ignore-keywords", self.at(path, revision)]
            try:
                with asking(self.where):
                    return call_for_head(words, most, seconds=seconds, given=self._password.encode())
            except ToolFailed as error:
                raise told(error.said, self.where) from None

    def export(self, revision: int, into: Path, seconds: Seconds = 3600, limits: Limits = LIMITS) -> None:
        if self._quick:
            self._asked(lambda ask: svn_export.export(ask, revision, into, seconds, limits=limits))
            return
        self._must_fit(revision, limits)
        # Externals would fetch from wherever a committer likes.
        options = ["--quiet", "--force", "--ignore-externals", "--ignore-keywords"]
        self._svn(["export", *options, self.at("", revision), f"{into.absolute()}@"], seconds)

    def _must_fit(self, revision: int, limits: Limits) -> None:
        """Of a server's: told before anything is written, as far as the server says the truth."""
        measure = Measure(limits, self.where)
        self._xml(["info", "--xml", self.at("", revision)])  # a list of what is not there is told in no words
        for entry in self._xml(["ls", "--xml", "--recursive", self.at("", revision)], seconds=3600).iterfind("*/entry"):
            measure.paths(1)
            measure.path(entry.findtext("name", "").encode())
            measure.content(int(entry.findtext("size", "0")))

    def meta(self, revision: int) -> Meta:
        if self._quick:
            return self._known(revision)[0]
        entry = self._log(revision, "--with-all-revprops")
        properties = {
            prop.get("name", ""): _property(prop)
            for prop in entry.iterfind("revprops/property")
            if prop.get("name") not in ("svn:log", "svn:author", "svn:date")
        }
        return Meta(
            revision,
            id=str(revision),
            author=entry.findtext("author", ""),
            date=entry.findtext("date", ""),
            message=entry.findtext("msg", ""),
            properties=properties,
        )

    def changed(self, revision: int) -> Sequence[Change]:
        if self._quick:
            return self._known(revision)[1]
        entry = self._log(revision, "--verbose")
        return [
            Change(
                path=(path.text or "").lstrip("/"),
                action=_ACTIONS[path.get("action", "M")],
                copied_from=path.get("copyfrom-path", "").lstrip("/"),
                copied_revision=int(path.get("copyfrom-rev", 0)) or None,
            )
            for path in entry.iterfind("paths/path")
        ]

    def commit(self, draft: Draft, seconds: Seconds) -> int:
        return svn_commit.commit(self, draft, seconds)

    def committed(self, key: str, since: int) -> int | None:
        log = self._xml(["log", "--xml", "--with-revprop", COMMIT_KEY, "-r", f"{since}:HEAD", self.url])
        for entry in log.iterfind("logentry"):
            revision = int(entry.get("revision", "0"))
            if revision > since and any(_property(prop) == key for prop in entry.iterfind("revprops/property")):
                return revision
        return None

    # Lines.

    def _touched(self, revision: int, lines: Sequence[str]) -> Sequence[str]:
        paths = [change.path for change in self.changed(revision) if change.action != DELETED]
        return sorted({line for path in paths for pattern in lines if (line := _line_of(path, pattern))})

    def _parents_on(self, line: str, revision: int) -> Iterator[int]:
        """The revision before on this line (a copy continues its source), and those merged into it here."""
        yield from self._history(line, revision)[1:2]
        before = self._mergeinfo(line, revision - 1)
        for source, newest in self._mergeinfo(line, revision).items():
            if newest > before.get(source, 0) and newest < revision:
                yield from self._history(source, newest)[:1]

    def _history(self, path: str, revision: int) -> Sequence[int]:
        try:
            log = self._xml(["log", "--quiet", "--xml", "--limit", "2", "-r", f"{revision}:1", self.at(path, revision)])
        except NotFound:
            return []
        return [int(entry.get("revision", "0")) for entry in log.iterfind("logentry")]

    def _mergeinfo(self, path: str, revision: int) -> dict[str, int]:
        try:
            text = self._svn(["propget", "--strict", "svn:mergeinfo", self.at(path, revision)]).decode()
        except NotFound:
            return {}
        return dict(_newest_merged(text))

    # Asking.

    def _log(self, revision: int, option: str) -> ET.Element:
        found = self._xml(["log", "--xml", option, "-r", str(revision), self.at("", revision)]).find("logentry")
        if found is None:
            raise NotFound(f"there is no revision {revision}", code="archive.revision", where=self.where)
        return found

    def _asked(self, question: Callable[[Questions], T]) -> T:
        assert self._quick is not None
        try:
            return question(self._quick)
        except ToolFailed as error:
            raise told(error.said, self.where) from None

    def _known(self, revision: int) -> tuple[Meta, Sequence[Change]]:
        found = self._asked(lambda ask: ask.log(revision))
        if found is None:
            raise NotFound(f"there is no revision {revision}", code="archive.revision", where=self.where)
        return found

    def _inside(self, path: str, revision: int) -> str:
        """A path without anything that leads elsewhere."""
        self.at(path, revision)
        return "/".join(part for part in path.split("/") if part)

    def _is_file(self, path: str, revision: int) -> bool:
        if self._quick:
            return self._asked(lambda ask: ask.kind(self._inside(path, revision), revision)) == "file"
        entry = self._xml(["info", "--xml", self.at(path, revision)]).find("entry")
        return entry is not None and entry.get("kind") == "file"

    def _info(self) -> ET.Element:
        return self._xml(["info", "--xml", self.url], seconds=ANSWER_WITHIN)

    def at(self, path: str, revision: int) -> str:
        """A path at a revision; the number also keeps an '@' in the path from being taken for one."""
        parts = [part for part in path.split("/") if part]
        if {".", ".."} & set(parts) or "\0" in path or revision < 0:
            raise NotFound(f"there is no path {path!r}", code="archive.path", where=self.where)
        return f"{'/'.join([self.url, *map(urllib.parse.quote, parts)])}@{revision}"

    def _xml(self, words: Sequence[str], seconds: float = 120) -> ET.Element:
        return ET.fromstring(self._svn(words, seconds))

    def _svn(self, words: Sequence[str], seconds: Seconds = 120) -> bytes:
        return self.client(["svn", words[0]], words[1:], seconds)

    def client(
        self, program: Sequence[str], words: Sequence[str], seconds: Seconds = 120, *, writing: bool = False
    ) -> bytes:
        """Run one of Subversion's clients as whoever we are to the server."""
        with self._as_ourselves(program, writing=writing) as argv:
            return self._call([*argv, *words], seconds=seconds, given=self._password.encode())

    @contextmanager
    def _as_ourselves(self, program: Sequence[str], *, writing: bool = False) -> Iterator[Sequence[str]]:
        with tempfile.TemporaryDirectory(prefix="custody-svn-") as settings:  # nobody's own configuration
            if self.local:
                way = self.local.tunnel(Path(settings), writing=writing)
                Path(settings, "config").write_text(f"[tunnels]\n{SCHEME.partition('+')[2]} = {way}\n")
            argv = [*program, "--non-interactive", "--no-auth-cache", "--config-dir", settings]
            if self._username:
                argv += ["--username", self._username, "--password-from-stdin"]
            yield argv

    def _call(self, argv: Sequence[str], *, seconds: Seconds = 120, given: bytes = b"") -> bytes:
        try:
            with asking(self.where):
                return call(argv, seconds=seconds, given=given)
        except ToolFailed as error:
            raise told(error.said, self.where) from None


def _local_path(location: str) -> Path | None:
    if location.startswith("file://"):
        return Path(urllib.parse.unquote(urllib.parse.urlsplit(location).path))
    return None if "://" in location else Path(location).absolute()


def _address(location: str) -> str:
    parts = urllib.parse.urlsplit(location)
    if parts.scheme not in _SCHEMES or not parts.hostname or "@" in parts.netloc:
        hint = f"a folder, or {', '.join(scheme + '://' for scheme in _SCHEMES)}; name the user apart"
        raise BadInput(f"{location!r} is not an address of a repository", code="archive.address", hint=hint)
    return location.rstrip("/")


def _line_of(path: str, pattern: str) -> str:
    """The part of a path that is the line: `branches/x` of `branches/x/a/b` for `branches/*`."""
    depth = pattern.count("/") + 1
    head = "/".join(path.split("/")[:depth])
    return head if head.count("/") + 1 == depth and fnmatch.fnmatchcase(head, pattern) else ""


def _newest_merged(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        source, colon, ranges = line.rpartition(":")
        numbers = [int(number) for number in re.findall(r"\d+", ranges)]
        if colon and numbers:
            yield source.lstrip("/"), max(numbers)


def _property(prop: ET.Element) -> str:
    text = prop.text or ""
    if prop.get("encoding") == "base64":
        return base64.b64decode(text).decode(errors="replace")
    return text
