"""The same function over many inputs, on all cores: for proofs, whose inputs do not know of each other."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def share(act: Callable[[A], B], inputs: Sequence[A], few: int = 200) -> Iterator[B]:
    """In their order. A few are not worth a second process."""
    if len(inputs) <= few:
        yield from map(act, inputs)
        return
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=fresh) as others:
        yield from others.map(act, inputs, chunksize=20)
