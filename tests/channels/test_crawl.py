"""What has been fetched, what to fetch next, and what a second look shows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.conftest import UNHURRIED
from custody.channels.crawl.coverage import Coverage, Gap, joined
from custody.channels.snowflake import HIGHEST
from custody.errors import BadInput

Raw = dict[str, Any]


# --- Coverage ---


def test_coverage_is_what_was_shown_and_the_beginning_is_a_gap_like_others() -> None:
    coverage = Coverage().grown((151, 250))
    assert coverage == Coverage(250, (Gap(-1, 151),))
    assert (coverage.prefix, coverage.covers(150), coverage.covers(151)) == (0, False, True)
    coverage = coverage.grown((400, 500))
    assert coverage.gaps == (Gap(-1, 151), Gap(250, 400))
    coverage = coverage.grown((249, 401))
    assert coverage == Coverage(500, (Gap(-1, 151),))
    assert coverage.grown((0, 151)) == Coverage(500)


def test_a_mark_of_former_days_is_read_as_it_is() -> None:
    coverage = Coverage.read('{"upto":"100","gaps":[["10","20"]]}')
    assert coverage.spans == ((0, 10), (20, 100))
    assert Coverage.read('{"upto":"0","gaps":[]}').spans == ()


def test_more_gaps_than_a_mark_has_room_for_are_fewer_and_larger_ones() -> None:
    coverage = Coverage.of([(10 * n, 10 * n + 5) for n in range(1, 80)])
    read = Coverage.read(coverage.mark())
    assert (len(coverage.gaps), len(read.gaps), read.upto) == (79, 50, coverage.upto)
    assert all(coverage.covers(one) for one in range(800) if read.covers(one)), "it may know less, never more"
    assert len(coverage.mark()) < 4_000


@UNHURRIED
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12))
def test_spans_and_gaps_say_the_same(parts: list[tuple[int, int]]) -> None:
    spans = [(low, low + more) for low, more in parts]
    coverage = Coverage().grown(*spans)
    for one in range(1, 80):
        assert coverage.covers(one) is any(low <= one <= high for low, high in spans), one
    assert coverage == Coverage.of(coverage.spans)


def coverage_of(upto: int, bounds: list[int]) -> Coverage:
    edges = sorted(one for one in set(bounds) if one <= upto)
    pairs = zip(edges[::2], edges[1::2], strict=False)
    return Coverage(upto, tuple(Gap(low, high) for low, high in pairs if high - low > 1))


@UNHURRIED
@given(
    st.tuples(st.integers(0, 30), st.lists(st.integers(0, 30), max_size=6)),
    st.tuples(st.integers(0, 30), st.lists(st.integers(0, 30), max_size=6)),
)
def test_two_marks_together_cover_what_either_does(one: tuple[int, list[int]], other: tuple[int, list[int]]) -> None:
    first, second = coverage_of(*one), coverage_of(*other)
    both = Coverage.read(joined(first.mark(), second.mark()))
    for number in range(40):
        assert both.covers(number) is (first.covers(number) or second.covers(number)), number
    assert both == second.joined(first)


@UNHURRIED
@given(st.integers(0, HIGHEST), st.lists(st.integers(0, HIGHEST), max_size=6))
def test_a_mark_is_read_as_it_was_written(upto: int, bounds: list[int]) -> None:
    edges = sorted(set(bounds))
    gaps = tuple(Gap(low, high) for low, high in zip(edges[::2], edges[1::2], strict=False))
    coverage = Coverage(upto, gaps)
    assert Coverage.read(coverage.mark()) == coverage
    assert coverage.mark().isascii()


def test_no_mark_is_no_coverage_and_a_wrong_one_is_refused() -> None:
    assert Coverage.read("") == Coverage()
    for wrong in ("{}", "[]", "x", '{"upto":"1","gaps":[1]}'):
        with pytest.raises(BadInput):
            Coverage.read(wrong)


@pytest.mark.parametrize(("last", "expected"), [(None, False), ("9", False), ("10", False), ("11", True)])
def test_the_last_message_of_a_channel_is_a_hint(last: str | None, expected: bool) -> None:
    assert Coverage(10).behind(last) is expected
