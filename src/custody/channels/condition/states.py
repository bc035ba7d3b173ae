"""How a channel stands, in one word and one sentence, the worst first. Pure: the same for every way of running.

What goes wrong with a channel is written into its item as its *trouble*: what, what was answered, since when, how
often, and when it is tried again. A sync never ends as failed for what a service says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from custody.channels.context import ASKED
from custody.channels.crawl import due, trust
from custody.channels.crawl.coverage import Coverage

MINUTE, HOUR = 60 * 1_000_000, 3_600 * 1_000_000
WORST_FIRST = (
    "token",
    "no-intent",
    "brake",
    "damaged",
    "not-added",
    "failing",
    "hidden",
    "unreadable",
    "gone",
    "gaps",
    "owed",
    "files",
    "behind",
    "unlisted",
    "whole",
)
ALARMING = frozenset(WORST_FIRST[:7])  # a run that leaves one of these ends with 1
SET_ASIDE = frozenset({"unreadable", "gone", "unlisted"})  # told once as an error, by the run that found it
PAUSES: Mapping[str, Sequence[int]] = {  # before it is tried again; the last one for ever
    "token": (60 * MINUTE,),
    "unreadable": (HOUR, 6 * HOUR, 24 * HOUR),
    "gone": (HOUR, 6 * HOUR, 24 * HOUR),
    "hidden": (MINUTE, 10 * MINUTE, HOUR, 6 * HOUR),
    "failing": (MINUTE, 2 * MINUTE, 10 * MINUTE, HOUR, 6 * HOUR),
}
UNLISTED = "threads_unlisted"  # of an item: why some of its archived threads are in no list
TIED = "threads_tied"  # and a moment at which more of them were archived than any list can show
TRIES = 3  # the same trouble so often, or for an hour, is failing

Trouble = Mapping[str, Any]


MOST_SAID = 300  # characters of what went wrong


def trouble(known: Any, what: str, said: str, now: int) -> dict[str, Any]:
    """What is written down when something went wrong, or wrong again."""
    same = known if isinstance(known, Mapping) and known.get("what") == what else {}
    tries = int(same.get("tries", 0)) + 1
    pauses = PAUSES[what]
    then = now + pauses[min(tries, len(pauses)) - 1]
    since = str(same.get("since") or trust.stamp(now))
    return {"what": what, "said": said[:MOST_SAID], "since": since, "tries": tries, "next": trust.stamp(then)}


def is_due(known: Any, now: int) -> bool:
    """Is it time to try again what went wrong?"""
    if not isinstance(known, Mapping) or not known.get("next"):
        return False
    return due.has_come(known["next"], now, PAUSES.get(str(known.get("what")), (24 * HOUR,))[-1])


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the state of a channel follows from."""

    detail: Mapping[str, Any]
    coverage: Coverage
    now: int
    failed: Sequence[int] = ()  # jobs of it that ended as failed
    busy: bool = False  # something is queued or under way
    owed: int = 0  # parts of it that have to be looked at again
    damaged: int = 0
    lost_parts: int = 0  # that were damaged: of which only what the channel shows could be fetched again
    unread: str = ""  # what cannot be read of it just now
    wanted: int = 0  # files that could not be had yet
    lost: int = 0  # those that were lost since somebody last looked
    foreign: int = 0  # and those that are at places where nobody asks
    no_intent: bool = False
    blank: int = 0  # parts that are shown without the text that is kept of them


@dataclass(frozen=True, slots=True)
class State:
    word: str
    sentence: str
    lost: int = 0  # files that are lacking and not to be had: no time mends that
    wanted: int = 0  # and those that may still be had

    @property
    def known_as(self) -> str:
        """What an earlier run that left it so has told already."""
        return f"{self.word} {self.lost}" if self.word == "files" else self.word

    @property
    def waits(self) -> bool:
        """Will it be whole by itself, in time?"""
        return self.word not in ("whole", *SET_ASIDE) and not (self.word == "files" and not self.wanted)

    @property
    def alarming(self) -> bool:
        return self.word in ALARMING


def state_of(facts: Facts) -> State:
    """The worst that can be said of a channel."""
    told = facts.detail.get("trouble")
    trouble = told if isinstance(told, Mapping) and told.get("what") else {}
    sentences = {
        "token": _troubled(trouble, "token", "the bot's token is refused", "put the right one into the token file"),
        "no-intent": _no_intent(facts),
        "brake": _brake(facts),
        "damaged": damage_said(facts),
        "not-added": _not_added(facts, trouble),
        "failing": _failing(facts, trouble),
        "hidden": _troubled(trouble, "hidden", "it shows no messages at all", "may the bot read its history?"),
        "unreadable": _troubled(trouble, "unreadable", "we may not read it", "give the bot back its permission"),
        "gone": _troubled(trouble, "gone", "it is not there any more", "what was fetched is kept"),
        "gaps": _if(facts.coverage.gaps, f"{_gaps(facts.coverage)} not fetched yet: `custody channel gaps` shows them"),
        "owed": _if(facts.owed, _owed(facts)) or _unlisted(facts),
        "files": _files(facts),
        "behind": _behind(facts, trouble),
        "unlisted": _tied(facts),
    }
    word = next((one for one in WORST_FIRST if sentences.get(one)), "whole")
    return State(word, sentences.get(word) or "kept up to date", facts.lost + facts.foreign, facts.wanted)


