"""What the history tells of losses, compared with what is there now: a copy that was put back may bring it all back.

Copies may be put back again and again, and each brings the words of its own time; those that it lacks are carried over
from the store whose place it takes. So a word is known by the time at which it was said first, and later words name
earlier ones by it: which of them somebody has taken note of, and which losses were made good and are lost anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from custody.kernel.model.event import Event

if TYPE_CHECKING:
    from custody.kernel.stores.rows import Tx
    from custody.kernel.stores.store import Store

STORE = "store"
"""The subject of events about the store itself."""
WENT_BACK, RESTORED = "went-back", "restored"
"""Its events: acknowledged moves are unknown here; somebody has taken note of it."""

Has = Callable[[str, str], bool]
"""Is there an event of this subject with this move? Where the move is not known (""), any event of it."""


class Word(Protocol):
    """An event of the store, wherever it was read."""

    @property
    def type(self) -> str: ...
    @property
    def at(self) -> int: ...
    @property
    def detail(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Loss:
    """What a `went-back` tells of and is not there now, nor told of by a later one."""

    event: Event
    at: int  # when it was told first
    subjects: tuple[str, ...]  # of those that it names
    is_known: bool  # somebody has taken note of it


def losses(store: Store) -> list[Loss]:
    """Each loss once, as the last word tells it, in the order of these words."""
    found: list[Loss] = []
    has, noted, knows, anew, told = _has_in(store), False, set[int](), set[int](), set[tuple[str, str]]()
    for event in reversed(list(store.records.all_events(STORE))):
        if event.type == RESTORED:
            noted |= not is_carried(event)
            knows |= set(event.detail.get("knows", ()))
        if event.type != WENT_BACK:
            continue
        is_anew, at = first_said(event) in anew, first_said(event)
        anew |= set(event.detail.get("anew", ()))
        if is_anew or not still_lost(event.detail, has):
            continue
        named = lost_of(event.detail, has)
        fresh = [one for one in named if one not in told or not one[1]]
        told |= set(named)
        if fresh or not named or _tells_of_others(event.detail):
            found.append(Loss(event, at, tuple(subject for subject, _ in fresh), noted or at in knows))
    return found[::-1]


def first_said(word: Word) -> int:
    return int(word.detail.get("noted", word.at))


def is_carried(word: Word) -> bool:
    """Was it said in a store whose place this one has taken?"""
    return "noted" in word.detail


def known_by(words: Sequence[Word], index: int) -> list[int]:
    """Of which losses somebody has said at `index` that they are known: all that were told by then."""
    if is_carried(words[index]):
        return list(words[index].detail.get("knows", ()))
    return [first_said(word) for word in words[:index] if word.type == WENT_BACK]


def made_good(words: Iterable[Word], has: Has) -> list[int]:
    """Which of the losses are there again; where that is lost once more, another word tells it."""
    told = [word for word in words if word.type == WENT_BACK and word.detail.get("missing") != 0]
    return [first_said(word) for word in told if not still_lost(word.detail, has)]


def still_lost(detail: Mapping[str, Any], has: Has) -> bool:
    """Is something missing of what a `went-back` tells of, or is that not known?"""
    if detail.get("missing") == 0:
        return False
    newest = detail.get("newest") or ("", "")
    if newest[1] and has(newest[0], newest[1]):
        return False  # and so is all that came before it
    return bool(lost_of(detail, has)) or not detail["subjects"] or _tells_of_others(detail)


def lost_of(detail: Mapping[str, Any], has: Has) -> list[tuple[str, str]]:
    """Of those that it names, with their moves, those that are not there now."""
    moves = detail.get("moves") or [""] * len(detail["subjects"])
    named = zip(detail["subjects"], moves, strict=False)
    return [(subject, move) for subject, move in named if not has(subject, move)]


def _tells_of_others(detail: Mapping[str, Any]) -> bool:
    """Does it tell of more than it names?"""
    return bool(detail["subjects"]) and len(detail["subjects"]) < (detail.get("jobs") or detail["missing"])


def _has_in(store: Store) -> Has:
    def has(subject: str, move: str) -> bool:
        def look(tx: Tx) -> bool:
            found = tx.run("event_of_move", subject=subject, move=move) if move else None
            return bool(tx.run("events", subject=subject, after=0, limit=1) if found is None else found)

        return store.db.read(look)

    return has
