"""Commands that cannot do without a custody.toml: which one, and the store it names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from custody.config import Config, find
from custody.errors import BadInput
from custody.kernel.stores import Store, open_store

ConfigFile = Annotated[Path | None, typer.Option("--config", envvar="CUSTODY_CONFIG", help="custody.toml")]
StoreUrl = Annotated[str, typer.Option("--store", envvar="CUSTODY_STORE", help="instead of the configuration's store")]


@contextmanager
def opened(config: Path | None, store: str) -> Iterator[tuple[Store, Config]]:
    found = find(config)
    if found is None:
        raise BadInput("there is no custody.toml here", code="config.missing", hint="`custody init` writes one")
    with open_store(store or found.store) as handle:
        yield handle, found
