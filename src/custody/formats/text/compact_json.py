"""JSON in one form: names in order, no spaces, no numbers that JSON does not have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final


def _make() -> Callable[[Any], str]:
    """Made once. `json.dumps` makes an encoder for every call, and `JSONEncoder` makes another within each: that
    takes three times as long as the work itself."""
    common = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)
    within = json.encoder.c_make_encoder  # type: ignore[attr-defined]
    if within is None:  # a Python without it
        return common.encode
    parts = within(None, common.default, json.encoder.encode_basestring, None, ":", ",", True, False, False)
    return lambda value: "".join(parts(value, 0))


json_text: Callable[[Any], str] = _make()
"""The text of a value; TypeError, ValueError or RecursionError for one that JSON does not have."""

_TEXTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS: Final = re.compile(r"[\[\]{}]")


def depth_of(text: str, enough: int) -> int:
    """How deep JSON is nested, as far as anybody asks; quick for what cannot be deeper."""
    if text.count("[") + text.count("{") < enough:
        return 0
    deepest = depth = 0
    for bracket in _BRACKETS.findall(_TEXTS.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
        if deepest >= enough:
            break
    return deepest
