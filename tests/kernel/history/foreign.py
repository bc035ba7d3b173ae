"""Documents as others write them, taken over into a history that is only a dictionary, or a real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from custody.formats.premis.reader import read_premis
from custody.kernel.history.exchange.habits import Habits
from custody.kernel.history.exchange.identity import Naming
from custody.kernel.history.exchange.premis_import import Source, Taken, take_over
from custody.kernel.model.event import Event, NewEvent

LOCAL = Naming(ours=frozenset({"local"}))


def taken(
    *documents: bytes | str,
    naming: Naming = LOCAL,
    habits: Habits | None = None,
    history: Mapping[str, Sequence[Event]] | None = None,
    origin: str = "custody",
) -> Taken:
    """What an import of these documents would write."""
    data = [each.encode() if isinstance(each, str) else each for each in documents]
    return take_over(
        [Source(f"{number}.xml", read_premis(each)) for number, each in enumerate(data, 1)],
        naming=naming,
        habits=habits or Habits(),
        kept_name=lambda name: name,
        history=lambda item: (history or {}).get(item, ()),
        origin=origin,
    )


def written(new: Sequence[NewEvent], at: int = 1_790_000_000_000_000, first: int = 1) -> dict[str, list[Event]]:
    """The history of each item once these are recorded; the store's own clock says when."""
    found: dict[str, list[Event]] = {}
    for each in new:
        events = found.setdefault(each.item, [])
        seq = len(events) + first
        events.append(Event(seq, f"item/{each.item}", seq, each.type, each.outcome, each.agent, at, each.detail))
    return found


def event(inside: str = "", *, namespace: str = "http://www.loc.gov/premis/v3", **parts: str) -> str:
    """One event: `id`, `kind` of the identifier, `type` and `at` as given, and the rest as it stands."""
    return (
        f'<event xmlns="{namespace}"><eventIdentifier><eventIdentifierType>{parts.get("kind", "local")}'
        f"</eventIdentifierType><eventIdentifierValue>{parts.get('id', '1')}</eventIdentifierValue></eventIdentifier>"
        f"<eventType>{parts.get('type', 'ingestion')}</eventType>"
        f"<eventDateTime>{parts.get('at', '2026-03-01T00:00:00Z')}</eventDateTime>{inside}</event>"
    )


def outcome(word: str, *details: str) -> str:
    inside = "".join(f"<eventOutcomeDetail>{each}</eventOutcomeDetail>" for each in details)
    return f"<eventOutcomeInformation><eventOutcome>{word}</eventOutcome>{inside}</eventOutcomeInformation>"


def link(what: str, kind: str, value: str, *roles: str) -> str:
    """`what`: linkingObject, linkingAgent, linkingEvent, object, agent."""
    told = "".join(f"<{what}Role>{role}</{what}Role>" for role in roles)
    return (
        f"<{what}Identifier><{what}IdentifierType>{kind}</{what}IdentifierType>"
        f"<{what}IdentifierValue>{value}</{what}IdentifierValue>{told}</{what}Identifier>"
    )


def about(kind: str, value: str, *roles: str) -> str:
    return link("linkingObject", kind, value, *roles)


def thing(*identifiers: tuple[str, str], inside: str = "") -> str:
    """An object with these identifiers."""
    named = "".join(link("object", *each) for each in identifiers)
    return (
        '<object xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="intellectualEntity">'
        f"{named}{inside}</object>"
    )


def premis(*parts: str) -> str:
    return f'<premis xmlns="http://www.loc.gov/premis/v3" version="3.0">{"".join(parts)}</premis>'
