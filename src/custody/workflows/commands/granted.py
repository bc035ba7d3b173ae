"""What an operator can grant to an archive, and what is asked first."""

from __future__ import annotations

from custody.cli.grants import Checks
from custody.errors import BadInput
from custody.kernel.model.authority.grant import COLLECTION, HOOKS, NETWORK, REPOSITORY, SECRET
from custody.kernel.stores import Store
from custody.kernel.stores.registers.collections import DEPOSITS
from custody.workflows.archives.ownership.hook_sight import check_shown
from custody.workflows.archives.table import check_owner
from custody.workflows.tasks import secrets


def _check_collection(store: Store, name: str, value: str) -> None:
    if value != DEPOSITS:
        raise BadInput(f"{name} shares its collection with {DEPOSITS} only", code="grant.value", hint=DEPOSITS)


CHECKS: Checks = {
    SECRET: secrets.check_grant,
    NETWORK: lambda *_: None,
    REPOSITORY: check_owner,
    COLLECTION: _check_collection,
    HOOKS: lambda _, name, value: check_shown(name, value),
}
