"""Every parser of the applications, given inputs by chance: a value, or an error of ours; nothing else.

Those of the border, which all that comes from outside passes first, have tests of their own (tests/border/test_fuzz.py).
Here is what is behind it: manifests, records, profiles, schedules, definitions, what other services write into the tree,
what a service answers, heads, keys and proofs of histories, labels, configurations.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import islice
from pathlib import Path
from random import Random

import httpx2
import pytest

from border.chance import Chance, slowest_of
from custody import config
from custody.channels import snowflake
from custody.channels.crawl.coverage import Coverage
from custody.channels.table import node
from custody.cli import times
from custody.errors import CustodyError
from custody.formats import anvl, identifiers
from custody.formats.checkm.reader import check
from custody.formats.checkm.writer import from_csv, from_urls
from custody.formats.names import safe_parts
from custody.formats.ocfl.inventory import from_json, object_folder, sidecar_of
from custody.ingest.batch import webhook
from custody.ingest.description import metadata
from custody.ingest.identifiers import ezid
from custody.ingest.profile import parse_profile
from custody.ingest.zookeeper import tree
from custody.ingest.zookeeper.journal import read_entry
from custody.ingest.zookeeper.sidecar import read_record
from custody.kernel.history.exchange import standalone_verifier
from custody.kernel.history.exchange.premis_reader import new_events, read_premis
from custody.kernel.history.exchange.premis_writer import premis_document
from custody.kernel.history.head import read_head
from custody.kernel.history.keys import read_public_key
from custody.kernel.model.schedule import Schedule, checked
from custody.kernel.model.times import slots
from custody.kernel.stores.sqlite.file_address import file_of
from custody.robots.programs.label import read_label
from custody.workflows.archives.credentials import read_credentials
from custody.workflows.definition.definition import read as read_definitions
from custody.workflows.tasks import client
from faults.conftest import quick
from formats.checkm.checkm_samples import JPG, TXT, manifest
from ingest.test_collection_profile import FULL as PROFILE
from kernel.history.archive import NAME, SIGNER, grown_archive
from kernel.history.test_proofs import export_of, proof_of
from prove.plugin import Scaled, Tell
from robots.test_programs import LABEL

PLAIN = ["\n", " ", ":", "|", "#", "%", ",", ";", '"', "'", "\\", "/", "..", "0", "1", "-1", "9" * 30, "é", "\0", "\t"]
JSON = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\ud800",
    "1",
    "-1e999",
    "NaN",
    "null",
    "true",
    '"a"',
    "[" * 3000,
    "9" * 5000,
]
TOML = ["=", "[", "]", "\n", '"', "'''", "true", "1979-05-27", "0x1", "inf", "{", "}", ".", "#", "[[a]]", "9" * 5000]
CRON = [
    "*",
    " ",
    "/",
    "-",
    ",",
    "0",
    "5",
    "59",
    "60",
    "L",
    "#",
    "W",
    "MON",
    "FEB",
    "every ",
    "s",
    "m",
    "h",
    "d",
    "9" * 30,
    "9" * 5000,
]
TIMES = ["2026", "-", "03", "01", "T", "12", ":", "00", "+", "Z", "0001", "9999", "+23:59", ".5", "W", " "]
ARKS = ["ark:", "/", "99999", "fk4", "x", "=", "~", ".", "%2e", "9" * 300]
XML = [
    "<",
    ">",
    "/",
    "premis:",
    "event",
    "=",
    '"',
    "<!DOCTYPE a [",
    "<!ENTITY x 'y'>",
    "]>",
    "&x;",
    "&amp;",
    "<a>",
    "</a>",
]
YAML = [
    "- ",
    "name",
    ": ",
    "depends",
    "[",
    "]",
    "PREV",
    "\n",
    "  ",
    "{",
    "}",
    "&a ",
    "*a",
    "!!x ",
    "|",
    "cancels",
    "script",
    "every",
    "when",
]

ANVL = "erc:\nwho: Doe, Jane\nwhat: Letters\n  and more\nwhen: 2020\nwhere: ark:/99999/fk4x\nwhere: local 1; local 2\n"
STATUS = '{"status": "Processing", "last_modified": "2026-11-15 12:00:00 +0000", "message": "", "retry_count": 2, "last_successful_status": "Notify"}'
SUBMISSION = '{"batchID": "b", "profile": "papers", "payload_url": "https://x.example/y", "localID": "a; b", "update": true, "submission_mode": "update"}'
ENTRY = '{"move": "m", "happened": [], "agent": "w", "items": [], "events": [], "then": []}'
DEFINITION = "- name: index\n  depends: [PREV]\n- name: pdf\n  depends: [index]\n  cancels: [PREV]\n  script: |\n    make pdf\n  when: every 1d\n"
CONFIG = (
    'store = "sqlite:///custody.db"\n[ingest]\nwork = "work"\nthreshold = 0.05\n[channels]\ncapacity = 100\n[history]\n'
)
CSV = "fileUrl,hashAlgorithm,hashValue,fileSize,fileName\nhttps://x.example/a,md5,00,3,a.txt\n"
MANIFESTS = [manifest(JPG, TXT).getvalue(), manifest(JPG, end="").getvalue()]
INVENTORY = json.dumps(
    {
        "id": "ark:/99999/x",
        "digestAlgorithm": "sha512",
        "head": "v1",
        "type": "https://ocfl.io/1.1/spec/#inventory",
        "manifest": {"ab": ["v1/content/a"]},
        "fixity": {"md5": {"cd": ["v1/content/a"]}},
        "versions": {
            "v1": {
                "created": "2026-01-01T00:00:00Z",
                "message": "m",
                "state": {"ab": ["a"]},
                "user": {"name": "ada", "address": "mailto:a@b"},
            }
        },
    }
)
ARCHIVE = grown_archive(Random(3), blocks=3)
HEAD, KEY = str(ARCHIVE.last.head), str(SIGNER.public)
PREMIS = premis_document(list(ARCHIVE.events.values())[:3], origin=NAME).decode()
PROOF, EXPORT = json.dumps(proof_of(ARCHIVE, next(iter(ARCHIVE.leaves)))), export_of(ARCHIVE)
MESSAGE = b'{"id":"1234567890123456789","content":"hello","author":{"id":"7"}}\n'

Judge = Callable[[Chance, Path], object]


def on_paper(read: Callable[[Path], object], words: list[str], good: list[str], name: str = "given") -> Judge:
    """For those who read a file by themselves."""

    def judge(chance: Chance, folder: Path) -> object:
        path = folder / name
        path.write_bytes(chance.text(words, good).encode("utf-8", "surrogatepass"))
        path.chmod(0o600)
        return read(path)

    return judge


def said(read: Callable[[str], object], words: list[str], good: list[str]) -> Judge:
    return lambda chance, folder: read(chance.text(words, good))


def wire(read: Callable[[bytes], object], words: list[str], good: list[str]) -> Judge:
    """Bytes as somebody else may have written them: damaged text, or damaged beyond being text."""

    def judge(chance: Chance, folder: Path) -> object:
        if chance.random() < 0.3:
            return read(chance.damaged(chance.choice(good).encode()))
        return read(chance.text(words, good).encode("utf-8", "surrogatepass"))

    return judge


def read_csv(text: str) -> object:
    return from_csv(text.splitlines(keepends=True))


def understood(data: bytes) -> object:
    return ezid._understood(httpx2.Response(201, content=data))


def verified(text: str) -> str:
    headers = {"webhook-id": text[:9], "webhook-timestamp": text[9:19], "webhook-signature": text[19:]}
    return webhook.verify(headers, b"{}", ["whsec_" + "A" * 32], now=1_600_000_000)


def alone(path: Path) -> int:
    """The stand-alone verifier ends with an answer, whatever the file: sound, faults, or not to be read."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        answer = standalone_verifier.main([str(path), "--key", KEY])
    assert answer in (0, 1, 2)
    return answer


