"""Canonical JSON: the vectors of RFC 8785, and what cannot come back as it went is refused."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody.errors import BadInput
from custody.kernel.history.event_body import DEEPEST, _write, canonical, number_text
from custody.kernel.history.exchange import standalone_verifier

NUMBERS = [  # RFC 8785, appendix B
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "text"), NUMBERS)
def test_numbers_are_written_as_rfc_8785_lists_them(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert number_text(number) == text
    assert standalone_verifier.write_float(number) == text


def test_the_example_of_rfc_8785_section_3_but_for_its_large_number() -> None:
    value = {
        "numbers": [333333333.33333329, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '€$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    text = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical(value) == text.encode()


def test_keys_are_sorted_as_utf_16_the_example_of_section_3_2_3() -> None:
    keys = ["€", "\r", "\ufb33", "1", "😀", "\u0080", "ö"]
    found = list(json.loads(canonical(dict.fromkeys(keys))))
    assert found == ["\r", "1", "\u0080", "ö", "€", "😀", "\ufb33"]


REFUSED: list[tuple[str, Any]] = [
    ("nan", float("nan")),
    ("infinity", float("-inf")),
    ("an integer that is not exact", 2**53 + 1),
    ("a negative one", -(2**53) - 1),
    ("a double that would be read as another integer", 4.199383966457729e16),
    ("half a character", "\ud83d"),
    ("half a character in a key", {"\ud83d": 1}),
    ("a number as a key", {1: "one"}),
    ("a key that is nothing", {None: "one"}),
    ("bytes", b"bytes"),
    ("a pair", (1, 2)),
    ("a set", {1}),
    ("an object", object()),
]


@pytest.mark.parametrize("value", [value for _, value in REFUSED], ids=[name for name, _ in REFUSED])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"a": [v]}, lambda v: {"é": [0.5, v]}])
def test_what_json_cannot_bring_back_is_refused(value: Any, wrap: Any) -> None:
    with pytest.raises(BadInput) as caught:
        canonical(wrap(value))
    assert caught.value.code == "history.not-json"


def test_a_refusal_points_at_the_place() -> None:
    with pytest.raises(BadInput, match=r"^/report/sizes/1: .*write it as text"):
        canonical({"report": {"sizes": [1, 2**64]}})


def test_nesting_has_an_end() -> None:
    deep: Any = 1
    for _ in range(DEEPEST):
        deep = [deep]
    assert canonical(deep)
    with pytest.raises(BadInput, match="nested"):
        canonical([deep])


numbers = st.floats(-(2**53) + 1, 2**53 - 1) | st.integers(-(2**53) + 1, 2**53 - 1)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_what_is_kept_comes_back_and_is_written_the_same_again(value: Any) -> None:
    text = canonical(value)
    back = json.loads(text)
    assert back == value
    assert canonical(back) == text


@given(values)
def test_the_fast_way_the_full_way_and_the_stand_alone_verifier_agree(value: Any) -> None:
    assert canonical(value) == _write(value, "", 0).encode() == standalone_verifier.canonical(value)


@given(st.dictionaries(st.text(), st.integers(0, 9)))
def test_the_order_in_which_a_dict_was_filled_does_not_matter(value: dict[str, int]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)
