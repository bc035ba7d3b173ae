"""Archival Resource Keys as depositors write them.

Both spellings are read, `ark:/12345/x` and the newer `ark:12345/x`; the first is what is written, because
the deployed services compare identifiers as strings. Minting is elsewhere (`noid`, `ezid`).
"""

from __future__ import annotations

import re

from custody.model.errors import BadInput

_ARK = re.compile(r"ark:/?(?P<naan>[0-9bcdfghjkmnpqrstvwxz]{5,})/(?P<name>[A-Za-z0-9=~*+@_$./-]{1,200})")


def ark(text: str) -> str:
    """The identifier in the one form that is stored and compared."""
    found = _ARK.fullmatch(text)
    if not found:
        raise BadInput(f"{text!r} is not an ARK", code="identifier.bad", hint="an ARK looks like ark:/12345/m5abc123")
    return f"ark:/{found['naan']}/{found['name']}"


def naan(text: str) -> str:
    """Which naming authority an ARK belongs to."""
    return ark(text).split("/")[1]
