"""custody.toml takes each value as the type that it is declared to be, and nothing else, whatever the table."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from custody import config
from custody.border.egress.allowance import Rules
from custody.channels.kinds import ChannelConfig
from custody.config import AccessConfig, Config, FilesConfig, StorageConfig
from custody.errors import BadInput
from custody.ingest.config import IngestConfig
from custody.kernel.history.sealer import HistoryConfig
from custody.web.access.oidc import LoginConfig
from custody.workflows.kinds import WorkflowConfig

WRITTEN: dict[str, Any] = {
    '"x"': str,
    "7": int,
    "7.5": float,
    "true": bool,
    "[1]": list,
    "[true]": list,
    "{a = 1}": dict,
    "{a = true}": dict,
}
ACCEPTS: dict[Any, set[type]] = {str: {str}, Path: {str}, int: {int}, float: {int, float}, bool: {bool}}


TABLES: dict[str, type] = {
    "ingest": IngestConfig,
    "workflows": WorkflowConfig,
    "channels": ChannelConfig,
    "history": HistoryConfig,
    "login": LoginConfig,
    "network": Rules,
    "access": AccessConfig,
    "storage": StorageConfig,
    "files": FilesConfig,
}


def keys() -> list[tuple[str, str, Any]]:
    """Every key of every table, from the configuration itself."""
    return [(name, key, hint) for name, part in TABLES.items() for key, hint in get_type_hints(part).items()]


@pytest.mark.parametrize(("table", "key", "hint"), keys(), ids=lambda part: str(part)[:30])
def test_a_value_of_another_type_is_refused_with_its_key(tmp_path: Path, table: str, key: str, hint: Any) -> None:
    file = tmp_path / "custody.toml"
    for text, sort in WRITTEN.items():
        if sort in ACCEPTS.get(hint, set()):
            continue
        if sort is dict and "true" not in text and "float" in str(get_args(hint)):
            continue  # a table of numbers
        file.write_text(f"[{table}]\n{key} = {text}\n")
        with pytest.raises(BadInput) as refusal:
            config.read(file)
        assert f"{table}.{key}" in str(refusal.value), f"{key} = {text}"
    assert hint in ACCEPTS or get_origin(hint) is not None


def test_all_tables_are_tried() -> None:
    assert set(TABLES) | {"home", "store"} == {each.name for each in fields(Config)}
    assert len(keys()) > 60
