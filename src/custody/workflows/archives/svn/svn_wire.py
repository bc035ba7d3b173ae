"""Asks an svnserve in its own language, one question after another.

A client for each question means two processes and a sandbox; planning a revision asks half a dozen. Here one svnserve,
confined and as the repository's owner, is asked as long as there are questions, and ended a minute after the last.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from custody.border import modes
from custody.workflows.archives.port import ADDED, CHANGED, DELETED, REPLACED, Change, Entry, Meta
from custody.workflows.archives.processes.conversation import SILENCE, Talk
from custody.workflows.archives.processes.kept_open import Pool
from custody.workflows.archives.processes.silent_repositories import asking
from custody.workflows.archives.processes.vcs_process import Seconds, ToolFailed
from custody.workflows.archives.svn.svn_folder import SvnFolder

LONGEST = 1 << 30  # of one string
DEEPEST = 20
_HELLO = b"( 2 ( edit-pipeline svndiff1 absent-entries depth mergeinfo log-revprops ) %d:%s 7:custody ( ) ) "
_SPACE = b" \n"


class Wire:
    """One svnserve. It is used by one thread at a time, and not again after anything went wrong."""

    def __init__(self, folder: SvnFolder) -> None:
        self.where, self.used = folder.where, time.monotonic()
        self._settings = tempfile.TemporaryDirectory(prefix="custody-svn-")
        try:
            argv = [folder.tunnel(Path(self._settings.name))]
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd="/", bufsize=0, umask=modes.given()
            )
        except BaseException:
            self._settings.cleanup()
            raise
        self._talk = Talk(process, "svnserve", folder.where)
        self._hello = folder.url.encode()

    def greet(self) -> None:
        """Say who we are; asked of it once, by whoever uses it first: it may not answer."""
        self._talk.within(SILENCE)
        self.answer()
        self._talk.send(_HELLO % (len(self._hello), self._hello))
        self.answer()
        self._talk.send(b"( EXTERNAL ( 0: ) ) ")
        self.answer()
        self.answer()

    def ask(self, name: str, words: bytes, seconds: float) -> Any:
        """The answer to a command; `ToolFailed` with Subversion's codes if it is an error."""
        self.begin(name, words, seconds)
        return self.answer()

    def begin(self, name: str, words: bytes, seconds: float) -> None:
        self._talk.within(seconds)
        self._talk.send(b"( %s ( %s ) ) " % (name.encode(), words))
        self.answer()  # who we are is known

    def ask_all(self, name: str, all_words: Sequence[bytes], seconds: Seconds, most: int) -> Iterator[None]:
        """The same command again and again, asked ahead; its answers are to be taken before the next comes."""
        self._talk.within(seconds)
        ahead, sent, at = deque[int](), 0, 0
        for _ in all_words:
            while at < len(all_words) and (not ahead or sent + len(all_words[at]) < most):
                self._talk.send(b"( %s ( %s ) ) " % (name.encode(), all_words[at]))
                ahead.append(len(all_words[at]))
                sent += ahead[-1]
                at += 1
            self.answer()  # who we are is known
            yield
            sent -= ahead.popleft()

    def pieces(self) -> Iterator[bytes]:
        """Of a file; all of it, and then whether that went well, is to be taken before anything else."""
        while piece := self.item():
            yield piece

    def item(self) -> Any:
        """The next that it says: a number, a string as bytes, a word as text, or a list of such."""
        return self._item(self._token(), 0)

    def answer(self) -> Any:
        said = self.item()
        if not isinstance(said, list) or len(said) != 2 or said[0] not in ("success", "failure"):
            raise self._talk.ended()
        if said[0] == "failure":
            told = [f"E{error[0]:06d}: {error[1].decode('utf-8', 'replace')}" for error in said[1]]
            raise ToolFailed(1, "\n".join(f"svn: {one}" for one in told))
        return said[1]

    def _item(self, token: bytes, depth: int) -> Any:
        if token == b"(":
            if depth > DEEPEST:
                raise self._talk.ended()
            found = []
            while (inner := self._token()) != b")":
                found.append(self._item(inner, depth + 1))
            return found
        if token.endswith(b":"):
            return self._bytes(int(token[:-1]))
        return int(token) if token.isdigit() else token.decode("ascii", "replace")

    def _token(self) -> bytes:
        at, buffer = 0, self._talk.buffer
        while True:
            while at < len(buffer) and buffer[at] in _SPACE:
                at += 1
            end = at
            while end < len(buffer):
                letter = buffer[end]
                if letter == 58:  # a string follows
                    token = bytes(buffer[at : end + 1])
                    if not token[:-1].isdigit() or len(token) > 12:
                        raise self._talk.ended()
                    del buffer[: end + 1]
                    return token
                if letter in _SPACE:
                    token = bytes(buffer[at:end])
                    del buffer[: end + 1]
                    return token
                end += 1
            if end - at > 200:
                raise self._talk.ended()
            self._talk.fill()

    def _bytes(self, size: int) -> bytes:
        if size > LONGEST:
            raise self._talk.ended()
        while len(self._talk.buffer) < size:
            self._talk.fill()
        return self._talk.take(size)

    @property
    def alive(self) -> bool:
        return self._talk.alive

    def close(self) -> None:
        self._talk.close()
        self._settings.cleanup()


