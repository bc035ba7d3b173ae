"""Structured text from strangers: YAML, JSON and XML, each with limits and one reading.

What a later reader might take differently is refused here: keys that come twice, values by reference, tags,
numbers that do not fit. An error says where, by line and column. What the values *mean* is the business of
whoever asked for them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from lxml import etree

from custody.errors import BadInput
from custody.formats.names import shown
from custody.formats.text.faults import fault
from custody.formats.text.yamltext import YamlReader


@dataclass(frozen=True, slots=True)
class TextLimits:
    """How much text, in bytes, and how deeply nested."""

    size: int
    depth: int


YAML_LIMITS = TextLimits(size=1 << 20, depth=32)
JSON_LIMITS = TextLimits(size=16 << 20, depth=64)
XML_LIMITS = TextLimits(size=16 << 20, depth=200)

_INT64 = range(-(2**63), 2**63)
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]+")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_XML_ENCODING = re.compile(rb"""^<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
# What may stand before the root element, then a DTD.
_XML_DTD = re.compile(r"(?:\s|<\?(?:(?!\?>).)*+\?>|<!--(?:(?!-->).)*+-->)*+<!DOCTYPE", re.DOTALL)
_XML_ENCODINGS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "iso-8859-1": "latin-1",
    "latin1": "latin-1",
    "utf-16": "utf-16",
}


def read_yaml(data: bytes | str, where: str = "", limits: TextLimits = YAML_LIMITS) -> Any:
    """One YAML 1.2 document as dicts with text keys, lists, text, numbers, booleans and None.

    No anchors, aliases, merge keys or tags; plain scalars mean what JSON would mean by them, everything else
    is text (`on`, `1:30` and `0012` too).
    """
    text = _decoded(data, "yaml", where, limits).removeprefix("\ufeff")
    return YamlReader(text, where, limits.depth).read()


def read_json(data: bytes | str, where: str = "", limits: TextLimits = JSON_LIMITS) -> Any:
    """One JSON value. Whole numbers fit in 64 bits; there is no NaN, no lone surrogate, no key twice."""
    text = _decoded(data, "json", where, limits)
    _check_json_depth(text, where, limits.depth)

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(found)
        if len(value) != len(found):
            keys = [key for key, _ in found]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise fault("json.duplicate_key", f"the key '{shown(twice)}' comes twice", where)
        return value

    def whole(digits: str) -> int:
        if len(digits) > 20 or int(digits) not in _INT64:
            raise fault("json.number", f"the number {shown(digits, 30)} does not fit in 64 bits", where)
        return int(digits)

    def fraction(digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise fault("json.number", f"the number {shown(digits, 30)} is too large", where)
        return value

    def constant(name: str) -> NoReturn:
        raise fault("json.number", f"{name} is not a number", where)

    try:
        value = json.loads(
            text, object_pairs_hook=pairs, parse_int=whole, parse_float=fraction, parse_constant=constant
        )
    except json.JSONDecodeError as error:
        raise fault("json.syntax", error.msg, where, error.lineno, column=error.colno) from error
    if _SURROGATE.search(text):
        _check_surrogates(value, where)
    return value


def read_xml(data: bytes, where: str = "", limits: TextLimits = XML_LIMITS) -> etree._Element:
    """The root element, without comments and processing instructions. A DTD is not accepted, hence there are
    no entities but XML's five; nothing is looked up on disk or network."""
    text = _decoded_xml(data, where, limits)
    if _XML_DTD.match(text):
        raise _dtd(where)
    parser = etree.XMLParser(
        encoding="utf-8",  # converted above, so that no declaration can choose another reading
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
        recover=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(text.encode("utf-8"), parser)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        message = shown((error.msg or "it cannot be read").partition(", line ")[0].strip(), 200)
        code = "xml.depth" if "depth" in message else "xml.syntax"
        raise fault(code, message, where, max(line, 1), column=max(column, 1)) from error
    if root.getroottree().docinfo.internalDTD is not None:
        raise _dtd(where)  # the parser found one where we saw none
    if root.xpath(f"boolean({'/*' * (limits.depth + 1)})"):
        raise fault("xml.depth", f"nested more than {limits.depth} deep", where)
    return root


def _dtd(where: str) -> BadInput:
    return fault("xml.dtd", "a document type (DTD) is not accepted", where, hint="remove the <!DOCTYPE …>")


def _decoded(data: bytes | str, kind: str, where: str, limits: TextLimits) -> str:
    if len(data) > limits.size:
        raise fault(f"{kind}.size", f"longer than {limits.size} bytes", where)
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        text.encode("utf-8")
    except UnicodeError as error:
        raise fault(f"{kind}.encoding", "not UTF-8", where) from error
    return text


def _decoded_xml(data: bytes, where: str, limits: TextLimits) -> str:
    if len(data) > limits.size:
        raise fault("xml.size", f"longer than {limits.size} bytes", where)
    declared = _XML_ENCODING.match(data.removeprefix(b"\xef\xbb\xbf"))
    name = declared[1].decode("ascii").lower() if declared else "utf-8"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        name = "utf-16"
    encoding = _XML_ENCODINGS.get(name)
    if encoding is None:
        raise fault("xml.encoding", f"the encoding {shown(name)} is not accepted", where)
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeError as error:
        raise fault("xml.encoding", f"not {name}", where) from error


def _check_json_depth(text: str, where: str, limit: int) -> None:
    """Before parsing: the parser calls itself for every bracket."""
    depth = 0
    for brackets in _BRACKETS.findall(_STRINGS.sub("", text)):
        for bracket in brackets:
            depth += 1 if bracket in "[{" else -1
            if depth > limit:
                raise fault("json.depth", f"nested more than {limit} deep", where)


def _check_surrogates(value: Any, where: str) -> None:
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            waiting.extend(found.keys())
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)
        elif isinstance(found, str) and not _encodable(found):
            raise fault("json.encoding", "half of a character (a lone surrogate)", where)


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
