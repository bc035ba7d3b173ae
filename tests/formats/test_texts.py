"""YAML, JSON and XML from strangers: what is read, and what is refused where."""

from __future__ import annotations

import time
from typing import Any

import pytest
from lxml import etree

from custody.errors import BadInput
from custody.formats.text.readers import TextLimits, read_json, read_xml, read_yaml

YAML_READ: list[tuple[str, Any]] = [
    ("", None),
    ("# only a comment", None),
    ("~", None),
    ("a: 1", {"a": 1}),
    ("\ufeffa: 1", {"a": 1}),
    ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
    ("%YAML 1.2\n---\na: 1\n...\n", {"a": 1}),
    ("on: commit\nno: yes\noff: y", {"on": "commit", "no": "yes", "off": "y"}),
    ("a: 1:30", {"a": "1:30"}),
    ("a: 010", {"a": "010"}),
    ("a: 0012345", {"a": "0012345"}),
    ("a: 0o17", {"a": "0o17"}),
    ("a: 0x1F", {"a": "0x1F"}),
    ("a: 1_000", {"a": "1_000"}),
    ("a: +1", {"a": "+1"}),
    ("a: -0", {"a": 0}),
    ("a: 1.5e3", {"a": 1500.0}),
    ("a: 2001-01-01", {"a": "2001-01-01"}),
    ("a: true\nb: False\nc: NULL", {"a": True, "b": False, "c": None}),
    ("a: 'true'\nb: \"1\"\nc: |\n  1\n", {"a": "true", "b": "1", "c": "1\n"}),
    ("a: 9223372036854775807", {"a": 2**63 - 1}),
    ("[PREV, index]", ["PREV", "index"]),
    ("- a\n- [b, {c: d}]", ["a", ["b", {"c": "d"}]]),
    ("'<<': 1", {"<<": 1}),
    ("'&a': '*b !c'", {"&a": "*b !c"}),
    ("a: été 日本", {"a": "été 日本"}),
    ("__proto__: 1", {"__proto__": 1}),
]

YAML_REFUSED: list[tuple[str | bytes, str, int | None, int | None]] = [
    ("a: &x 1\nb: *x", "yaml.anchor", 1, 4),
    ("a: 1\nb: *x", "yaml.anchor", 2, 4),
    ("&x a: 1", "yaml.anchor", 1, 1),
    ("- &x [1]", "yaml.anchor", 1, 3),
    ("a: !!python/object/apply:os.system ['true']", "yaml.tag", 1, 4),
    ("a: !!str 1", "yaml.tag", 1, 4),
    ("a: ! b", "yaml.tag", 1, 4),
    ("!local {a: 1}", "yaml.tag", 1, 1),
    ("a: !<tag:yaml.org,2002:int> 1", "yaml.tag", 1, 4),
    ("%TAG ! tag:x,2000:\n--- !a b", "yaml.directive", None, None),
    ("%YAML 1.1\n--- on", "yaml.directive", None, None),
    ("a: 1\na: 2", "yaml.duplicate_key", 2, 1),
    ("x: {a: 1, 'a': 2}", "yaml.duplicate_key", 1, 11),
    ("<<: {a: 1}", "yaml.merge", 1, 1),
    ("1: a", "yaml.key", 1, 1),
    ("true: a", "yaml.key", 1, 1),
    ("~: a", "yaml.key", 1, 1),
    (": a", "yaml.key", 1, 1),
    ("? [a]\n: b", "yaml.key", 1, 3),
    ("? {a: b}\n: c", "yaml.key", 1, 3),
    ("a: .nan", "yaml.number", 1, 4),
    ("a: -.INF", "yaml.number", 1, 4),
    ("a: 1e999", "yaml.number", 1, 4),
    ("a: 9223372036854775808", "yaml.number", 1, 4),
    ("a: 1\n---\nb: 2", "yaml.documents", 2, 1),
    ("--- a\n" * 100, "yaml.documents", 2, 1),
    ("[" * 33 + "]" * 33, "yaml.depth", 1, 33),
    ("[" * 500_000, "yaml.depth", 1, 33),
    ("{a: " * 40 + "}" * 40, "yaml.depth", 1, None),
    ("- " * 100_000, "yaml.depth", 1, 65),
    ("a: [", "yaml.syntax", None, None),
    ("a: b: c", "yaml.syntax", 1, 5),
    ("a:\n\t- b", "yaml.syntax", 2, 1),
    ("'a", "yaml.syntax", None, None),
    ("a: @b", "yaml.syntax", 1, 4),
    ("a: \0", "yaml.syntax", None, None),
    ("a: \x1b", "yaml.syntax", None, None),
    ('a: "\\xZZ"', "yaml.syntax", 1, None),
    ('a: "\\U00110000"', "yaml.syntax", None, None),
    ('a: "\\UFFFFFFFF"', "yaml.syntax", None, None),
    ('a: "\\uD800"', "yaml.encoding", 1, 4),
    (b"a: \xff", "yaml.encoding", None, None),
    ("a: 1".encode("utf-16"), "yaml.encoding", None, None),
    ("a: " + "x" * (1 << 20), "yaml.size", None, None),
    ("[" + "a," * 60_000 + "]", "yaml.size", 1, None),
]


