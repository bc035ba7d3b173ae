"""PREMIS: what we write satisfies the official schema; what others write is read, unless dangerous."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from custody.errors import BadInput
from custody.kernel.history.exchange.premis_reader import Habits, PremisEvent, from_json_xml, new_events, read_premis
from custody.kernel.history.exchange.premis_writer import (
    Agent,
    agent_by_its_name,
    json_xml,
    object_identifier,
    premis_document,
    premis_event,
)
from custody.kernel.history.head import from_moment
from custody.kernel.model.event import Event, NewEvent
from custody.kernel.model.names.reserved import NOTED, RECORDED, RESERVED
from kernel.history.archive import grown_archive
from kernel.history.schemas import schema

NAME = "archive.example.org"
ITEM = "item/ark:/99999/fk4x"
AT = 1_772_000_000_123_456
EVENT = Event(7, ITEM, 3, "fixity check", "failure", "checksum-checker 1.2", AT, {"reason": "2 of 9 differ"})


@pytest.fixture(scope="module")
def premis3(tmp_path_factory: pytest.TempPathFactory) -> etree.XMLSchema:
    return schema("premis-v3-0.xsd", tmp_path_factory.mktemp("xsd"))


@pytest.fixture(scope="module")
def premis2(tmp_path_factory: pytest.TempPathFactory) -> etree.XMLSchema:
    return schema("premis-v2-2.xsd", tmp_path_factory.mktemp("xsd"))


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
        ("job/12", ("custody", "job/12")),
    ],
)
def test_objects_are_named_as_others_know_them(subject: str, identifier: tuple[str, str]) -> None:
    assert object_identifier(subject) == identifier
    document = premis_document([replace(EVENT, subject=subject)], origin=NAME)
    assert read_premis(document).events[0].objects == (identifier,) == read_premis(document).objects


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
    assert read_premis(document, Habits(types={"ingestion": "moved"})).events[0].type == "moved"


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


@pytest.mark.parametrize("event", [EVENT, *ODD.values()], ids=["plain", *ODD.keys()])
def test_what_was_exported_reads_back(event: Event) -> None:
    if "\x00" in event.agent:
        event = replace(event, agent="a", type="t", subject="item/1")  # only details carry such characters
    read = read_premis(premis_document([event], origin=NAME))
    (found,) = read.events
    assert read.problems == ()
    assert found.identifier == ("custody", f"{NAME}/{event.subject}#{event.seq}")
    assert (found.type, found.outcome, found.at) == (event.type, event.outcome, event.at)
    assert found.agents == ((event.agent,) if event.agent else ())
    assert found.detail == event.detail


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
    assert found.detail == detail


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


# --- reading what others wrote ---

OLDER = """<premis version="2.2" xmlns="info:lc/xmlns/premis-v2">
  <object xsi:type="representation" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
    <objectIdentifier><objectIdentifierType>Newspaper_digitisation_project</objectIdentifierType>
      <objectIdentifierValue>B400022028241-RT1</objectIdentifierValue></objectIdentifier></object>
  <event>
    <eventIdentifier><eventIdentifierType>Newspaper_digitisation_project</eventIdentifierType>
      <eventIdentifierValue>B400022028241-RT1-86400000</eventIdentifierValue></eventIdentifier>
    <eventType>Data_Received</eventType>
    <eventDateTime>1970-01-02T01:00:00.000+01:00</eventDateTime>
    <eventDetail>by disk</eventDetail>
    <eventOutcomeInformation><eventOutcome>success</eventOutcome>
      <eventOutcomeDetail><eventOutcomeDetailNote>details here</eventOutcomeDetailNote></eventOutcomeDetail>
    </eventOutcomeInformation>
    <linkingAgentIdentifier><linkingAgentIdentifierType>Newspaper_digitisation_project</linkingAgentIdentifierType>
      <linkingAgentIdentifierValue>batch_uploaded_trigger</linkingAgentIdentifierValue></linkingAgentIdentifier>
    <linkingObjectIdentifier><linkingObjectIdentifierType>Newspaper_digitisation_project</linkingObjectIdentifierType>
      <linkingObjectIdentifierValue>B400022028241-RT1</linkingObjectIdentifierValue></linkingObjectIdentifier>
  </event>
  <agent><agentIdentifier><agentIdentifierType>Newspaper_digitisation_project</agentIdentifierType>
    <agentIdentifierValue>batch_uploaded_trigger</agentIdentifierValue></agentIdentifier></agent>
