"""Message ids that carry their own time.

An id is 42 bits of milliseconds since the first second of 2015, then 5 bits of worker, 5 of process and a
12-bit counter. So ids sort by time, several messages may share a millisecond, and a moment can be turned
into an id to page or to cut a range with. Nothing here asks what the time is.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from custody.errors import BadInput

EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
SHIFT = 22
HIGHEST = 2**63 - 1  # every id is below this, as a signed column elsewhere would need it to be
WIDTH = 20


def parse(text: str | int) -> int:
    """The number in an id as the service writes it: a decimal string."""
    number = int(text) if isinstance(text, int) or (text.isascii() and text.isdigit()) else -1
    if not 0 <= number <= HIGHEST:
        raise BadInput("not a message or channel id", code="channel.id", where=repr(text), hint="a number below 2^63")
    return number


def time_of(snowflake: int) -> datetime:
    """When a message with this id was made."""
    return EPOCH + timedelta(milliseconds=snowflake >> SHIFT)


def at(moment: datetime) -> int:
    """The lowest id that a message of this millisecond could have."""
    milliseconds = (moment - EPOCH) // timedelta(milliseconds=1)
    if not 0 <= milliseconds <= HIGHEST >> SHIFT:
        raise BadInput("no id can carry this time", code="channel.time", where=moment.isoformat())
    return milliseconds << SHIFT


def block_id(snowflake: int) -> str:
    """Twenty digits: block ids of one blob must have one length, and then sort as the numbers do."""
    return f"{snowflake:0{WIDTH}d}"