@pytest.mark.parametrize(("text", "value"), YAML_READ, ids=lambda value: ascii(value)[:40])
def test_yaml_says_what_it_looks_like(text: str, value: Any) -> None:
    assert read_yaml(text) == value
    assert read_yaml(text.encode()) == value


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("text", "code", "line", "column"), YAML_REFUSED, ids=lambda value: ascii(value)[:40])
def test_yaml_with_a_trap_is_refused_at_its_place(
    text: str | bytes, code: str, line: int | None, column: int | None
) -> None:
    began = time.thread_time()
    with pytest.raises(BadInput) as caught:
        read_yaml(text, where="publish.yaml")
    assert caught.value.code == code
    assert caught.value.where.startswith("publish.yaml")
    assert str(caught.value).isprintable()
    if line is not None:
        assert caught.value.facts["line"] == line
    if column is not None:
        assert caught.value.facts["column"] == column
        assert caught.value.where == f"publish.yaml:{line}:{column}"
    assert time.thread_time() - began < 10


JSON_READ: list[tuple[str, Any]] = [
    ("null", None),
    (' {"a": [1, -2.5e3, true, "é\\u00e9\\ud83d\\ude00"]} ', {"a": [1, -2500.0, True, "éé😀"]}),
    ('"[[[[{{{{"', "[[[[{{{{"),
    ('"\\"[[["', '"[[['),
    ("[" * 64 + "]" * 64, eval("[" * 64 + "]" * 64)),
    ("9223372036854775807", 2**63 - 1),
    ('{"__proto__": {"a": 1}}', {"__proto__": {"a": 1}}),
    ('{"a": "\\\\ud800"}', {"a": "\\ud800"}),
]

JSON_REFUSED: list[tuple[str | bytes, str]] = [
    ("", "json.syntax"),
    ("{", "json.syntax"),
    ("[1,]", "json.syntax"),
    ("{'a': 1}", "json.syntax"),
    ("[1] x", "json.syntax"),
    ("[1][2]", "json.syntax"),
    ("01", "json.syntax"),
    ("1.", "json.syntax"),
    ("// a\n1", "json.syntax"),
    ('"a\nb"', "json.syntax"),
    ('"\\x"', "json.syntax"),
    ('"abc', "json.syntax"),
    ('"' + '\\"' * 100_000, "json.syntax"),
    ("\ufeff1", "json.syntax"),
    ("\0", "json.syntax"),
    ('{"a": 1, "a": 2}', "json.duplicate_key"),
    ('[{"b": {"a": 1, "\\u0061": 2}}]', "json.duplicate_key"),
    ("NaN", "json.number"),
    ("[Infinity]", "json.number"),
    ("-Infinity", "json.number"),
    ("1e999", "json.number"),
    ("9223372036854775808", "json.number"),
    ("-9223372036854775809", "json.number"),
    ("1" * 10_000_000, "json.number"),
    ("[" * 65 + "]" * 65, "json.depth"),
    ("[" * 1_000_000, "json.depth"),
    ('{"a":' * 5000, "json.depth"),
    ('["x", "y\\"", ' * 70, "json.depth"),
    ('"\\ud800"', "json.encoding"),
    ('{"\\udfff": 1}', "json.encoding"),
    ('[{"a": ["\\ude00\\ud83d"]}]', "json.encoding"),
    (b'"\xff"', "json.encoding"),
    (b'"\xed\xa0\x80"', "json.encoding"),
    ('"\ud800"', "json.encoding"),
    ("1".encode("utf-16"), "json.encoding"),
    (" " * ((16 << 20) + 1), "json.size"),
]


