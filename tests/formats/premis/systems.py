"""Documents in the shapes of other systems, written for these tests: who binds events to objects, and how, differs.

Each gives its documents, and what has to arrive: for every event its identifier (or a part of it), its type, its time
and the objects it is about, by type and value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from custody.formats.premis.model import Identifier

V3, V2, V1 = "http://www.loc.gov/premis/v3", "info:lc/xmlns/premis-v2", "http://www.loc.gov/standards/premis/v1"
METS = "http://www.loc.gov/METS/"


@dataclass(frozen=True)
class Expected:
    identifier: str
    type: str
    at: str
    objects: tuple[Identifier, ...]


@dataclass
class Sample:
    documents: dict[str, str] = field(default_factory=dict)
    expected: list[Expected] = field(default_factory=list)

    def expect(self, identifier: str, type_: str, at: str, *objects: Identifier) -> None:
        self.expected.append(Expected(identifier, type_, at, objects))


def uuid(sort: int, number: int) -> str:
    return str(UUID(int=(sort << 96) + (4 << 76) + (8 << 60) + number))


def pair(what: str, kind: str, value: str, *roles: str, p: str = "premis:") -> str:
    told = "".join(f"<{p}{what}Role>{role}</{p}{what}Role>" for role in roles)
    return (
        f"<{p}{what}Identifier><{p}{what}IdentifierType>{kind}</{p}{what}IdentifierType>"
        f"<{p}{what}IdentifierValue>{value}</{p}{what}IdentifierValue>{told}</{p}{what}Identifier>"
    )


def archivematica(files: int = 4, version: str = V3) -> Sample:
    """METS: one amdSec for each file, with its object, its events and their agents; files name the amdSec."""
    made, sections, entries = Sample(), [], []
    kinds = ["ingestion", "message digest calculation", "virus check", "filename change", "format identification"]
    for number in range(files):
        name = uuid(1, number)
        parts = [
            wrap(
                "techMD",
                f"techMD_{number}",
                "PREMIS:OBJECT",
                f'<premis:object xmlns:premis="{version}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
                f'xsi:type="premis:file">{pair("object", "UUID", name)}</premis:object>',
            )
        ]
        for place, kind in enumerate(kinds):
            key, at = uuid(2, number * 10 + place), f"2019-03-28T18:34:{10 + place}.123456+00:00"
            detail = 'program="ClamAV (clamd)"; version="ClamAV 0.100"'
            told = (
                f"<premis:eventDetailInformation><premis:eventDetail>{detail}</premis:eventDetail></premis:eventDetailInformation>"
                if version == V3
                else f"<premis:eventDetail>{detail}</premis:eventDetail>"
            )
            outcome = "Pass" if kind == "virus check" else ""
            links = "".join(pair("linkingAgent", "repository code", each) for each in ("test", "am-1"))
            parts.append(
                wrap(
                    "digiprovMD",
                    f"digiprovMD_{number}_{place}",
                    "PREMIS:EVENT",
                    f'<premis:event xmlns:premis="{version}">{pair("event", "UUID", key)}'
                    f"<premis:eventType>{kind}</premis:eventType><premis:eventDateTime>{at}</premis:eventDateTime>{told}"
                    f"<premis:eventOutcomeInformation><premis:eventOutcome>{outcome}</premis:eventOutcome>"
                    f"<premis:eventOutcomeDetail><premis:eventOutcomeDetailNote/></premis:eventOutcomeDetail>"
                    f"</premis:eventOutcomeInformation>{links}</premis:event>",
                )
            )
            made.expect(key, kind, at, ("UUID", name))
        parts.append(
            wrap(
                "digiprovMD",
                f"digiprovMD_{number}_agent",
                "PREMIS:AGENT",
                f'<premis:agent xmlns:premis="{version}">{pair("agent", "repository code", "test")}'
                "<premis:agentName>Test archive</premis:agentName><premis:agentType>organization</premis:agentType></premis:agent>",
            )
        )
        sections.append(f'<mets:amdSec ID="amdSec_{number}">{"".join(parts)}</mets:amdSec>')
        entries.append(f'<mets:file ID="file-{number}" ADMID="amdSec_{number}"/>')
    made.documents["METS.xml"] = mets(
        "".join(sections)
        + f'<mets:fileSec><mets:fileGrp USE="original">{"".join(entries)}</mets:fileGrp></mets:fileSec>'
    )
    return made


def older_archivematica(files: int = 2) -> Sample:
    return archivematica(files, V2)


def rosetta(files: int = 4) -> Sample:
    """METS with DNX: an IE with files; the identifier of a record is the number of its sort, shared by all of them."""
    made, sections = Sample(), []
    for number in range(files + 1):
        pid = f"FL{53300 + number}" if number else "IE53300"
        records = []
        for place, (sort, description) in enumerate(
            [
                ("24", "Virus check performed on file"),
                ("25", "Format Identification performed on file"),
                ("27", "Fixity check performed on file"),
                ("27", "Fixity check performed on file"),
            ]
        ):
            at = f"2015-08-02 09:5{number % 10}:0{place}"
            keys = {
                "eventDateTime": at,
                "eventType": "VALIDATION",
                "eventIdentifierType": "DPS",
                "eventIdentifierValue": sort,
                "eventOutcome1": "SUCCESS",
                "eventOutcomeDetail1": f"PROCESS_ID=;PID={pid};SIP_ID=997;",
                "eventDescription": description,
                "linkingAgentIdentifierType1": "SOFTWARE",
                "linkingAgentIdentifierValue1": "REG_SA_DROID , Version 6.01",
                "linkingAgentIdentifierType2": "USER",
                "linkingAgentIdentifierValue2": "jdoe",
                "linkingAgentRole2": "operator",
            }
            told = "".join(f'<key id="{key}">{value}</key>' for key, value in keys.items())
            records.append(f"<record>{told}</record>")
            made.expect(f"{pid}/DPS {sort}/{at}", "VALIDATION", at, ("PID", pid))
        identity = (
            '<section id="internalIdentifier"><record><key id="internalIdentifierType">SIPID</key><key id="internalIdentifierValue">997</key></record>'
            f'<record><key id="internalIdentifierType">PID</key><key id="internalIdentifierValue">{pid}</key></record></section>'
        )
        dnx = '<dnx xmlns="http://www.exlibrisgroup.com/dps/dnx">{}</dnx>'
        sections.append(
            f'<mets:amdSec ID="{pid}-amd">'
            + (wrap("techMD", f"{pid}-amd-tech", "OTHER", dnx.format(identity)) if number % 2 else "")
            + wrap(
                "digiprovMD",
                f"{pid}-amd-digiprov",
                "OTHER",
                dnx.format(f'<section id="event">{"".join(records)}</section>'),
            )
            + "</mets:amdSec>"
        )
    made.documents["IE53300.xml"] = mets("".join(sections))
    return made


def preservica(entities: int = 6) -> Sample:
    """XIP: actions on entities, several of one event."""
    made, actions = Sample(), []
    for number in range(entities):
        entity = uuid(3, number)
        for place, (type_, commands) in enumerate(
            [
                ("Ingest", ["command_create"]),
                ("Modified", ["AddIdentifier", "command_update"]),
                ("VirusCheck", ["check"]),
            ]
        ):
            ref, at = uuid(4, place), f"2023-06-2{place}T08:14:08.441Z"
            for command in commands:
                actions.append(
                    f'<xip:EventAction commandType="{command}"><xip:Event type="{type_}"><xip:Ref>{ref}</xip:Ref>'
                    f"<xip:Date>{at}</xip:Date><xip:User>test user</xip:User></xip:Event><xip:Date>{at}</xip:Date>"
                    f"<xip:Entity>{entity}</xip:Entity><xip:SerialisedCommand/></xip:EventAction>"
                )
            made.expect(ref, type_, at, ("XIP", entity))
    made.documents["xip.xml"] = f'<xip:XIP xmlns:xip="http://preservica.com/XIP/v7.7">{"".join(actions)}</xip:XIP>'
    return made


def roda(events: int = 20) -> Sample:
    """One file for each event and each agent; two agents with roles, a source and an outcome."""
    made = Sample()
    words = ["SUCCESS", "PARTIAL_SUCCESS", "FAILURE"]
    for number in range(events):
        key, at = f"urn:roda:premis:event:{uuid(5, number)}", f"2021-09-20T10:42:{number % 60:02}.36Z"
        source, result = f"urn:roda:premis:representation:{uuid(6, number)}", f"urn:roda:aip:{uuid(7, number // 2)}"
        made.documents[f"metadata/preservation/event-{number}.xml"] = (
            f'<event xmlns="{V3}">{pair("event", "URN", key, p="")}<eventType>wellformedness check</eventType>'
            f"<eventDateTime>{at}</eventDateTime><eventDetailInformation><eventDetail>Checked that the SIP is well formed."
            "</eventDetail></eventDetailInformation><eventOutcomeInformation>"
            f"<eventOutcome>{words[number % 3]}</eventOutcome><eventOutcomeDetail><eventOutcomeDetailNote>It was."
            "</eventOutcomeDetailNote><eventOutcomeDetailExtension><p>AIP &amp; SIP</p></eventOutcomeDetailExtension>"
            f"</eventOutcomeDetail></eventOutcomeInformation>{pair('linkingAgent', 'URN', 'urn:roda:premis:agent:plugin', 'executing program', p='')}"
            f"{pair('linkingAgent', 'URN', 'urn:roda:premis:agent:admin', 'implementer', 'authorizer', p='')}"
            f"{pair('linkingObject', 'URN', source, 'source', p='')}{pair('linkingObject', 'URN', result, 'outcome', p='')}</event>"
        )
        made.expect(key, "wellformedness check", at, ("URN", source), ("URN", result))
    for name, kind in (("plugin", "software"), ("admin", "person")):
        made.documents[f"metadata/preservation/agent-{name}.xml"] = (
            f'<agent xmlns="{V3}">{pair("agent", "URN", f"urn:roda:premis:agent:{name}", p="")}'
            f"<agentName>The {name}</agentName><agentType>{kind}</agentType></agent>"
        )
    return made


def islandora(objects: int = 5) -> Sample:
    """PREMIS 2: datastreams name their events; the numbers of events are those of one object's audit trail."""
    made = Sample()
    for number in range(objects):
        pid, parts, events = f"islandora:{number}", [], []
        for stream in ("DC", "OBJ"):
            keys = [f"{stream}:AUDREC{place}" for place in (1, 2)]
            links = "".join(pair("linkingEvent", "Internal", key, p="") for key in keys)
            parts.append(
                '<object xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="file">'
                f"{pair('object', 'Fedora Commons PID', f'{pid}/{stream}', p='')}"
                f"{pair('object', 'URL', f'http://localhost:8080/{pid}/{stream}', p='')}{links}</object>"
            )
            for key in keys:
                at = f"2014-05-0{number + 1}T01:02:03.400Z"
                events.append(
                    f"<event>{pair('event', 'Internal', key, p='')}<eventType>fixity check</eventType>"
                    f"<eventDateTime>{at}</eventDateTime><eventDetail>checksum validated</eventDetail></event>"
                )
                made.expect(key, "fixity check", at, ("Fedora Commons PID", f"{pid}/{stream}"))
        made.documents[f"{number}.xml"] = f'<premis xmlns="{V2}" version="2.2">{"".join(parts + events)}</premis>'
    return made


