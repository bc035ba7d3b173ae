"""What makes another version of a message, and what merely changes: pure decisions about two sights of one message.

The *core* is what somebody wrote: a difference there is a version, whatever the edit mark says. Everything else that
a service tells (reactions, previews of links, pins, poll results, the thread) changes without anybody editing; that is
kept as last seen, in a table of its own (`seen`). Links with signatures, names and pictures of people are neither.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from custody.channels.messages.copies import own_line
from custody.channels.table.node import Lines

SIGNED = frozenset({"ex", "is", "hm"})  # what Discord puts behind a link, and renews with every look
LINKS = frozenset({"url", "proxy_url", "proxy_icon_url", "icon_url"})
IGNORED = frozenset({"id", "channel_id", "author", "mentions", "member", "referenced_message", "nonce"})
_OF_ATTACHMENTS = ("id", "filename", "size", "description")
_OF_POLLS = ("question", "answers", "expiry")
_PLAIN = ("type", "content", "edited_timestamp", "message_reference", "webhook_id", "application_id")

Raw = Mapping[str, Any]


def core(raw: Raw) -> dict[str, Any]:
    """What somebody wrote, without what surrounds it. A field that is empty is as one that is not there."""
    author, poll = raw.get("author"), raw.get("poll")
    found = {name: raw.get(name) for name in _PLAIN} | {
        "attachments": _parts(raw.get("attachments"), _OF_ATTACHMENTS),
        "stickers": _parts(raw.get("sticker_items"), ("id",)),
        "snapshots": [_snapshot(one) for one in _listed(raw.get("message_snapshots"))],
        "poll": _parts([poll], _OF_POLLS) if isinstance(poll, Mapping) else poll,
        "components": _without_links(raw.get("components")),
        "author": author.get("id") if isinstance(author, Mapping) else author,
    }
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def newer(old: Raw, new: Raw) -> bool:
    """Is this another version?"""
    return core(old) != core(new)


def merged(lines: Lines, line: bytes) -> Lines:
    """A message's versions with one more sight of it: it is put where its edit mark says, behind those of the same.

    So what is shown again is the newest again. What was seen without its content gives way to the same message with it,
    and never comes in its place. Copies of other messages are left out, also of what was kept before.
    """
    lines, line = tuple(map(own_line, lines)), own_line(line)
    raw, known = json.loads(line), [(one, json.loads(one)) for one in lines]
    if any(blanked(old, raw) for _, old in known):
        return lines
    kept = [(one, old) for one, old in known if not blanked(raw, old)]
    same = [one for one, old in kept if not newer(old, raw)]
    others = [one for one, _ in kept if one not in same]
    return tuple(sorted((*others, same[-1] if same else line), key=edited_at))


def edited_at(line: bytes) -> str:
    """When this version of a message was made, in the service's own words: one form, one zone, so that they sort."""
    return str(json.loads(line).get("edited_timestamp") or "")


def hollow(raw: Raw) -> bool:
    """Nothing of it can be seen: it is empty, or the bot lacks the message content intent. Only the intent tells."""
    shown = ("content", "embeds", "attachments", "components", "poll", "sticker_items", "message_snapshots")
    return not any(raw.get(name) for name in shown)


def blanked(full: Raw, empty: Raw) -> bool:
    """Is the second the first without its text? Whoever empties a message edits it, and that leaves a mark."""
    if full.get("edited_timestamp") != empty.get("edited_timestamp"):
        return False
    return bool(full.get("content") and not empty.get("content")) or (hollow(empty) and not hollow(full))


def unsigned(value: Any) -> Any:
    """The same without what changes in a link from look to look."""
    if isinstance(value, Mapping):
        return {key: _plain_link(one) if key in LINKS else unsigned(one) for key, one in value.items()}
    return [unsigned(one) for one in value] if isinstance(value, list) else value


def _plain_link(link: Any) -> Any:
    if not isinstance(link, str) or "?" not in link:
        return unsigned(link)
    try:
        parts = urlsplit(link)
        kept = [(name, told) for name, told in parse_qsl(parts.query, keep_blank_values=True) if name not in SIGNED]
    except ValueError:
        return link
    return urlunsplit(parts._replace(query=urlencode(kept)))


def _without_links(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_links(one) for key, one in value.items() if key not in LINKS}
    return [_without_links(one) for one in value] if isinstance(value, list) else value


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _parts(value: Any, names: tuple[str, ...]) -> list[Any]:
    return [
        {name: one[name] for name in names if one.get(name) is not None} if isinstance(one, Mapping) else one
        for one in _listed(value)
    ]


def _snapshot(one: Any) -> Any:
    message = one.get("message") if isinstance(one, Mapping) else None
    if not isinstance(message, Mapping):
        return one
    return [message.get("content"), _parts(message.get("attachments"), ("id",))]
