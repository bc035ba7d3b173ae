"""custody store, and which addresses of stores commands take: nothing may be acknowledged into nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.cli.doctor.report import examine
from custody.config import read
from custody.errors import BadInput
from custody.kernel.stores import open_store
from rig.commands import Run

NOWHERE = ["sqlite:///", "sqlite://", "sqlite:///:memory:", "sqlite://:memory:", "sqlite::memory:", "sqlite:"]


@pytest.mark.parametrize("url", NOWHERE)
def test_a_command_acknowledges_nothing_into_a_store_that_is_gone_with_it(
    custody: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    for words in (("--store", url), (f"--store={url}",)):
        said = custody("job", "submit", "greet", "--receipts", "receipts", *words)
        assert (said.code, said.out) == (2, "")
        assert "is no address of a store" in said.err
    for noun in (("worker", "run", "--until-idle"), ("serve", "--demo"), ("doctor",), ("store", "info")):
        assert custody(*noun, "--store", url).code == 2
    monkeypatch.setenv("CUSTODY_STORE", url)
    assert custody("job", "submit", "greet").code == 2
    monkeypatch.setenv("CUSTODY_STORE", "")
    (tmp_path / "custody.toml").write_text(f'store = "{url}"\n')
    for noun in (("job", "submit", "greet"), ("worker", "run", "--until-idle"), ("batch", "list")):
        assert custody(*noun).code == 2
    assert [each.name for each in tmp_path.iterdir()] == ["custody.toml"]


def test_an_empty_variable_means_the_configurations_store_and_no_other(
    custody: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUSTODY_STORE", "")
    (tmp_path / "custody.toml").write_text('store = "sqlite:///kept.db"\n')
    assert custody("job", "submit", "greet").code == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["custody.toml", "kept.db"]


def test_settings_in_the_address_are_refused_by_name(custody: Run, tmp_path: Path) -> None:
    said = custody("job", "submit", "greet", "--store", "sqlite:///custody.db?mode=ro&vfs=unix-none")
    assert said.code == 2
    assert "mode, vfs" in said.err
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_calls_a_store_in_the_machines_memory_unsafe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/custody.db"
    open_store(url).close()

    def of_memory() -> list[str]:
        return [found.what for found in examine(url, None) if found.grade == "unsafe" and "memory" in found.what]

    assert of_memory() == []
    monkeypatch.setattr("custody.kernel.stores.sqlite.connection.file_system_of", lambda *_: "tmpfs")
    assert len(of_memory()) == 1


@pytest.mark.parametrize("url", NOWHERE)
def test_a_configuration_that_names_no_file_is_refused_by_whoever_reads_it(tmp_path: Path, url: str) -> None:
    (tmp_path / "custody.toml").write_text(f'store = "{url}"\n')
    with pytest.raises(BadInput) as refused:
        read(tmp_path / "custody.toml")
    assert refused.value.code == "store.address"
