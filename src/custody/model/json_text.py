"""JSON in one form: names in order, no spaces, no numbers that JSON does not have."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


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