def fedora(objects: int = 3) -> Sample:
    """The audit trail in an object's own file."""
    made = Sample()
    for number in range(objects):
        pid, records = f"demo:{number}", []
        for place, action in enumerate(("ingest", "addDatastream", "modifyObject"), 1):
            at = f"2012-01-0{place}T00:00:00.000Z"
            records.append(
                f'<audit:record ID="AUDREC{place}"><audit:process type="Fedora API-M"/><audit:action>{action}</audit:action>'
                f"<audit:componentID>DC</audit:componentID><audit:responsibility>fedoraAdmin</audit:responsibility>"
                f"<audit:date>{at}</audit:date><audit:justification>why {place}</audit:justification></audit:record>"
            )
            made.expect(f"{pid}/AUDREC{place}", action, at, ("Fedora PID", pid))
        made.documents[f"{number}.foxml.xml"] = (
            f'<foxml:digitalObject xmlns:foxml="info:fedora/fedora-system:def/foxml#" PID="{pid}" VERSION="1.1">'
            '<foxml:datastream ID="AUDIT"><foxml:datastreamVersion ID="AUDIT.0"><foxml:xmlContent>'
            f'<audit:auditTrail xmlns:audit="info:fedora/fedora-system:def/audit#">{"".join(records)}</audit:auditTrail>'
            "</foxml:xmlContent></foxml:datastreamVersion></foxml:datastream></foxml:digitalObject>"
        )
    return made