def text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    return b"%d:%s" % (len(data), data)


_ACTIONS = {"A": ADDED, "M": CHANGED, "D": DELETED, "R": REPLACED}
_POOL = Pool[Wire]()
T = TypeVar("T")


class Questions:
    """What is asked of a repository on this machine again and again. `ToolFailed` has Subversion's codes."""

    def __init__(self, folder: SvnFolder) -> None:
        self._folder = folder

    def _key(self) -> tuple[str, int, int]:
        """Another repository in its place, or another owner, is asked by another process."""
        self._folder.must_be_plain()
        return self._folder.identity()

    def with_wire(self, work: Callable[[Wire], T]) -> T:
        """An error that svnserve tells is an answer: it can be asked again."""
        with asking(self._folder.where), _POOL.one(self._key(), lambda: Wire(self._folder)) as wire:
            try:
                return work(wire)
            except ToolFailed as error:
                told = error
        raise told

    def _ask(self, name: str, words: bytes, seconds: float) -> Any:
        return self.with_wire(lambda wire: wire.ask(name, words, seconds))

    def kind(self, path: str, revision: int, seconds: float = 120) -> str:
        """file, dir or none."""
        return str(self._ask("check-path", b"%s ( %d ) " % (text(path), revision), seconds)[0])

    def entries(self, path: str, revision: int, seconds: float = 120) -> list[Entry]:
        said = self._ask("get-dir", b"%s ( %d ) false true ( kind ) " % (text(path), revision), seconds)
        base = f"{path}/" if path else ""
        found = [(entry[0].decode("utf-8", "surrogateescape"), entry[1] == "dir") for entry in said[2]]
        return [Entry(base + name, is_folder) for name, is_folder in sorted(found)]

    def properties(self, path: str, revision: int, seconds: float = 120) -> set[str]:
        """Their names, of a file."""
        said = self._ask("get-file", b"%s ( %d ) true false " % (text(path), revision), seconds)
        return {_text(name) for name, _ in said[2]}

    def head(self, path: str, revision: int, most: int, seconds: float = 120) -> tuple[bytes, int]:
        def work(wire: Wire) -> tuple[bytes, int]:
            wire.ask("get-file", b"%s ( %d ) false true " % (text(path), revision), seconds)
            kept, total = bytearray(), 0
            for piece in wire.pieces():
                kept += piece[: max(0, most - len(kept))]
                total += len(piece)
            wire.answer()
            return bytes(kept), total

        return self.with_wire(work)

    def log(self, revision: int, seconds: float = 120) -> tuple[Meta, list[Change]] | None:
        """All that is known of a revision, in one question."""
        words = b"( 0: ) ( %d ) ( %d ) true false 0 false all-revprops ( ) " % (revision, revision)

        def work(wire: Wire) -> Any:
            found = None
            wire.begin("log", words, seconds)
            while (entry := wire.item()) != "done":
                if isinstance(entry, list) and entry and entry[0] == "failure":
                    raise ToolFailed(1, f"svn: E{entry[1][0][0]:06d}")
                found = entry
            wire.answer()
            return found

        found = self.with_wire(work)
        return (_meta(found), _changes(found)) if found else None


def _meta(entry: Any) -> Meta:
    said: Mapping[str, str] = {_text(name): _text(value) for name, value in (entry[8] if len(entry) > 8 else ())}
    author, date, message = (_text(entry[at][0]) if entry[at] else "" for at in (2, 3, 4))
    own = ("svn:log", "svn:author", "svn:date")
    author, date, message = (
        found or said.get(name, "")
        for found, name in zip((author, date, message), (own[1], own[2], own[0]), strict=True)
    )
    properties = {name: value for name, value in said.items() if name not in own}
    return Meta(entry[1], id=str(entry[1]), author=author, date=date, message=message, properties=properties)


def _changes(entry: Any) -> list[Change]:
    found = []
    for path, action, copied, *_ in entry[0]:
        source, number = (_text(copied[0]).lstrip("/"), int(copied[1])) if copied else ("", None)
        found.append(Change(_text(path).lstrip("/"), _ACTIONS[action], source, number))
    return sorted(found, key=lambda change: change.path)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
