"""Frozen values made quickly, where one is made for every job that passes through.

A frozen dataclass sets each field through `object.__setattr__`, which for thirty fields takes ten times as long as
setting them. So the value is made as a twin that is not frozen, and only then becomes what it is. As `dataclasses`
does, the function that makes it is written out and compiled: one call, one assignment a field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quick(form: type[T]) -> Callable[..., T]:
    """A constructor with the same arguments and defaults as `form`, a frozen dataclass with slots."""
    all_fields: list[Field[Any]] = list(fields(form))  # type: ignore[arg-type]
    names = [one.name for one in all_fields]
    lines = [f"def make({', '.join(map(_parameter, all_fields))}):"]
    lines += [f" if {one.name} is _missing: {one.name} = _make_{one.name}()" for one in all_fields if _is_made(one)]
    lines += [" value = _twin()", *(f" value.{name} = {name}" for name in names)]
    lines += [" value.__class__ = _form", " return value"]  # the same slots in the same order, so this is allowed
    twin = type(f"{form.__name__}Twin", (), {"__slots__": tuple(names)})
    known: dict[str, Any] = {"_form": form, "_twin": twin, "_missing": MISSING}
    known |= {f"_make_{one.name}": one.default_factory for one in all_fields if _is_made(one)}
    known |= {f"_default_{one.name}": one.default for one in all_fields}
    exec("\n".join(lines), known)
    make: Callable[..., T] = known["make"]
    return make


def _parameter(one: Field[Any]) -> str:
    if _is_made(one):
        return f"{one.name}=_missing"
    return one.name if one.default is MISSING else f"{one.name}=_default_{one.name}"


def _is_made(one: Field[Any]) -> bool:
    return one.default_factory is not MISSING