@pytest.mark.parametrize(("text", "value"), JSON_READ, ids=lambda value: ascii(value)[:40])
def test_json_is_read(text: str, value: Any) -> None:
    assert read_json(text) == value
    assert read_json(text.encode()) == value


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("text", "code"), JSON_REFUSED, ids=lambda value: ascii(value)[:40])
def test_json_with_a_trap_is_refused(text: str | bytes, code: str) -> None:
    began = time.thread_time()
    with pytest.raises(BadInput) as caught:
        read_json(text, where="body")
    assert caught.value.code == code
    assert caught.value.where.startswith("body")
    assert time.thread_time() - began < 5


def test_a_fault_in_json_has_its_line_and_column() -> None:
    with pytest.raises(BadInput) as caught:
        read_json('{\n  "a": 1,\n  oops\n}', where="body.json")
    assert caught.value.where == "body.json:3:3"


XML_READ: list[tuple[bytes, str]] = [
    (b"<a/>", "<a/>"),
    (b'<?xml version="1.0" encoding="UTF-8"?>\n<a>\xc3\xa9</a>', "<a>é</a>"),
    (b"\xef\xbb\xbf<a/>", "<a/>"),
    ('<?xml version="1.0" encoding="iso-8859-1"?><a>é</a>'.encode("latin-1"), "<a>é</a>"),
    ('<?xml version="1.0" encoding="windows-1252"?><a>é–</a>'.encode("cp1252"), "<a>é–</a>"),
    ('<?xml version="1.0" encoding="UTF-16"?><a>é</a>'.encode("utf-16"), "<a>é</a>"),
    (b"<!-- <!DOCTYPE x> --><?x <!DOCTYPE y> ?><a>1<!-- c -->2<?p?></a>", "<a>12</a>"),
    (b"<a><![CDATA[<!DOCTYPE x>]]></a>", "<a>&lt;!DOCTYPE x&gt;</a>"),
    (b"<a>&lt;&amp;&#233;&#x1F600;</a>", "<a>&lt;&amp;é😀</a>"),
    (b'<p:a xmlns:p="urn:x" p:b="1"/>', '<p:a xmlns:p="urn:x" p:b="1"/>'),
    (
        b'<a xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="/etc/passwd" parse="text"/></a>',
        '<a xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="/etc/passwd" parse="text"/></a>',
    ),
    (b"<a>" * 200 + b"</a>" * 200, "<a>" * 199 + "<a/>" + "</a>" * 199),
]

