"""Every error a user can meet, in one tree.

    CustodyError            has a code, and says what is wrong, where, and what to do
    ├── Refused             the request cannot be granted as things stand (exit 3, HTTP 409)
    │   ├── LeaseLost       the token is no longer current: stop working, say nothing more
    │   ├── StateConflict   the job is not in the state this move starts from
    │   └── KeyConflict     this idempotency key was used before, for something else (HTTP 422)
    ├── BadInput            what was given cannot be read (exit 2, HTTP 400)
    ├── NotFound            no such job, item, lease … (exit 2, HTTP 404)
    ├── Unavailable         a store, server or disk does not answer; trying again may help (exit 2, HTTP 503)
    └── Unsafe              a setting under which promises could not be kept (exit 2)

An expected refusal has a code a person can look up; anything else that is raised is a surprise and keeps
its traceback.
"""

from __future__ import annotations

from typing import Any


class CustodyError(Exception):
    """Something is wrong; `code` names it, `where` points at it, `hint` says what to do."""

    code = "error"

    def __init__(self, message: str, *, code: str = "", where: str = "", hint: str = "", **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.where = where
        self.hint = hint
        self.facts = facts

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{self.message}{hint}"

    def as_dict(self) -> dict[str, Any]:
        """For `--json` and problem+json."""
        named = {"code": self.code, "message": self.message, "where": self.where, "hint": self.hint}
        return {key: value for key, value in named.items() if value} | self.facts


class Refused(CustodyError):
    code = "refused"


class LeaseLost(Refused):
    code = "lease.lost"


class StateConflict(Refused):
    code = "state.conflict"


class KeyConflict(Refused):
    code = "key.conflict"


class BadInput(CustodyError):
    code = "input.bad"


class NotFound(CustodyError):
    code = "not-found"


class Unavailable(CustodyError):
    code = "unavailable"


class Unsafe(CustodyError):
    code = "unsafe"
