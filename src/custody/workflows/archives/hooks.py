"""The hook that tells of a new revision: its text, its installation, and what it leaves on disk when nobody
listens.

A hook runs as the repository's server, with an empty environment, while a committer waits. So it does nothing
but put a note on disk and start the command that passes it on, in the background with every descriptor
closed; it never fails a commit and never waits for anyone. The note is removed when the command has succeeded;
otherwise `hook_spool.py` finds it. Even a lost note costs only time: revisions are found by looking
(`Archive.youngest`).

A hook that was there before is kept and called first, with the same arguments and input; its exit code stays
the hook's.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import custody
from custody.errors import BadInput, NotFound, Refused, Unavailable
from custody.workflows.archives.hook_places import DEFAULT, place_for_ours, place_of
from custody.workflows.archives.hook_spool import SPOOL
from custody.workflows.archives.ownership.owned import Looked
from custody.workflows.archives.ownership.standing import look, named

MARK = "# custody hook: written by `custody archive add`, removed by `custody archive remove`"
API = "custody-api"  # in the repository: where to tell, and the token
STORE = "custody-store"  # in the repository: the store's address, which may have a password in it
_BEFORE = ".before-custody"
_WHERE_AM_I = "import custody; print(custody.__file__)"
_NOTIFY = ("-m", "custody", "archive", "notify")
_NO_HOOKS = (
    "objects",
    "refs",
    "logs",
    "db",
    "locks",
    SPOOL,
)  # folders of a repository that are large, or no place for any

_HEAD = """#!/bin/sh
{mark}
# Tells Custody of each new revision. Edits are lost when it is installed again.
PATH=/usr/local/bin:/usr/bin:/bin
here={hooks}
spool={spool}
"""
# The note comes first, so that it is there whatever happens to the rest, and before the committer goes on, so that
# notes are in the order of commits. Where it cannot be written (a full disk), nothing of it is left.
_TELL = """
tell() {{
    note="$spool/$1.$$"
    (
        umask 077
        mkdir -p "$spool"
        {{ printf '%s\\n' "$@" > "$note.new" && mv "$note.new" "$note"; }} || rm -f "$note.new"
    ) </dev/null >/dev/null 2>&1
    (
        trap '' HUP
        cd /
        env -i PATH="$PATH" {command} "$@" && rm -f "$note"
    ) </dev/null >/dev/null 2>&1 &
}}
"""
# One word is a Subversion revision; git tells more, and its repository is asked what is new.
_POST = (
    'settings=$1; shift; [ $# -eq 1 ] && said="{\\"revision\\": $1}" || said="{}"; '
    'exec curl --config "$settings" --data "$said" --output /dev/null'
)
_NAME_STORE = 'CUSTODY_STORE=$(cat "$1") && export CUSTODY_STORE && shift && exec "$@"'
_SUBVERSION = """
code=0
[ ! -x "$here/post-commit{before}" ] || "$here/post-commit{before}" "$@" || code=$?
tell "$2"
exit $code
"""
_GIT = """
code=0
updates=$(cat)
if [ -x "$here/post-receive{before}" ]; then
    printf '%s\\n' "$updates" | "$here/post-receive{before}" "$@" || code=$?
