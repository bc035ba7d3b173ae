"""What a token of a role that is no more could be made: each way in the words of `custody token narrow`.

A token had the role for one use, and only its owner knows which. What else the token gives stays in every one of them,
and none gives anything that the token did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from custody.kernel.access.caller import ALL, IN
from custody.kernel.access.granting import Token
from custody.kernel.access.rights import HOOK, ONCE

MOST_ARCHIVES: Final = 3


def smaller(token: Token, archives: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """For each use that the token could have: what it is, and the arguments that narrow the token to it."""
    split = [role for role in token.roles if role.partition(IN)[0] in ONCE.get(token.was, ())]
    rest = [word for role in token.roles if role not in split for word in ("--to", role)]
    yield "if it submits", [*(word for role in split for word in ("--to", role)), *rest]
    within = _collections(token, split)
    told = [name for name in archives if (within is None or name in within) and name.strip() == name]
    for name in told[:MOST_ARCHIVES]:
        yield f"if it is the hook of {name}", ["--to", HOOK, *rest, "--archive", name]
    if ALL in token.collections and any(IN not in role for role in split):
        yield "if it scrapes", ["--to", "metrics", *rest]


def _collections(token: Token, split: Sequence[str]) -> frozenset[str] | None:
    """Where the role counted; None: everywhere."""
    single = frozenset(role.partition(IN)[2] for role in split if IN in role)
    if all(IN in role for role in split):
        return single
    return None if ALL in token.collections else frozenset(token.collections) | single
