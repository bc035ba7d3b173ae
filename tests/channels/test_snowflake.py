"""Ids and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.conftest import UNHURRIED
from custody.channels.snowflake import EPOCH, HIGHEST, at, block_id, parse, time_of
from custody.errors import BadInput

# From the service's own documentation: an id and the time in it.
KNOWN = 175928847299117063
KNOWN_TIME = datetime(2016, 4, 30, 11, 18, 25, 796000, tzinfo=UTC)


def test_an_id_carries_its_time_to_the_millisecond() -> None:
    assert time_of(KNOWN) == KNOWN_TIME
    assert at(KNOWN_TIME) <= KNOWN < at(KNOWN_TIME + timedelta(milliseconds=1))


@UNHURRIED
@given(st.integers(0, HIGHEST))
def test_a_time_turned_into_an_id_is_at_or_below_every_id_of_it(one: int) -> None:
    assert at(time_of(one)) <= one
    assert time_of(at(time_of(one))) == time_of(one)


@UNHURRIED
@given(st.integers(0, HIGHEST), st.integers(0, HIGHEST))
def test_twenty_digits_sort_as_the_numbers_do(first: int, second: int) -> None:
    assert (block_id(first) < block_id(second)) == (first < second)
    assert len(block_id(first)) == 20


@pytest.mark.parametrize("text", ["175928847299117063", 175928847299117063, "0", str(HIGHEST)])
def test_an_id_is_read_as_the_service_writes_it(text: str | int) -> None:
    assert str(parse(text)) == str(text)


@pytest.mark.parametrize("text", ["", "-1", -1, "1.5", "1e3", " 1", "٣", "abc", str(HIGHEST + 1), HIGHEST + 1])
def test_what_is_no_id_is_refused(text: str | int) -> None:
    with pytest.raises(BadInput):
        parse(text)


@pytest.mark.parametrize("moment", [EPOCH - timedelta(days=1), datetime(3000, 1, 1, tzinfo=UTC)])
def test_a_time_that_no_id_can_carry_is_refused(moment: datetime) -> None:
    with pytest.raises(BadInput):
        at(moment)
