"""Messages in the orders in which crawls bring them."""

from __future__ import annotations

import random
from typing import Any

from custody.channels.snowflake import SHIFT

START = 150_000_000_000  # milliseconds after the first id's epoch

Raw = dict[str, Any]


def message_id(number: int, per_ms: int = 1) -> int:
    """The id of the n-th message when so many share a millisecond."""
    return (START + number // per_ms) << SHIFT | number % per_ms


def message(number: int, per_ms: int = 1) -> Raw:
    one = message_id(number, per_ms)
    return {"id": str(one), "content": f"message {number}", "edited_timestamp": None}


def pages(order: str, count: int, size: int, per_ms: int = 1) -> list[list[Raw]]:
    """Pages of at most `size`, the messages of a page newest first, as the service gives them."""
    messages = [message(number, per_ms) for number in range(count)]
    if order == "random":
        random.Random(7).shuffle(messages)
    cycle = 3 * size if order == "watch cycles" else count
    out: list[list[Raw]] = []
    for start in range(0, count, cycle):
        part = messages[start : start + cycle]
        runs = [part[at : at + size] for at in range(0, len(part), size)]
        out += runs if order in {"oldest first", "random"} else runs[::-1]
    return [page[::-1] for page in out]


ORDERS = ("oldest first", "newest first", "random", "watch cycles")
