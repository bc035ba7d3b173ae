"""Identifiers as people write them, and the one form in which they are kept and compared.

Where a scheme says which spellings are equal, equal ones become one; of every other identifier the spelling is the
identifier. What is understood:

    ark   draft-kunze-ark, "Normalization and Lexical Equivalence": a resolver's address, a query and hyphens mean
          nothing, `ark:` and `ark:/` are the same, nor does the case of the label and of the naming authority count;
          letters that are encoded without need are decoded, `//` is `/`, nothing ends with `/` or `.`, and variants
          (`.v1`) come last, in order. Upper and lower case of the name are different.
    doi   DOI Handbook: upper and lower case of ASCII are the same; https://doi.org/ and http://dx.doi.org/ lead to it
    hdl   RFC 3650: the case of the naming authority does not count, that of the local name does
    urn   RFC 8141: nor does the case of `urn:` and the namespace, and what follows ?+, ?= or # is no part of it;
          nbn (RFC 8458): nor that of the prefix, up to the hyphen; uuid (RFC 9562): nor any

An ARK is written `ark:/12345/x`, because the deployed services compare identifiers as strings. Minting is elsewhere
(`noid`, `ezid`).
"""

from __future__ import annotations

import re
import string
from typing import Final
from urllib.parse import unquote

from custody.errors import BadInput

LONGEST: Final = 200
_FLAGS = re.ASCII | re.IGNORECASE
_RESOLVER = re.compile(r"https?://[^/?#]+/(?:[^?#]*?/)?(?=ark:)", _FLAGS)
_HYPHENS = str.maketrans(dict.fromkeys("-\u2010\u2011\u2012\u2013\u2014\u2015", ""))
_ARK = re.compile(r"ark:/*(?P<naan>[0-9bcdfghjkmnpqrstvwxz]{5,})/(?P<name>[a-z0-9=~*+@_$./%]+)", _FLAGS)
_PLAIN = frozenset(string.ascii_letters + string.digits + "=~*+@_$")
_ENCODED = re.compile("%([0-9A-Fa-f]{2})")
_DOI = re.compile(r"(?P<way>doi:|https?://(?:dx\.)?doi\.org/)(?P<name>10\.[0-9][0-9.]*/.+)", _FLAGS | re.DOTALL)
_HANDLE = re.compile(r"(?P<way>hdl:|https?://hdl\.handle\.net/)(?P<naming>[^/]+)/(?P<name>.+)", _FLAGS | re.DOTALL)
_URN = re.compile(r"urn:(?P<space>[a-z0-9][a-z0-9-]{0,30}[a-z0-9]):(?P<name>.+)", _FLAGS | re.DOTALL)
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", _FLAGS)


def ark(text: str) -> str:
    """Read an ARK: the identifier in the one form that is stored and compared."""
    bare = _RESOLVER.sub("", text, count=1) if _RESOLVER.match(text) else text
    found = _ARK.fullmatch(bare.partition("?")[0].translate(_HYPHENS)) if len(text) <= 2 * LONGEST else None
    name = _name(found["name"]) if found else ""
    if not found or not name or len(name) > LONGEST or "%" in name:
        raise BadInput(f"{text!r} is not an ARK", code="identifier.bad", hint="an ARK looks like ark:/12345/m5abc123")
    return f"ark:/{found['naan'].lower()}/{name}"


def naan(text: str) -> str:
    """Which naming authority an ARK belongs to."""
    return ark(text).split("/")[1]


def one_form(text: str) -> str:
    """The form that all equal spellings of an identifier share; the text itself where no scheme that we know says that
    others are equal to it."""
    if _RESOLVER.match(text) or text[:4].lower() == "ark:":
        try:
            return ark(text)
        except BadInput:
            return text  # it only begins like one
    if found := _DOI.fullmatch(text):
        name = _of_address(found["way"], found["name"])
        return f"doi:{_small(name)}" if name else text
    if found := _HANDLE.fullmatch(text):
        name = _of_address(found["way"], found["name"])
        return f"hdl:{_small(found['naming'])}/{name}" if name else text
    return _urn(found["space"].lower(), found["name"]) if (found := _URN.fullmatch(text)) else text


def _name(written: str) -> str:
    """The name and its qualifiers: parts in their order, then variants in alphabetical order, each once."""
    plain = _ENCODED.sub(_decoded, written)
    first, *rest = re.split("([/.])", re.sub("([/.])[/.]+", r"\1", plain.lstrip("/.")).rstrip("/."))
    qualifiers = [mark + part for mark, part in zip(rest[::2], rest[1::2], strict=True)]
    variants = {each for each in qualifiers if each[0] == "."}
    return "".join([first, *(each for each in qualifiers if each not in variants), *sorted(variants)])


def _decoded(found: re.Match[str]) -> str:
    """What is encoded without need; the rest keeps a meaning from being seen."""
    character = chr(int(found[1], 16))
    return character if character in _PLAIN else found[0].upper()


def _of_address(way: str, name: str) -> str:
    """The name that an address leads to; empty when the address says more than a name."""
    if way.endswith(":"):
        return name
    return "" if "?" in name or "#" in name else unquote(name)


def _urn(space: str, name: str) -> str:
    bare = re.split(r"\?[+=]|#", name, maxsplit=1)[0]
    plain = _ENCODED.sub(lambda found: found[0].upper(), bare)
    if space == "uuid" and _UUID.fullmatch(plain):
        plain = plain.lower()
    elif space == "nbn":
        prefix, hyphen, rest = plain.partition("-")
        plain = f"{_small(prefix)}{hyphen}{rest}" if hyphen else plain
    return f"urn:{space}:{plain}"


def _small(text: str) -> str:
    """Lower case of ASCII alone: no scheme says anything of other letters."""
    return "".join(each.lower() if each.isascii() else each for each in text)
