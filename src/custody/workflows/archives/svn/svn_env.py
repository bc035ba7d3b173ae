"""Which file tells the hooks of a Subversion repository their variables: a gate without them may say something else.

It is `conf/hooks-env`, or what `hooks-env` in `conf/svnserve.conf` names. Ours is the only svnserve.conf that is heeded
where commits are made, so what the owner's says of it is read here.
"""

from __future__ import annotations

import configparser
import os
from pathlib import Path

from custody.formats.names import shown
from custody.workflows.archives.git.git_settings import Unseen, text_of

ELSEWHERE = "hooks get their variables from"
_UNREADABLE = "conf/svnserve.conf, which may name the file with variables of its hooks, cannot be read"


def variables_of(repository: Path) -> Path:
    """The file, there or not. `Unseen` if it is not seen where commits are made."""
    conf = repository / "conf"
    file = conf / (_named(conf / "svnserve.conf", repository) or "hooks-env")
    real, inside = os.path.realpath(file), os.path.realpath(repository)
    if os.path.lexists(file) and not Path(real).is_relative_to(inside):
        raise Unseen(f"its {ELSEWHERE} {shown(real)}, which is not seen where commits are made")
    if "\n" in real or "%(" in real:
        raise Unseen(f"its {ELSEWHERE} {shown(real)}, a name that svnserve's settings cannot hold")
    return Path(real)


def _named(file: Path, repository: Path) -> str:
    said = configparser.ConfigParser(interpolation=None, strict=False, comment_prefixes=("#",), allow_no_value=True)
    try:
        said.read_string(text_of(file, 0, os.lstat(repository).st_uid))
    except (configparser.Error, OSError):
        raise Unseen(_UNREADABLE) from None
    for section in said.sections():
        if section.lower() == "general" and (value := said.get(section, "hooks-env", fallback="")):
            if "%(" in value:  # Subversion puts another option in its place
                raise Unseen(_UNREADABLE)
            return value.strip()
    return ""
