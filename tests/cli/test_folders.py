"""Every folder of the configuration that the program writes to is its own, or it is not written to."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from custody.border.leftovers import Allowance
from custody.channels.blobs.local import Files
from custody.cli.doctor.files import file_findings
from custody.cli.doctor.folders import folders
from custody.config import Config, known_tables, read
from custody.errors import CustodyError
from custody.ingest.batch.mail import to_outbox
from custody.ingest.storage.ocfl.open_root import open_root
from custody.ingest.storage.working_disk import WorkingDisk, find_disk
from custody.ingest.submission.staging import Staging
from custody.kernel.stores import open_store
from custody.robots.programs.outputs import keep
from custody.workflows.kinds import WorkflowConfig, open_shop
from rig.program import room


@pytest.fixture
def home() -> Iterator[Path]:
    """In a folder that everybody may enter, as those of the tests are not."""
    folder = room("folders")
    folder.chmod(0o755)
    (folder / "custody.toml").write_text(
        'store = "sqlite:///custody.db"\n[storage]\nroots = {elsewhere = "elsewhere"}\n'
    )
    yield folder
    shutil.rmtree(folder)


def _shop(**places: Path) -> None:
    home = next(iter(places.values())).parent
    with open_store(f"sqlite:///{home / 'custody.db'}") as store:
        shop = open_shop(store, dataclasses.replace(WorkflowConfig(), **places), home)
        shop.sandboxes.__exit__(None, None, None)


def _mail(folder: Path) -> None:
    message = EmailMessage()
    message["Message-ID"] = "<1@here>"
    to_outbox(folder)(message)


OPENED: dict[str, Callable[[Path], object]] = {
    "workflows.work": lambda folder: _shop(work=folder),
    "workflows.sandboxes": lambda folder: _shop(sandboxes=folder),
    "workflows.kept": lambda folder: _shop(kept=folder),
    "ingest.staging": Staging,
    "ingest.work": lambda folder: WorkingDisk(folder, ""),
    "ingest.outbox": _mail,
    "ingest.nodes": open_root,
    "channels.blobs": Files,
}
"""How each is opened to be written to."""
PLACE = {"ingest.nodes": "storage"}


def place(config: Config, key: str) -> Path:
    part, _, name = key.partition(".")
    value = getattr(getattr(config, part), name)
    return config.home / PLACE.get(key, value)


def test_every_path_of_the_configuration_has_a_rule(home: Path) -> None:
    config = read(home / "custody.toml")
    found = {
        f"{name}.{each.name}"
        for name in known_tables()
        for each in dataclasses.fields(getattr(config, name))
        if str(each.type) in ("Path", "Mapping[str, Path]")
    }
    assert found == rules(config).keys()
    assert {key for key, rule in rules(config).items() if rule != "read"} == OPENED.keys()


def rules(config: Config) -> dict[str, str]:
    """Of what is named in the file; the yard of robots is always where it is."""
    return {each.key: each.rule for each in folders(config) if each.key != "robots"}


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o2775])
@pytest.mark.parametrize("key", OPENED)
def test_a_folder_that_others_may_write_to_is_closed_or_refused(home: Path, key: str, mode: int) -> None:
    config = read(home / "custody.toml")
    folder = place(config, key)
    folder.mkdir()
    (folder / "planted").symlink_to("/etc")
    folder.chmod(mode)
    (told,) = [each for each in file_findings(config.store, config) if "may write to" in each.what]
    assert (told.grade, f"chmod go-w {folder}" in told.do) == ("unsafe", True)
    if rules(config)[key] == "closed":
        OPENED[key](folder)
        assert folder.stat().st_mode & 0o7777 == 0o700
        return
    for _ in range(2):  # it is refused until somebody has looked
        with pytest.raises(CustodyError, match=f"may write to the folder {folder}") as caught:
            OPENED[key](folder)
        assert caught.value.code == "folder.closed"
        assert [each.name for each in folder.iterdir()] == ["planted"]
    (folder / "planted").unlink()
    OPENED[key](folder)  # who has made an empty one too wide need not be told
    assert folder.stat().st_mode & 0o022 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("key", OPENED)
def test_a_folder_that_is_somebody_elses_is_refused_and_told(home: Path, key: str) -> None:
    config = read(home / "custody.toml")
    folder = place(config, key)
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    with pytest.raises(CustodyError, match="somebody else's") as caught:
        OPENED[key](folder)
    assert caught.value.code == "folder.closed"
    (told,) = [each for each in file_findings(config.store, config) if "somebody else's" in each.what]
    assert (told.grade, str(folder) in told.what) == ("unsafe", True)


def test_robots_write_to_none_either(home: Path) -> None:
    (home / "made").mkdir()
    (home / "made" / "page").write_text("1")
    (home / "pages").mkdir()
    (home / "pages" / "x").symlink_to("/etc")
    (home / "pages").chmod(0o777)
    with pytest.raises(CustodyError, match="may write to the folder"):
        keep(home / "made", home / "pages", "item", Allowance(10**6))
    assert home / "work-robots" in {each.path for each in folders(read(home / "custody.toml")) if each.rule == "closed"}


def test_who_only_looks_is_not_refused(home: Path) -> None:
    (home / "work").mkdir()
    (home / "work" / "batch-1").mkdir()
    (home / "work").chmod(0o777)
    assert find_disk(home / "work", "", 0.2) is not None
