"""What requests look like: shared parameters and bodies. Unknown fields are refused, so that a typing error shows; a
value of another type is refused, not made into one that fits: "no" is no flag, and "1" no number."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from custody.kernel.model.job import LONGEST_LANE
from custody.kernel.model.names.job_keys import LONGEST_KEY


def _digits(given: Any) -> Any:
    """What stands in an address is text; of its numbers there is one way to write them."""
    if isinstance(given, str) and not (given.isascii() and given.isdigit()):
        raise ValueError("a whole number is written with digits only")
    return given


def _flag(given: Any) -> Any:
    if isinstance(given, str) and given not in ("true", "false"):
        raise ValueError("this is true or false")
    return given


Digits = BeforeValidator(_digits)
Number = Annotated[int, Digits, Path(ge=1, le=2**62, description="the job's or batch's number")]
Limit = Annotated[int, Digits, Query(ge=1, le=500, description="rows at most")]
Before = Annotated[int | None, Digits, Query(ge=1, le=2**62, description="`next` of the page before")]
After = Annotated[int | None, Digits, Query(ge=0, le=2**62, description="`next` of the page before")]
Flag = Annotated[bool, BeforeValidator(_flag), Query()]
Text = Annotated[str, Query(max_length=500)]
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="the same request with it again is answered as the first was, another is refused",
    ),
]

PROBLEM: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {"application/problem+json": {}}}
    for status, text in {
        400: "cannot be read",
        401: "no valid token",
        403: "not the caller's to do",
        404: "not there",
        409: "refused as things stand",
        413: "too large",
        422: "does not fit",
        503: "not available just now",
    }.items()
}
"""What every operation may answer instead."""


class Asking(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, str_max_length=100_000)

    def meant(self) -> dict[str, Any]:
        """What a request says, the same for all that mean the same: a default that is written out is a default."""
        said = {name: getattr(self, name) for name in type(self).model_fields}
        plain = {name: each.meant() if isinstance(each, Asking) else each for name, each in said.items()}
        defaults = {name: field.get_default(call_default_factory=True) for name, field in self._optional().items()}
        return plain | {name: each for name, each in defaults.items() if plain[name] == each}

    @classmethod
    def _optional(cls) -> dict[str, Any]:
        return {name: field for name, field in cls.model_fields.items() if not field.is_required()}


class Why(Asking):
    why: str = Field("", max_length=2000, description="the reason, for the history")


class Move(Why):
    priority: int = Field(50, ge=0, le=99, description="for prioritise: low goes first")
    force: bool = Field(False, description="for delete: also while its batch is open, which will report it")


class DepositRow(Asking):
    """A row of a manifest, as JSON."""

    url: str = Field(min_length=1, max_length=4000)
    name: str = Field("", max_length=2000, description="the last part of the URL when left out")
    digest_type: str = Field("", max_length=20)
    digest_value: str = Field("", max_length=200)
    size: int | None = Field(None, ge=0, le=2**62)
    mime: str = Field("", max_length=200)
    primary_id: str = Field("", max_length=200)
    local_id: str = Field("", max_length=2000, description="several are separated by ;")
    creator: str = Field("", max_length=2000)
    title: str = Field("", max_length=2000)
    date: str = Field("", max_length=200)


ShortRow = Annotated[str, Field(min_length=1, max_length=4000)]


class NewDeposit(Asking):
    profile: str = Field(max_length=128, description="the collection's profile")
    payload: str = Field("", max_length=4000, description="an http or https URL")
    manifest: Annotated[str, Field(max_length=900_000)] | list[DepositRow | ShortRow] = Field(
        "", description="the manifest itself: checkm text, or its rows (`NAME LOCAL-ID ARK` is one, below the payload)"
    )
    type: str = Field("", max_length=40)
    filename: str = Field("", max_length=500)
    submitter: str = Field("", max_length=200)
    update: bool = False
    digest_type: str = Field("", max_length=20)
    digest_value: str = Field("", max_length=200)
    title: str = Field("", max_length=2000)
    creator: str = Field("", max_length=2000)
    date: str = Field("", max_length=200)
    local_id: str = Field("", max_length=2000)
    primary_id: str = Field("", max_length=200)
    notification: str = Field("", max_length=2000)
    note: str = Field("", max_length=2000)
    dc: dict[str, Annotated[str, Field(max_length=2000)]] = Field(
        default_factory=dict, description="further Dublin Core, by element: subject, rights, language …"
    )


class JobSubmission(Asking):
    kind: str = Field(min_length=1, max_length=200)
    payload: dict[str, Any] = Field(default_factory=dict)
    key: str | None = Field(None, min_length=1, max_length=LONGEST_KEY)
    priority: int = Field(50, ge=0, le=99)
    lane: str = Field("", max_length=LONGEST_LANE)
    collection: str = Field("", max_length=128)
    delay: float = Field(0, ge=0, le=3_000_000_000)
    needs: list[Annotated[int, Field(ge=1, le=2**62)]] = Field(default_factory=list, max_length=1000)

    def meant(self) -> dict[str, Any]:
        return super().meant() | {"key": self.key or None, "needs": sorted(set(self.needs))}


class BulkFilter(Asking):
    kind: str = Field("", max_length=200, description="a kind, or a prefix with * at its end")
    state: str = Field("", max_length=100)
    ended: str = Field("", max_length=100)
    lane: str = Field("", max_length=200)
    collection: str = Field("", max_length=128)
    code: str = Field("", max_length=200)
    parent: int = Field(0, ge=0, le=2**62)


class BulkSubmission(Asking):
    action: str = Field(max_length=40)
    filter: BulkFilter
    dry_run: bool = True
    count: int | None = Field(None, ge=0, description="how many it must be: the dry run's `eligible`")
    why: str = Field("", max_length=2000)
    priority: int = Field(50, ge=0, le=99)

    def meant(self) -> dict[str, Any]:
        return super().meant() | {"why": self.why.strip()}


class NewSchedule(Asking):
    spec: str = Field(min_length=1, max_length=200, description='"0 3 * * 1-5", "every 30m" or "@daily"')
    kind: str = Field(min_length=1, max_length=200, description="of the jobs it makes")
    payload: dict[str, Any] | None = Field(None, description="of the jobs it makes; left out, it stays, or is empty")
    zone: str | None = Field(None, max_length=100, description="time zone; left out, it stays, or is UTC")
    lane: str | None = Field(None, max_length=200, description="of the jobs it makes; left out, it stays")
    overlap: str | None = Field(
        None,
        max_length=20,
        description="when the last run has not ended: skip or allow; left out, it stays, or is skip",
    )
    missed: str | None = Field(
        None, max_length=20, description="when several have come unseen: once or skip; left out, it stays, or is once"
    )
    paused: bool | None = Field(None, description="left out, it stays")
