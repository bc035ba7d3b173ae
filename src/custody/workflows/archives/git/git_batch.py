"""git processes that are asked for one object after another, confined, and kept while there are questions.

To start one takes thirty milliseconds, to ask it a tenth of one. Each has a GIT_DIR of our own, in which the
repository's objects are the only thing that is not ours: no configuration, no hook, no ref of its owner is ever read.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from custody.border.sandbox import host_tool
from custody.border.sandbox.host_tool import Owner, Sight
from custody.errors import Unavailable
from custody.workflows.archives.processes.conversation import Talk
from custody.workflows.archives.processes.vcs_process import Seconds

MISSING = "missing"
AT_ONCE = 500  # questions that are on their way; their ids fit into a pipe, so that nobody waits for anybody
_PIPE = 1 << 20
OURS, THEIRS = "/ours", "/repo"
_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
_CONFIG = """\
[core]
	repositoryformatversion = 1
	bare = true
	hooksPath = /dev/null
	commitGraph = false
	multiPackIndex = false
	fsmonitor = false
	alternateRefsCommand = true
[extensions]
	objectFormat = {format}
[gc]
	auto = 0
[maintenance]
	auto = false
[protocol]
	allow = never
"""


class Batch:
    """One process. It is used by one thread at a time, and not again after anything went wrong."""

    def __init__(self, objects: int, owner: Owner, wide: bool, where: str) -> None:
        self.where = where
        self.used = time.monotonic()
        self._folder = ""
        self._talk = Talk(self._started(objects, owner, wide), "git", where)

    def _started(self, objects: int, owner: Owner, wide: bool) -> subprocess.Popen[bytes]:
        if host_tool.works():
            files = {f"{OURS}/{name}": host_tool.held(text.encode()) for name, text in _git_dir(THEIRS, wide).items()}
            try:
                sight = Sight({THEIRS: objects}, files=files, env=_ENV)
                return self._begun(
                    host_tool.command(_argv(OURS), owner, sight), {"PATH": host_tool.PATH}, sight.descriptors
                )
            finally:
                for descriptor in files.values():
                    os.close(descriptor)
        if owner.uid != os.geteuid():
            raise Unavailable(
                "the repository of somebody else is read in a sandbox only, and none works here",
                code="archive.confined",
                where=self.where,
                hint="`custody doctor` says what is missing",
            )
        self._folder = tempfile.mkdtemp(prefix="custody-git-")
        for name, text in _git_dir(os.readlink(f"/proc/self/fd/{objects}"), wide).items():
            file = Path(self._folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        env = {"PATH": host_tool.PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **_ENV}
        return self._begun(_argv(self._folder), env, ())

    def _begun(self, argv: Sequence[str], env: Mapping[str, str], given: Sequence[int]) -> subprocess.Popen[bytes]:
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        try:
            process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=null, env=env, cwd="/", pass_fds=given, bufsize=0
            )
        except FileNotFoundError:
            hint = "apt-get install git"
            raise Unavailable("git is not installed", code="archive.tool", where=self.where, hint=hint) from None
        with suppress(OSError):
            fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)  # type: ignore[union-attr]
        return process

    def greet(self) -> None:
        """git says nothing before it is asked."""

    def ask(self, ids: Sequence[str], seconds: Seconds) -> Iterator[tuple[str, str, int]]:
        """Name, kind and size of each, in order; the content follows by `content`. Kind `missing`: there is none."""
        self._talk.within(seconds)
        for at in range(0, len(ids), AT_ONCE):
            some = ids[at : at + AT_ONCE]
            self._talk.send("".join(f"{id_}\n" for id_ in some).encode("ascii"))
            for id_ in some:
                words = self._line().decode("ascii", "replace").split(" ")
                if words[0] != id_ or len(words) not in (2, 3):
                    raise self._talk.ended()
                yield (id_, words[1], int(words[2])) if len(words) == 3 else (id_, MISSING, 0)

    def content(self, size: int) -> Iterator[bytes]:
        """Of the object that was told of last."""
        left = size + 1  # a line's end
        while left:
            if not self._talk.buffer:
                self._talk.fill()
            piece = self._talk.take(left)
            left -= len(piece)
            yield piece[:-1] if not left else piece
        self.used = time.monotonic()

    def _line(self) -> bytes:
        while (end := self._talk.buffer.find(b"\n")) < 0:
            self._talk.fill()
        return self._talk.take(end + 1)[:-1]

    @property
    def alive(self) -> bool:
        return self._talk.alive

    def close(self) -> None:
        self._talk.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _argv(git_dir: str) -> list[str]:
    return ["git", f"--git-dir={git_dir}", "cat-file", "--batch"]


def _git_dir(objects: str, wide: bool) -> Mapping[str, str]:
    """All that makes a GIT_DIR. Not by `git init`, which would take a template along, and five milliseconds."""
    return {
        "HEAD": "ref: refs/heads/none\n",
        "config": _CONFIG.format(format="sha256" if wide else "sha1"),
        "refs/.none": "",
        "objects/info/alternates": f"{objects}\n",
    }
