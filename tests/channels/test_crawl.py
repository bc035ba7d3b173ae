"""What has been fetched, what to fetch next, and what a second look shows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.conftest import UNHURRIED
from channels.orders import message, message_id
from custody.channels.crawl import (
    Ask,
    Changes,
    Coverage,
    Gap,
    Page,
    joined,
    look_back,
    next_ask,
)
from custody.channels.snowflake import HIGHEST
from custody.model.errors import BadInput

Raw = dict[str, Any]


class Service:
    """Messages with these ids, and what would be answered."""

    def __init__(self, ids: set[int]) -> None:
        self.ids = ids

    def page(self, ask: Ask, limit: int) -> Page:
        if ask.after is not None:
            found = sorted(one for one in self.ids if one > ask.after)[:limit]
        else:
            found = sorted(one for one in self.ids if one < (ask.before or HIGHEST))[-limit:]
        return Page(tuple(found), ask.after, ask.before, limit)


# --- Coverage ---


def test_a_crawl_forward_has_no_gaps_at_any_time() -> None:
    service, coverage, seen = Service(set(range(1, 251))), Coverage(), list[int]()
    while True:
        page = service.page(next_ask(coverage), 100)
        coverage = coverage.fetched(page)
        seen += page.ids
        assert coverage.gaps == ()
        assert coverage.prefix == coverage.upto == len(seen)
        if page.short:
            break
    assert seen == list(range(1, 251))


def test_fetching_the_newest_first_leaves_a_gap_that_is_then_closed() -> None:
    service, coverage = Service(set(range(1, 251))), Coverage()
    coverage = coverage.fetched(service.page(next_ask(coverage, newest_first=True), 100))
    assert coverage == Coverage(250, (Gap(0, 151),))
    assert (coverage.prefix, coverage.covers(150), coverage.covers(151)) == (0, False, True)
    coverage = coverage.fetched(service.page(next_ask(coverage, newest_first=True), 100))
    assert coverage.gaps == (Gap(0, 51),)
    coverage = coverage.fetched(service.page(next_ask(coverage, newest_first=True), 100))
    assert coverage == Coverage(250)


def test_what_comes_while_a_gap_is_open_makes_a_second_one() -> None:
    service, coverage = Service(set(range(1, 251))), Coverage(upto=50)
    coverage = coverage.fetched(service.page(Ask(before=HIGHEST), 100))
    service.ids |= set(range(251, 501))
    coverage = coverage.fetched(service.page(Ask(before=HIGHEST), 100))
    assert coverage.gaps == (Gap(50, 151), Gap(250, 401))
    while coverage.gaps:
        coverage = coverage.fetched(service.page(next_ask(coverage), 100))
    assert coverage == Coverage(500)


CLOSING = [
    (Gap(10, 20), (10, 20), ()),
    (Gap(10, 20), (0, 99), ()),
    (Gap(10, 20), (10, 15), (Gap(14, 20),)),
    (Gap(10, 20), (15, 20), (Gap(10, 16),)),
    (Gap(10, 20), (13, 16), (Gap(10, 14), Gap(15, 20))),
    (Gap(10, 20), (0, 11), (Gap(10, 20),)),
    (Gap(10, 20), (19, 30), (Gap(10, 20),)),
    (Gap(10, 20), (20, 30), (Gap(10, 20),)),
]


@pytest.mark.parametrize(("gap", "span", "left"), CLOSING)
def test_a_gap_shrinks_parts_or_goes(gap: Gap, span: tuple[int, int], left: tuple[Gap, ...]) -> None:
    assert Coverage(100, (gap,)).close(*span).gaps == left


def test_coverage_never_shrinks_and_a_gap_is_only_for_what_is_beyond() -> None:
    with pytest.raises(BadInput):
        Coverage(10).advance(9)
    with pytest.raises(BadInput):
        Coverage(10).gap(10, 12)
    crowded = Coverage(1_000, tuple(Gap(10 * n, 10 * n + 5) for n in range(50)))
    with pytest.raises(BadInput):
        crowded.gap(2_000, 2_001)


@UNHURRIED
@given(
    st.sets(st.integers(1, 60), max_size=40),
    st.lists(st.tuples(st.booleans(), st.integers(0, 61)), max_size=12),
    st.integers(1, 5),
)
def test_what_coverage_claims_was_fetched(ids: set[int], asks: list[tuple[bool, int]], limit: int) -> None:
    service, coverage, fetched = Service(ids), Coverage(), set[int]()
    for forward, bound in asks:
        page = service.page(Ask(after=bound) if forward else Ask(before=bound), limit)
        coverage = coverage.fetched(page)
        fetched |= set(page.ids)
    assert {one for one in ids if coverage.covers(one)} <= fetched
    assert {one for one in ids if one <= coverage.prefix} <= fetched
    assert all(first.high <= second.low + 1 for first, second in zip(coverage.gaps, coverage.gaps[1:], strict=False))
    for _ in range(200):
        if not coverage.gaps and not any(one > coverage.upto for one in ids):
            break
        page = service.page(next_ask(coverage), limit)
        coverage = coverage.fetched(page)
        fetched |= set(page.ids)
    assert fetched == ids


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


# --- A second look ---


def page_of(messages: list[Raw], after: int, limit: int = 100) -> Page:
    return Page(tuple(int(raw["id"]) for raw in messages), after=after, limit=limit)


def test_a_second_look_finds_edits_deletions_and_late_comers() -> None:
    stored = {message_id(n): message(n) for n in range(10) if n != 4}
    now = [message(n) for n in range(3, 10) if n != 6]
    now[2] |= {"edited_timestamp": "2026-03-01", "content": "edited"}  # message 5
    found = look_back(stored, page_of(now, after=message_id(2)), now)
    assert found == Changes(added=(message(4),), edited=(now[2],), deleted=(message_id(6),))


def test_a_page_speaks_only_for_the_ids_it_spans() -> None:
    stored = {message_id(n): message(n) for n in range(10)}
    now = [message(3), message(5)]
    assert look_back(stored, page_of(now, after=message_id(2), limit=2), now).deleted == (message_id(4),)
    short = look_back(stored, page_of(now, after=message_id(2), limit=3), now)
    assert short.deleted == tuple(message_id(n) for n in (4, 6, 7, 8, 9))


def test_an_empty_page_does_not_mean_that_all_was_deleted() -> None:
    stored = {message_id(n): message(n) for n in range(10)}
    assert look_back(stored, page_of([], after=0), []) == Changes(proved=False)
    assert look_back({}, page_of([], after=0), []) == Changes()
