"""Asks git itself which conditions of a configuration are met (`[includeIf "gitdir:…"]`, `onbranch`, `hasconfig`).

How a pattern is matched is git's own affair, and another version's may differ. So git is given a file of ours, in the
place of the one that has the conditions, in a sandbox where nothing else is: a folder in the repository's place with
what its HEAD says, an empty home, and for each condition a file that says that it was met. It sees nothing of the
owner's, and there is nothing that it could run.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from custody.border.sandbox import host_tool as outside
from custody.border.sandbox.host_tool import Owner, Sight

GIT = ["git"]
ANSWER_WITHIN = 30.0  # seconds
BY_ADDRESS = "hasconfig:"
_MET = "/run/custody-met"
_DONE = "all"
_SOMEBODY = re.compile(r"(gitdir(?:/i)?:)(~[^/\\]+)")


@dataclass(frozen=True, slots=True)
class Conditions:
    repository: Path
    home: str
    head: Callable[[], bytes]
    addresses: Callable[[], Sequence[str]]  # of all remotes that the whole configuration knows

    def met(self, file: Path, conditions: Sequence[str]) -> Sequence[bool | None]:
        """Of each, as it is written in this file, whether it is; None: git could not be asked."""
        if not conditions:
            return []
        unknown: Sequence[bool | None] = [None] * len(conditions)
        if not outside.works():
            return unknown
        files = {place: outside.held(data) for place, data in self._shown(file, conditions).items()}
        try:
            told = self._asked(os.path.realpath(file), files)
        except (OSError, subprocess.TimeoutExpired):
            return unknown
        finally:
            for descriptor in files.values():
                os.close(descriptor)
        return [str(number) in told for number in range(len(conditions))] if told[-1:] == [_DONE] else unknown

    def _shown(self, file: Path, conditions: Sequence[str]) -> dict[str, bytes]:
        place, said = os.path.realpath(self.repository), list[str]()
        if any(condition.startswith(BY_ADDRESS) for condition in conditions):
            said = [f'[remote "{number}"]\n\turl = {_quoted(url)}\n' for number, url in enumerate(self.addresses())]
        said += [
            f'[includeIf "{_without_names(condition)}"]\n\tpath = {_MET}/{number}\n'
            for number, condition in enumerate(conditions)
        ]
        shown = {f"{place}/HEAD": self.head(), f"{place}/objects/none": b"", f"{place}/refs/none": b""}
        shown[f"{os.path.realpath(self.home)}/.none"] = b""  # `~` is a folder that is there
        shown |= {f"{_MET}/{number}": f"[custody]\n\tmet = {number}\n".encode() for number in range(len(conditions))}
        text = "".join([*said, f"[custody]\n\tmet = {_DONE}\n"])
        return shown | {os.path.realpath(file): text.encode("utf-8", "surrogateescape")}

    def _asked(self, file: str, files: dict[str, int]) -> list[str]:
        env = {
            "GIT_DIR": ".",
            "HOME": os.path.realpath(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        sight = Sight(files=files, env=env)
        # From within, as whoever takes in a push: `gitdir:/the/repository/` is met there, and not from elsewhere.
        words = [*GIT, "-C", os.path.realpath(self.repository), "config", "--file", file, "--includes"]
        words += ["--get-all", "custody.met"]
        argv = outside.command(words, Owner(os.geteuid(), os.getegid()), sight)
        answer = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"PATH": outside.PATH},
            cwd="/",
            pass_fds=sight.descriptors,
            timeout=ANSWER_WITHIN,
        )
        return [] if answer.returncode else answer.stdout.decode("ascii", "replace").split()


def _without_names(condition: str) -> str:
    """With the home of somebody else in the place of his name: nobody is known there."""
    if found := _SOMEBODY.match(condition):
        home = os.path.expanduser(found[2]).replace("\\", "\\\\").replace('"', '\\"')
        return f"{found[1]}{home}{condition[found.end() :]}"
    return condition


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{plain}"'
