"""Frozen values made quickly, where one is made for every job that passes through.

A frozen dataclass sets each field through `object.__setattr__`, which for thirty fields takes ten times as long as
setting them. So the value is made by a twin that is not frozen, and only then becomes what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, field, fields, make_dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def quick(form: type[T]) -> Callable[..., T]:
    """A constructor with the same arguments and defaults as `form`, a frozen dataclass with slots."""
    names = [
        (one.name, Any, field(default=one.default))
        if one.default is not MISSING
        else (one.name, Any, field(default_factory=one.default_factory))
        if one.default_factory is not MISSING
        else (one.name, Any)
        for one in fields(form)  # type: ignore[arg-type]
    ]
    twin: Any = make_dataclass(f"{form.__name__}Twin", names, slots=True)

    def make(*values: Any, **more: Any) -> T:
        value: Any = twin(*values, **more)
        value.__class__ = form  # the same slots in the same order, so this is allowed
        made: T = value
        return made

    return make
