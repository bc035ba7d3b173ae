"""JSON as XML: the form of XPath's json-to-xml, so that other people's tools can turn it back."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from lxml import etree

from custody.errors import BadInput

JSON_XML: Final = "http://www.w3.org/2005/xpath-functions"
NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_KINDS: Final = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "map"}


def fit(text: str) -> str:
    """Text for people: what XML has no character for is written out."""
    return NOT_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_xml(value: Any, key: str | None = None) -> etree._Element:
    """A JSON value as an element; its name among its neighbours goes into the attribute `key`."""
    made = etree.Element(f"{{{JSON_XML}}}{_kind(value)}", nsmap={None: JSON_XML})
    if key is not None:
        made.set("key", _escaped(made, key, "escaped-key"))
    match value:
        case str():
            made.text = _escaped(made, value, "escaped")
        case bool() | int() | float():
            made.text = json.dumps(value)
        case list():
            made.extend(json_xml(part) for part in value)
        case dict():
            made.extend(json_xml(part, name) for name, part in value.items())
    return made


def from_json_xml(element: etree._Element) -> Any:
    """The JSON value that `json_xml` wrote, or XPath's json-to-xml."""
    kind, text = etree.QName(element).localname, element.text or ""
    match kind:
        case "map":
            return {_key(child): from_json_xml(child) for child in element}
        case "array":
            return [from_json_xml(child) for child in element]
        case "string":
            return _unescaped(text) if element.get("escaped") == "true" else text
        case "number":
            return json.loads(text)
        case "boolean":
            return {"true": True, "1": True, "false": False, "0": False}[text.strip()]
        case "null":
            return None
    raise ValueError(f"JSON has no {kind}")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if type(value) not in _KINDS:
        raise BadInput(f"an event's detail cannot have a {type(value).__name__}", code="premis.not-json")
    return _KINDS[type(value)]


def _escaped(made: etree._Element, text: str, attribute: str) -> str:
    """Text as it is if XML can carry it; or as JSON writes it, and an attribute says so."""
    if not NOT_XML.search(text):
        return text
    made.set(attribute, "true")
    return json.dumps(text)[1:-1]


def _key(element: etree._Element) -> str:
    key = element.attrib["key"]
    return _unescaped(key) if element.get("escaped-key") == "true" else key


def _unescaped(text: str) -> str:
    return str(json.loads(f'"{text}"'))
