"""What changes about a message without anybody editing it, kept as it was last seen, in a table beside the messages.

A row says only what differs from the newest version that is kept, and when that was asked for:

    {"id":"7","seen":"2026-…","of":"…","reactions":[…],"was":{"embeds":{"seen":"…","value":[…]}},"absent":[…],"gone":{…}}

`of` is the edit mark of the version it lies over: over another one it says nothing. `absent` and `gone` are what the
rules of deletion have written down (see `trust`). Rows are joined, in any order and any number of times, so a writer
that comes late changes nothing. Previews, poll results and threads that are no longer shown stay, under `was`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from custody.channels.blobs.port import Blobs
from custody.channels.crawl import trust
from custody.channels.debts.debts import joined
from custody.channels.messages.copies import written
from custody.channels.messages.versions import IGNORED, core, unsigned
from custody.channels.snowflake import HIGHEST, parse
from custody.channels.table import Found, Settings, Table
from custody.channels.table.node import Lines

FOLDER: Final = "seen"
BLANK_WORD: Final = "blank"  # what an operator said of a text that is shown empty: when, yes or no, who, edit mark
MARKS: Final = ("shown", "absent", "gone", BLANK_WORD)
OURS: Final = frozenset({"id", "seen", "of", "was", *MARKS})  # what is not a field of the message
UNSAID: Final = frozenset({"id", "seen", "of", "shown", BLANK_WORD})  # what no sight changes
LASTING: Final = ("embeds", "poll", "thread")  # these never shrink to nothing
PACKING = 100

Raw = Mapping[str, Any]
Row = dict[str, Any]


def of(blobs: Blobs, channel: int, capacity: int = 1_000) -> Table:
    settings = Settings(capacity=capacity, packing=PACKING, merge=_only, joined=joined)
    return Table(blobs, channel, settings, folder=FOLDER)


# --- Rows ---


def row_of(kept: Raw, have: Raw | None, shown: Raw, asked_at: str) -> Row | None:
    """What is to be written after a message was shown; None if that is nothing.

    `kept` is its newest version here, `have` its row. Marks against a message that is shown are void.
    """
    row: Row = {"id": str(kept["id"]), "seen": asked_at, **_of(kept), **_changes(kept, shown)}
    have = have if have is not None and _lies_over(have, kept) else {**_only_ours(have or {})}
    was = _was(kept, have, shown)
    if was:
        row["was"] = was
    said = {name: value for name, value in row.items() if name not in UNSAID}
    before = {name: value for name, value in have.items() if name not in UNSAID}
    return None if unsigned(said) == unsigned(before) else row


def _changes(kept: Raw, shown: Raw) -> Row:
    """The fields that differ, as they are shown now; null for one that is no longer there."""
    names = sorted((kept.keys() | shown.keys()) - IGNORED - OURS)
    return {name: shown.get(name) for name in names if _differs(name, kept.get(name), shown.get(name))}


def _differs(name: str, kept: Any, shown: Any) -> bool:
    if unsigned(kept) == unsigned(shown) or (kept in (None, [], {}) and shown in (None, [], {})):
        return False
    return name not in ("content", "edited_timestamp", "type")


def _was(kept: Raw, have: Raw, shown: Raw) -> Row:
    """The last full ones of what may not shrink to nothing, and when they were last seen."""
    was = dict(have.get("was") or {})
    for name in LASTING:
        full = have[name] if name in have else kept.get(name)
        if shown.get(name):
            was.pop(name, None)
        elif full:
            was[name] = {"seen": have.get("seen", "") if name in have else "", "value": full}
    return was


def _lies_over(row: Raw, kept: Raw) -> bool:
    return (row.get("of") or "") == (kept.get("edited_timestamp") or "")


def _of(kept: Raw) -> Row:
    return {"of": kept["edited_timestamp"]} if kept.get("edited_timestamp") else {}


def is_believed_blank(row: Raw, edited: str | None = None) -> bool:
    """Has an operator said, and not taken back, that this text is empty there? Of the version with this edit mark."""
    told = row.get(BLANK_WORD)
    if not isinstance(told, list) or len(told) != 4 or told[1] != "yes":
        return False
    return edited is None or told[3] == edited


def _only_ours(row: Raw) -> Row:
    return {name: value for name, value in row.items() if name in OURS}


# --- Joining ---


def merged(old: Raw, new: Raw) -> Row:
    """Both rows as one: what was seen last, the marks that are later than it, and everything that was."""
    last, first = (new, old) if _order(new) >= _order(old) else (old, new)
    seen = str(last.get("seen") or "")
    row = {name: value for name, value in last.items() if name not in (*MARKS, "was")}
    was = _was_joined(last, first)
    return row | ({"was": was} if was else {}) | _marks_joined(old, new, seen)


def _was_joined(last: Raw, first: Raw) -> Row:
    """Of what is no longer shown, what was seen last: also by somebody who came late to write it down."""
    found: Row = {}
    for name in LASTING:
        told = [row["was"][name] for row in (last, first) if name in (row.get("was") or {})]
        told += [{"seen": str(first.get("seen") or ""), "value": first[name]}] if first.get(name) else []
        if told and not last.get(name):
            found[name] = max(told, key=lambda one: (str(one["seen"]), _text(one)))
    return found


def _marks_joined(old: Raw, new: Raw, seen: str) -> Row:
    """Marks against a message count only if they are later than every sight of it."""
    shown = max(str(row.get("shown") or "") for row in (old, new))
    last = max(seen, shown)
    marks = {tuple(one) for row in (old, new) for one in row.get("absent") or () if str(one[0]) > last}
    gone = [row["gone"] for row in (old, new) if row.get("gone") and str(row["gone"].get("since", "")) > last]
    found: Row = {"shown": shown} if shown else {}
    words = [row[BLANK_WORD] for row in (old, new) if row.get(BLANK_WORD)]
    found |= {BLANK_WORD: max(words, key=_text)} if words else {}
    found |= {"absent": [list(one) for one in sorted(marks)]} if marks else {}
    return found | ({"gone": min(gone, key=_text)} if gone else {})


def _order(row: Raw) -> tuple[str, str]:
    """Later sights after earlier ones; of two of one moment any, but always the same."""
    return str(row.get("seen") or ""), _text(
        {name: value for name, value in row.items() if name not in (*MARKS, "was")}
    )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _only(lines: Lines, line: bytes) -> Lines:
    """The table's `merge`: one line, both joined."""
    whole = merged(json.loads(lines[-1]), json.loads(line))
    return lines if whole == json.loads(lines[-1]) else (written(whole),)


