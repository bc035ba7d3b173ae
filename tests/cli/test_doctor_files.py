"""The doctor names what others on this machine could read, with the command that closes it; what is shared is not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from custody.border import modes
from custody.cli.doctor.files import file_findings
from custody.config import Config, read
from custody.ingest.storage.ocfl.durable import Durable
from custody.ingest.storage.ocfl.open_root import open_root
from custody.kernel.operations.findings import Finding
from custody.kernel.stores import open_store
from rig.program import room

CLOSED = "of what is kept here, nobody else on this machine can read anything"


@pytest.fixture
def home() -> Iterator[Path]:
    """In a folder that everybody may enter, as those of the tests are not."""
    folder = room("files")
    folder.chmod(0o755)
    (folder / "custody.toml").write_text('store = "sqlite:///custody.db"\n')
    with open_store(f"sqlite:///{folder / 'custody.db'}"):
        pass
    yield folder
    shutil.rmtree(folder)


def look(home: Path) -> list[Finding]:
    config: Config = read(home / "custody.toml")
    return list(file_findings(config.store, config))


WIDE = {"custody.db": 0o644, "outbox": 0o755, "tasks": 0o751, "storage": 0o705, "work-tasks": 0o755, "secrets": 0o750}


@pytest.mark.parametrize("name", WIDE)
def test_what_is_wider_is_named_and_its_command_mends_it(home: Path, name: str) -> None:
    assert [(finding.grade, finding.what) for finding in look(home)] == [("fine", CLOSED)]
    path = home / name
    if not path.exists():
        path.mkdir()
    path.chmod(WIDE[name])
    (told,) = look(home)
    assert told.grade == ("warning" if name == "secrets" else "unsafe")
    assert f"{path} (mode {WIDE[name]:o})" in told.what
    subprocess.run(["sh", "-c", told.do], check=True)
    assert [finding.what for finding in look(home)] == [CLOSED]


def test_behind_a_closed_door_nothing_is_told(home: Path) -> None:
    (home / "custody.db").chmod(0o666)
    home.chmod(0o700)
    assert [finding.what for finding in look(home)] == [CLOSED]


def test_a_site_may_share_with_its_group_but_not_what_sandboxes_write(home: Path) -> None:
    (home / "custody.toml").write_text("[files]\ngroup_readable = true\n")
    for name, mode in {"outbox": 0o750, "work-tasks": 0o750}.items():
        (home / name).mkdir()
        (home / name).chmod(mode)
    (told,) = look(home)
    assert (told.grade, told.do) == ("unsafe", f"chmod go= {home / 'work-tasks'}")
    (home / "outbox").chmod(0o755)
    assert f"chmod o= {home / 'outbox'}" in [finding.do for finding in look(home)]


def test_a_storage_root_that_everybody_may_read_is_said_so_once(home: Path) -> None:
    (home / "custody.toml").write_text('[ingest]\nshared = ["main"]\n')
    open_root(home / "storage", disk=Durable(shared=True))
    besides = "besides main, which everybody may read ([ingest] shared), "
    (told,) = look(home)
    assert (told.grade, told.what) == (
        "fine",
        f"of what is kept here, {besides}nobody else on this machine can read anything",
    )
    (home / "custody.toml").write_text('[files]\ngroup_readable = true\n[ingest]\nshared = ["main"]\n')
    assert [finding.what for finding in look(home)] == [
        f"of what is kept here, {besides}its group alone on this machine can read anything"
    ]
    found = [path for path in (home / "storage").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in found} == {0o644}
    assert (home / "storage").stat().st_mode & 0o777 == 0o755
    (home / "custody.toml").write_text("")
    assert [finding.do for finding in look(home)] == [f"chmod go= {home / 'storage'}"]


@pytest.mark.parametrize(("group", "file", "folder"), [(False, 0o600, 0o700), (True, 0o640, 0o750)])
def test_who_opens_a_store_as_a_library_closes_it_too(tmp_path: Path, group: bool, file: int, folder: int) -> None:
    before = os.umask(0)
    try:
        with modes.decided(group), open_store(f"sqlite:///{tmp_path / 'within.db'}"):
            modes.make_folder(tmp_path / "made")
            found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        assert found == {"within.db": file, "within.db-wal": file, "within.db-shm": file, "made": folder}
        with open_store(f"sqlite:///{tmp_path / 'without.db'}"):
            assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("without.db*")} == {0o600}
        assert os.umask(0) == 0, "whoever calls us has a umask of his own"
    finally:
        os.umask(before)
