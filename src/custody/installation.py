"""What all applications that are installed say together: who may make which jobs, and how each moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from custody.application import conflict, installed, load

if TYPE_CHECKING:  # every command asks for the parts, and few for the rest
    from custody.kernel.applications import Part
    from custody.kernel.engine.makers import Maker, Makers
    from custody.kernel.model.machine import Machines
    from custody.opening import Scope


def parts() -> Sequence[Part]:
    """What each brings into the kernel: tables, statements, words."""
    return [load(application.part) for application in installed() if application.part]


@cache
def makers() -> Makers:
    """Who may make which kind of job. What is not here is nobody's, and may be offered as open."""
    from custody.kernel.engine.makers import Makers
    from custody.kernel.operations.makers import BULK_MAKER, VERIFY_MAKER

    entries: list[Maker] = [BULK_MAKER, VERIFY_MAKER]
    for application in installed():
        for maker in load(application.makers) if application.makers else ():
            if not maker.kind.startswith(application.kinds):
                raise conflict(f"the kind {maker.kind}", application.name, "whoever has its prefix")
            entries.append(maker)
    return Makers(tuple(entries))


def scopes() -> Mapping[str, Scope]:
    """What may be held besides what every queue knows."""
    return {name: load(ref) for application in installed() for name, ref in application.scopes.items()}


def held_as(scope: str, name: str) -> Sequence[tuple[str, str]]:
    """Every hold that pauses it, as the queue knows it."""
    known = scopes()
    return known[scope].pairs(name) if scope in known else [(scope, name)]


@cache
def machines() -> Machines:
    """Every state table, by kind of job."""
    from custody.kernel.model.machine import merged

    return merged(*(load(application.machines) for application in installed() if application.machines))
