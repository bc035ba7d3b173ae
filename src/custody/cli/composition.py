"""What a process of this program can do: the applications' kinds of work, and the user's own."""

from __future__ import annotations

import runpy
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from custody.errors import BadInput
from custody.kernel.engine.executable import executable
from custody.kernel.engine.kinds import Chore, Kind, Serving
from custody.kernel.engine.makers import open_maker
from custody.kernel.model.machine import Machine, Machines, merged
from custody.kernel.model.names.reserved import check_event
from custody.kernel.model.outcome import Outcome
from custody.kernel.stores import Store
from custody.web.operations.makers import MAKERS
from custody.web.operations.setters import Setters

if TYPE_CHECKING:
    from custody.channels.condition.metrics import Numbers
    from custody.channels.messages.reader import Reader
    from custody.channels.requests import Asking
    from custody.config import Config
    from custody.ingest.adapters import Adapters
    from custody.kernel.history.sealer import Sealer
    from custody.workflows.tasks.runner import Runner


def machines() -> Machines:
    """Every state table, by kind of job."""
    from custody.ingest.states import MACHINES as INGEST

    tables: Sequence[Mapping[str, Machine]] = [INGEST]
    return merged(*tables)


def serving(
    store: Store,
    config: Path | None,
    load: Sequence[Path],
    commands: Sequence[str],
    world: Adapters | None = None,
    place: str = "",
) -> Serving:
    """All that this process could work on; in the world that it has opened already, if it has."""
    own = [_opened(kind, "--load") for path in load for kind in _kinds_of(path)]
    own += [_opened(_executable(text), "--exec") for text in commands]
    kinds, chores = _applications(store, config, world, place)
    return decided(Serving((*own, *kinds), tuple(chores), Setters(store).ended))


def decided(serving: Serving) -> Serving:
    """What a worker of this program serves; refused when nobody decided who may make some of it."""
    MAKERS.must_be_decided((kind.kind, kind.maker) for kind in serving.kinds)
    return serving


def _opened(kind: Kind, where: str) -> Kind:
    """A kind of one's own may be asked for by whoever may submit; an application's cannot be taken over."""
    MAKERS.must_be_free(kind.kind, where)
    return replace(kind, maker=open_maker(kind.kind))


def _applications(
    store: Store, config: Path | None, world: Adapters | None, place: str
) -> tuple[Sequence[Kind], Sequence[Chore]]:
    from custody.config import find

    found = find(config)
    keeping = keeping_of(found)
    own = dashboard_kinds(store, keeping)
    if found is None:
        return own, ()
    from custody.channels import kinds as channels
    from custody.ingest import kinds as ingest
    from custody.ingest.config import open_world
    from custody.workflows import kinds as workflows

    here = replace(found.ingest, place=place or found.ingest.place)  # what is admitted here is claimed here
    world = world or open_world(store, here, found.home)
    shop = workflows.open_shop(store, found.workflows, found.home, found.network)
    mirror = channels.embedded(store, found.channels, found.home)
    kinds = (*own, *ingest.kinds(world), *workflows.kinds(shop), *(channels.kinds(mirror) if mirror else ()))
    chores = (*ingest.chores(world), *workflows.chores(store), *(channels.chores(mirror) if mirror else ()))
    return kinds, (*chores, *sealing(store, keeping))


def dashboard_kinds(store: Store, keeping: Sealer) -> Sequence[Kind]:
    """What the dashboard asks for: bulk actions, verification."""
    from custody.web.operations import bulk, verification

    return (*bulk.kinds(store, machines()), *verification.kinds(store, keeping))


def keeping_of(found: Config | None) -> Sealer:
    from custody.kernel.history.sealer import Sealer, open_keeping

    return open_keeping(found.history, found.home) if found else Sealer()


def sealing(store: Store, keeping: Sealer) -> Sequence[Chore]:
    """Only those who have the key can seal."""
    if keeping.signer is None:
        return ()
    return (Chore("seal the history", keeping.every, lambda: keeping.seal(store.ledger, store.now())),)


def shop_of(store: Store, found: Config | None) -> Runner | None:
    """Where tasks' logs and files are, for looking at them: nothing is run through this."""
    if found is None:
        return None
    from custody.border.sandbox.sandbox import Available, Sandboxes
    from custody.workflows.tasks.runner import Runner

    config, home = found.workflows, found.home.resolve()
    no, work = Available(False, "this process only looks at tasks"), home / config.work
    secrets = home / config.secrets
    return Runner(
        store=store,
        sandboxes=Sandboxes(home / config.sandboxes),
        work=work,
        kept=home / config.kept,
        sandbox_works=no,
        client=work,
        secrets=secrets,
    )


def readers_of(store: Store, found: Config | None) -> Callable[[int], Reader] | None:
    """How to look at what is kept of a channel, with or without a bot's token."""
    if found is None:
        return None
    from custody.channels.kinds import open_blobs, settings_of
    from custody.channels.messages.reader import readers

    config, blobs = found.channels, open_blobs(found.channels, found.home, store)
    return readers(store, blobs, settings_of(config), config)


def channel_numbers(store: Store, found: Config | None) -> Callable[[], Numbers] | None:
    """How the channels stand, for metrics; none where nothing is configured."""
    if found is None:
        return None
    from custody.channels.condition.metrics import kept_for_a_while, numbers
    from custody.channels.kinds import open_blobs

    config, home = found.channels, found.home
    return kept_for_a_while(lambda: numbers(store, open_blobs(config, home, store)))


def asking_of(store: Store, found: Config | None) -> Asking | None:
    """How pages ask for something about channels: as the commands do."""
    from custody.channels import requests

    return requests.asking_of(store, found.channels, found.home) if found else None


FORMER = ("custody.engine", "custody.model", "custody.stores", "custody.ports")
"""What people imported before there was a front door."""


def _kinds_of(path: Path) -> list[Kind]:
    from custody.robots.discovery import must_not_be_a_program

    if not path.is_file():
        raise BadInput(f"there is no file {path}", where="--load")
    must_not_be_a_program(path)
    try:
        names = runpy.run_path(str(path))
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(FORMER):
            raise
        told = "since 0.2: from custody import Kind, Work, Passed, Failed"
        raise BadInput(f"{path} asks for {error.name}, which is no more", where="--load", hint=told) from error
    kinds = names.get("KINDS")
    if not isinstance(kinds, list | tuple) or not all(isinstance(kind, Kind) for kind in kinds):
        raise BadInput(f"{path} has no list KINDS of Kind(…)", where="--load", hint='KINDS = [Kind("parcel", handler)]')
    return [_in_own_words(kind) for kind in kinds]


def _in_own_words(kind: Kind) -> Kind:
    """Work of one's own tells what it did, not what the system itself records."""
    handler, decide = kind.handler, kind.decide

    def checked(outcome: Outcome) -> Outcome:
        for event in getattr(outcome, "events", ()):
            check_event(event.type, f"kind {kind.kind}")
        return outcome

    return replace(
        kind,
        handler=(lambda work: checked(handler(work))) if handler else None,
        decide=(lambda jobs: {number: checked(each) for number, each in decide(jobs).items()}) if decide else None,
    )


def _executable(text: str) -> Kind:
    kind, _, command = text.partition("=")
    if not kind or not command:
        raise BadInput(f"cannot read {text!r}", where="--exec", hint="--exec parcel='./wrap.sh --ribbon'")
    return executable(kind, shlex.split(command))
