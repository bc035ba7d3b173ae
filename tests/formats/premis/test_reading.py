"""What others write is read whole, in every version, unless it is dangerous."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lxml import etree

from custody.errors import BadInput
from custody.formats.premis import kept, writer
from custody.formats.premis.model import Link, Passage, Result, Term
from custody.formats.premis.reader import read_premis
from custody.formats.text.readers import TextLimits
from formats.premis.systems import SYSTEMS
from kernel.history.foreign import about, event, link, outcome, premis, thing
from kernel.history.schemas import schema

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


def test_premis_2_2_of_an_older_framework_is_read(tmp_path: Path) -> None:
    schema("premis-v2-2.xsd", tmp_path).assertValid(etree.fromstring(OLDER))
    read = read_premis(OLDER.encode())
    assert read.losses == ()
    (found,) = read.events
    project = "Newspaper_digitisation_project"
    assert found.identifier == (project, "B400022028241-RT1-86400000")
    assert (found.type, found.at) == (Term("Data_Received"), "1970-01-02T01:00:00.000+01:00")
    assert found.details == (Passage("by disk"),)
    assert found.results == (Result(Term("success"), (Passage("details here"),)),)
    assert found.agents == (Link((project, "batch_uploaded_trigger")),)
    assert found.objects == (Link((project, "B400022028241-RT1")),)


FULL = premis(
    thing(("local", "1"), ("UUID", "52fdfc07-2182-454f-963f-5f0f9a621d72")),
    event(
        "<eventDetailInformation><eventDetail>one</eventDetail><eventDetailExtension><x:a xmlns:x='urn:x' b='1'>t</x:a>"
        "<y/></eventDetailExtension></eventDetailInformation>"
        "<eventDetailInformation><eventDetailExtension><z/></eventDetailExtension></eventDetailInformation>"
        + outcome(
            "pass",
            "<eventOutcomeDetailNote>first</eventOutcomeDetailNote>",
            "<eventOutcomeDetailExtension><q:r xmlns:q='urn:q' xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:type='q:s'/></eventOutcomeDetailExtension>",
        )
        + outcome("warning")
        + link("linkingAgent", "local", "7", "implementer", "validator")
        + link("linkingAgent", "local", "8")
        + about("local", "1", "source")
        + about("DOI", "10.5072/x", "outcome"),
        type="migration",
    ).replace(
        "<eventType>",
        '<eventType authority="eventType" valueURI="http://id.loc.gov/vocabulary/preservation/eventType/mig">',
    ),
    "<agent>"
    + link("agent", "local", "7")
    + link("agent", "ORCID", "0000-0002-1825-0097")
    + "<agentName>Ann</agentName><agentName>Anna</agentName><agentType>person</agentType><agentVersion>2</agentVersion>"
    + "<agentNote>a note</agentNote><agentExtension><e xmlns='urn:e'/></agentExtension></agent>",
)


def test_what_is_repeated_is_read_as_often(tmp_path: Path) -> None:
    premis3 = schema("premis-v3-0.xsd", tmp_path)
    assert not premis3.validate(etree.fromstring(FULL)), "of one extension it has its say"
    premis3.assertValid(etree.fromstring(re.sub("xsi:type='q:s'", "", FULL)))
    read = read_premis(FULL.encode())
    (found,) = read.events
    assert found.type.source == (
        ("authority", "eventType"),
        ("valueURI", "http://id.loc.gov/vocabulary/preservation/eventType/mig"),
    )
    assert [each.text for each in found.details] == ["one", ""]
    assert [len(each.extensions) for each in found.details] == [2, 1]
    assert [(each.word.text, len(each.details)) for each in found.results] == [("pass", 2), ("warning", 0)]
    assert [(each.identifier[1], [role.text for role in each.roles]) for each in found.agents] == [
        ("7", ["implementer", "validator"]),
        ("8", []),
    ]
    assert [(each.identifier, [role.text for role in each.roles]) for each in found.objects] == [
        (("local", "1"), ["source"]),
        (("DOI", "10.5072/x"), ["outcome"]),
    ]
    (agent,) = read.agents
    assert (agent.names, agent.version, agent.notes, len(agent.extensions)) == (("Ann", "Anna"), "2", ("a note",), 1)
    assert read.objects[0].identifiers == (("local", "1"), ("UUID", "52fdfc07-2182-454f-963f-5f0f9a621d72"))


@pytest.mark.parametrize("system", ["all at once", *SYSTEMS])
def test_what_was_read_is_kept_as_json_and_written_as_it_was(system: str, tmp_path: Path) -> None:
    documents = [FULL] if system == "all at once" else list(SYSTEMS[system]().documents.values())
    premis3 = schema("premis-v3-0.xsd", tmp_path)
    for text in documents:
        read = read_premis(text.encode())
        agents = {each: agent for agent in read.agents for each in agent.identifiers}
        for told in read.events:
            again, its_agents = kept.from_json(kept.to_json(told, agents))
            assert again == _placeless(told)
            linked = [each.identifier for each in told.agents]
            assert set(its_agents) == {agents[each] for each in linked if each in agents}
            made = etree.tostring(writer.event(again), pretty_print=True)
            premis3.assertValid(etree.fromstring(made))
            assert [_placeless(each) for each in read_premis(made).events] == [_placeless(told)]


def _placeless(told: object) -> object:
    from dataclasses import replace

    return replace(told, line=0)  # type: ignore[type-var]


def test_the_same_extension_reads_the_same_wherever_it_stands() -> None:
    inner = "<eventOutcomeDetailExtension><q:r{}>  <q:s>a b</q:s>\n</q:r></eventOutcomeDetailExtension>"
    near = event(outcome("pass", inner.format(' xmlns:q="urn:q"')))
    far = f'<x xmlns:q="urn:q" xmlns:unused="urn:u">{event(outcome("pass", inner.format("")))}</x>'
    close = near.replace(">  <q:s>", "><q:s>").replace("</q:s>\n", "</q:s>")
    one, two, three = (
        read_premis(each.encode()).events[0].results[0].details[0].extensions for each in (near, far, close)
    )
    assert one == two == three == ('<q:r xmlns:q="urn:q"><q:s>a b</q:s></q:r>',)


@pytest.mark.parametrize("space", ["louis", "../x", "", "HTTP://x/../y"])
def test_an_extension_of_any_namespace_comes_back(space: str, tmp_path: Path) -> None:
    """Canonical XML knows no relative addresses; people write them."""
    inner = f'<a xmlns="{space}" xmlns:u="urn:unused" z="1" b="2"><c d="e">t</c></a>'
    told = event(outcome("pass", f"<eventOutcomeDetailExtension>{inner}</eventOutcomeDetailExtension>"))
    (found,) = read_premis(told.encode()).events
    made = etree.tostring(writer.event(found), pretty_print=True)
    schema("premis-v3-0.xsd", tmp_path).assertValid(etree.fromstring(made))
    (again,) = read_premis(b"<x xmlns:v='urn:v'>" + made + b"</x>").events
    assert again.results == found.results
    assert "unused" not in found.results[0].details[0].extensions[0]


def test_what_nobody_foresaw_is_kept_as_it_stands(tmp_path: Path) -> None:
    odd = (
        "<eventIdentifier><eventIdentifierType>second</eventIdentifierType></eventIdentifier><eventWeather>rain</eventWeather>"
        '<y:z xmlns:y="urn:y"/><eventOutcomeInformation><eventOutcome>a</eventOutcome><eventOutcome>b</eventOutcome>'
        "<eventOutcomeDetail><p>paragraph</p></eventOutcomeDetail></eventOutcomeInformation>"
    )
    (found,) = read_premis(event(odd).encode()).events
    (rest,) = found.details
    assert [re.findall(r"^<([\w:]+)", each) for each in rest.extensions] == [
        ["eventIdentifier"],
        ["eventWeather"],
        ["y:z"],
    ]
    (result,) = found.results
    assert result.word.text == "a"
    assert [re.findall(">(\\w+)<", xml) for each in result.details for xml in each.extensions] == [["paragraph"], ["b"]]
    made = etree.tostring(writer.event(found), pretty_print=True)
    schema("premis-v3-0.xsd", tmp_path).assertValid(etree.fromstring(made))
    assert read_premis(made).events[0].details == found.details
    assert read_premis(made).events[0].results == found.results


def test_text_that_stands_bare_in_an_extension_is_not_lost() -> None:
    (found,) = read_premis(
        event(outcome("pass", "<eventOutcomeDetailExtension>bare</eventOutcomeDetailExtension>")).encode()
    ).events
    assert found.results[0].details == (Passage("bare"),)


def test_an_event_is_called_by_its_identifier_its_type_and_its_place() -> None:
    read = read_premis(f"<x>\n{event(type='')}\n{event(id='')}</x>".encode())
    assert [each.called for each in read.events] == [
        "line 2: event local 1 (without a type)",
        "line 3: event without an identifier (ingestion)",
    ]


@pytest.mark.parametrize(
    "namespace",
    [
        "http://www.loc.gov/premis/v3",
        "info:lc/xmlns/premis-v2",
        "http://www.loc.gov/standards/premis/v1",
        "http://www.loc.gov/standards/premis",
        "",
    ],
)
def test_events_are_found_inside_mets_and_in_any_version(namespace: str) -> None:
    inside = event(outcome("pass"), namespace=namespace)
    mets = f'<mets xmlns="http://www.loc.gov/METS/"><amdSec><digiprovMD><mdWrap><xmlData>{inside}</xmlData></mdWrap></digiprovMD></amdSec></mets>'
    assert [each.type.text for each in read_premis(mets.encode()).events] == ["ingestion"]


def test_events_of_a_foreign_vocabulary_are_none_of_ours() -> None:
    assert read_premis(event(namespace="http://example.org/calendar").encode()).events == ()


def test_an_event_quoted_inside_an_extension_is_not_an_event() -> None:
    detail = f"<eventOutcomeDetailExtension>{event(id='quoted')}</eventOutcomeDetailExtension>"
    assert [each.identifier[1] for each in read_premis(event(outcome("", detail)).encode()).events] == ["1"]


# --- dangerous XML ---

BOMB = '<!ENTITY e0 "ten bytes.">' + "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
DANGEROUS = {
    "billion laughs": (f"<!DOCTYPE premis [{BOMB}]><premis>&e9;</premis>".encode(), "xml.dtd"),
    "a small entity": (b'<!DOCTYPE premis [<!ENTITY a "x">]><premis>&a;</premis>', "xml.dtd"),
    "in an attribute": (b'<!DOCTYPE premis [<!ENTITY a "x">]><premis a="&a;"/>', "xml.dtd"),
    "an external DTD": (b'<!DOCTYPE premis SYSTEM "file:///etc/passwd"><premis/>', "xml.dtd"),
    "a bare DTD": (b"<!DOCTYPE premis><premis/>", "xml.dtd"),
    "an external entity": (
        b'<!DOCTYPE premis [<!ENTITY x SYSTEM "file:///etc/passwd">]><premis>&x;</premis>',
        "xml.dtd",
    ),
    "a parameter entity": (
        b'<!DOCTYPE premis [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x"> %x;]><premis/>',
        "xml.dtd",
    ),
    "a DTD in UTF-16": ('<!DOCTYPE premis [<!ENTITY a "x">]><premis>&a;</premis>'.encode("utf-16"), "xml.dtd"),
    "UTF-7": (b'<?xml version="1.0" encoding="UTF-7"?><premis/>', "xml.encoding"),
    "too deep": (b"<a>" * 201 + b"</a>" * 201, "xml.depth"),
    "not XML": (b"PREMIS", "xml.syntax"),
    "nothing": (b"", "xml.syntax"),
    "cut off": (OLDER[:300].encode(), "xml.syntax"),
    "an undeclared entity": (b"<premis>&nbsp;</premis>", "xml.syntax"),
}


@pytest.mark.parametrize(("data", "code"), DANGEROUS.values(), ids=DANGEROUS.keys())
def test_dangerous_xml_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_premis(data)
    assert caught.value.code == code


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(BadInput) as caught:
        read_premis(b"<a>" + b" " * 1000 + b"</a>", limits=TextLimits(1000, 200))
    assert caught.value.code == "xml.size"


def test_xinclude_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    include = f'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{tmp_path}/secret" parse="text"/>'
    document = event(f"<eventDetailInformation><eventDetail>{include}</eventDetail></eventDetailInformation>")
    assert read_premis(document.encode()).events[0].details == ()
