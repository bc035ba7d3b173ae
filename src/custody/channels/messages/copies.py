"""Copies of other messages that a service puts into one: a reply brings along what it replies to.

They are not kept. A message is erased with everything that is here of it, and a copy in somebody else's reply would
outlive it; the reply names it by its number, which is enough. A forward is different: what it shows is its own content.
Archives that were written before hold copies: readers leave them out, and an erasure takes them out of the lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

REPLIED_TO: Final = "referenced_message"
RESOLVED: Final = "resolved"  # what a command of a menu was given: also messages, by their numbers

Raw = Mapping[str, Any]


def own(raw: Raw) -> Raw:
    """A message without copies of others; the very same where it has none."""
    resolved = raw.get(RESOLVED)
    menu = isinstance(resolved, Mapping) and "messages" in resolved
    if REPLIED_TO not in raw and not menu:
        return raw
    plain = {name: value for name, value in raw.items() if name != REPLIED_TO}
    if isinstance(resolved, Mapping) and menu:
        plain[RESOLVED] = {name: value for name, value in resolved.items() if name != "messages"}
    return plain


def own_line(line: bytes) -> bytes:
    """The same for a line as it is kept; most have none, and are left as they came."""
    if b'"referenced_message"' not in line and b'"resolved"' not in line:
        return line
    raw = json.loads(line)
    plain = own(raw) if isinstance(raw, dict) else raw
    return line if plain is raw else written(plain)


def written(raw: Raw) -> bytes:
    try:
        return json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a character, which only an escape can carry
        return json.dumps(raw, separators=(",", ":")).encode()


def copied(line: bytes) -> Iterator[int]:
    """Which messages this line has copies of."""
    if own_line(line) is line:
        return
    raw = json.loads(line)
    resolved = raw.get(RESOLVED)
    inside = resolved.get("messages") if isinstance(resolved, dict) else None
    for one in (raw.get(REPLIED_TO), *(inside.values() if isinstance(inside, dict) else ())):
        told = str(one.get("id", "")) if isinstance(one, dict) else ""
        if told.isascii() and told.isdigit():
            yield int(told)
