"""Who may do what, said a second time by hand: what the program is compared with. Nothing here is taken from it."""

from __future__ import annotations

from dataclasses import dataclass

SUBMIT = {"submitter", "operator", "admin"}
LOOK = {"reader", "operator", "admin"}
ACT = {"operator", "admin"}
MAY = {
    "submit": SUBMIT,
    "key": SUBMIT,
    "need": SUBMIT,
    "schedule": ACT,
    "bulk": ACT,
    "act": ACT,
    "read": LOOK | {"submitter"},
    "list": LOOK | {"submitter"},
}
NO_RIGHT, WHO, NOT_THERE, CLOSED = "no right", "who are you", "not there", "closed"


@dataclass(frozen=True)
class Somebody:
    role: str  # or nobody, or the owner of the store, who has the command line
    everywhere: bool = False  # else in one collection


def word(who: Somebody, way: str, sort: str, where: str) -> str:
    """What becomes of it: a job of this sort (open, unknown, an application's), in this collection (own, foreign, none), wished for in this way. Jobs that
    are there already were made by somebody else."""
    if way == "command":
        return CLOSED if sort == "application" else "made"  # whoever has the store may submit before a worker comes
    if who.role == "nobody":
        return WHO
    if who.role not in MAY[way] or (way == "schedule" and not who.everywhere):
        return NO_RIGHT
    if way == "schedule":  # it belongs to no collection
        return "made" if sort == "open" else CLOSED
    if not (who.everywhere or where == "own"):
        return NOT_THERE
    if way in ("submit", "key") and sort != "open":
        return CLOSED
    if who.role == "submitter" and way != "submit":  # sees what it made, and nothing else
        return "taken" if way == "key" else NOT_THERE
    return {
        "submit": "made",
        "need": "made",
        "key": "the same",
        "bulk": "may",
        "act": "done",
        "read": "shown",
        "list": "shown",
    }[way]
