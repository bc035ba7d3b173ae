"""Whether what a repository's owner has set to refuse commits would be asked where commits of tasks are made.

Hooks run as plain files of the repository's own `hooks`, which is looked at for whose it is as all of the repository
is (`owned.py`). One that is a link, or lies in a folder elsewhere, is not seen in the sandbox, and nobody has looked
at who may change it: git would make the commit without it, and say nothing. So no commit is made there at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from custody.border import outside
from custody.border.names import shown
from custody.model.errors import Refused
from custody.workflows.git_settings import OTHER_GATES, Setting, Unseen, own_settings, settings_beside

GIT = ("pre-receive", "update", "proc-receive", "reference-transaction", "push-to-checkout")
SUBVERSION = ("start-commit", "pre-commit")
"""Those that can refuse a commit as we make it: nothing is locked, and no property of an older revision changed."""
HINT = (
    "its owner puts the hook itself, not a link, into the repository's own hooks folder, and unsets core.hooksPath; or "
    "let its tasks leave outputs, not commits"
)
_SAID_HERE = "say it in the repository itself (`git config`), where it is seen; or let its tasks leave outputs"
_OFF = ("", "0", "false", "no", "off")


def must_be_asked(unasked: str, where: str) -> None:
    """`Refused` if a gate of its owner would be passed by."""
    if unasked:
        message = f"commits of tasks are refused here: {unasked}"
        raise Refused(message, code="archive.gate", where=where, hint=hint(unasked))


def hint(unasked: str) -> str:
    return HINT if "hook" in unasked else _SAID_HERE


def svn_unasked(repository: Path) -> str:
    """Which hook of a Subversion repository would not be asked, and why; empty: all are."""
    return _unasked(repository, repository / "hooks", SUBVERSION, is_git=False)


def git_unasked(repository: Path) -> str:
    """Which hook or setting of a git repository would not be asked, and why; empty: all are."""
    try:
        beside, own = list(settings_beside(repository)), list(own_settings(repository))
    except Unseen as error:
        return str(error)
    folders = [(repository / "hooks", "")]  # and the file that names it, if that is not seen
    for setting in (*beside, *own):
        if setting.name == "core.hookspath":
            named = setting.path(repository), "" if setting.is_own else setting.file
            folders = [named] if setting.is_certain else [*folders, named]
    for folder, file in folders:
        if told := _unasked(repository, folder, GIT, is_git=True, named_in=file):
            return told
    return _other_gates(beside, {setting.name for setting in own if setting.is_certain})


def _other_gates(beside: Sequence[Setting], said: set[str]) -> str:
    """Settings for all repositories of a user or a machine: git is not shown them, so they refuse nothing."""
    for setting in beside:
        overruled = OTHER_GATES.get(setting.name)
        if overruled is not None and setting.value.lower() not in _OFF and not said & {*overruled}:
            return f"{shown(setting.file)} sets {setting.name}, which is not seen where commits are made"
    return ""


def _unasked(repository: Path, folder: Path, gates: Sequence[str], *, is_git: bool, named_in: str = "") -> str:
    own = os.path.join(os.path.realpath(repository), "hooks")
    is_own = os.path.realpath(folder) == own and not named_in
    for name in gates:
        hook = folder / name
        try:
            is_link, mode = stat.S_ISLNK(os.lstat(hook).st_mode), _mode(hook)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"whether there is a hook {shown(str(hook))} cannot be seen: {error.strerror}"
        if is_git and mode and not mode & 0o111:
            continue  # git leaves it out as well
        if not is_own:
            how = f" (core.hooksPath in {shown(named_in)})" if named_in else ""
            return f"its hook {name} is in {shown(os.path.realpath(folder))}{how}, not in the repository's own folder"
        if is_link and (not mode or os.path.dirname(os.path.realpath(hook)) != own):
            return f"its hook {name} is a link to {shown(os.readlink(hook))}, out of the repository's own folder"
        if is_git and not outside.works():
            return f"its hook {name} runs in a sandbox only, and none works on this machine (`custody doctor`)"
    return ""


def _mode(hook: Path) -> int:
    """Of what it leads to; 0 if that is nowhere."""
    try:
        return os.stat(hook).st_mode
    except FileNotFoundError:
        return 0
