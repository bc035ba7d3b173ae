"""Subversion repositories: a folder on this machine, or file://, svn://, http:// and https:// addresses.

Everything goes through the `svn` client with an address, so that one way of asking serves all; only the two
questions that are asked every few seconds (youngest, uuid) use the quicker `svnlook` where the repository is
on this machine.

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from custody.model.errors import BadInput, CustodyError, NotFound, Refused, Unavailable
from custody.workflows import svn_commit
from custody.workflows.archive import ADDED, CHANGED, COMMIT_KEY, DELETED, REPLACED, Change, Entry, Meta
from custody.workflows.calling import Failed, Seconds, call, call_for_head
from custody.workflows.draft import Draft

# `svn+ssh` and its kind start programs named in a configuration file; they are not for a worker.
_SCHEMES = ("file", "svn", "http", "https")
_ACTIONS = {"A": ADDED, "M": CHANGED, "D": DELETED, "R": REPLACED}
_ABSENT = {
    "160013",  # path not found
    "160005",  # not a path that could exist
    "200009",  # some targets do not exist
    "170000",  # address does not exist in this revision
    "160006",  # no such revision
    "150000",  # address does not exist in this revision
    "195012",  # nor does its history
    "160016",  # not a folder
    "200017",  # no such property
    "160017",  # not a file
}
_CONFLICT = {
    "160024",  # a path was changed by somebody else
    "160028",  # it is out of date
    "170004",  # the same, told by a server
    "155011",
    "160020",  # it is there already
}
ANSWER_WITHIN = 30.0  # seconds for the two questions that are asked again and again
_CODE = re.compile(r"\b[EW](\d{6})\b")


class SvnArchive:
    """One repository. The password is given to `svn` through a pipe, never on its command line."""

    def __init__(self, location: str, *, username: str = "", password: str = "") -> None:
        self.local = _local_path(location)
        self.url = _address(location)
        self._username, self._password = username, password

    def __repr__(self) -> str:
        return f"SvnArchive({self.url!r})"

    def uuid(self) -> str:
        if self.local:
            return self._call(["svnlook", "uuid", str(self.local)]).decode().strip()
        return self._info().findtext("entry/repository/uuid", "")

    def must_be_whole(self) -> None:
        """A folder inside a repository is not one: it is missing in the revisions before it was made."""
        if self.local:
            return
        told = self._info()  # both as Subversion spells them
        root = told.findtext("entry/repository/root", "")
        if root != told.findtext("entry/url", ""):
            raise BadInput("this is a folder inside a repository", code="archive.address", where=self.url, hint=root)

    def youngest(self) -> int:
        if self.local:
            return int(self._call(["svnlook", "youngest", str(self.local)]))
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
        listing = self._xml(["ls", "--xml", self.at(folder, revision)]).find("list")
        entries = listing.findall("entry") if listing is not None else []
        base = f"{folder.strip('/')}/" if folder.strip("/") else ""
        if len(entries) == 1 and entries[0].get("kind") == "file" and self._is_file(folder, revision):
            raise NotFound(f"{folder} is a file", code="archive.path", where=self.url)
        return [Entry(base + entry.findtext("name", ""), entry.get("kind") == "dir") for entry in entries]

    def tree(self, revision: int, path: str) -> Sequence[Entry]:
        if path.strip("/") and self._is_file(path, revision):
            return [Entry(path.strip("/"), False)]
        listing = self._xml(["ls", "--xml", "--recursive", self.at(path, revision)], seconds=3600).find("list")
        base = f"{path.strip('/')}/" if path.strip("/") else ""
        entries = listing.findall("entry") if listing is not None else []
        return [Entry(base + entry.findtext("name", ""), entry.get("kind") == "dir") for entry in entries]

    def properties(self, revision: int, path: str) -> Mapping[str, str]:
        target = self._xml(["proplist", "--verbose", "--xml", self.at(path, revision)]).find("target")
        found = target.findall("property") if target is not None else []
        return {prop.get("name", ""): _property(prop) for prop in found}

    def read(self, revision: int, path: str) -> bytes:
        return self._svn(["cat", "--ignore-keywords", self.at(path, revision)])

    def head(self, revision: int, path: str, most: int, seconds: float = 120) -> tuple[bytes, int]:
        with self._as_ourselves(["svn", "cat"]) as argv:
            try:
                return call_for_head(
                    [*argv, "--ignore-keywords", self.at(path, revision)], most, seconds=seconds,
                    given=self._password.encode(),
                )  # fmt: skip
            except Failed as error:
                raise _told(error.said, self.url) from None

    def export(self, revision: int, into: Path, seconds: Seconds = 3600) -> None:
        # Externals would fetch from wherever a committer likes.
        options = ["--quiet", "--force", "--ignore-externals", "--ignore-keywords"]
        self._svn(["export", *options, self.at("", revision), f"{into.absolute()}@"], seconds)

    def meta(self, revision: int) -> Meta:
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
            raise NotFound(f"there is no revision {revision}", code="archive.revision", where=self.url)
        return found

    def _is_file(self, path: str, revision: int) -> bool:
        entry = self._xml(["info", "--xml", self.at(path, revision)]).find("entry")
        return entry is not None and entry.get("kind") == "file"

    def _info(self) -> ET.Element:
        return self._xml(["info", "--xml", self.url], seconds=ANSWER_WITHIN)

    def at(self, path: str, revision: int) -> str:
        """A path at a revision; the number also keeps an '@' in the path from being taken for one."""
        parts = [part for part in path.split("/") if part]
        if {".", ".."} & set(parts) or "\0" in path or revision < 0:
            raise NotFound(f"there is no path {path!r}", code="archive.path", where=self.url)
        return f"{'/'.join([self.url, *map(urllib.parse.quote, parts)])}@{revision}"

    def _xml(self, words: Sequence[str], seconds: float = 120) -> ET.Element:
        return ET.fromstring(self._svn(words, seconds))

    def _svn(self, words: Sequence[str], seconds: Seconds = 120) -> bytes:
        return self.client(["svn", words[0]], words[1:], seconds)

    def client(self, program: Sequence[str], words: Sequence[str], seconds: Seconds = 120) -> bytes:
        """Run one of Subversion's clients as whoever we are to the server."""
        with self._as_ourselves(program) as argv:
            return self._call([*argv, *words], seconds=seconds, given=self._password.encode())

    @contextmanager
    def _as_ourselves(self, program: Sequence[str]) -> Iterator[Sequence[str]]:
        with tempfile.TemporaryDirectory(prefix="custody-svn-") as settings:  # nobody's own configuration
            argv = [*program, "--non-interactive", "--no-auth-cache", "--config-dir", settings]
            if self._username:
                argv += ["--username", self._username, "--password-from-stdin"]
            yield argv

    def _call(self, argv: Sequence[str], *, seconds: Seconds = 120, given: bytes = b"") -> bytes:
        try:
            return call(argv, seconds=seconds, given=given)
        except Failed as error:
            raise _told(error.said, self.url) from None


def _told(said: str, where: str) -> CustodyError:
    """What `svn` said, as one of our errors. Its codes are stable, its sentences are not."""
    codes = set(_CODE.findall(said))
    first = said.splitlines()[0].partition(": ")[2] if said else "no reason given"
    if codes & _ABSENT:
        code = "archive.revision" if "160006" in codes else "archive.path"
        return NotFound(first, code=code, where=where)
    if codes & {"170001", "215004"}:
        return Unavailable(first, code="archive.forbidden", where=where, hint="check the user and the password")
    if codes & _CONFLICT:
        hint = "somebody else has changed the same; run the task again at the newer revision"
        return Refused(first, code="archive.conflict", where=where, hint=hint)
    return Unavailable(first, code="archive.unreachable", where=where)


def _local_path(location: str) -> Path | None:
    if location.startswith("file://"):
        return Path(urllib.parse.unquote(urllib.parse.urlsplit(location).path))
    return None if "://" in location else Path(location).absolute()


def _address(location: str) -> str:
    local = _local_path(location)
    if local:
        return f"file://{urllib.parse.quote(str(local))}"
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
