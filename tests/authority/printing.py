"""The rules as a page: a right that has become wider shows in a diff."""

from __future__ import annotations

from authority.matrix import COLLECTIONS, OPEN, UNKNOWN, WAYS, callers, kinds
from authority.rules import Somebody, word
from custody.kernel.access.rights import ROLES

PAGE = "authority.md"
HEAD = """\
# Who may do what

Made by `make reference` from the rules that the program is compared with over HTTP, on both databases, in every cell (`make prove`, row
P4). *own* is a collection of the caller's token, *foreign* another, *none* a job without a collection.

## Roles

| role | may | rights | only for what is its own |
|---|---|---|---|
"""
TITLES = {
    "submit": "Submitting a job: `POST /api/v1/jobs`",
    "schedule": "Setting a schedule: `PUT /api/v1/schedules/NAME`",
    "bulk": "A bulk action: `POST /api/v1/bulk`",
    "command": "The command line on the store: `custody job submit`",
    "need": "Waiting for somebody else's job: `needs`",
    "key": "Using a key that somebody else has used",
    "read": "Reading somebody else's job: `GET /api/v1/jobs/N` and its pages",
    "list": "Finding somebody else's job in lists",
    "act": "Acting on a job: `POST /api/v1/jobs/N/ACTION`",
}


def page() -> str:
    rows = [f"| {name} | {role.says} | {_listed(role.rights)} | {_listed(role.own)} |" for name, role in ROLES.items()]
    parts = [HEAD + "\n".join(rows) + "\n", _kinds(), *(_way(way) for way in WAYS)]
    return "\n".join(parts)


def _listed(rights: frozenset[str]) -> str:
    return ", ".join(f"`{right}`" for right in sorted(rights)) or "-"


def _kinds() -> str:
    closed = ", ".join(f"`{kind}`" for kind in kinds() if kind not in (OPEN, UNKNOWN))
    return (
        "## Kinds\n\nAn *open* kind is one that a worker has offered (`--exec`, `--load`) or that `[access] open_kinds` "
        f"names. All others are *closed*: those of applications ({closed}) and those that nobody knows.\n"
    )


def _way(way: str) -> str:
    askers = [Somebody("owner", True)] if way == "command" else callers()
    columns = [(sort, where) for sort in ("open", "unknown", "application") for where in COLLECTIONS]
    head = " | ".join(f"{sort}, {where}" for sort, where in columns)
    lines = [f"## {TITLES[way]}\n", f"| who | {head} |", "|---" * (len(columns) + 1) + "|"]
    for who in askers:
        said = " | ".join(word(who, way, sort, where) for sort, where in columns)
        lines.append(f"| {_name(who)} | {said} |")
    return "\n".join(lines) + "\n"


def _name(who: Somebody) -> str:
    if who.role == "owner":
        return "whoever can open the store"
    return (
        who.role if who.role == "nobody" else f"{who.role}, {'everywhere' if who.everywhere else 'in one collection'}"
    )
