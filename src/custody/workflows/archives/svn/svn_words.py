"""What Subversion says, in our words: its codes are stable, its sentences are not, and can hold bytes of files that are
none of the reader's business. Those are for the log."""

from __future__ import annotations

import logging
import re

from custody.errors import CustodyError, NotFound, Refused, Unavailable
from custody.formats.names import shown

_ABSENT = {
    "160013",  # path not found
    "160005",  # not a path that could exist
    "200009",  # some targets do not exist
    "170000",  # address does not exist in this revision
    "160006",  # no such revision
    "150000",  # address does not exist in this revision
    "195012",  # nor does its history
    "160016",  # not a folder
    "200017",  # no such property
    "160017",  # not a file
    "145000",  # neither file nor folder: so a server tells of a path that is not there
}
_CONFLICT = {
    "160024",  # a path was changed by somebody else
    "160028",  # it is out of date
    "170004",  # the same, told by a server
    "155011",
    "160020",  # it is there already
}
_FORBIDDEN = {"170001", "215004"}
_WORDS = {
    "170013": "the server cannot be reached",
    "000111": "the server does not answer",
    "670002": "the name of the server is not known",
    "670003": "the name of the server is not known just now",
    "180001": "there is no repository here",
    "210005": "there is no repository here",
    "210002": "the server ended without an answer",
    "165005": "the format of the repository is not known to Subversion",
    "160043": "the format of the repository's db is not known to Subversion",
    "125006": "the format of the repository's db is not known to Subversion",
    "200002": "a setting of the repository cannot be read: db/fsfs.conf",
    "125009": "a setting of the repository is none: db/fsfs.conf",
    "160004": "the repository is damaged",
    "160052": "the repository is damaged",
    "230001": "the certificate of the server is not known",
    "175012": "the server gave no answer in time",
}
_CODE = re.compile(r"\b[EW](\d{6})\b")
log = logging.getLogger("custody.workflows.svn_words")


def told(said: str, where: str) -> CustodyError:
    """One of our errors."""
    codes = [*dict.fromkeys(_CODE.findall(said))]
    log.info("svn at %s said: %s", where, shown(said, 4000))
    found = set(codes)
    if found & _ABSENT:
        if "160006" in found:
            return NotFound("there is no such revision", code="archive.revision", where=where)
        return NotFound("there is no such path in this revision", code="archive.path", where=where)
    if found & _FORBIDDEN:
        hint = "check the user and the password"
        return Unavailable("the server does not let us in", code="archive.forbidden", where=where, hint=hint)
    if found & _CONFLICT:
        hint = "run the task again at the newer revision"
        return Refused("somebody else has changed the same", code="archive.conflict", where=where, hint=hint)
    if "165001" in found:
        words = shown(said.partition("with output:")[2].strip(), 4000)
        message = f"a hook of the repository refuses the commit{': ' if words else ''}{words}"
        return Refused(message, code="archive.refused", where=where, hint="its owner's hooks decide what is committed")
    why = next((_WORDS[code] for code in codes if code in _WORDS), "Subversion could not answer")
    hint = f"the worker's log has its words ({', '.join(f'E{code}' for code in codes) or 'it named no code'})"
    return Unavailable(why, code="archive.unreachable", where=where, hint=hint)