def daitss(files: int = 4) -> Sample:
    """PREMIS 2 with everything linked by addresses, several identifiers, several outcomes with extensions."""
    made, objects, events = Sample(), [], []
    for number in range(files):
        name = f"info:fda/E20081118_AAAABB/file/{number}"
        objects.append(
            '<object xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="file">'
            f"{pair('object', 'local', str(number), p='')}{pair('object', 'URI', name, p='')}</object>"
        )
        for place, kind in enumerate(("describe", "virus check", "normalize")):
            key, at = f"{name}/event/{place}", f"2011-03-0{place + 1}T10:00:00-05:00"
            events.append(
                f"<event>{pair('event', 'URI', key, p='')}<eventType>{kind}</eventType><eventDateTime>{at}</eventDateTime>"
                "<eventOutcomeInformation><eventOutcome>success</eventOutcome><eventOutcomeDetail><eventOutcomeDetailExtension>"
                f'<anomaly xmlns="urn:x:daitss" at="{number}">long</anomaly></eventOutcomeDetailExtension></eventOutcomeDetail>'
                "</eventOutcomeInformation><eventOutcomeInformation><eventOutcome>warning</eventOutcome></eventOutcomeInformation>"
                f"{pair('linkingAgent', 'URI', 'info:fda/daitss/describe', p='')}{pair('linkingObject', 'URI', name, p='')}</event>"
            )
            made.expect(key, kind, at, ("URI", name))
    made.documents["descriptor.xml"] = f'<premis xmlns="{V2}" version="2.0">{"".join(objects + events)}</premis>'
    return made