def _if(condition: object, sentence: str) -> str:
    return sentence if condition else ""


def _no_intent(facts: Facts) -> str:
    if facts.no_intent or not facts.blank:
        return _if(facts.no_intent, "the bot lacks the message content intent: switch it on in the portal")
    return (
        f"{_parts(facts.blank)} shown without the text that is kept of it, though nobody edited it{_tried(facts)}; "
        "what is kept stays: has the bot the message content intent? If they were truly emptied: "
        "`custody channel believe --blank`"
    )


def _gaps(coverage: Coverage) -> str:
    return _parts(len(coverage.gaps))


def damage_said(facts: Facts) -> str:
    """What is damaged of it, or was and may be lost; empty if nothing is."""
    noted = facts.detail.get("damage") or {}
    mends = "`custody channel verify --mend` tries now"
    if facts.unread:
        return f"it cannot be read here ({facts.unread}); {mends}"
    if noted:
        return f"damaged here since {noted.get('since')} ({noted.get('said')}){_tried(facts)}; {mends}"
    if facts.damaged:
        return f"{_parts(facts.damaged)} damaged here{_tried(facts)}; {mends}"
    if not facts.lost_parts:
        return ""
    return (
        f"{facts.lost_parts} part{'s' if facts.lost_parts > 1 else ''} of it could not be read any more; what the "
        "channel still shows was fetched again, earlier versions and what was deleted there may be lost: "
        "`custody channel gaps` says which, `custody channel accept-loss` that you know"
    )


def _owed(facts: Facts) -> str:
    return f"{_parts(facts.owed)} to be fetched again{_tried(facts)}; `custody channel gaps` says why"


def _unlisted(facts: Facts) -> str:
    why = facts.detail.get(UNLISTED)
    return _if(why, f"some of its archived threads cannot be listed ({why}); what messages say of them is looked into")


def _tied(facts: Facts) -> str:
    moment = facts.detail.get(TIED)
    told = f"of its threads more than a page were archived at {moment}, and no list shows all of those"
    return _if(moment, f"{told}; its messages' are kept, others are found once somebody writes in them")


def _parts(count: int) -> str:
    return f"{count} part{'s' if count > 1 else ''} of it {'are' if count > 1 else 'is'}"


def _tried(facts: Facts) -> str:
    return f"; tried again at {facts.detail['owed_at']}" if facts.detail.get("owed_at") else ""


def _files(facts: Facts) -> str:
    """Wanted ones come first: they may still be had."""
    told, parts = facts.detail, list[str]()
    if facts.wanted:
        parts.append(
            f"{_counted(facts.wanted)} of it could not be had since {told.get('files_since')}; "
            f"tried again at {told.get('files_due')}"
        )
    if facts.lost:
        parts.append(f"{_counted(facts.lost)} of it {'are' if facts.lost > 1 else 'is'} lost")
    if facts.foreign:
        named = told.get("files_hosts") or ("elsewhere",)
        parts.append(
            f"{_counted(facts.foreign)} of it {'are' if facts.foreign > 1 else 'is'} at places that nobody asks "
            f"({', '.join(map(str, named))}): `media_hosts` in [channels] names more of them"
        )
    listed = "; `custody channel verify` lists them" if facts.lost or facts.foreign else ""
    return "; ".join(parts) + listed


def _counted(count: int) -> str:
    return f"{count} file{'s' if count > 1 else ''}"


def _not_added(facts: Facts, trouble: Trouble) -> str:
    """Somebody asked for it and the service does not show it: that needs a person, unless it may be soon."""
    if facts.detail.get("mirrored") != ASKED or not trouble:
        return ""
    if trouble["what"] == "failing" and not _failing(facts, trouble):
        return ""
    hint = "is the number right, and the bot a member of its server? `custody channel remove` forgets it"
    return f"it could not be added ({trouble['said']}); tried again at {trouble['next']}; {hint}"


def _troubled(trouble: Trouble, what: str, plainly: str, hint: str) -> str:
    if trouble.get("what") != what:
        return ""
    return f"{plainly} since {trouble['since']} ({trouble['said']}); tried again at {trouble['next']}; {hint}"


def _brake(facts: Facts) -> str:
    waiting = facts.detail.get("brake") or 0
    return _if(
        waiting,
        f"{waiting} messages are gone there, too many to erase without a word of yours: "
        "`custody channel believe` or `disbelieve`",
    )


def _failing(facts: Facts, trouble: Trouble) -> str:
    if facts.failed:
        named = ", ".join(map(str, facts.failed))
        return f"job {named} has ended as failed; `custody job resume {facts.failed[0]}` tries again"
    if trouble.get("what") != "failing":
        return ""
    old = facts.now - trust.moment(str(trouble["since"])) >= HOUR
    return (
        _troubled(trouble, "failing", "syncs fail", "`custody channel sync` tries now")
        if (old or int(trouble["tries"]) >= TRIES)
        else ""
    )


def _behind(facts: Facts, trouble: Trouble) -> str:
    if trouble:
        return f"the last try met with {trouble['said']}; tried again at {trouble['next']}"
    if facts.busy:
        return "something is being fetched"
    if facts.detail.get("round"):
        return ""
    if facts.coverage.upto:
        return "an earlier version fetched it: every message is to be seen again, and the next run does that"
    return "it was not synced yet"
