"""A grant: an operator's word that something may have what it asks for.

Whoever can commit writes what a task asks for, whoever writes a label what a robot asks for; neither can say yes.
"""

from __future__ import annotations

from dataclasses import dataclass

NETWORK, SECRET, REPOSITORY, COLLECTION, HOOKS = "network", "secret", "repository", "collection", "hooks"
WHAT = (NETWORK, SECRET, REPOSITORY, COLLECTION, HOOKS)
"""What can be granted: a way to a host, a secret, the reading of a repository that somebody else owns, one collection
with deposits of the same name, a folder that the repository's hooks may read."""


@dataclass(frozen=True, slots=True)
class Grant:
    id: int
    subject: str  # to whom: archive/NAME
    what: str
    value: str  # how it reads depends on what it is
    by: str
    why: str
    at: int
    ended: int | None  # when it was withdrawn
