"""The history that other systems kept: it arrives whole or is told by name, and is the same wherever it goes next."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree

from custody.cli import main
from custody.formats.premis.model import PremisEvent
from custody.formats.premis.reader import read_premis
from custody.kernel.stores import open_store
from formats.premis.systems import SYSTEMS, Sample
from kernel.history.foreign import about, event, outcome, premis, thing
from kernel.history.schemas import schema
from prove.plugin import Tell


class House:
    """An archive of its own: a folder with a store, and the commands."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capfd = folder, capfd
        self.store = f"sqlite:///{folder / 'custody.db'}"
        folder.mkdir()

    def custody(self, *words: str, code: int = 0) -> tuple[str, str]:
        self.capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*words, "--store", self.store])
        said = self.capfd.readouterr()
        assert (ended.value.code or 0) == code, said.err
        return said.out, said.err

    def take(self, *files: Path, code: int = 0, more: tuple[str, ...] = ()) -> dict[str, object]:
        out, _ = self.custody("history", "import-premis", *map(str, files), *more, "--json", code=code)
        told: dict[str, object] = json.loads(out)
        return told

    def items(self) -> list[str]:
        with open_store(self.store) as store:
            return [item.id for item in store.records.items(limit=10_000)]

    def export(self, items: list[str]) -> bytes:
        return self.custody("history", "premis", *items)[0].encode()


def put(folder: Path, documents: dict[str, str]) -> Path:
    for name, text in documents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def foreign(document: bytes) -> list[PremisEvent]:
    found = [replace(each, line=0) for each in read_premis(document).events if each.identifier[0] != "custody"]
    return sorted(found, key=repr)


def larger(system: str) -> Sample:
    return SYSTEMS[system](12)


@pytest.mark.proves("P6")
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_history_of_another_system_arrives_and_goes_on(
    system: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], tell: Tell
) -> None:
    premis3 = schema("premis-v3-0.xsd", tmp_path)
    sample = larger(system)
    given = put(tmp_path / "given", sample.documents)
    here, there = House(tmp_path / "here", capfd), House(tmp_path / "there", capfd)
    first = here.take(given, more=("--from", "other"))
    wanted = len(sample.expected)
    assert (first["found"], first["imported"], first["losses"]) == (wanted, wanted, [])
    exported = here.export(here.items())
    premis3.assertValid(etree.fromstring(exported))
    arrived = foreign(exported)
    expected = Counter((each.type, each.at, each.objects) for each in sample.expected)
    told = Counter((each.type.text, each.at, tuple(link.identifier for link in each.objects)) for each in arrived)
    lost = sum((expected - told).values())
    assert lost == 0
    assert here.take(given, more=("--from", "other"))["known"] == wanted, "a second time"
    assert foreign(here.export(here.items())) == arrived
    (tmp_path / "exported.xml").write_bytes(exported)
    second = there.take(tmp_path / "exported.xml", more=("--ours", "local"))
    assert second["losses"] == []
    assert there.items() == here.items()
    onward = there.export(there.items())
    premis3.assertValid(etree.fromstring(onward))
    assert foreign(onward) == arrived, "as it was, with its own dates, after the second archive"
    assert there.take(given, more=("--from", "other"))["known"] == wanted, "by a detour or directly"
    (tmp_path / "onward.xml").write_bytes(onward)
    home = here.take(tmp_path / "onward.xml", more=("--ours", "local"), code=0)
    doubled = len(foreign(here.export(here.items()))) - len(arrived)
    assert doubled == 0, home
    tell(
        f"{system}: {wanted} events of {len(here.items())} items, there and back",
        events=wanted,
        systems=1,
        **{"round trips": 2, "lost": lost, "doubled": doubled},
    )


@pytest.mark.proves("P6")
def test_what_cannot_arrive_is_told_by_name_and_the_rest_arrives(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], tell: Tell
) -> None:
    one, two = thing(("DOI", "10.5072/1")), thing(("DOI", "10.5072/2"))
    good = event(outcome("pass") + about("DOI", "10.5072/1"), id="good")
    bad = {
        "loose": (premis(one, two, event(id="loose")), "event local loose (ingestion): it names no object"),
        "typeless": (
            premis(one, event(id="typeless", type="")),
            "event local typeless (without a type): it does not say what happened",
        ),
        "nobody's": (
            premis(event(about("PID", "7"), id="nobodys")),
            "event local nobodys (ingestion): not attached to 'PID 7'",
        ),
        "a conflict": (
            premis(event(outcome("fail") + about("DOI", "10.5072/1"), id="good")),
            "event local good (ingestion): doi:10.5072/1 has one of this identifier with another outcome",
        ),
        "nothing": ("<mods/>", "no PREMIS, and nothing else that is understood, in <mods>"),
        "no events": (premis(one), "no events"),
        "a DTD": ('<!DOCTYPE a [<!ENTITY x "y">]><premis>&x;</premis>', "a document type (DTD) is not accepted"),
        "not XML": ("PREMIS", "not"),
        "only named": (
            '<mets xmlns="http://www.loc.gov/METS/"><amdSec><digiprovMD ID="a"><mdRef MDTYPE="PREMIS" xmlns:x="http://www.w3.org/1999/xlink" x:href="e.xml"/></digiprovMD></amdSec></mets>',
            "e.xml is named there and was not given",
        ),
    }
    for number, (name, (text, told)) in enumerate(bad.items()):
        folder = put(tmp_path / f"given{number}", {"a.xml": good, "b.xml": text})
        house = House(tmp_path / f"house{number}", capfd)
        if name == "no events":
            _, err = house.custody("history", "import-premis", str(folder / "b.xml"), code=1)
        else:
            out, err = house.custody("history", "import-premis", str(folder), code=1)
            assert out.startswith("1 event of 1 item; known before: 0; left out: "), name
            assert house.items() == ["doi:10.5072/1"]
        assert told in err, name
        assert "b.xml:" in err or name == "no events", err
    tell(f"{len(bad)} sorts of what cannot arrive", **{"told by name": len(bad)})


def test_local_numbers_of_two_systems_stay_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    house = House(tmp_path / "house", capfd)
    given = put(tmp_path / "given", {"one.xml": premis(thing(("local", "1")), event())})
    _, err = house.custody("history", "import-premis", str(given), code=1)
    assert "hint: --from NAME says which system that is" in err
    assert house.items() == []
    for system in ("a", "b"):
        house.take(given, more=("--from", system))
    assert house.items() == ["a/local/1", "b/local/1"]
    house.take(given, more=("--ours", "local"))
    assert house.items() == ["1", "a/local/1", "b/local/1"]


def test_the_time_that_an_imported_event_has_of_its_own_is_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    house = House(tmp_path / "house", capfd)
    given = put(tmp_path / "given", {"one.xml": event(about("local", "x"), at="2006-07-06T14:00:00")})
    house.take(given, more=("--ours", "local"))
    assert "2006-07-06T14:00:00" in house.custody("item", "show", "x")[0]
    assert "2006-07-06T14:00:00" in house.custody("event", "list", "item/x")[0]


def test_an_erased_event_is_told_as_erased_in_an_export(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    house = House(tmp_path / "house", capfd)
    house.custody("item", "add", "x")
    house.custody("event", "add", "x", "weighed", "--why", "Ann said so")
    house.custody("history", "erase", "item/x", "2", "--why", "she asked")
    exported = house.export(["x"]).decode()
    assert "agent and detail were erased, as erasure/item/x#1 says" in exported
    assert "Ann" not in exported
