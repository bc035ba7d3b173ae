"""A job's number as people write it. Most are plain numbers; one that is kept in a tree has the name of its node there.

The engine knows jobs by number: a first digit says which family, the ten that follow are the node's own.
"""

from __future__ import annotations

from custody.errors import BadInput

BATCH_FAMILY, JOB_FAMILY = 10**10, 2 * 10**10


def batch_name(number: int) -> str:
    return f"bid{number:010d}"


def job_name(number: int) -> str:
    return f"jid{number:010d}"


def id_of(name: str) -> int:
    """The engine's number for bid… or jid…"""
    families = {"bid": BATCH_FAMILY, "jid": JOB_FAMILY}
    if name[:3] not in families or not name[3:].isdigit() or len(name) != 13:
        raise BadInput(f"{name!r} is neither a batch nor a job", code="tree.name", hint="bid0000000001, jid0000000001")
    return families[name[:3]] + int(name[3:])


def name_of(number: int) -> str:
    """The node's name for the engine's number."""
    family, rest = divmod(number, BATCH_FAMILY)
    return {1: batch_name, 2: job_name}[family](rest)


def in_tree(number: int) -> bool:
    return BATCH_FAMILY <= number < JOB_FAMILY + BATCH_FAMILY


def shown(number: int) -> str:
    """As people know it: by its name, if it is in the tree."""
    return name_of(number) if in_tree(number) else str(number)
