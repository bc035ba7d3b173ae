"""An address as it may be shown: it may hold a password, in a place where nobody expects one when it is malformed."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"[a-z][a-z0-9+]{0,19}(?=:)")


def shown(url: str) -> str:
    """Nothing of it but its scheme; a file of our own whole."""
    if url.startswith("sqlite:"):
        return repr(url[:200])
    scheme = _SCHEME.match(url)
    return f"'{scheme[0]}:…'" if scheme else "'…'"