</premis>"""


def test_premis_2_2_of_an_older_framework_is_read(premis2: etree.XMLSchema) -> None:
    premis2.assertValid(etree.fromstring(OLDER))
    read = read_premis(OLDER.encode())
    assert read.problems == ()
    (event,) = read.events
    assert event.type == "Data_Received"
    assert event.at == 86_400_000_000
    assert event.outcome == "success"
    assert event.agents == ("batch_uploaded_trigger",)
    assert event.objects == (("Newspaper_digitisation_project", "B400022028241-RT1"),)
    assert event.notes == ("by disk", "details here")
    assert new_events(event) == [
        NewEvent(
            "B400022028241-RT1",
            "Data_Received",
            "success",
            "imported: batch_uploaded_trigger",
            {
                "note": "by disk\ndetails here",
                "premis": {
                    "identifier": ["Newspaper_digitisation_project", "B400022028241-RT1-86400000"],
                    "at": "1970-01-02T01:00:00.000+01:00",
                    "outcome": "success",
                },
            },
        )
    ]


def test_what_we_exported_comes_in_again_with_its_detail_and_its_origin() -> None:
    (event,) = read_premis(premis_document([EVENT], origin=NAME)).events
    source = {"identifier": ["custody", f"{NAME}/{ITEM}#3"], "at": "2026-02-25T06:13:20.123456Z", "outcome": "fail"}
    detail = {"premis": {**source, "said": {"reason": "2 of 9 differ"}}}
    agent = "imported: checksum-checker 1.2"
    assert new_events(event) == [NewEvent("ark:/99999/fk4x", "fixity check", "failure", agent, detail)]
    (job,) = read_premis(premis_document([replace(EVENT, subject="job/12")], origin=NAME)).events
    assert new_events(job) == []


@pytest.mark.parametrize(
    ("type_", "taken_as"),
    [
        *((each, each) for each in [*sorted(RECORDED), "Changed", "task build"]),
        ("withdrawn ", "withdrawn"),
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
    told = {word: "x" for word in (*NOTED, *RESERVED)} | {"pages": 3}
    event = PremisEvent(("local", "1"), type_, 0, "1970", "success", "ok", ("system",), (("local", "x"),), (), told)
    (made,) = new_events(event)
    assert (made.item, made.type, made.agent) == ("x", f"imported {taken_as}", "imported: system")
    assert made.detail.keys() == {"pages", "premis"}
    assert made.detail["premis"]["type"] == type_
    assert made.detail["premis"]["said"].keys() == NOTED.keys() | RESERVED.keys()
    assert (made.robot, made.seen) == ("", None)


@pytest.mark.parametrize("type_", ["imported approved", "Ingest_Start", "fixity check", "контроль целостности"])
def test_a_type_that_may_be_one_is_taken_over_as_it_is(type_: str) -> None:
    event = PremisEvent(("local", "1"), type_, 0, "1970", "success", "ok", (), (("local", "x"),), (), {})
    (made,) = new_events(event)
    assert made.type == type_, "what was imported once is not imported twice"


def one(inside: str, *, namespace: str = "http://www.loc.gov/premis/v3", **parts: str) -> str:
    at = parts.get("at", "2026-03-01T00:00:00Z")
    return (
        f'<event xmlns="{namespace}"><eventIdentifier><eventIdentifierType>local</eventIdentifierType>'
        f"<eventIdentifierValue>{parts.get('id', '1')}</eventIdentifierValue></eventIdentifier>"
        f"<eventType>{parts.get('type', 'ingestion')}</eventType>"
        f"<eventDateTime>{at}</eventDateTime>{inside}</event>"
    )


def outcome(word: str) -> str:
    return f"<eventOutcomeInformation><eventOutcome>{word}</eventOutcome></eventOutcomeInformation>"


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("success", "success"),
        ("Success", "success"),
        (" Pass \n", "success"),
        ("fail", "failure"),
        ("FAILURE", "failure"),
        ("Warning", "warning"),
        ("", "none"),
    ],
)
def test_the_words_for_outcomes_are_many(word: str, meaning: str) -> None:
    read = read_premis(one(outcome(word)).encode())
    assert (read.events[0].outcome, read.problems) == (meaning, ())


def test_an_unknown_word_opens_no_gate_and_is_told() -> None:
    document = one(outcome("so so")).encode()
    read = read_premis(document)
    assert read.events[0].outcome == "failure"
    assert read.problems == ("line 1: the outcome 'so so' is not known; taken as failure",)
    told = read_premis(document, Habits(outcomes={"so so": "warning"}))
    assert (told.events[0].outcome, told.problems) == ("warning", ())


def test_of_several_outcomes_the_gravest_counts() -> None:
    words = ["pass", "warning", "failed", "pass"]
    (event,) = read_premis(one("".join(map(outcome, words))).encode()).events
    assert (event.outcome, event.outcome_text) == ("failure", "failed")


def test_an_event_without_an_outcome_has_none() -> None:
    (event,) = read_premis(one("").encode()).events
    assert (event.outcome, event.outcome_text) == ("none", "")


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
    read = read_premis(one("", at=text).encode(), Habits(zone=COPENHAGEN))
    assert (read.events[0].at, read.problems) == (from_moment(moment), ())


@pytest.mark.parametrize("text", ["", "yesterday", "2014-13-01", "2014~", "99999-01-01", "0000"])
def test_a_time_nobody_can_read_does_not_spoil_the_rest(text: str) -> None:
    document = f"<x>{one('', at=text)}{one('', id='2')}</x>".encode()
    read = read_premis(document)
    assert [event.at for event in read.events] == [None, from_moment("2026-03-01T00:00:00Z")]
    assert read.events[0].at_text == text
    assert read.problems == (f"line 1: the time {text!r} cannot be read",)


def test_events_without_type_or_identifier_are_told() -> None:
    read = read_premis(f"<x>{one('', type='')}{one('', id='')}{one('', id='3')}</x>".encode())
    assert len(read.events) == 2
    assert len(read.problems) == 2


def test_two_events_with_one_identifier_are_told() -> None:
    read = read_premis(f"<x>{one('')}{one('')}</x>".encode())
    assert len(read.events) == 2
    assert read.problems == ("two events have the identifier '1'",)


@pytest.mark.parametrize("namespace", ["http://www.loc.gov/premis/v3", "info:lc/xmlns/premis-v2", ""])
def test_events_are_found_inside_mets_and_in_any_version(namespace: str) -> None:
    inside = one(outcome("pass"), namespace=namespace)
    mets = f'<mets xmlns="http://www.loc.gov/METS/"><amdSec><digiprovMD><mdWrap><xmlData>{inside}</xmlData></mdWrap></digiprovMD></amdSec></mets>'
    assert [event.type for event in read_premis(mets.encode()).events] == ["ingestion"]


def test_events_of_a_foreign_vocabulary_are_none_of_ours() -> None:
    assert read_premis(one("", namespace="http://example.org/calendar").encode()).events == ()


def test_an_event_quoted_inside_an_extension_is_not_an_event() -> None:
    extension = "<eventOutcomeDetailExtension>{}</eventOutcomeDetailExtension>"
    detail = f"<eventOutcomeDetail>{extension.format(one('', id='quoted'))}</eventOutcomeDetail>"
    document = one(f"<eventOutcomeInformation>{detail}</eventOutcomeInformation>")
    assert [event.identifier[1] for event in read_premis(document.encode()).events] == ["1"]


def test_agents_linked_by_a_number_are_called_by_their_name() -> None:
    link = (
        "<linkingAgentIdentifier><linkingAgentIdentifierType>user pk</linkingAgentIdentifierType>"
        "<linkingAgentIdentifierValue>1</linkingAgentIdentifierValue></linkingAgentIdentifier>"
    )
    agent = (
        '<agent xmlns="http://www.loc.gov/premis/v3"><agentIdentifier><agentIdentifierType>user pk'
        "</agentIdentifierType><agentIdentifierValue>1</agentIdentifierValue></agentIdentifier>"
        "<agentName>Ann</agentName></agent>"
    )
    assert read_premis(f"<x>{one(link)}{agent}</x>".encode()).events[0].agents == ("Ann",)
    assert read_premis(one(link).encode()).events[0].agents == ("1",)


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
def test_an_extension_that_history_could_not_keep_is_told_and_left_out(map_: str) -> None:
    inside = (
        "<eventOutcomeInformation><eventOutcomeDetail><eventOutcomeDetailExtension>"
        f'<map xmlns="http://www.w3.org/2005/xpath-functions">{map_}</map>'
        "</eventOutcomeDetailExtension></eventOutcomeDetail></eventOutcomeInformation>"
    )
    read = read_premis(one(inside).encode())
    assert read.events[0].detail == {}
    assert len(read.problems) == 1
    assert "cannot be read" in read.problems[0]


# --- dangerous XML ---

BOMB = '<!ENTITY e0 "ten bytes.">' + "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
DANGEROUS = {
    "billion laughs": (f"<!DOCTYPE premis [{BOMB}]><premis>&e9;</premis>".encode(), "premis.dtd"),
    "a small entity": (b'<!DOCTYPE premis [<!ENTITY a "x">]><premis>&a;</premis>', "premis.dtd"),
    "in an attribute": (b'<!DOCTYPE premis [<!ENTITY a "x">]><premis a="&a;"/>', "premis.dtd"),
    "an external DTD": (b'<!DOCTYPE premis SYSTEM "file:///etc/passwd"><premis/>', "premis.dtd"),
    "a bare DTD": (b"<!DOCTYPE premis><premis/>", "premis.dtd"),
    "an external entity": (
        b'<!DOCTYPE premis [<!ENTITY x SYSTEM "file:///etc/passwd">]><premis>&x;</premis>',
        "premis.dtd",
    ),
    "a parameter entity": (
        b'<!DOCTYPE premis [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x"> %x;]><premis/>',
        "premis.dtd",
    ),
    "a DTD in UTF-16": (
        '<!DOCTYPE premis [<!ENTITY a "x">]><premis>&a;</premis>'.encode("utf-16"),
        "premis.dtd",
    ),
    "UTF-7": (b'<?xml version="1.0" encoding="UTF-7"?><premis/>', "premis.encoding"),
    "too deep": (b"<a>" * 201 + b"</a>" * 201, "premis.deep"),
    "too large": (b"<a>" + b" " * (16 * 2**20) + b"</a>", "premis.large"),
    "not XML": (b"PREMIS", "premis.xml"),
    "nothing": (b"", "premis.xml"),
    "cut off": (OLDER[:300].encode(), "premis.xml"),
    "an undeclared entity": (b"<premis>&nbsp;</premis>", "premis.xml"),
}


@pytest.mark.parametrize(("data", "code"), DANGEROUS.values(), ids=DANGEROUS.keys())
def test_dangerous_xml_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_premis(data)
    assert caught.value.code == code


def test_xinclude_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    include = f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{tmp_path}/secret" parse="text"/>'
    document = one(f"<eventDetailInformation><eventDetail>{include}</eventDetail></eventDetailInformation>")
    assert read_premis(document.encode()).events[0].notes == ()