# --- Writing ---


def refresh(table: Table, overlay: Table, messages: Iterable[Raw], asked_at: str, latest: str = "") -> int:
    """Note how messages that are kept were shown just now; answers how many rows had something new.

    Both tables are read once, from the first to the last of them; where nothing changed, nothing is written. A row of
    later than `latest` was written by a clock that was ahead: this sight is put behind it, or it would hide all others.
    """
    shown = {parse(raw["id"]): raw for raw in messages}
    if not shown:
        return 0
    first, end = min(shown), max(shown) + 1
    rows = {one.id: one.message for one in overlay.between(first, end) if one.versions}
    kept = (one for one in table.between(first, end) if one.id in shown and one.versions)
    found = [row for one in kept if (row := _noted(one, rows.get(one.id), shown[one.id], asked_at, latest=latest))]
    if found:
        overlay.upsert(found)
    return len(found)


def _behind(have: Raw | None, asked_at: str, latest: str) -> str:
    last = str((have or {}).get("seen") or "")
    return trust.stamp(trust.moment(last) + 1) if latest and last > latest else asked_at


def _noted(kept: Found, have: Raw | None, shown: Raw, asked_at: str, latest: str) -> Row | None:
    newest = kept.message
    if core(newest) != core(shown):  # an older sight than what is kept, or one that could not be kept
        return None
    return row_of(newest, have, shown, _behind(have, asked_at, latest))


# --- Reading ---


def on_top(raw: Raw, row: Raw | None) -> dict[str, Any]:
    """A message as it was last seen: its newest version, with what its row says over it."""
    if row is None or not _lies_over(row, raw):
        return dict(raw)
    changed = {name: value for name, value in row.items() if name not in OURS}
    gone = {name for name, value in changed.items() if value is None}
    return {name: value for name, value in (dict(raw) | changed).items() if name not in gone}


def zipped(
    table: Table, overlay: Table, first: int = 0, end: int = HIGHEST + 1, unknown: list[trust.Span] | None = None
) -> Iterator[tuple[Found, Row | None]]:
    """Every message with its row, oldest first: two ordered streams and no lookups. Rows without a message are none.

    `unknown` gets the parts of which rows cannot be read, before the first message of each comes.
    """
    rows = _rows(overlay, first, end, unknown if unknown is not None else [])
    row = next(rows, None)
    for found in table.between(first, end):
        while row is not None and row.id < found.id:
            row = next(rows, None)
        yield found, row.message if row is not None and row.id == found.id else None


def _rows(overlay: Table, first: int, end: int, unknown: list[trust.Span]) -> Iterator[Found]:
    begun = -1
    for one in overlay.between(first, end):
        if begun >= 0:  # a block that is damaged ends where the next one begins
            unknown.append((begun, one.id - 1))
        begun = one.id if one.damaged and not one.upto else -1
        if one.upto:
            unknown.append((one.id, one.upto))
        elif one.versions:
            yield one
    if begun >= 0:
        unknown.append((begun, end - 1))


Zip = Callable[[int, int], Iterator[tuple[Found, Row | None]]]
