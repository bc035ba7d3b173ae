"""Memory is counted for a whole process; so what is measured runs in one where nothing else is alive.

Other tests leave threads behind that take a moment to end, and what those need would be counted with it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_own_process(function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *given, **named).result()
