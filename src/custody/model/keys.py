"""Keys: the same key and payload again give the same job. Some are the system's own, and nobody else can give one.

A caller's `Idempotency-Key` becomes a key that holds who the caller is; a slot of a schedule becomes one that holds the
slot. Could such a key be guessed and given by somebody else, the work that it stands for would be swallowed. So keys
that begin with ~ are made here and nowhere else: they are a type of their own, and the store takes no other text that
begins so, whichever door it came by.
"""

from __future__ import annotations

from typing import Final

from custody.model.errors import BadInput

OURS: Final = "~"


class OwnKey(str):
    """A key that the system made; never one that somebody has given."""

    __slots__ = ()


def callers_key(identity: str, given: str) -> OwnKey:
    """A caller's own key: another's same key is another key, whatever the two are called."""
    return OwnKey(f"{OURS}{identity}/{given}")


def slot_key(schedule: str, slot: int) -> OwnKey:
    """Of what comes of one slot. No caller's identity is `schedule`: theirs say which token or person they are."""
    return OwnKey(f"{OURS}schedule/{schedule}@{slot}")


def check_key(key: str | None) -> None:
    """Refuse a key that only the system makes."""
    if key is not None and key.startswith(OURS) and not isinstance(key, OwnKey):
        raise BadInput(
            f"a key does not begin with {OURS}", code="key.form", where="job key",
            hint="such keys are made by the system itself: leave the sign out",
        )  # fmt: skip
