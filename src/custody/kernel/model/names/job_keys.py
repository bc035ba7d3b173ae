"""Keys: the same key and payload again give the same job. Some are the system's own, and nobody else can give one.

A caller's `Idempotency-Key` becomes a key that holds who the caller is; a slot of a schedule becomes one that holds the
slot. Could such a key be guessed and given by somebody else, the work that it stands for would be swallowed. So keys
that begin with ~ are made here and nowhere else: they are a type of their own, and the store takes no other text that
begins so, whichever door it came by.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from custody.errors import BadInput

OURS: Final = "~"
LONGEST_KEY: Final = 500
"""Characters of a key that somebody outside gives."""


class OwnKey(str):
    """A key that the system made; never one that somebody has given."""

    __slots__ = ()


def callers_key(identity: str, given: str) -> OwnKey:
    """A caller's own key: another's same key is another key, whatever the two are called."""
    return OwnKey(f"{OURS}{identity}/{given}")


def slot_key(schedule: str, slot: int) -> OwnKey:
    """Of what comes of one slot. No caller's identity is `schedule`: theirs say which token or person they are."""
    return OwnKey(f"{OURS}schedule/{schedule}@{slot}")


def named(key: str | None) -> str:
    """A key in a sentence to whoever gave it; one that the system made says nothing to them."""
    return f"the key {key!r}" if key and not key.startswith(OURS) else "this key"


def check_key(key: str | None) -> None:
    """Refuse a key that only the system makes, and one that is empty: whoever gave it believes to have given one."""
    if key == "":
        raise BadInput(
            "this key is empty",
            code="key.form",
            where="job key",
            hint="leave the key out if there is none; is the variable that holds it set?",
        )
    if key is not None and key.startswith(OURS) and not isinstance(key, OwnKey):
        raise BadInput(
            f"a key does not begin with {OURS}",
            code="key.form",
            where="job key",
            hint="such keys are made by the system itself: leave the sign out",
        )


IsFree: TypeAlias = Callable[[str], bool]
"""Is a kind nobody's, so that whoever is outside may ask for it?"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with its caller's own key, and all that it says."""

    key: OwnKey
    fingerprint: str


def asked(key: OwnKey, what: str, said: Mapping[str, Any]) -> Asked:
    """One with everything that was said, and where: the same words are another request at another door."""
    told = json.dumps([what, said], sort_keys=True, ensure_ascii=False)
    return Asked(key, hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest())
