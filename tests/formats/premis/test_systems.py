"""Documents in the shapes of ten systems: every event is read, and is known to be about the right objects."""

from __future__ import annotations

import pytest

from custody.formats.premis.reader import read_premis
from formats.premis.systems import SYSTEMS, Expected, archivematica, mets, national_library, pair, wrap


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_event_arrives_with_its_objects(system: str) -> None:
    sample = SYSTEMS[system]()
    read = [read_premis(text.encode(), name) for name, text in sample.documents.items()]
    assert [loss for each in read for loss in each.losses] == []
    events = [event for each in read for event in each.events]
    assert len(events) == len(sample.expected) > 0
    for event, expected in zip(events, sample.expected, strict=True):
        objects = tuple(link.identifier for link in event.objects)
        assert expected.identifier in event.identifier[1]
        assert Expected(expected.identifier, event.type.text, event.at, objects) == expected


def test_two_agents_of_one_event_and_their_roles_are_both_there() -> None:
    read = read_premis(SYSTEMS["roda"](1).documents["metadata/preservation/event-0.xml"].encode())
    assert [(link.identifier[1], [role.text for role in link.roles]) for link in read.events[0].agents] == [
        ("urn:roda:premis:agent:plugin", ["executing program"]),
        ("urn:roda:premis:agent:admin", ["implementer", "authorizer"]),
    ]
    assert [[role.text for role in link.roles] for link in read.events[0].objects] == [["source"], ["outcome"]]


def test_records_of_rosetta_that_share_a_number_are_events_of_their_own() -> None:
    (text,) = SYSTEMS["rosetta"](3).documents.values()
    events = read_premis(text.encode()).events
    assert len({event.identifier for event in events}) == len(events) == 16
    assert events == read_premis(text.encode()).events, "and the same ones when they are read again"
    first = events[0]
    assert [each.text for each in first.details] == ["Virus check performed on file", "Rosetta event DPS 24"]
    assert [(link.identifier, [role.text for role in link.roles]) for link in first.agents] == [
        (("SOFTWARE", "REG_SA_DROID , Version 6.01"), []),
        (("USER", "jdoe"), ["operator"]),
    ]
    assert [(each.word.text, each.details[0].text) for each in first.results] == [
        ("SUCCESS", "PROCESS_ID=;PID=IE53300;SIP_ID=997;")
    ]


def test_actions_of_one_event_on_one_entity_are_one_event() -> None:
    (text,) = SYSTEMS["preservica"](1).documents.values()
    ingest, modified, _ = read_premis(text.encode()).events
    assert [each.text for each in modified.details] == [
        "AddIdentifier 2023-06-21T08:14:08.441Z",
        "command_update 2023-06-21T08:14:08.441Z",
    ]
    assert ingest.agents[0].identifier == ("XIP user", "test user")


def test_a_record_of_rosetta_in_a_section_that_names_nobody_says_so() -> None:
    (text,) = SYSTEMS["rosetta"](0).documents.values()
    (event, *_) = read_premis(text.replace('ID="IE53300-amd"', 'ID="ie-amd"').encode()).events
    assert (event.objects, event.why) == ((), "its section names no object (no internalIdentifier, no PID in its ID)")


def test_an_event_of_a_division_is_the_packages_and_not_the_only_files() -> None:
    (text,) = national_library(1).documents.values()
    of_file, of_package = read_premis(text.encode()).events
    assert of_file.objects[0].identifier[0] == "UUID"
    assert of_package.objects[0].identifier[0] == "METS OBJID"


def test_an_event_whose_section_nobody_names_is_about_the_only_object_of_that_section() -> None:
    (text,) = archivematica(2).documents.values()
    read = read_premis(text.replace("ADMID", "NAMES").encode())
    assert [event.objects for event in read.events] == [event.objects for event in read_premis(text.encode()).events]


def test_an_object_that_is_described_twice_is_one() -> None:
    again = wrap(
        "techMD", "t2", "PREMIS:OBJECT", '<premis:object xmlns:premis="info:lc/xmlns/premis-v2">{}</premis:object>'
    )
    (text,) = archivematica(1).documents.values()
    sample = archivematica(1)
    name = sample.expected[0].objects[0][1]
    text = text.replace("<mets:digiprovMD", again.format(pair("object", "UUID", name)) + "<mets:digiprovMD", 1)
    assert {event.objects[0].identifier for event in read_premis(text.encode()).events} == {("UUID", name)}


def test_an_event_is_about_what_it_names_and_what_names_it() -> None:
    from kernel.history.foreign import about, event, link, premis, thing

    named = link("linkingEvent", "local", "1")
    objects = [
        thing(("local", "a"), ("UUID", "x"), inside=named),
        thing(("local", "b"), inside=named),
        thing(("local", "c")),
    ]
    (found,) = read_premis(premis(*objects, event(about("UUID", "x", "source"))).encode()).events
    assert [each.identifier for each in found.objects] == [("UUID", "x"), ("local", "b")]


def test_an_event_that_could_be_about_several_is_about_none() -> None:
    (text,) = national_library(2).documents.values()
    loose = text.replace("ADMID", "NAMES").replace("OBJID", "NAME")
    whys = {event.why for event in read_premis(loose.encode()).events}
    assert whys == {"it names no object, and the document has 2"}


def test_premis_that_is_only_named_or_packed_is_told() -> None:
    named = (
        '<mets:amdSec><mets:digiprovMD ID="d"><mets:mdRef xmlns:xlink="http://www.w3.org/1999/xlink" MDTYPE="PREMIS" '
        'xlink:href="metadata/preservation/e.xml"/></mets:digiprovMD><mets:digiprovMD ID="e"><mets:mdWrap MDTYPE="PREMIS">'
        "<mets:binData>PGV2ZW50Lz4=</mets:binData></mets:mdWrap></mets:digiprovMD></mets:amdSec>"
    )
    read = read_premis(mets(named).encode())
    assert read.refers == ("metadata/preservation/e.xml",)
    assert read.losses == ("line 1: PREMIS that is packed as base64",)


@pytest.mark.parametrize("events", [400, 4000])
def test_a_package_of_thousands_is_read_in_the_time_of_thousands(events: int) -> None:
    import time

    (text,) = archivematica(events // 5).documents.values()
    began = time.thread_time()
    assert len(read_premis(text.encode()).events) == events
    assert time.thread_time() - began < events / 400


def test_one_that_refers_to_everything_says_nothing_of_an_event() -> None:
    (text,) = national_library(1500).documents.values()
    everything = " ".join(f"tech-{number}" for number in range(1500))
    read = read_premis(text.replace('ADMID="event-all"', f'ADMID="event-all {everything}"').encode())
    assert read.events[-1].objects[0].identifier[0] == "METS OBJID"
