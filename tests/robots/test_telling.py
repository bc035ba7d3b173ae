"""Items and events told by hand, and robots that have never run, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from custody.cli import main
from custody.kernel.stores import open_store
from robots.conftest import Custody

PAGES = """
from custody.robots import Item, Report, Trigger, robot

@robot("pages", "1.0", "pages counted", Trigger(past={"received"}, absent={"pages counted"}))
def pages(item: Item, report: Report) -> None:
    report.note(pages=12)
"""


def told(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def test_a_line_can_be_tried_with_nothing_but_the_command_line(
    custody: Custody, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pages.py").write_text(PAGES)
    assert told("item", "add", "map-1", "map-2", "--type", "map", "--detail", '{"scale": "1:25000"}') == 0
    assert told("event", "add", "map-1", "received", "--why", "on tape 12") == 0
    assert "one that has never run: --load" in custody("dry-run", "pages", code=2)
    assert "map-1\n1 item\n" in custody("dry-run", "pages", "--load", "pages.py")
    assert "received never happened" in custody("why", "pages", "map-2", "--load", "pages.py")
    assert "there are pages" in custody("why", "paegs", "map-2", "--load", "pages.py", code=2)
    assert custody("run", "pages.py", "--once") == "pages: 1 went well\n"
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        item, events = store.records.item("map-1"), store.records.events("item/map-1")
    assert (item.types, item.detail) == ({"map"}, {"scale": "1:25000"})
    received = (events[1].type, events[1].outcome, events[1].agent, events[1].detail)
    assert received == ("received", "success", "ada", {"why": "on tape 12"})
    assert events[2].type == "pages counted"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["x", "stopped"], "custody robot stop"),
        (["x", "withdrawn"], "custody robot restart"),
        (["x", "ingested"], "recorded by the system itself"),
        (["x", "Аpproved"], "recorded by the system itself"),
        (["x", "task build"], "recorded by the system itself"),
        (["x", "se\u3164en"], "characters that are not shown"),
        (["x", "seen", "--outcome", "fine"], "fine is no outcome"),
        (["nobody", "seen"], "there is no item nobody"),
    ],
)
def test_what_cannot_be_told_is_said_so(
    words: list[str], reason: str, custody: Custody, capfd: pytest.CaptureFixture[str]
) -> None:
    assert told("item", "add", "x") == 0
    capfd.readouterr()
    assert told("event", "add", *words, "--why", "to see") == 2
    assert reason in capfd.readouterr().err


def test_an_item_is_told_with_its_folder_below_a_storage_root(
    custody: Custody, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "maps" / "map-1").mkdir(parents=True)
    (tmp_path / "maps" / "link").symlink_to("/etc")
    assert told("item", "add", "map-1", "--folder", "maps/map-1") == 2
    assert "maps/map-1 lies below no storage root" in capfd.readouterr().err
    (tmp_path / "custody.toml").write_text('[storage]\nroots = {shelf = "maps"}\n')
    assert told("item", "add", "map-1", "--folder", "maps/map-1") == 0
    for folder, words in {"maps/link": "below no storage root", "maps": "below no", "maps/gone": "nothing of"}.items():
        capfd.readouterr()
        assert told("item", "add", "map-1", "--folder", folder) == 2
        assert words in capfd.readouterr().err
    assert told("item", "show", "map-1") == 0
    assert "shelf:map-1" in capfd.readouterr().out
    for word in ("folder", "robot_priority", "mirrored", "place", "Folder", "robot priority", "m1rr0red"):
        assert told("item", "add", "map-1", "--detail", f'{{"{word}": "x"}}') == 2
        assert f"'{word}' is not theirs to set" in capfd.readouterr().err
    assert told("item", "add", "map-1", "--detail", '{"title": "Øresund"}') == 0
    with open_store(f"sqlite:///{tmp_path / 'custody.db'}") as store:
        item = store.records.item("map-1")
    assert (item.place, item.detail) == ("shelf:map-1", {"title": "Øresund"})
