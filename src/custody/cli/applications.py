"""What a process of this program can do: the applications' kinds of work, and the user's own."""

from __future__ import annotations

import runpy
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from custody.engine.executable import executable
from custody.engine.kinds import Chore, Kind, Serving
from custody.model.errors import BadInput
from custody.model.machine import Machine, Machines, merged
from custody.stores import Store

if TYPE_CHECKING:
    from custody.ingest.world import World


def machines() -> Machines:
    """Every state table, by kind of job."""
    from custody.ingest.states import MACHINES as INGEST

    tables: Sequence[Mapping[str, Machine]] = [INGEST]
    return merged(*tables)


def serving(
    store: Store, config: Path | None, load: Sequence[Path], commands: Sequence[str], world: World | None = None
) -> Serving:
    """All that this process could work on; in the world that it has opened already, if it has."""
    own = [kind for path in load for kind in _kinds_of(path)]
    own += [_executable(text) for text in commands]
    kinds, chores = _applications(store, config, world)
    return Serving((*own, *kinds), tuple(chores))


def _applications(store: Store, config: Path | None, world: World | None) -> tuple[Sequence[Kind], Sequence[Chore]]:
    from custody.channels import serving as channels
    from custody.cli.config import find
    from custody.ingest import serving as ingest
    from custody.ingest.setup import open_world
    from custody.web.bulk import kinds as bulk_kinds
    from custody.workflows import serving as workflows

    bulk = bulk_kinds(store, machines())
    found = find(config)
    if found is None:
        return bulk, ()
    world = world or open_world(store, found.ingest, found.home)
    shop = workflows.open_shop(store, found.workflows, found.home)
    mirror = channels.open_mirror(store, found.channels, found.home)
    kinds = (*bulk, *ingest.kinds(world), *workflows.kinds(shop), *(channels.kinds(mirror) if mirror else ()))
    return kinds, (*ingest.chores(world), *workflows.chores(store), *(channels.chores(mirror) if mirror else ()))


def _kinds_of(path: Path) -> list[Kind]:
    if not path.is_file():
        raise BadInput(f"there is no file {path}", where="--load")
    names = runpy.run_path(str(path))
    kinds = names.get("KINDS")
    if not isinstance(kinds, list | tuple) or not all(isinstance(kind, Kind) for kind in kinds):
        raise BadInput(f"{path} has no list KINDS of Kind(…)", where="--load", hint='KINDS = [Kind("parcel", handler)]')
    return list(kinds)


def _executable(text: str) -> Kind:
    kind, _, command = text.partition("=")
    if not kind or not command:
        raise BadInput(f"cannot read {text!r}", where="--exec", hint="--exec parcel='./wrap.sh --ribbon'")
    return executable(kind, shlex.split(command))