def national_library(files: int = 4) -> Sample:
    """One amdSec for all: files name their techMD and digiprovMD; a division names the events of the package."""
    made, sections, entries = Sample(), [], []
    for number in range(files):
        name, key, at = uuid(8, number), uuid(9, number), "2020-02-02T02:02:02+02:00"
        sections.append(
            wrap(
                "techMD",
                f"tech-{number}",
                "PREMIS:OBJECT",
                f'<premis:object xmlns:premis="{V2}">{pair("object", "UUID", name)}</premis:object>',
            )
        )
        sections.append(wrap("digiprovMD", f"event-{number}", "PREMIS:EVENT", _event(key, "creation", at)))
        entries.append(f'<mets:file ID="f{number}" ADMID="tech-{number} event-{number} agent-1"/>')
        made.expect(key, "creation", at, ("UUID", name))
    whole = uuid(9, 999)
    sections.append(wrap("digiprovMD", "event-all", "PREMIS:EVENT", _event(whole, "information package creation", at)))
    made.expect(whole, "information package creation", at, ("METS OBJID", uuid(10, 1)))
    made.documents["mets.xml"] = mets(
        f"<mets:amdSec>{''.join(sections)}</mets:amdSec><mets:fileSec><mets:fileGrp>{''.join(entries)}</mets:fileGrp>"
        '</mets:fileSec><mets:structMap><mets:div TYPE="directory" ADMID="event-all"/></mets:structMap>',
        uuid(10, 1),
    )
    return made


def first_version(objects: int = 3) -> Sample:
    """PREMIS 1: an object and its events, which say nothing more; what came out is plain text."""
    made = Sample()
    for number in range(objects):
        name, key, at = f"doi:10.5072/{number}", f"E00{number}.1", "2006-07-06T14:00:00"
        made.documents[f"louis-{number}.xml"] = (
            f'<premis xmlns="{V1}" version="1.1"><object><objectIdentifier><objectIdentifierType>DOI</objectIdentifierType>'
            f"<objectIdentifierValue>10.5072/{number}</objectIdentifierValue></objectIdentifier></object><event>"
            f"{pair('event', 'LocalRepository', key, p='')}<eventType>migration</eventType><eventDateTime>{at}</eventDateTime>"
            "<eventDetail>from one to two</eventDetail><eventOutcomeInformation><eventOutcome>success</eventOutcome>"
            f"<eventOutcomeDetail>two are lost</eventOutcomeDetail></eventOutcomeInformation></event></premis>"
        )
        made.expect(key, "migration", at, ("DOI", name.removeprefix("doi:")))
    return made


def wrap(section: str, name: str, kind: str, inside: str) -> str:
    return (
        f'<mets:{section} ID="{name}"><mets:mdWrap MDTYPE="{kind}"><mets:xmlData>{inside}</mets:xmlData></mets:mdWrap>'
        f"</mets:{section}>"
    )


def mets(inside: str, name: str = "") -> str:
    named = f' OBJID="{name}"' if name else ""
    return f'<?xml version="1.0" encoding="UTF-8"?><mets:mets xmlns:mets="{METS}"{named}>{inside}</mets:mets>'


def _event(key: str, kind: str, at: str) -> str:
    return (
        f'<premis:event xmlns:premis="{V2}">{pair("event", "UUID", key)}<premis:eventType>{kind}</premis:eventType>'
        f"<premis:eventDateTime>{at}</premis:eventDateTime><premis:eventOutcomeInformation><premis:eventOutcome>success"
        "</premis:eventOutcome></premis:eventOutcomeInformation></premis:event>"
    )


SYSTEMS: dict[str, Callable[..., Sample]] = {
    "archivematica": archivematica,
    "archivematica, before": older_archivematica,
    "rosetta": rosetta,
    "preservica": preservica,
    "roda": roda,
    "islandora": islandora,
    "fedora": fedora,
    "daitss": daitss,
    "national library": national_library,
    "premis 1": first_version,
}
