"""Taking over other people's history: every event with all it says, once, and never as our own word."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import pytest
from lxml import etree

from custody.errors import BadInput
from custody.formats.premis.reader import read_premis
from custody.kernel.history.exchange.habits import Habits
from custody.kernel.history.exchange.identity import Naming, everywhere
from custody.kernel.history.exchange.premis_writer import premis_document
from custody.kernel.history.head import from_moment
from custody.kernel.model.event import Event, NewEvent
from custody.kernel.model.names.reserved import details, events, notes
from custody.kernel.stores import open_store
from formats.premis.systems import SYSTEMS
from formats.premis.test_reading import FULL, OLDER
from kernel.history.foreign import LOCAL, about, event, link, outcome, premis, taken, thing, written
from kernel.history.schemas import schema

NAME = "archive.example.org"
ITEM = "item/ark:/99999/fk4x"
EVENT = Event(
    7, ITEM, 3, "fixity check", "failure", "checksum-checker 1.2", 1_772_000_000_123_456, {"reason": "2 of 9"}
)
SOMEWHERE = Naming(system="there")
JSON = '<map xmlns="http://www.w3.org/2005/xpath-functions">{}</map>'


def test_what_an_older_framework_recorded_is_kept_whole() -> None:
    found = taken(OLDER, naming=Naming(ours=frozenset({"Newspaper_digitisation_project"})))
    project = "Newspaper_digitisation_project"
    record = {
        "identifier": [project, "B400022028241-RT1-86400000"],
        "type": "Data_Received",
        "at": "1970-01-02T01:00:00.000+01:00",
        "details": ["by disk"],
        "outcomes": [{"outcome": "success", "details": ["details here"]}],
        "agents": [{"id": [project, "batch_uploaded_trigger"], "ids": [[project, "batch_uploaded_trigger"]]}],
        "objects": [{"id": [project, "B400022028241-RT1"]}],
        "item": [[project, "B400022028241-RT1"]],
    }
    detail = {"note": "by disk\ndetails here", "premis": record}
    assert found.events == [
        NewEvent("B400022028241-RT1", "Data_Received", "success", "imported: batch_uploaded_trigger", detail)
    ]
    assert (found.losses, found.remarks, found.new, found.known) == ([], [], 1, 0)


def test_what_we_exported_comes_in_again_with_its_detail_and_its_origin() -> None:
    found = taken(premis_document([EVENT], origin=NAME))
    (made,) = found.events
    assert (made.item, made.type, made.outcome) == ("ark:/99999/fk4x", "fixity check", "failure")
    assert made.agent == "imported: checksum-checker 1.2"
    record = made.detail["premis"]
    assert (record["identifier"], record["at"]) == (["custody", f"{NAME}/{ITEM}#3"], "2026-02-25T06:13:20.123456Z")
    assert record["said"] == {"reason": "2 of 9"}
    job = taken(premis_document([replace(EVENT, subject="job/12")], origin=NAME))
    assert job.events == []
    assert "it is no item, but a part of another Custody" in job.losses[0]


@pytest.mark.parametrize(
    ("type_", "taken_as"),
    [
        *((each, each) for each in [*sorted(events().told), "Changed", "task build"]),
        ("сhanged", "event"),
        ("ｉｎｇｅｓｔｅｄ", "ingested"),
        ("app\u3164roved", "approved"),
        ("ingestion (AIP)", "ingestion AIP"),
        ("\u202edevorppa", "devorppa"),
        ("ᎪᏢᏢᎡᎾᏙᎬᎠ", "event"),
        ("imported сhanged", "event"),
        ("!", "event"),
    ],
)
def test_what_comes_from_outside_never_passes_for_what_the_system_records(type_: str, taken_as: str) -> None:
    words = "".join(f'<string key="{word}">x</string>' for word in sorted({*notes().told, *details().told, "pages"}))
    inside = f"<eventOutcomeDetailExtension>{JSON.format(words)}</eventOutcomeDetailExtension>"
    told = event(outcome("ok", inside) + link("linkingAgent", "local", "system") + about("local", "x"), type=type_)
    (made,) = taken(told).events
    assert (made.item, made.type, made.agent) == ("x", f"imported {taken_as}", "imported: system")
    assert made.detail.keys() == {"pages", "premis"}
    assert made.detail["premis"]["type"] == type_
    assert made.detail["premis"]["said"].keys() == notes().told.keys() | details().told.keys()
    assert (made.teller, made.seen) == ("", None)


@pytest.mark.parametrize("type_", ["imported approved", "Ingest_Start", "fixity check", "контроль целостности"])
def test_a_type_that_may_be_one_is_taken_over_as_it_is(type_: str) -> None:
    (made,) = taken(event(about("local", "x"), type=type_)).events
    assert made.type == type_, "what was imported once is not imported twice"


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("success", "success"),
        ("Success", "success"),
        (" Pass \n", "success"),
        ("fail", "failure"),
        ("FAILURE", "failure"),
        ("Warning", "warning"),
        ("PARTIAL_SUCCESS", "warning"),
        ("", "none"),
        ("http://id.loc.gov/vocabulary/preservation/eventOutcome/fai", "failure"),
    ],
)
def test_the_words_for_outcomes_are_many(word: str, meaning: str) -> None:
    found = taken(event(outcome(word) + about("local", "x")))
    assert (found.events[0].outcome, found.remarks) == (meaning, [])


def test_an_unknown_word_opens_no_gate_and_is_told() -> None:
    document = event(outcome("so so") + about("local", "x"))
    found = taken(document)
    assert found.events[0].outcome == "failure"
    assert found.remarks == [
        "1.xml: line 1: event local 1 (ingestion): the outcome 'so so' is not known; taken as failure"
    ]
    told = taken(document, habits=Habits(outcomes={"so so": "warning"}))
    assert (told.events[0].outcome, told.remarks) == ("warning", [])


def test_what_silence_means_may_be_said() -> None:
    silent = event(about("local", "x"))
    assert taken(silent).events[0].outcome == "none"
    assert taken(silent, habits=Habits(outcomes={"": "success"})).events[0].outcome == "success"


def test_of_several_outcomes_the_gravest_counts_and_all_are_kept() -> None:
    words = ["pass", "warning", "failed", "pass"]
    (made,) = taken(event("".join(map(outcome, words)) + about("local", "x"))).events
    assert made.outcome == "failure"
    assert [each["outcome"] for each in made.detail["premis"]["outcomes"]] == words


COPENHAGEN = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2014-01-07T13:53:41Z", "2014-01-07T13:53:41Z"),
        ("2014-01-07T13:53:41.5Z", "2014-01-07T13:53:41.500000Z"),
        ("2014-01-07T13:53:41.123456789Z", "2014-01-07T13:53:41.123456Z"),
        ("2014-01-07T13:53:41+0100", "2014-01-07T12:53:41Z"),
        ("2014-01-07T13:53:41+01:00", "2014-01-07T12:53:41Z"),
        ("2014-01-07 13:53:41", "2014-01-07T12:53:41Z"),
        ("2014-01-07T13:53", "2014-01-07T12:53:00Z"),
        ("20140107T135341Z", "2014-01-07T13:53:41Z"),
        ("2014-01-07", "2014-01-06T23:00:00Z"),
        ("2014-01", "2013-12-31T23:00:00Z"),
        ("2014", "2013-12-31T23:00:00Z"),
    ],
)
def test_times_are_read_however_they_are_written(text: str, moment: str) -> None:
    assert Habits(zone=COPENHAGEN).time(text) == from_moment(moment)


@pytest.mark.parametrize("text", ["", "yesterday", "2014-13-01", "2014~", "99999-01-01", "0000"])
def test_a_time_nobody_can_read_is_kept_and_told(text: str) -> None:
    found = taken(f"<x>{event(about('local', 'x'), at=text)}{event(about('local', 'x'), id='2')}</x>")
    assert [made.detail["premis"]["at"] for made in found.events] == ["2026-03-01T00:00:00Z", text] or text == ""
    assert found.remarks == [f"1.xml: line 1: event local 1 (ingestion): the time {text!r} cannot be read"]


def test_events_are_appended_in_the_order_of_their_own_times() -> None:
    years = ["2020", "2006-07-06", "2013-01-01T00:00:00Z"]
    told = "".join(event(about("local", "x"), id=year, at=year) for year in years)
    assert [made.detail["premis"]["at"] for made in taken(f"<x>{told}</x>").events] == sorted(years)


def test_an_old_event_that_comes_late_is_not_the_newest_of_its_type() -> None:
    mine = Event(1, "item/x", 1, "fixity check", "failure", "robot 1", 1_772_000_000_000_000, {})
    old, new = (
        event(outcome("pass") + about("local", "x"), type="fixity check", at=at, id=at) for at in ("2006", "2027")
    )
    found = taken(f"<x>{new}{old}</x>", history={"x": [mine]})
    assert [(made.type, made.detail["premis"]["at"]) for made in found.events] == [
        ("imported fixity check", "2006"),
        ("fixity check", "2027"),
    ]
    assert taken(old).events[0].type == "fixity check", "where there is none, it is the newest"
    later = taken(old, history=written(taken(new).events))
    assert later.events[0].type == "imported fixity check", "whoever recorded the newer one"
    timeless = taken(f"<x>{old.replace('>2006</eventDateTime', '>once</eventDateTime')}{new}</x>")
    assert [made.type for made in timeless.events] == ["fixity check", "imported fixity check"]
    (exported,) = read_premis(premis_document(written(later.events)["x"], origin=NAME)).events
    assert exported.type.text == "fixity check", "outside it is called what it was called"


def test_agents_linked_by_a_number_are_called_by_their_names_and_all_are_named() -> None:
    both = event(
        link("linkingAgent", "user pk", "1", "implementer") + link("linkingAgent", "user pk", "2") + about("local", "x")
    )
    agent = (
        f'<agent xmlns="http://www.loc.gov/premis/v3">{link("agent", "user pk", "1")}<agentName>Ann</agentName></agent>'
    )
    (made,) = taken(f"<x>{both}{agent}</x>").events
    assert made.agent == "imported: Ann, 2"
    assert made.detail["premis"]["agents"] == [
        {"id": ["user pk", "1"], "roles": ["implementer"], "ids": [["user pk", "1"]], "names": ["Ann"]},
        {"id": ["user pk", "2"]},
    ]
    system = Naming("there", frozenset({"local"}))
    (apart,) = taken(f"<x>{both}</x>", agent, naming=system).events
    assert apart.agent == "imported: Ann, 2", "an agent may have a file of its own"
    (unsaid,) = taken(f"<x>{both}</x>", agent).events
    assert unsaid.agent == "imported: 1, 2", "of the same system"
    (doubtful,) = taken(f"<x>{both}{agent}{agent.replace('Ann', 'Bob')}</x>").events
    assert doubtful.agent == "imported: 1, 2"
    other = taken(f"<x>{both}{agent}</x>", agent.replace("Ann", "Bob")).events[0]
    assert other.agent == "imported: Ann, 2", "the number is another's in another document"


@pytest.mark.parametrize(
    "map_",
    [
        "<number key='n'>NaN</number>",
        "<number key='n'>many</number>",
        f"<number key='n'>{2**70}</number>",
        "<boolean key='b'>perhaps</boolean>",
        "<string>no key</string>",
        "<string key='s' escaped='true'>\\ud800</string>",
        "<string key='s' escaped='true'>\"</string>",
        "<set key='s'/>",
    ],
)
def test_an_extension_that_history_could_not_keep_is_told_and_stays_text(map_: str) -> None:
    inside = f"<eventOutcomeDetailExtension>{JSON.format(map_)}</eventOutcomeDetailExtension>"
    found = taken(event(outcome("pass", inside) + about("local", "x")))
    assert found.events[0].detail.keys() == {"premis"}
    assert len(found.remarks) == 1
    assert "cannot be read" in found.remarks[0]


# --- which item ---


def test_the_same_number_of_two_types_is_two_items() -> None:
    found = taken(premis(event(about("A", "1"), id="a"), event(about("B", "1"), id="b")), naming=SOMEWHERE)
    assert [made.item for made in found.events] == ["there/A/1", "there/B/1"]
    assert [made.detail["premis"]["item"] for made in found.events] == [[["A", "1"]], [["B", "1"]]]


def test_the_same_number_of_two_systems_is_two_items_and_of_one_system_one() -> None:
    one = premis(thing(("local", "1")), event(id="a"))
    other = premis(thing(("local", "1")), event(id="b"))
    there, elsewhere = (taken(one, naming=Naming(system=name)).events[0].item for name in ("there", "elsewhere"))
    assert (there, elsewhere) == ("there/local/1", "elsewhere/local/1")
    assert {made.item for made in taken(one, other, naming=SOMEWHERE).events} == {"there/local/1"}


def test_a_local_number_is_nobodys_until_it_is_said_whose() -> None:
    found = taken(premis(thing(("local", "1")), event()), naming=Naming())
    assert (found.events, found.new) == ([], 0)
    assert found.losses == [
        "1.xml: line 1: event local 1 (ingestion): not attached to 'local 1': this identifier is unique only in the"
        " system it is from, and nobody said which that is"
    ]


@pytest.mark.parametrize(
    ("identifier", "item"),
    [
        (("ARK", "ark:/99999/fk4x"), "ark:/99999/fk4x"),
        (("DOI", "10.5072/x"), "doi:10.5072/x"),
        (("doi", "doi:10.5072/x"), "doi:10.5072/x"),
        (("hdl", "2027/x"), "hdl:2027/x"),
        (("URI", "info:fda/E1"), "info:fda/E1"),
        (("x", "URN:ISBN:1"), "URN:ISBN:1"),
        (("UUID", "52FDFC07-2182-454F-963F-5F0F9A621D72"), "52fdfc07-2182-454f-963f-5f0f9a621d72"),
        (("URL", "http://example.org/1"), "http://example.org/1"),
        (("URL", "http://localhost:8080/1"), ""),
        (("URL", "file:///tmp/x"), ""),
        (("local", "1"), ""),
        (("DOI", "none"), ""),
        (("PID", "FL1"), ""),
    ],
)
def test_what_is_unique_everywhere_is_the_items_id(identifier: tuple[str, str], item: str) -> None:
    assert everywhere(identifier) == item


def test_of_several_identifiers_the_one_that_is_unique_names_the_item() -> None:
    found = taken(premis(thing(("local", "1"), ("DOI", "10.5072/x")), event(about("local", "1"))), naming=SOMEWHERE)
    assert found.events[0].item == "doi:10.5072/x"
    assert found.events[0].detail["premis"]["item"] == [["local", "1"], ["DOI", "10.5072/x"]]


def test_what_one_document_says_of_an_object_holds_for_the_others_of_its_system() -> None:
    described, named = (
        premis(thing(("local", "1"), ("DOI", "10.5072/x")), event(id="a")),
        event(about("local", "1"), id="b"),
    )
    assert {made.item for made in taken(described, named, naming=SOMEWHERE).events} == {"doi:10.5072/x"}
    apart = taken(described, named, naming=Naming())
    assert [made.item for made in apart.events] == ["doi:10.5072/x"]
    assert "not attached to 'local 1'" in apart.losses[0], "nobody said that they are of one system"
    bare = premis(thing(("local", "1")), event(id="c"))
    assert {made.item for made in taken(bare, described, naming=SOMEWHERE).events} == {"doi:10.5072/x"}


def test_two_agents_of_one_number_are_not_taken_for_each_other_in_an_export() -> None:
    parts = []
    for name, system in (("Ann", "a"), ("Bob", "b")):
        agent = f"<agent>{link('agent', 'local', '1')}<agentName>{name}</agentName></agent>"
        told = premis(event(link("linkingAgent", "local", "1") + about("DOI", "10.5072/x"), id=name), agent)
        parts += taken(told, naming=Naming(system)).events
    exported = premis_document(written(parts)["doi:10.5072/x"], origin=NAME)
    assert [each.names for each in read_premis(exported).agents] == [("Ann",), ("Bob",)]
    assert [made.agent for made in taken(exported).events] == ["imported: 1", "imported: 1"]


def test_a_type_with_a_slash_does_not_reach_into_another() -> None:
    assert Naming("s").item([("a/b", "1")]) == "s/a%2Fb/1" != Naming("s").item([("a", "b/1")])


@pytest.mark.parametrize("system", ["a/b", "urn:x", "50%", " a", "a\u200b", "x" * 300])
def test_a_system_has_a_plain_name(system: str) -> None:
    with pytest.raises(BadInput, match="cannot be a system"):
        Naming(system)


def test_an_id_that_nobody_sees_is_told() -> None:
    found = taken(event(about("local", "a\u200bb")))
    assert found.events == []
    assert "has no characters that are not shown" in found.losses[0]


# --- what is left out ---


def test_an_event_that_is_about_nothing_is_told_by_its_identifier_and_the_others_are_taken() -> None:
    found = taken(
        premis(thing(("local", "1")), thing(("local", "2")), event(id="loose"), event(about("local", "1"), id="tied"))
    )
    assert [made.detail["premis"]["identifier"][1] for made in found.events] == ["tied"]
    assert found.losses == [
        "1.xml: line 1: event local loose (ingestion): it names no object, and the document has 2; not attached"
    ]
    assert (found.found, found.new, found.known) == (2, 1, 0)


def test_an_event_that_does_not_say_what_happened_is_told_and_counted() -> None:
    found = taken(f"<x>{event(about('local', 'x'), type='')}{event(about('local', 'x'), id='2')}</x>")
    assert found.losses == ["1.xml: line 1: event local 1 (without a type): it does not say what happened; not taken"]
    assert (found.found, found.new, found.known) == (2, 1, 0)


def test_an_event_about_two_of_which_one_is_unknown_is_taken_for_the_other_and_told() -> None:
    found = taken(event(about("DOI", "10.5072/x") + about("PID", "1")), naming=Naming())
    assert [made.item for made in found.events] == ["doi:10.5072/x"]
    assert "not attached to 'PID 1'" in found.losses[0]


def test_a_document_without_events_is_told() -> None:
    assert taken("<mods/>").losses == ["1.xml: no PREMIS, and nothing else that is understood, in <mods>"]
    assert taken(premis(thing(("local", "1")))).losses == ["no events: nothing is imported"]


def test_a_file_that_is_named_and_not_given_is_told() -> None:
    mets = (
        '<mets xmlns="http://www.loc.gov/METS/" xmlns:xlink="http://www.w3.org/1999/xlink"><amdSec><digiprovMD ID="a">'
        '<mdRef MDTYPE="PREMIS" xlink:href="preservation/{}"/></digiprovMD></amdSec></mets>'
    )
    told = event(about("local", "x"))
    assert taken(mets.format("e.xml"), told).losses[-1] == "1.xml: preservation/e.xml is named there and was not given"
    assert not any("is named there" in loss for loss in taken(mets.format("2.xml"), told).losses)


def test_an_event_that_is_too_large_is_told_and_the_others_are_taken() -> None:
    long = "<eventDetailInformation><eventDetail>" + "x" * (5 << 20) + "</eventDetail></eventDetailInformation>"
    found = taken(f"<x>{event(long + about('local', 'x'))}{event(about('local', 'x'), id='2')}</x>")
    assert [made.detail["premis"]["identifier"][1] for made in found.events] == ["2"]
    assert "bytes, and at most 4,194,304 are kept; not taken" in found.losses[0]


@pytest.mark.parametrize(("deep", "is_kept"), [(50, True), (61, True), (62, False), (63, False)])
def test_an_event_that_is_too_deep_to_be_sealed_is_told_and_the_others_are_taken(deep: int, is_kept: bool) -> None:
    nested = f'<array key="reason">{"<array>" * (deep - 1)}{"</array>" * (deep - 1)}</array>'
    inside = f"<eventOutcomeDetailExtension>{JSON.format(nested)}</eventOutcomeDetailExtension>"
    told = event(outcome("pass", inside) + about("local", "x"))
    found = taken(f"<x>{told}{event(about('local', 'x'), id='2')}</x>")
    assert len(found.events) == 1 + is_kept
    assert is_kept or "it cannot be kept: it is nested more than 64 deep" in found.losses[0]
    with open_store("sqlite://:memory:") as store:
        store.records.put(found.items, found.events, "me")


# --- once ---


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_imported_twice_is_there_once(system: str) -> None:
    documents = list(SYSTEMS[system]().documents.values())
    first = taken(*documents, naming=SOMEWHERE)
    assert first.losses == []
    assert first.new == first.found > 0
    again = taken(*documents, naming=SOMEWHERE, history=written(first.events))
    assert (again.events, again.losses, again.known) == ([], [], first.found)
    twice = taken(*documents, *documents, naming=SOMEWHERE)
    assert [each.detail for each in twice.events] == [each.detail for each in first.events]


@pytest.mark.parametrize(
    ("part", "instead", "differs"),
    [
        ("2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z", "time"),
        (">ingestion<", ">migration<", "type"),
        (">pass<", ">fail<", "outcome"),
        (">a note<", ">another<", "detail"),
        (">Ann<", ">Bob<", "agent"),
        (">source<", ">result<", "object"),
    ],
)
def test_the_same_identifier_with_other_content_is_a_conflict(part: str, instead: str, differs: str) -> None:
    detail = "<eventDetailInformation><eventDetail>a note</eventDetail></eventDetailInformation>"
    one = event(detail + outcome("pass") + link("linkingAgent", "local", "Ann") + about("local", "x", "source"))
    other = one.replace(part, instead)
    assert one != other
    expected = f"event local 1 ({'migration' if differs == 'type' else 'ingestion'}): x has one of this identifier with another {differs}; not taken"
    found = taken(other, history=written(taken(one).events))
    assert (found.events, found.known) == ([], 0)
    assert found.losses == [f"1.xml: line 1: {expected}"]
    within = taken(f"<x>{one}{other}</x>")
    assert (len(within.events), len(within.losses)) == (1, 1), "nor in one document"


def test_the_same_moment_written_otherwise_is_no_conflict() -> None:
    one, other = (event(about("local", "x"), at=at) for at in ("2014-01-07T13:53:41Z", "2014-01-07T14:53:41.000+01:00"))
    assert taken(other, history=written(taken(one).events)).known == 1


def test_the_same_identifier_at_another_item_is_another_event() -> None:
    found = taken(event(about("local", "x")), event(about("local", "y"), at="2020"))
    assert [made.item for made in found.events] == ["y", "x"]
    assert found.losses == []


def test_an_event_without_an_identifier_is_known_by_what_it_says() -> None:
    one = event(about("local", "x"), id="")
    first = taken(one)
    assert first.events[0].detail["premis"]["identifier"][0] == "sha-256"
    assert "event without an identifier (ingestion): from now on it is known by what it says" in first.remarks[0]
    assert taken(one, history=written(first.events)).known == 1
    assert taken(one.replace("2026-03-01", "2026-03-02"), history=written(first.events)).new == 1


def test_our_own_events_that_come_home_are_known() -> None:
    mine = {"ark:/99999/fk4x": [EVENT]}
    home = premis_document([EVENT], origin=NAME)
    away = premis_document(written(taken(home).events)["ark:/99999/fk4x"], origin="elsewhere.example.org")
    for document in (home, away):
        found = taken(document, history=mine, origin=NAME)
        assert (found.events, found.known, found.losses) == ([], 1, [])
    changed = {"ark:/99999/fk4x": [replace(EVENT, type="other")]}
    assert "with another type" in taken(home, history=changed, origin=NAME).losses[0]
    unnamed = premis_document([EVENT], origin="custody")
    assert taken(unnamed, history=changed, origin="custody").new == 1, "two histories without a name are not one"


def test_what_an_import_of_before_kept_is_known_and_leaves_with_its_own_date() -> None:
    record = {"identifier": ["local", "1"], "at": "2006-07-06", "outcome": "Pass"}
    before = Event(1, "item/x", 1, "ingestion", "success", "imported: Ann", 5, {"note": "words", "premis": record})
    told = event(outcome("Pass") + about("local", "x"), at="2006-07-06")
    assert taken(told, history={"x": [before]}).known == 1
    assert "another time" in taken(told.replace("2006-07-06", "2007"), history={"x": [before]}).losses[0]
    (found,) = read_premis(premis_document([before], origin=NAME)).events
    assert (found.identifier, found.at, found.agents[0].identifier[1]) == (("local", "1"), "2006-07-06", "Ann")
    assert (found.details[0].text, found.results[0].word.text) == ("words", "Pass")


# --- from hop to hop ---


def told(document: bytes) -> Any:
    """What a document says of events that others recorded, without its layout."""
    found = read_premis(document)
    return sorted((replace(each, line=0) for each in found.events if each.identifier[0] != "custody"), key=repr)


@pytest.mark.parametrize("system", ["all at once", *SYSTEMS])
def test_an_event_is_the_same_after_three_archives(system: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    premis3 = schema("premis-v3-0.xsd", tmp_path_factory.mktemp("xsd"))
    documents = [FULL] if system == "all at once" else list(SYSTEMS[system]().documents.values())
    first = taken(*documents, naming=SOMEWHERE)
    here = written(first.events)
    exported = premis_document([each for events in here.values() for each in events], origin=NAME)
    premis3.assertValid(etree.fromstring(exported))
    dates = {each.detail["premis"]["at"] for each in first.events}
    assert {each.at for each in read_premis(exported).events} == dates, "its own, and not that of the import"
    second = taken(exported)
    assert second.losses == []
    there = written(second.events, at=1_800_000_000_000_000)
    assert there.keys() == here.keys(), "the items are the same"
    again = premis_document([each for events in there.values() for each in events], origin="second.example.org")
    assert told(again) == told(exported)
    assert taken(again, history=here).known == len(told(exported))
    originals = taken(*documents, naming=SOMEWHERE, history=there)
    assert (originals.events, originals.losses) == ([], []), "what came by a detour is not taken again"


def test_an_event_about_two_items_is_one_event_in_an_export_of_both() -> None:
    first = taken(FULL, naming=LOCAL)
    assert sorted(made.item for made in first.events) == ["1", "doi:10.5072/x"]
    events = [each for mine in written(first.events).values() for each in mine]
    assert len(read_premis(premis_document(events, origin=NAME)).events) == 1
