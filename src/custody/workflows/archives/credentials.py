"""Who we are to a server that asks: a file with the user's name on its first line and the password on its second.

The location of an archive names the file, never what is in it, so nothing of it is in the store, the history, a
command line or a log; `svn` reads the password from a pipe. The file is read anew each time the archive is opened:
a new password needs no restart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from custody.errors import BadInput, NotFound, Unavailable
from custody.workflows.secret_files import read_private

_MARK = "#credentials="


@dataclass(frozen=True, slots=True)
class Credentials:
    username: str = ""
    password: str = field(default="", repr=False)


def with_credentials(location: str, file: Path) -> str:
    """The location of an archive whose server asks who we are."""
    if "://" not in location or location.startswith("file://"):
        raise BadInput(
            "a repository on this machine asks for no password",
            code="credentials.local",
            hint="leave --credentials out",
        )
    read_credentials(file)  # what is wrong with it is told now, not at the first commit
    return f"{location}{_MARK}{file.absolute()}"


def split(location: str) -> tuple[str, Credentials]:
    """The bare address, and who we are there."""
    address, mark, file = location.partition(_MARK)
    if not mark:
        return location, Credentials()
    try:
        return address, read_credentials(Path(file))
    except NotFound as error:  # it may be on its way here, or on another machine
        raise Unavailable(error.message, code=error.code, where=address, hint=error.hint) from None


def read_credentials(file: Path) -> Credentials:
    text = read_private(file, f"file {file} with a name and a password", "credentials")
    lines = text.decode(errors="replace").splitlines()
    if len(lines) != 2 or not all(lines) or not all(line.isprintable() for line in lines):
        raise BadInput(
            f"{file} does not have a name on its first line and a password on its second", code="credentials.form"
        )
    return Credentials(*lines)
