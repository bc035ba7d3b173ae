"""Hands objects to a repository's own `git receive-pack` and says which branch is to stand where.

It runs as the repository's owner, confined to the repository. What its owner has told it to run runs there too: his
hooks are his word on what may be pushed, and have no more rights than he has and no network.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from custody.border import modes
from custody.border.sandbox import host_tool
from custody.border.sandbox.host_tool import Owner, Sight
from custody.errors import Refused, Unavailable
from custody.formats.names import shown
from custody.workflows.archives.git.git_objects import Part, pack
from custody.workflows.archives.git.git_reader import Reader
from custody.workflows.archives.processes.vcs_process import BEAT_SECONDS, Seconds

AFTERWARDS = 10.0  # seconds for hooks that run when the commit is made
TOLD = 4096  # bytes of what a hook has to say
_OPTIONS = "report-status atomic agent=custody"
_BUSY = ("failed to update ref", "failed to lock", "cannot lock ref", "reference already exists", "stale info")
_ABORTED = "ref updates aborted by hook"
_BARE = ("-c", "core.hooksPath=/dev/null", "-c", "core.alternateRefsCommand=true", "-c", "core.fsmonitor=false")


class Stale(Exception):
    """The branch is not where it was seen."""


def hand_over(
    reader: Reader, ref: str, old: str, new: str, objects: Sequence[tuple[str, Part]], seconds: Seconds
) -> None:
    """`Stale` if the branch has moved; `Refused` with the words of a hook that does not want it."""
    owner = reader.folder.owner
    with tempfile.TemporaryFile() as said:
        process = _started(reader, owner, said.fileno())
        try:
            with _limited(process, seconds):
                told = _asked(process, ref, old, new, objects=objects)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(AFTERWARDS)
        except OSError:
            told = {}  # it ended before it had heard everything
        finally:
            process.kill()
            with suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            process.stdout.close()  # type: ignore[union-attr]
            process.wait()
        said.seek(0)
        words = shown(said.read(TOLD).decode("utf-8", "replace").strip(), TOLD)
    _judge(told, ref, words, reader.where)


def _started(reader: Reader, owner: Owner, said: int) -> subprocess.Popen[bytes]:
    path, given = reader.where, tuple[int, ...]()
    if host_tool.works():
        # At its own path: its hooks may name it.
        sight = Sight(written={path: reader.folder.fd})
        given = sight.descriptors
        argv = host_tool.command(["git", "receive-pack", path], owner, sight)
        env = {"PATH": host_tool.PATH}
    elif owner.uid == os.geteuid():
        argv = ["git", *_BARE, "receive-pack", path]  # where nothing can be confined, no hook runs at all
        env = {
            "PATH": host_tool.PATH,
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
    else:
        message = "commits to the repository of somebody else are made in a sandbox only, and none works here"
        raise Unavailable(message, code="archive.confined", where=path, hint="`custody doctor` says what is missing")
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=said, env=env, cwd="/", pass_fds=given, umask=modes.given()
    )


class _limited:
    """Kills a process when its time is over; a commit that is not made in time must not be made at all."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: Seconds) -> None:
        until = time.monotonic() + (0 if callable(seconds) else seconds)
        self._left = seconds if callable(seconds) else lambda: until - time.monotonic()
        self._process, self._over = process, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            if self._left() <= 0:
                self._process.kill()
                return


def _asked(
    process: subprocess.Popen[bytes], ref: str, old: str, new: str, objects: Sequence[tuple[str, Part]]
) -> dict[str, str]:
    """What it says of the objects (`unpack`) and of the branch."""
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in _lines(process.stdout):
        pass  # the branches that it has; ours was read by ourselves
    asked = f"{old} {new} ".encode() + ref.encode("utf-8", "surrogateescape")
    options = _OPTIONS + (" object-format=sha256" if len(new) == 64 else "")
    line = asked + b"\0 " + options.encode()
    process.stdin.write(b"%04x" % (len(line) + 4) + line + b"0000")
    with suppress(BrokenPipeError):  # it has said why it listens no longer
        for piece in pack(new, objects):
            process.stdin.write(piece)
        process.stdin.close()
    told = {}
    for answer in _lines(process.stdout):
        words = answer.decode("utf-8", "surrogateescape").rstrip("\n")
        kind, _, rest = words.partition(" ")
        name, _, why = rest.partition(" ")
        told["unpack" if kind == "unpack" else name] = (
            (name + " " + why).strip() if kind == "unpack" else f"{kind} {why}"
        )
    return told


def _lines(stream: object) -> Iterator[bytes]:
    """The lines of one answer; git tells each line's length before it."""
    read = stream.read  # type: ignore[attr-defined]
    while True:
        head = read(4)
        if len(head) < 4 or head == b"0000":
            return
        yield read(int(head, 16) - 4)


def _judge(told: dict[str, str], ref: str, words: str, where: str) -> None:
    answer = told.get(ref, "")
    if told.get("unpack") == "ok" and answer.startswith("ok"):
        return
    if any(busy in answer for busy in _BUSY):
        raise Stale
    if answer.startswith("ng") or (not told and words.endswith(_ABORTED)):  # then git ends without an answer
        why = shown(answer.removeprefix("ng").strip(), 200) or _ABORTED
        raise Refused(
            f"the repository refuses the commit ({why}){': ' if words else ''}{words}",
            code="archive.refused",
            where=where,
            hint="its owner's hooks and settings decide what may be pushed",
        )
    message = f"git did not take the commit: {shown(told.get('unpack', 'no answer'), 200)} {words}".strip()
    raise Unavailable(message, code="archive.unreachable", where=where)