LAUGHS = b"<!ENTITY a 'ha'>" + b"".join(b"<!ENTITY %c '%b'>" % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
XML_REFUSED: list[tuple[bytes, str]] = [
    (b"<!DOCTYPE a><a/>", "xml.dtd"),
    (b'<?xml version="1.0"?>\n<!-- x -->\n<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "xml.dtd"),
    (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "xml.dtd"),
    (b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/x.dtd"><a/>', "xml.dtd"),
    (b'<!DOCTYPE a PUBLIC "x" "http://127.0.0.1:9/x.dtd"><a/>', "xml.dtd"),
    (b'<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1:9/"> %p;]><a/>', "xml.dtd"),
    (b"<!DOCTYPE a [" + LAUGHS + b"]><a>&j;</a>", "xml.dtd"),
    (b"<!DOCTYPE a [" + LAUGHS + b']><a b="&j;"/>', "xml.dtd"),
    (b'<!DOCTYPE a [<!ATTLIST a b CDATA "default">]><a/>', "xml.dtd"),
    ("<!DOCTYPE a><a/>".encode("utf-16"), "xml.dtd"),
    (b"<a>&undefined;</a>", "xml.syntax"),
    (b"", "xml.syntax"),
    (b"hello", "xml.syntax"),
    (b"<a>", "xml.syntax"),
    (b"<a></b>", "xml.syntax"),
    (b"<a/><b/>", "xml.syntax"),
    (b"<a b='1' b='2'/>", "xml.syntax"),
    (b'<a xmlns:x="u" xmlns:y="u" x:b="1" y:b="2"/>', "xml.syntax"),
    (b"<x:a/>", "xml.syntax"),
    (b"<a>\0</a>", "xml.syntax"),
    (b"<a>&#0;</a>", "xml.syntax"),
    (b"<a>\x1b</a>", "xml.syntax"),
    (b'<a b="<"/>', "xml.syntax"),
    (b" <?xml version='1.0'?><a/>", "xml.syntax"),
    (b"<a>\xff</a>", "xml.encoding"),
    (b'<?xml version="1.0" encoding="utf-7"?><a>+ADw-</a>', "xml.encoding"),
    (b'<?xml version="1.0" encoding="EBCDIC-CP-US"?><a/>', "xml.encoding"),
    (b'<?xml version="1.0" encoding="shift_jis"?><a/>', "xml.encoding"),
    (b'<?xml version="1.0" encoding="windows-1252"?><a>\x81</a>', "xml.encoding"),
    (b"\xff\xfe<\0a", "xml.encoding"),
    (b"<a>" * 201 + b"</a>" * 201, "xml.depth"),
    (b"<a>" * 100_000, "xml.depth"),
    (b"<a>" + b"x" * (16 << 20) + b"</a>", "xml.size"),
]


@pytest.mark.parametrize(("data", "expected"), XML_READ, ids=lambda value: ascii(value)[:40])
def test_xml_is_read(data: bytes, expected: str) -> None:
    assert etree.tostring(read_xml(data), encoding="unicode") == expected


@pytest.mark.proves("H1")
@pytest.mark.parametrize(("data", "code"), XML_REFUSED, ids=lambda value: ascii(value)[:40])
def test_xml_with_a_trap_is_refused(data: bytes, code: str) -> None:
    began = time.thread_time()
    with pytest.raises(BadInput) as caught:
        read_xml(data, where="mets.xml")
    assert caught.value.code == code
    assert caught.value.where.startswith("mets.xml")
    assert str(caught.value).isprintable()
    assert time.thread_time() - began < 5


def test_a_fault_in_xml_has_its_line_and_column() -> None:
    with pytest.raises(BadInput) as caught:
        read_xml(b"<a>\n  <b></c>\n</a>", where="mets.xml")
    assert caught.value.where == "mets.xml:2:10"


def test_a_document_type_that_only_the_parser_sees_is_refused_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    from custody.formats.text import readers as text

    monkeypatch.setattr(text, "_XML_DTD", re.compile("never"))
    with pytest.raises(BadInput) as caught:
        read_xml(b'<!DOCTYPE a [<!ENTITY x "y">]><a/>')
    assert caught.value.code == "xml.dtd"


def test_a_caller_can_be_stricter() -> None:
    small = TextLimits(size=10, depth=1)
    for read, good, deep in ((read_yaml, b"[1]", b"[[1]]"), (read_json, b"[1]", b"[[1]]")):
        assert read(good, limits=small) == [1]
        with pytest.raises(BadInput):
            read(deep, limits=small)
        with pytest.raises(BadInput):
            read(b" " * 11, limits=small)
    with pytest.raises(BadInput):
        read_xml(b"<a><b/></a>", limits=TextLimits(size=100, depth=1))