fi
set -f
set -- $updates
[ $# -eq 0 ] || tell "$@"
exit $code
"""


@dataclass(frozen=True, slots=True)
class Hook:
    name: str
    hook: str
    body: str


SUBVERSION = Hook("subversion", "post-commit", _SUBVERSION)
GIT = Hook("git", "post-receive", _GIT)


def kind_of(repository: Path) -> Hook:
    if (repository / "format").is_file() and (repository / "db").is_dir():
        return SUBVERSION
    if (repository / "objects").is_dir() and (repository / "HEAD").exists():
        return GIT
    is_copy = any((repository / name).exists() for name in (".git", ".svn"))
    hint = (
        "this is a working copy: name the repository itself"
        if is_copy
        else "a Subversion repository, or a bare git one"
    )
    raise NotFound("there is no repository here", code="archive.unreachable", where=str(repository), hint=hint)


def text(kind: Hook, repository: Path, command: Sequence[str], folder: Path | None = None) -> str:
    """The hook itself, for this folder. `command` gets more words: the revision, or (git) old commit, new commit,
    branch …"""
    if not command or not os.path.isabs(command[0]):
        message = "the command must begin with an absolute path"
        raise BadInput(message, code="archive.hook", hint="hooks run without PATH")
    if any("\n" in word or "\0" in word for word in (*command, str(repository))):
        raise BadInput("the command and the path must be one line", code="archive.hook")
    hooks, spool = folder or repository / DEFAULT, repository / SPOOL
    head = _HEAD.format(mark=MARK, hooks=shlex.quote(str(hooks)), spool=shlex.quote(str(spool)))
    return head + _TELL.format(command=shlex.join(command)) + kind.body.format(before=_BEFORE)


def install(repository: Path, command: Sequence[str]) -> Path:
    """Write the hook, again if need be, where it will be looked for; a hook of somebody else is kept and called
    first."""
    repository = repository.absolute()
    kind = kind_of(repository)
    hook = _place(repository, kind) / kind.hook
    wanted = text(kind, repository, command, hook.parent)
    hook.parent.mkdir(parents=True, exist_ok=True)  # not every server makes one
    if _exists(hook) and not _is_ours(hook):
        before = hook.with_name(hook.name + _BEFORE)
        if not _exists(before):
            os.link(hook, before, follow_symlinks=False)  # first a second name, so that there is no moment without it
        elif not os.path.samestat(hook.lstat(), before.lstat()):  # the same: cut off after it had its second name
            hint = f"one of them must go: {before}"
            raise Refused("there are two hooks from before", code="archive.hook", where=str(hook), hint=hint)
    _write(hook, wanted)
    for other in ours_in(repository):
        if other != hook:  # looked for no longer; if it ever is again, commits would be told twice
            _put_back(other)
    return hook


def must_be_own(repository: Path) -> None:
    """Nobody writes into the folder of somebody else: whoever owns it decides where a name in it leads."""
    found = look(repository, Looked(("hooks",)))
    if found.owner.uid != os.geteuid():
        raise Refused(
            f"this repository belongs to {named(found.owner.uid)}, who alone installs its hook",
            code="archive.hook",
            where=str(repository),
            hint="as its owner: `custody archive hook NAME REPOSITORY --api … --token …`",
        )


def _place(repository: Path, kind: Hook) -> Path:
    must_be_own(repository)
    return place_for_ours(repository, is_git=kind is GIT)


def install_for_api(repository: Path, api: str, archive: str, token: str) -> Path:
    """A hook that posts to `custody serve`. Its token is in a file of the repository's owner, on no command line."""
    parts = urllib.parse.urlsplit(api)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        hint = "https://custody.example.org"
        raise BadInput(f"{api!r} is not the address of an API", code="archive.hook", hint=hint)
    secret = token.strip()
    if not secret or not secret.isascii() or any(letter in secret for letter in '"\\\n\r '):
        raise BadInput("the token cannot be read", code="archive.hook", hint="`custody token create` prints one")
    repository = repository.absolute()
    _place(repository, kind_of(repository))
    url = f"{api.rstrip('/')}/api/v1/archives/{urllib.parse.quote(archive, safe='')}/notify"
    settings = repository / API
    lines = [
        f'url = "{url}"',
        f'header = "Authorization: Bearer {secret}"',
        'header = "Content-Type: application/json"',
    ]
    _write_for_owner(settings, "\n".join([*lines, "fail", "silent", "max-time = 20", ""]))
    return install(repository, ["/bin/sh", "-c", _POST, "custody-notify", str(settings)])


def ourselves() -> Sequence[str]:
    """The words by which this very program is called where there is neither PATH nor any other variable.

    Not every installation has a script: then it is the interpreter with our module, and with the folders where it finds
    that, if it does not know them by itself.
    """
    python = Path(os.path.abspath(sys.executable))  # not resolved: an environment is known by the link into it
    script = python.with_name("custody")
    if script.is_file() and os.access(script, os.X_OK):
        return [str(script)]
    beside = [str(Path(custody.__file__).parents[1]), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    known = f"PYTHONPATH={os.pathsep.join(dict.fromkeys(map(os.path.abspath, beside)))}"
    for words in ([str(python)], ["/usr/bin/env", known, str(python)]):
        found = _told_by(*words, "-c", _WHERE_AM_I)
        told = _told_by(*words, *_NOTIFY, "--help")  # it may find us, and nothing of what we need
        if not told.returncode and found.stdout.strip() == os.path.abspath(custody.__file__):
            return [*words, "-m", "custody"]
    raise Unavailable(
        f"{python} does not find this program where there are no variables",
        code="archive.hook",
        where=str(Path(custody.__file__).parent),
        hint=told.stderr.strip()[-300:] or "install it from a checkout: pip install .",
    )


def _told_by(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env={}, cwd="/", capture_output=True, text=True)


def install_for_store(repository: Path, program: Sequence[str], archive: str, store: str) -> Path:
    """A hook that tells a store on this machine, or one that can be reached from it. Like a token, its address is in
    a file of the repository's owner: hooks can be read by anyone, and so can command lines."""
    repository = repository.absolute()
    _place(repository, kind_of(repository))
    settings = repository / STORE
    _write_for_owner(settings, f"{store}\n")
    command = ["/bin/sh", "-c", _NAME_STORE, "custody-notify", str(settings), *program]
    return install(repository, [*command, "archive", "notify", archive])


def uninstall(repository: Path) -> None:
    """Take our hook away, wherever in the repository it is, and put the one from before back. Nothing to do is no
    fault."""
    repository = repository.absolute()
    hook = repository / DEFAULT / kind_of(repository).hook
    must_be_own(repository)
    for settings in (API, STORE):
        (repository / settings).unlink(missing_ok=True)
    ours = ours_in(repository)
    if not ours and _exists(hook) and not _is_ours(hook):
        hint = "it was replaced after we wrote ours"
        raise Refused("this hook is not ours", code="archive.hook", where=str(hook), hint=hint)
    for one in ours or [hook]:
        _put_back(one)


def _put_back(hook: Path) -> None:
    before = hook.with_name(hook.name + _BEFORE)
    if _exists(before):
        os.replace(before, hook)
    else:
        hook.unlink(missing_ok=True)


def ours_in(repository: Path) -> list[Path]:
    """Our hooks in a repository: where they are looked for now, and where they may have been. No link is followed."""
    name, found = kind_of(repository).hook, list[Path]()
    for folder, folders, files in os.walk(repository):
        folders[:] = [one for one in folders if one not in _NO_HOOKS]
        if name in files and _is_ours(Path(folder, name)):
            found.append(Path(folder, name))
    return found


def is_installed(repository: Path) -> bool:
    """Whether a hook of ours will be run."""
    return bool(ours_in(repository)) and not unheard(repository)


def unheard(repository: Path) -> str:
    """Why the hook that we have written is not run; empty: it is, or there is none."""
    ours, kind = ours_in(repository), kind_of(repository)
    if not ours:
        return ""
    try:
        place = place_of(repository, is_git=kind is GIT)
    except Refused as error:
        return f"{error.message}, and ours is {ours[0]}"
    hook = Path(os.path.realpath(place.folder), kind.hook)
    if hook not in map(Path, map(os.path.realpath, ours)):
        return f"hooks are looked for in {place.told()}, and ours is {ours[0]}"
    mode = stat.S_IMODE(hook.stat().st_mode)
    return "" if mode & stat.S_IXUSR else f"{hook} is no program (mode {mode:04o})"


def _exists(path: Path) -> bool:
    return os.path.lexists(path)


def _is_ours(hook: Path) -> bool:
    try:
        return MARK.partition(":")[0] in hook.read_text(errors="replace")[:400]
    except OSError:
        return False


def _write_for_owner(file: Path, content: str) -> None:
    _write(file, content, mode=0o600)


def _write(hook: Path, content: str, mode: int = 0o755) -> None:
    """At once: a committer sees the old hook or the new one."""
    descriptor, name = tempfile.mkstemp(dir=hook.parent, prefix=".custody-")
    with open(descriptor, "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(name, mode)
    os.replace(name, hook)
