"""PREMIS: what we write satisfies the official schema, and reads back as it was."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from custody.errors import BadInput
from custody.formats.premis.json_xml import from_json_xml, json_xml
from custody.formats.premis.model import Link, PremisEvent
from custody.formats.premis.reader import read_premis
from custody.formats.text.readers import read_xml
from custody.kernel.history.exchange.habits import Habits
from custody.kernel.history.exchange.identity import object_identifier
from custody.kernel.history.exchange.premis_writer import Agent, agent_by_its_name, premis_document, premis_event
from custody.kernel.model.event import Event
from kernel.history.archive import grown_archive
from kernel.history.foreign import taken
from kernel.history.schemas import schema

NAME = "archive.example.org"
ITEM = "item/ark:/99999/fk4x"
AT = 1_772_000_000_123_456
EVENT = Event(7, ITEM, 3, "fixity check", "failure", "checksum-checker 1.2", AT, {"reason": "2 of 9 differ"})


@pytest.fixture(scope="module")
def premis3(tmp_path_factory: pytest.TempPathFactory) -> etree.XMLSchema:
    return schema("premis-v3-0.xsd", tmp_path_factory.mktemp("xsd"))


def texts(document: bytes, name: str) -> list[str | None]:
    return [found.text for found in etree.fromstring(document).iter(f"{{*}}{name}")]


# --- writing ---


@pytest.mark.parametrize("seed", range(5))
def test_what_is_exported_satisfies_the_official_schema(seed: int, premis3: etree.XMLSchema) -> None:
    events = list(grown_archive(Random(seed)).events.values())
    premis3.assertValid(etree.fromstring(premis_document(events, origin=NAME)))


ODD = {
    "nothing said": replace(EVENT, agent="", detail={}, outcome="none"),
    "only a detail": replace(EVENT, outcome="none", detail={"files": 3}),
    "characters that XML has not": replace(
        EVENT,
        agent="a\x00b",
        type="t\x1b[0m",
        subject="item/\x07",
        detail={"reason": "\x00", "\x01k": ["\ufffe"]},
    ),
    "brackets": replace(EVENT, agent="<a>&", detail={"note": "]]><b/>", "<k>": "&amp;"}),
    "a report": replace(
        EVENT,
        detail={
            "findings": [{"code": "R104", "file": "a.jp2", "sizes": [1, 2.5, None, True, False]}],
            "empty": [{}, []],
        },
    ),
    "before 1970": replace(EVENT, at=-1),
    "a person": replace(EVENT, agent="Björn Ærø"),
    "an odd name": replace(EVENT, subject="hold/collection/maps"),
}


@pytest.mark.parametrize("event", ODD.values(), ids=ODD.keys())
def test_odd_events_satisfy_the_official_schema_too(event: Event, premis3: etree.XMLSchema) -> None:
    premis3.assertValid(etree.fromstring(premis_document([event], origin=NAME)))
    premis3.assertValid(etree.fromstring(premis_event(event, origin=NAME)))


BREAK = [
    (r"<eventType>[^<]*</eventType>", ""),
    (r"<object .*?</object>", ""),
    (r"<eventIdentifierType>custody</eventIdentifierType>", ""),
    (r'version="3.0"', 'version="2.2"'),
    (r"<agentIdentifier>.*?</agentIdentifier>", ""),
    (r"<eventOutcomeDetailExtension>.*?</eventOutcomeDetailExtension>", "<eventOutcomeDetailExtension/>"),
    (r"<eventOutcomeInformation>", "<eventDetail>as in version 2</eventDetail><eventOutcomeInformation>"),
    (r"intellectualEntity", "thing"),
]


@pytest.mark.parametrize(("part", "instead"), BREAK)
def test_the_schema_refuses_our_export_once_it_is_broken(part: str, instead: str, premis3: etree.XMLSchema) -> None:
    text = premis_document([EVENT], origin=NAME).decode()
    broken = re.sub(part, instead, text, count=1, flags=re.DOTALL)
    assert broken != text
    assert premis3.validate(etree.fromstring(text.encode()))
    assert not premis3.validate(etree.fromstring(broken.encode()))


def test_outcomes_are_the_terms_of_the_library_of_congress() -> None:
    events = [replace(EVENT, outcome=outcome) for outcome in ("success", "failure", "warning")]
    document = premis_document(events, origin=NAME)
    assert texts(document, "eventOutcome") == ["success", "fail", "warning"]
    outcomes = etree.fromstring(document).iter("{*}eventOutcome")
    addresses = [outcome.get("valueURI", "").rsplit("/", 2)[1:] for outcome in outcomes]
    assert addresses == [["eventOutcome", "suc"], ["eventOutcome", "fai"], ["eventOutcome", "war"]]
    assert b"eventOutcomeInformation" not in premis_event(ODD["nothing said"], origin=NAME)


def test_identifiers_are_the_same_in_every_export_and_database() -> None:
    again = replace(EVENT, id=99)
    assert premis_event(EVENT, origin=NAME) == premis_event(again, origin=NAME)
    assert texts(premis_event(EVENT, origin=NAME), "eventIdentifierValue") == [f"{NAME}/{ITEM}#3"]


@pytest.mark.parametrize(
    ("subject", "identifier"),
    [
        (ITEM, ("ARK", "ark:/99999/fk4x")),
        ("item/doi:10.5072/x", ("DOI", "doi:10.5072/x")),
        ("item/urn:uuid:1", ("URN", "urn:uuid:1")),
        ("item/https://example.org/1", ("URI", "https://example.org/1")),
        ("item/B400022028241-RT1", ("local", "B400022028241-RT1")),
        ("item/52fdfc07-2182-454f-963f-5f0f9a621d72", ("UUID", "52fdfc07-2182-454f-963f-5f0f9a621d72")),
        ("job/12", ("custody", "job/12")),
    ],
)
def test_objects_are_named_as_others_know_them(subject: str, identifier: tuple[str, str]) -> None:
    assert object_identifier(subject) == identifier
    document = premis_document([replace(EVENT, subject=subject)], origin=NAME)
    read = read_premis(document)
    assert read.events[0].objects == (Link(identifier),)
    assert [each.identifiers for each in read.objects] == [(identifier,)]


def test_each_object_and_agent_is_described_once() -> None:
    events = [replace(EVENT, seq=seq, agent=agent) for seq, agent in enumerate(["a 1.0", "Ann", "a 1.0"], 1)]
    document = premis_document(events, origin=NAME, subjects=[ITEM, "item/other"])
    assert texts(document, "objectIdentifierValue") == ["ark:/99999/fk4x", "other"]
    assert texts(document, "agentIdentifierValue") == ["a 1.0", "Ann"]
    assert texts(document, "agentName") == ["a", "Ann"]
    assert texts(document, "agentVersion") == ["1.0"]
    assert texts(document, "linkingAgentRole") == ["executing program"] * 2


@pytest.mark.parametrize(
    ("agent", "described"),
    [
        ("checksum-checker 1.2", Agent("checksum-checker", "software", "1.2")),
        ("receiver/v2.0-rc1", Agent("receiver", "software", "v2.0-rc1")),
        ("Ann", Agent("Ann")),
        ("worker@host-3", Agent("worker@host-3")),
    ],
)
def test_a_name_with_a_version_is_a_programs(agent: str, described: Agent) -> None:
    assert agent_by_its_name(agent) == described


def test_who_knows_more_about_agents_may_say_so(premis3: etree.XMLSchema) -> None:
    document = premis_document([EVENT], origin=NAME, agents=lambda name: Agent("Ann", "person"))
    assert texts(document, "agentType") == ["person"]
    assert texts(document, "linkingAgentRole") == ["implementer"]
    premis3.assertValid(etree.fromstring(document))


def test_event_types_may_be_given_outside_words_and_come_back() -> None:
    document = premis_document([replace(EVENT, type="moved")], origin=NAME, types={"moved": "ingestion"})
    assert texts(document, "eventType") == ["ingestion"]
    (event,) = taken(document, habits=Habits(types={"ingestion": "moved"})).events
    assert event.type == "moved"


def test_an_erased_body_is_told_as_erased(premis3: etree.XMLSchema) -> None:
    gone = replace(EVENT, agent="", detail={})
    document = premis_document([gone], origin=NAME, erased={(ITEM, 3): "erasures#1"})
    premis3.assertValid(etree.fromstring(document))
    assert texts(document, "eventDetail") == ["agent and detail were erased, as erasures#1 says"]


def test_what_is_not_known_is_left_out_instead_of_written_empty() -> None:
    bare = premis_document([replace(EVENT, agent="Ann", detail={})], origin=NAME)
    for name in ("eventDetailInformation", "eventOutcomeDetail", "agentType", "agentVersion", "linkingAgentRole"):
        assert texts(bare, name) == []
    assert texts(premis_document([ODD["only a detail"]], origin=NAME), "eventOutcomeDetailNote") == []


def test_a_report_is_structured_and_its_reason_is_also_told_in_words() -> None:
    document = premis_document([EVENT], origin=NAME)
    assert texts(document, "eventOutcomeDetailNote") == ["2 of 9 differ"]
    (extension,) = etree.fromstring(document).iter("{*}eventOutcomeDetailExtension")
    assert from_json_xml(extension[0]) == EVENT.detail


def test_a_document_about_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one object"):
        premis_document([], origin=NAME)
    assert read_premis(premis_document([], origin=NAME, subjects=[ITEM])).events == ()


def test_a_detail_that_is_not_json_is_refused() -> None:
    with pytest.raises(BadInput, match="cannot have a set"):
        premis_document([replace(EVENT, detail={"a": {1}})], origin=NAME)


# --- there and back ---


def detail_of(event: PremisEvent) -> dict[str, Any]:
    maps = [xml for result in event.results for detail in result.details for xml in detail.extensions]
    return dict(from_json_xml(read_xml(maps[0].encode()))) if maps else {}


@pytest.mark.parametrize("event", [EVENT, *ODD.values()], ids=["plain", *ODD.keys()])
def test_what_was_exported_reads_back(event: Event) -> None:
    if "\x00" in event.agent:
        event = replace(event, agent="a", type="t", subject="item/1")  # only details carry such characters
    read = read_premis(premis_document([event], origin=NAME))
    (found,) = read.events
    assert read.losses == ()
    assert found.identifier == ("custody", f"{NAME}/{event.subject}#{event.seq}")
    habits = Habits()
    outcome, unknown = habits.outcome(found.results)
    assert (found.type.text, outcome, unknown, habits.time(found.at)) == (event.type, event.outcome, [], event.at)
    assert [each.identifier for each in found.agents] == ([("custody", event.agent)] if event.agent else [])
    assert detail_of(found) == event.detail


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2**50), 2**50)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), json_values, max_size=4))
def test_any_detail_survives_export_and_import(detail: dict[str, Any]) -> None:
    (found,) = read_premis(premis_document([replace(EVENT, detail=detail)], origin=NAME)).events
    assert detail_of(found) == detail


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(), json_values, max_size=4), st.text(), st.text())
def test_any_event_satisfies_the_schema(
    premis3: etree.XMLSchema, detail: dict[str, Any], agent: str, name: str
) -> None:
    event = replace(EVENT, detail=detail, agent=agent, subject=f"item/{name}", type=name or "t")
    premis3.assertValid(etree.fromstring(premis_document([event], origin=NAME)))


def test_json_as_xml_is_the_form_that_xpath_gives_it() -> None:
    made = etree.tostring(json_xml({"a": [1, "x", None, True], "b\x01": "\x02\\"})).decode()
    assert made == (
        '<map xmlns="http://www.w3.org/2005/xpath-functions"><array key="a"><number>1</number>'
        "<string>x</string><null/><boolean>true</boolean></array>"
        '<string escaped-key="true" key="b\\u0001" escaped="true">\\u0002\\\\</string></map>'
    )