def a_schedule(chance: Chance, folder: Path) -> object:
    good = ["*/5 * * * *", "0 3 * * 1-5", "every 30s", "30 2 29 2 *", "@daily"]
    zone = (
        chance.choice(["UTC", "Europe/Copenhagen"])
        if chance.random() < 0.8
        else chance.text([*ARKS, "Europe"], ["UTC"])
    )
    schedule = checked(Schedule("nightly", chance.text(CRON, good), "sweep", zone=zone))
    found = list(islice(slots(schedule.spec, schedule.zone, 1_700_000_000_000_000), 3))
    assert found == sorted(set(found)), "one after the other"
    assert max(found) < 2**63, "and a store can keep them"
    return found


def a_snowflake(text: str) -> object:
    return snowflake.time_of(snowflake.parse(text))


def a_premis(data: bytes) -> object:
    return [new_events(event) for event in read_premis(data).events]


PARSERS: dict[str, Judge] = {
    "manifests": lambda chance, folder: check(
        io.BytesIO(chance.damaged(chance.choice(MANIFESTS))), check_name=safe_parts
    ),
    "manifests, invented": wire(
        lambda data: check(io.BytesIO(data), check_name=safe_parts),
        [*PLAIN, "#%checkm_0.7\n", "#%eof\n", "#%fields | ", JPG],
        [MANIFESTS[0].decode()],
    ),
    "spreadsheets": said(read_csv, [*PLAIN, "fileUrl", "https://x.example/a"], [CSV]),
    "lists of addresses": said(
        lambda text: from_urls(text.splitlines()),
        [*PLAIN, "https://", "[", "]", "x.example"],
        ["https://x.example/a/b.txt\n"],
    ),
    "ANVL": said(lambda text: (anvl.read(text), anvl.read(text, escaped=True)), PLAIN, [ANVL, "a%20b: c%0Ad\n"]),
    "ERC": said(metadata.read_erc, PLAIN, [ANVL]),
    "Dublin Core": wire(
        metadata.read_dublin_core, XML, ["<DublinCore><title>Maps</title><creator>J</creator></DublinCore>"]
    ),
    "lists of deletions": said(metadata.read_deletes, PLAIN, ["a.txt\nproducer/b.txt\n"]),
    "ARKs": said(identifiers.naan, ARKS, ["ark:/99999/fk4x", "ark:13030/m5x"]),
    "folders of objects": said(lambda text: object_folder(identifiers.ark(text)), ARKS, ["ark:/99999/fk4x"]),
    "profiles": said(lambda text: parse_profile(text, "papers"), TOML, [PROFILE]),
    "EZID's answers": wire(understood, PLAIN, ["success: ark:/99999/fk4x\n_status: public\n", "error: bad request\n"]),
    "signed calls": said(verified, [*PLAIN, "v1,", "1600000000"], ["message-11600000000v1,AAAA"]),
    "inventories": wire(lambda data: from_json(data, sidecar_of(data)), JSON, [INVENTORY]),
    "statuses in the tree": wire(
        lambda data: (tree.read_status(data, True), tree.read_status(data, False)), JSON, [STATUS]
    ),
    "submissions in the tree": wire(tree.read_submission, JSON, [SUBMISSION]),
    "configurations in the tree": wire(tree.read_configuration, JSON, [SUBMISSION]),
    "records in the tree": wire(read_record, JSON, ['{"kind": "x", "token": 3, "facts": {}}']),
    "moves in the tree": wire(read_entry, JSON, [ENTRY]),
    "schedules": a_schedule,
    "moments": said(times.moment_of, TIMES, ["2026-03-01", "2026-03-01T12:00:00+01:00"]),
    "definitions": wire(lambda data: read_definitions({"_workflows/a.yaml": data}), YAML, [DEFINITION]),
    "definitions in JSON": wire(
        lambda data: read_definitions({"_workflows/a.json": data}), JSON, ['[{"name": "a", "depends": ["PREV"]}]']
    ),
    "credentials": on_paper(read_credentials, PLAIN, ["ann\nopen sesame\n"]),
    "commands of a task": said(
        lambda text: client.read(text.split()),
        ["archive ", "commit ", "-m ", "x ", "-- ", "--message=", "\0"],
        ["archive commit -m made a.txt"],
    ),
    "ids of messages": said(a_snowflake, PLAIN, ["1234567890123456789"]),
    "marks of a crawl": said(Coverage.read, JSON, ['{"upto": 5, "gaps": [[1, 3]]}']),
    "blocks of messages": lambda chance, folder: node.records(chance.damaged(MESSAGE * 2)),
    "heads": said(read_head, [*PLAIN, "—", "algorithm ", "events ", "sealed "], [HEAD]),
    "public keys": said(read_public_key, [*PLAIN, "+", "="], [KEY]),
    "PREMIS": wire(a_premis, XML, [PREMIS]),
    "proofs and histories, alone": on_paper(alone, JSON, [PROOF, EXPORT]),
    "labels of robots": on_paper(read_label, TOML, [LABEL.format(more="")], "pages.robot.toml"),
    "configuration": on_paper(config.read, TOML, [CONFIG], "custody.toml"),
    "addresses of stores": said(
        lambda text: file_of(text.encode(errors="replace").decode()),
        [*PLAIN, "sqlite:", "//", ":memory:", "?"],
        ["sqlite:///custody.db"],
    ),
}
SLOW = {"proofs and histories, alone": 20, "definitions": 4, "definitions in JSON": 4, "PREMIS": 4, "profiles": 2}
"""How many times fewer of these: each takes as much longer."""


UNGUESSABLE = {"signed calls", "public keys"}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with quick() as made:
        yield Path(made)


@pytest.mark.proves("H2")
@pytest.mark.parametrize("what", PARSERS)
def test_whatever_it_is_given_a_parser_answers_or_refuses(
    what: str, folder: Path, scaled: Scaled[int], seed: int, tell: Tell
) -> None:
    count, answered = scaled(200, 9_000, 3_000_000) // SLOW.get(what, 1), 0

    def judge(chance: Chance) -> None:
        nonlocal answered
        with suppress(CustodyError):
            PARSERS[what](chance, folder)
            answered += 1

    slowest = slowest_of(count, what, seed, judge)
    tell("", inputs=count)
    assert slowest < 1, "no input keeps a parser busy for a second"
    assert answered or what in UNGUESSABLE, (
        "and not all of them are refused, or nothing but the first check would have been tried"
    )
