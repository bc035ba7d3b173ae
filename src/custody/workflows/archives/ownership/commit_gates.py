"""Whether what a repository's owner has set to refuse commits would be asked where commits of tasks are made.

Hooks run as plain files of the repository's own `hooks`, which is looked at for whose it is as all of the repository
is (`owned.py`). One that is a link, or lies in a folder elsewhere, is not seen in the sandbox, and nobody has looked
at who may change it: git would make the commit without it, and say nothing. So no commit is made there at all.

Nor is one that somebody may run and its owner may not: git leaves out what it may not run, as the owner or as anybody.
Whether he may is asked where the commit is made (`LOOK`), so that groups, lists, folders above it and rights that a
sandbox takes away count as they do for git. One that nobody may run is left out, as git itself does.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from custody.border.sandbox import host_tool
from custody.border.sandbox.host_tool import Sight
from custody.errors import Refused
from custody.formats.names import shown
from custody.workflows.archives.git.git_settings import OTHER_GATES, Setting, Unseen, own_settings, settings_beside
from custody.workflows.archives.hook_places import DEFAULT, Place, git_places
from custody.workflows.archives.ownership.standing import named, opened, owner_of
from custody.workflows.archives.ownership.writers import named_group
from custody.workflows.archives.svn.svn_env import ELSEWHERE, variables_of

GIT = ("pre-receive", "update", "proc-receive", "reference-transaction", "push-to-checkout")
SUBVERSION = ("start-commit", "pre-commit")
"""Those that can refuse a commit as we make it: nothing is locked, and no property of an older revision changed."""
HINT = (
    "its owner puts the hook itself, not a link, into the repository's own hooks folder, and unsets core.hooksPath; or "
    "let its tasks leave outputs, not commits"
)
_CLOSED = "as whom commits are made"
_OPEN_IT = (
    "`chmod` or `chgrp` it so that its owner may run it, or make him a member of its group (a worker that runs already "
    "has the groups with which it was started); or let its tasks leave outputs, not commits"
)
_SAID_HERE = "say it in the repository itself (`git config`), where it is seen; or let its tasks leave outputs"
_HERE_TOO = (
    "put them into the repository's own conf/hooks-env, and leave hooks-env out of its conf/svnserve.conf; or let its "
    "tasks leave outputs, not commits"
)
_OFF = ("", "0", "false", "no", "off")
_HINTS = (
    (_CLOSED, _OPEN_IT),
    ("variables of its hooks", _HERE_TOO),
    (ELSEWHERE, _HERE_TOO),
    ("hook", HINT),
    ("", _SAID_HERE),
)
LOOK = ["sh", "-c", 'for one do [ -x "$one" ] || printf "%s\\0" "$one"; done; printf .', "look"]
"""Names what may not be run, or entered, by whoever looks; a full stop says that it has looked at all."""
LOOKED_WITHIN = 30.0  # seconds


def must_be_asked(unasked: str, where: str) -> None:
    """`Refused` if a gate of its owner would be passed by."""
    if unasked:
        message = f"commits of tasks are refused here: {unasked}"
        raise Refused(message, code="archive.gate", where=where, hint=hint(unasked))


def hint(unasked: str) -> str:
    """What helps: the first that fits."""
    return next(do for word, do in _HINTS if word in unasked)


def svn_unasked(repository: Path) -> str:
    """Which hook of a Subversion repository would not be asked, and why; empty: all are."""
    place = Place(repository / DEFAULT)
    told = _unasked(repository, place, SUBVERSION, is_git=False)
    if told or not any(os.path.lexists(place.folder / name) for name in SUBVERSION):
        return told
    try:
        variables_of(repository)
    except Unseen as error:
        return str(error)
    return ""


def git_unasked(repository: Path) -> str:
    """Which hook or setting of a git repository would not be asked, and why; empty: all are."""
    try:
        beside, own = list(settings_beside(repository)), list(own_settings(repository))
    except Unseen as error:
        return str(error)
    for place in git_places(repository, (*beside, *own)):
        if told := _unasked(repository, place, GIT, is_git=True):
            return told
    return _other_gates(beside, {setting.name for setting in own if setting.is_certain})


def _other_gates(beside: Sequence[Setting], said: set[str]) -> str:
    """Settings for all repositories of a user or a machine: git is not shown them, so they refuse nothing."""
    for setting in beside:
        overruled = OTHER_GATES.get(setting.name)
        if overruled is not None and setting.value.lower() not in _OFF and not said & {*overruled}:
            return f"{shown(setting.file)} sets {setting.name}, which is not seen where commits are made"
    return ""


def _unasked(repository: Path, place: Place, gates: Sequence[str], *, is_git: bool) -> str:
    folder, own = place.folder, os.path.join(os.path.realpath(repository), DEFAULT)
    is_own = os.path.realpath(folder) == own and place.is_seen
    asked = list[Path]()
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
            how = "" if place.is_seen else f" (core.hooksPath in {shown(place.named_in)})"
            return f"its hook {name} is in {shown(os.path.realpath(folder))}{how}, not in the repository's own folder"
        if is_link and (not mode or os.path.dirname(os.path.realpath(hook)) != own):
            return f"its hook {name} is a link to {shown(os.readlink(hook))}, out of the repository's own folder"
        if is_git and not host_tool.works():
            return f"its hook {name} runs in a sandbox only, and none works on this machine (`custody doctor`)"
        if mode & 0o111:
            asked.append(hook)
    return _closed(repository, asked) if asked and host_tool.works() else ""


def _closed(repository: Path, hooks: Sequence[Path]) -> str:
    """Which of these hooks would be left out since whoever makes the commit may not run it; empty: none, or commits
    are not ours to make there."""
    here = opened(repository)
    try:
        owner = owner_of(here)
        if os.geteuid() not in (0, owner.uid):
            return ""
        sight = Sight({str(repository): here})
        argv = host_tool.command([*LOOK, str(hooks[0].parent), *map(str, hooks)], owner, sight)
        looked = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"PATH": host_tool.PATH},
            cwd="/",
            pass_fds=sight.descriptors,
            timeout=LOOKED_WITHIN,
        )
        *closed, end = looked.stdout.split(b"\0")
    except (OSError, subprocess.TimeoutExpired):
        closed, end = [], b""
    finally:
        os.close(here)
    if end != b".":
        return f"whether its hook {hooks[0].name} may be run there cannot be seen"
    return _told(Path(os.fsdecode(closed[0])), hooks, named(owner.uid)) if closed else ""


def _told(closed: Path, hooks: Sequence[Path], owner: str) -> str:
    try:
        about, is_off = os.stat(closed), bool(os.statvfs(closed).f_flag & os.ST_NOEXEC)
    except OSError as error:
        return f"its hook {closed.name} cannot be looked at: {error.strerror}"
    whose = f"(mode {stat.S_IMODE(about.st_mode):04o}, {named(about.st_uid)}:{named_group(about.st_gid)})"
    if os.path.realpath(closed.parent) != os.path.abspath(closed.parent):
        return f"its hook {hooks[0].name} is reached by a link, {shown(str(closed))}, which is not seen there"
    if closed not in hooks:
        return f"its hook {hooks[0].name} is in a folder {whose} that is not for {owner} to enter, {_CLOSED}"
    if is_off:
        return f"its hook {closed.name} {whose} is on a file system that is mounted noexec, where nobody may run it"
    return f"its hook {closed.name} {whose} is for others to run and not for {owner}, {_CLOSED}"


def _mode(hook: Path) -> int:
    """Of what it leads to; 0 if that is nowhere."""
    try:
        return os.stat(hook).st_mode
    except FileNotFoundError:
        return 0
