"""A Subversion repository on this machine: what is read of its folder by ourselves, and the way its clients go.

No client is ever given a file:// address: it would read the folder, and run its hooks, as the worker. Instead each
talks to an svnserve of its own, through a tunnel, that runs as the repository's owner and sees nothing but the
repository.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import urllib.parse
from pathlib import Path

from custody.border.sandbox import host_tool
from custody.border.sandbox.host_tool import Sight
from custody.errors import Refused, Unavailable
from custody.workflows.archives.git.git_settings import Unseen
from custody.workflows.archives.ownership.commit_gates import must_be_asked, svn_unasked
from custody.workflows.archives.ownership.owned import FOLDER, SVN
from custody.workflows.archives.ownership.plain_files import FILE, must_be_files, must_be_plain
from custody.workflows.archives.ownership.standing import Standing, must_be_readable, must_be_writable, opened, standing
from custody.workflows.archives.svn.svn_env import variables_of

AUTHOR = "custody"
SCHEME = "svn+custody"
FORMATS = (3, 5)  # of a repository
NEWEST = 8  # of the formats of db/: Subversion 1.9 and later
_OPTION = re.compile(r"(?:layout (?:linear|sharded [1-9]\d{0,8})|addressing (?:physical|logical))\Z")
_CONF = "/etc/custody-svnserve.conf"
_HOOKS = "/run/custody-hooks"
HOOKS = frozenset(
    (
        "start-commit",
        "pre-commit",
        "post-commit",
        "pre-revprop-change",
        "post-revprop-change",
        "pre-lock",
        "post-lock",
        "pre-unlock",
        "post-unlock",
    )
)
_SETTINGS = "[general]\nanon-access = none\nauth-access = write\n"
_UUID = re.compile(r"[0-9a-fA-F-]{36}\Z")


class SvnFolder:
    def __init__(self, repository: Path) -> None:
        self.path = repository
        self.where = str(repository)
        self.url = f"{SCHEME}://here{urllib.parse.quote(self.where)}"

    def standing(self) -> Standing:
        here = opened(self.path)
        try:
            return standing(here, SVN, self.path)
        finally:
            os.close(here)

    def identity(self) -> tuple[str, int, int]:
        try:
            about = os.stat(self.path / "db" / "fs-type", follow_symlinks=False)
        except OSError as error:
            raise self._odd(f"there is no Subversion repository here: {error.strerror}") from None
        return self.where, about.st_ino, about.st_ctime_ns

    def must_be_plain(self) -> None:
        """What svnserve will read is files."""
        here = opened(self.path)
        try:
            must_be_files(here, ("format",), self.where)
            must_be_plain(here, "db", self.where)
        finally:
            os.close(here)

    def uuid(self) -> str:
        found = self._lines("uuid")[0]
        if not _UUID.match(found):
            raise self._odd("its uuid cannot be read")
        return found

    def youngest(self) -> int:
        self._must_be_readable()
        word = (self._lines("current")[0].split() or [""])[0]
        if not (word.isascii() and word.isdigit() and len(word) < 12):
            raise self._odd("its youngest revision cannot be read")
        return int(word)

    def tunnel(self, folder: Path, *, writing: bool) -> str:
        """What a client starts instead of ssh; written into a folder that is ours alone."""
        self._must_be_readable()
        found = self.standing()
        (must_be_writable if writing else must_be_readable)(found, self.where)
        must_be_asked(svn_unasked(self.path) if writing else "", self.where)
        if writing and not host_tool.works():
            message = (
                "commits are made in a sandbox only, where the hooks of a repository do no harm, and none works here"
            )
            raise Unavailable(
                message, code="archive.confined", where=self.where, hint="`custody doctor` says what is missing"
            )
        settings = folder / "svnserve.conf"
        settings.write_text(_SETTINGS + (self._variables() if writing else ""))
        settings.chmod(0o644)
        serve = ["svnserve", "--tunnel", f"--tunnel-user={AUTHOR}"]
        if host_tool.works():
            repo = {self.where: self.where}  # at its own path: its hooks may name it
            if writing:
                over = self._hooks_apart(folder)
                sight = Sight({_CONF: str(settings), **over[0]}, repo, over=over[1])
            else:
                sight = Sight({_CONF: str(settings), **repo})
            argv = host_tool.command([*serve, "--root=/", f"--config-file={_CONF}"], found.owner, sight)
        elif found.foreign:
            message = "the repository of somebody else is read in a sandbox only, and none works here"
            raise Unavailable(
                message, code="archive.confined", where=self.where, hint="`custody doctor` says what is missing"
            )
        else:
            argv = [*serve, "--root=/", f"--config-file={settings}"]
        script = folder / "tunnel"
        script.write_text(f"#!/bin/sh\nPATH={host_tool.PATH} exec {shlex.join(argv)}\n")
        script.chmod(0o700)
        return str(script)

    def _variables(self) -> str:
        """The file with those that its hooks are to get; one that is not seen is told of if a gate asks for it."""
        try:
            return f"hooks-env = {variables_of(self.path)}\n"
        except Unseen:
            return ""

    def _hooks_apart(self, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
        """Where the repository's hooks are seen, and what is seen in their place: hooks that begin them with nothing to
        read. Subversion would let them read what the client says, and one that does waits for ever."""
        theirs, ours = self.path / "hooks", folder / "hooks"
        if theirs.is_symlink() or not theirs.is_dir():
            return {}, {}
        ours.mkdir()
        ours.chmod(0o755)  # whatever the umask: its owner looks into it
        for hook in theirs.iterdir():
            if hook.name in HOOKS:
                script = ours / hook.name
                real = Path(os.path.realpath(hook))  # another name of one that is there
                meant = real.name if real.parent == Path(os.path.realpath(theirs)) else hook.name
                script.write_text(f'#!/bin/sh\nexec {shlex.quote(f"{_HOOKS}/{meant}")} "$@" </dev/null\n')
                script.chmod(0o755 if os.access(hook, os.X_OK) else 0o644)
        return {_HOOKS: str(theirs)}, {str(theirs): str(ours)}

    def _must_be_readable(self) -> None:
        kind = self._lines("fs-type")[0]
        if kind != "fsfs":
            hint = "`svnadmin dump` and `svnadmin load` into a new one"
            raise Refused(f"its file system is {kind[:20]!r}", code="archive.kind", where=self.where, hint=hint)
        whole, (number, *options) = self._lines("format", "")[0], self._lines("format")
        if _number(whole) not in FORMATS:
            raise self._other_format(f"its format is {whole[:20]!r}, and we know {FORMATS[0]} and {FORMATS[1]}")
        if _number(number) not in range(1, NEWEST + 1):
            raise self._other_format(f"the format of its db is {number[:20]!r}, and we know 1 to {NEWEST}")
        for option in options:
            if not _OPTION.match(option):
                raise self._other_format(f"its db has an option that we do not know: {option[:40]!r}")

    def _other_format(self, why: str) -> Refused:
        hint = "a newer version of this program may know it; or `svnadmin dump` and `svnadmin load` into a new one"
        return Refused(why, code="archive.format", where=self.where, hint=hint)

    def _lines(self, name: str, folder: str = "db") -> list[str]:
        """Of a small file of db/, or of the repository itself, whose way there is no link."""
        here, shown = opened(self.path), f"{folder}/{name}" if folder else name
        try:
            below = os.open(folder or ".", FOLDER, dir_fd=here)
            try:
                descriptor = os.open(name, FILE, dir_fd=below)
            finally:
                os.close(below)
        except OSError as error:
            raise self._odd(f"there is no Subversion repository here: {shown}: {error.strerror}") from None
        finally:
            os.close(here)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise self._odd(f"{shown} is no file")
            return file.read(4096).decode("ascii", "replace").splitlines() or [""]

    def _odd(self, why: str) -> Unavailable:
        return Unavailable(why, code="archive.unreachable", where=self.where)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else -1
