"""What lies in a folder that a sandbox has left: looked through, kept as far as it may be, and cleared away.

A program may nest folders deeper than a path is long, take away its own rights to them, or have somebody beside it who
changes names while we look. None of that is a surprise: what cannot be kept is told as left out, with the reason.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from custody.border import modes
from custody.border.below import FOLDER, opened_at
from custody.border.copy_out import Allowance, LeftOut, cannot_write, copy_file
from custody.border.file_types import sort

_WORDS = {
    errno.ENOENT: "it vanished while we looked",
    errno.ENOTDIR: "it changed while we looked",
    errno.ELOOP: "it is a link, not a file",
    errno.ENXIO: "it is a pipe, a socket or a device, not a file",
    errno.EACCES: "it cannot be read",
    errno.ENAMETOOLONG: "its path is too long",
}
_CLEAR_SECONDS = 600.0
CHMOD, RM = ("/bin/chmod", "-R", "u+rwX", "--"), ("/bin/rm", "-rf", "--")


def files(folder: Path) -> dict[str, str]:
    """All that lies there but folders, by name, sorted; each with why it cannot be kept, which of a file is nothing."""
    return dict(sorted(_walk(str(folder))))


def _walk(top: str) -> Iterator[tuple[str, str]]:
    waiting = [""]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(os.path.join(top, here)) as entries:
                for entry in entries:
                    name = os.path.join(here, entry.name)
                    why = _judged(entry)
                    if why is None:
                        waiting.append(name)
                    else:
                        yield name, why
        except OSError as error:
            if here:
                yield here, words(error)


def _judged(entry: os.DirEntry[str]) -> str | None:
    """Why it cannot be kept, if anything; None of a folder."""
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError as error:
        return words(error)
    if stat.S_ISDIR(mode):
        return None
    return f"it is {odd}, not a file" if (odd := sort(mode)) else ""


def words(error: OSError) -> str:
    """Why something could not be kept."""
    return _WORDS.get(error.errno or 0, f"it cannot be read: {error.strerror}")


def keep(folder: Path, names: Iterable[str], into: Path, allowance: Allowance) -> dict[str, str]:
    """Copy these files; each that could not be, with the reason. What is kept has none of the rights that were given to
    it there: neither set-uid nor anybody's to write."""
    left_out: dict[str, str] = {}
    top = os.open(folder, FOLDER)
    try:
        for name in names:
            try:
                source = opened_at(top, name)
            except OSError as error:
                left_out[name] = words(error)
                continue
            try:
                _make_folders(into, name)
                copy_file(source, into / name, allowance)
                os.chmod(into / name, modes.of_shown_file())
            except LeftOut as why:
                left_out[name] = str(why)
            finally:
                os.close(source)
    finally:
        os.close(top)
    return left_out


def _make_folders(into: Path, name: str) -> None:
    parts = name.split("/")[:-1]
    for depth in range(len(parts) + 1):
        folder = into.joinpath(*parts[:depth])
        try:
            folder.mkdir(parents=True)
            folder.chmod(modes.of_shown_folder())
        except FileExistsError:
            if not folder.is_dir():
                raise LeftOut(_WORDS[errno.ENOTDIR]) from None
        except OSError as error:
            raise cannot_write(error) from error


def clear(folder: Path) -> bool:
    """Remove it with all that is in it; False if something is left. Where it lies too deep for us, or has no rights,
    the system's own tools do it."""
    for _ in range(3):  # somebody may be writing into it still
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            pass
        except (OSError, RecursionError):
            _clear_deep(folder)
        if not os.path.lexists(folder):
            return True
    return False


def _clear_deep(folder: Path) -> None:
    with suppress(OSError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            folder.unlink()
    for tool in (CHMOD, RM):
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*tool, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_CLEAR_SECONDS,
            )
