"""custody doctor: who else on this machine could read, or come to, what is kept here."""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from custody.border import modes
from custody.cli.doctor.folders import folders
from custody.config import Config
from custody.kernel.operations.findings import Finding
from custody.opening import Folder


def file_findings(url: str, config: Config | None) -> Iterator[Finding]:
    """What is wider than it would be made today, each with the command that closes it."""
    group = config is not None and config.files.group_readable
    named = list(folders(config)) if config else []
    kept = [*_kept(url, config), *(each.path for each in named if each.kept)]
    closed = [each.path for each in named if each.rule == "closed"]
    found = [finding for path in kept if (finding := _wider(path, 0o050 if group else 0, "read"))]
    found += [finding for path in closed if (finding := _wider(path, 0, "come to what a sandbox writes in"))]
    found += _others(named)
    yield from found
    if not found:
        who = "its group alone" if group else "nobody else"
        yield Finding("fine", f"of what is kept here{_besides(named)}, {who} on this machine can read anything")


def _besides(named: Sequence[Folder]) -> str:
    shared = [each for each in named if each.shared]
    if not shared:
        return ""
    table = shared[0].key.partition(".")[0]
    names = ", ".join(each.shared for each in shared)
    return f", besides {names}, which everybody may read ([{table}] shared)"


def _others(named: Sequence[Folder]) -> Iterator[Finding]:
    """Folders that we write to, and somebody else may: they are refused when they are opened."""
    for each in named:
        if each.rule == "read":
            continue
        with suppress(OSError):  # it is not there, or not for us to see
            if trouble := modes.not_ours(each.path):
                yield Finding("unsafe", *trouble)


def _wider(path: Path, allowed: int, what: str) -> Finding | None:
    try:
        about = path.stat()
        open_ = about.st_mode & modes.CLOSED & ~allowed
        if not open_ or not modes.is_reachable(path.resolve().parent, about.st_uid):
            return None
    except OSError:  # it is not there, or not for us to see
        return None
    who = "everybody on this machine" if open_ & 0o007 else "its group"
    taken = "o" if allowed else "go"
    return Finding(
        "unsafe" if open_ & 0o007 or (not stat.S_ISREG(about.st_mode) and "sandbox" in what) else "warning",
        f"{who} can {what} {path} (mode {stat.S_IMODE(about.st_mode):03o})",
        f"chmod {taken}= {shlex.quote(str(path))}",
    )


def _kept(url: str, config: Config | None) -> Iterator[Path]:
    """The store's files, and the configuration that names a password; what applications keep is theirs to say."""
    if url.startswith("sqlite:"):
        from custody.kernel.stores.sqlite.file_address import MEMORY, file_of

        if (file := file_of(url)) != MEMORY:
            yield from (Path(f"{file}{part}").absolute() for part in ("", "-wal", "-shm"))
    if config is not None and re.search(r"://[^/@]*:[^/@]+@", config.store):  # a password
        yield config.home / "custody.toml"
