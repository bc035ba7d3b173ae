"""Names, texts and extensions of PREMIS in XML, the same for every version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Final

from lxml import etree

from custody.errors import BadInput
from custody.formats.premis.model import Identifier, Term
from custody.formats.text.readers import TextLimits, read_xml

PREMIS3: Final = "http://www.loc.gov/premis/v3"
METS: Final = ("http://www.loc.gov/METS/", "http://www.loc.gov/METS/v2")
XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
OWN: Final = "urn:custody:premis"
QUOTED: Final = f"{{{OWN}}}quoted"
EXTENSION: Final = TextLimits(size=64 << 20, depth=200)
SOURCE: Final = ("authority", "authorityURI", "valueURI")
_PREFIX: Final = re.compile(r"([A-Za-z_][\w.-]*):")


def local(element: etree._Element) -> str:
    """The name of a PREMIS element of any version; empty for foreign ones."""
    name = etree.QName(element)
    return name.localname if not name.namespace or "premis" in name.namespace.lower() else ""


def in_mets(element: etree._Element) -> str:
    """The name of a METS element of any version; empty for others."""
    name = etree.QName(element)
    return name.localname if name.namespace in METS else ""


def namespace_of(element: etree._Element) -> str:
    return etree.QName(element).namespace or ""


def outermost(root: etree._Element, name: str) -> Iterator[etree._Element]:
    """Elements of this name, but not those quoted inside an extension of an event or an object."""
    for element in root.iter(f"{{*}}{name}"):
        quoted = any(local(above) in ("event", "object", "agent") for above in element.iterancestors())
        if local(element) == name and not quoted:
            yield element


def children(parent: etree._Element, *names: str) -> list[etree._Element]:
    return [child for child in parent if local(child) in names]


def text_of(element: etree._Element) -> str:
    return "".join(element.itertext()).strip()


def text(parent: etree._Element, name: str) -> str:
    return next((text_of(child) for child in children(parent, name)), "")


def texts(parent: etree._Element, name: str) -> tuple[str, ...]:
    return tuple(filter(None, map(text_of, children(parent, name))))


def term_of(element: etree._Element) -> Term:
    given = ((name, (element.get(name) or "").strip()) for name in SOURCE)
    return Term(text_of(element), tuple(pair for pair in given if pair[1]))


def term(parent: etree._Element, name: str) -> Term:
    return next((term_of(child) for child in children(parent, name)), Term(""))


def pair(element: etree._Element, what: str) -> Identifier:
    return text(element, f"{what}IdentifierType"), text(element, f"{what}IdentifierValue")


def identifiers(parent: etree._Element, what: str) -> tuple[Identifier, ...]:
    """All that have a value, each once."""
    found = (pair(each, what) for each in children(parent, f"{what}Identifier"))
    return tuple(dict.fromkeys(each for each in found if each[1]))


def xml_of(element: etree._Element) -> str:
    """An extension as text: the same for the same content, wherever in a document it stands.

    Exclusive canonical XML leaves out namespaces that are not used; those used in values (`xsi:type="a:b"`) are named.
    Blanks between elements are layout, which a writer adds."""
    used: set[str] = set()
    for each in element.iter(etree.Element):
        if len(each):
            each.text = each.text if (each.text or "").strip() else None
        for child in each:
            child.tail = child.tail if (child.tail or "").strip() else None
        for value in (*each.attrib.values(), each.text or ""):
            used.update(prefix for prefix in _PREFIX.findall(value[:200]) if prefix in element.nsmap)
    tail, element.tail = element.tail, None
    try:
        return etree.tostring(element, method="c14n", exclusive=True, inclusive_ns_prefixes=sorted(used)).decode()
    except etree.C14NError:  # a namespace that is a relative address, which canonical XML does not know
        alone = deepcopy(element)
        etree.cleanup_namespaces(alone, keep_ns_prefixes=sorted(used))
        return etree.tostring(alone, encoding="unicode")
    finally:
        element.tail = tail


def quoted(xml: str) -> etree._Element:
    """An extension for a document of ours: as it is, or as text where the schema would have its say about it. So it is
    with names of no namespace, too, which would fall into ours."""
    made = read_xml(xml.encode(), "extension", EXTENSION)
    for each in made.iter(etree.Element):
        if namespace_of(each) in ("", PREMIS3) or any(name.startswith(f"{{{XSI}}}") for name in each.attrib):
            made = etree.Element(QUOTED, nsmap={None: OWN})
            made.text = xml
            return made
    return made


def _unquoted(element: etree._Element) -> str:
    """The text of an extension, also of one that an export of ours had to quote."""
    if element.tag == QUOTED:
        try:
            return xml_of(read_xml((element.text or "").encode(), "extension", EXTENSION))
        except BadInput:
            pass  # somebody else's, or broken: it is kept as it stands
    return xml_of(element)


def extensions(parent: etree._Element, name: str) -> tuple[tuple[str, ...], str]:
    """The XML in all extensions of a name, and text that stands there without any."""
    found: list[str] = []
    said: list[str] = []
    for extension in children(parent, name):
        found += [_unquoted(child) for child in extension]
        bare = [extension.text or "", *(child.tail or "" for child in extension)]
        said += [each.strip() for each in bare if each.strip()]
    return tuple(found), "\n".join(said)
