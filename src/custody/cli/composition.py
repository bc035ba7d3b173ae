"""What a process of this program can do: the applications that are opened in it, and the user's own kinds of work.

Nobody else opens applications.
"""

from __future__ import annotations

import runpy
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from custody.application import Application, broken, installed, load, named
from custody.errors import BadInput, Unsafe
from custody.installation import machines, makers
from custody.kernel.engine.kinds import Chore, Kind, Serving
from custody.kernel.engine.makers import open_maker
from custody.kernel.model.names.reserved import check_event
from custody.kernel.stores import Store
from custody.opening import Here, Opened

if TYPE_CHECKING:  # whoever only looks does without what works
    from custody.config import Config
    from custody.kernel.history.sealer import Sealer
    from custody.kernel.model.outcome import Outcome


@contextmanager
def opened(
    store: Store,
    config: Config | None,
    *,
    works: bool,
    shows: bool = False,
    place: str = "",
    secret: Path | None = None,
    without: Collection[str] = (),
) -> Iterator[Mapping[str, Opened]]:
    """Every application but those, by its name; closed in reverse."""
    must_be_whole(without)
    here = replace(_here(config), works=works, shows=shows, place=place, secret=secret)
    with ExitStack() as stack:
        found = dict[str, Opened]()
        for application in installed():
            if application.open and application.name not in without:
                found[application.name] = _open(application, store, config, here)
                stack.callback(found[application.name].close)
        yield found


def must_be_whole(without: Collection[str]) -> None:
    """Refuse to start beside an application that cannot be imported: its work would wait in silence."""
    lacking = {each.name: each for each in broken()}
    if unknown := sorted(set(without) - {*lacking, *(each.name for each in installed())}):
        known = ", ".join(each.name for each in installed())
        raise BadInput(f"there is no application {unknown[0]}", where="--without", hint=f"installed: {known}")
    for name, each in lacking.items():
        if name not in without:
            raise Unsafe(
                f"{name} ({each.distribution}) cannot be imported: {each.why}",
                code="application.broken",
                hint=f"mend it or uninstall it; or leave its work waiting: --without {name}",
            )


def look(store: Store, config: Config | None, name: str) -> Opened:
    """One application, by whoever only looks: nothing is made."""
    application = named(name)
    return _open(application, store, config, _here(config)) if application.open else Opened()


def _here(config: Config | None) -> Here:
    if config is None:
        return Here(home=Path())
    return Here(home=config.home, network=config.network, collections=config.collections)


def _open(application: Application, store: Store, config: Config | None, here: Here) -> Opened:
    table = getattr(config, application.name) if config and application.config else None
    opened: Opened = load(application.open)(store, table, here)
    return opened


def serving(
    store: Store,
    config: Config | None,
    applications: Mapping[str, Opened],
    load: Sequence[Path] = (),
    commands: Sequence[str] = (),
) -> Serving:
    """All that this process could work on."""
    from custody.web.operations.setters import Setters

    keeping = keeping_of(config)
    own = [_offered(kind, "--load") for path in load for kind in _kinds_of(path)]
    own += [_offered(_executable(text), "--exec") for text in commands]
    kinds = [kind for each in applications.values() for kind in each.kinds]
    chores = [chore for each in applications.values() for chore in each.chores]
    chores += sealing(store, keeping) if config else ()
    return decided(Serving((*own, *dashboard_kinds(store, keeping), *kinds), tuple(chores), Setters(store).ended))


def decided(serving: Serving) -> Serving:
    """What a worker of this program serves; refused when nobody decided who may make some of it."""
    makers().must_be_decided((kind.kind, kind.maker) for kind in serving.kinds)
    return serving


def _offered(kind: Kind, where: str) -> Kind:
    """A kind of one's own may be asked for by whoever may submit; an application's cannot be taken over."""
    makers().must_be_free(kind.kind, where)
    return replace(kind, maker=open_maker(kind.kind))


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


FORMER = ("custody.engine", "custody.model", "custody.stores", "custody.ports")
"""What people imported before there was a front door."""


def _kinds_of(path: Path) -> list[Kind]:
    if not path.is_file():
        raise BadInput(f"there is no file {path}", where="--load")
    for application in installed():
        if application.may_import:
            load(application.may_import)(path)
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
    from custody.kernel.engine.executable import executable

    kind, _, command = text.partition("=")
    if not kind or not command:
        raise BadInput(f"cannot read {text!r}", where="--exec", hint="--exec parcel='./wrap.sh --ribbon'")
    return executable(kind, shlex.split(command))
