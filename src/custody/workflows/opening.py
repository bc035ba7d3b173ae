"""Workflows as a process opens them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from custody.kernel.stores import Store
from custody.opening import Here, Opened
from custody.workflows.config import WorkflowConfig

if TYPE_CHECKING:
    from custody.kernel.operations.findings import Finding
    from custody.workflows.tasks.runner import Runner


def open_here(store: Store, config: WorkflowConfig | None, here: Here) -> Opened:
    if config is None:
        return Opened(findings=lambda repair: _findings(store, None, here))
    if not here.works:
        view = looking(store, config, here.home) if here.shows else None
        return Opened(view=view, findings=lambda repair: _findings(store, config, here))
    from custody.workflows.kinds import chores, kinds, open_shop

    shop = open_shop(store, config, here.home, here.network)
    return Opened(kinds=tuple(kinds(shop)), chores=tuple(chores(store)), view=shop)


def looking(store: Store, config: WorkflowConfig, home: Path) -> Runner:
    """Where tasks' logs and files are, for looking at them: nothing is run through this."""
    from custody.border.sandbox.sandbox import Available, Sandboxes
    from custody.workflows.tasks.runner import Runner

    home = home.resolve()
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


def _findings(store: Store, config: WorkflowConfig | None, here: Here) -> Iterator[Finding]:
    from custody.workflows.doctor import findings

    return findings(store, looking(store, config, here.home) if config else None, here.collections())
