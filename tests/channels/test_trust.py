"""What answers prove: the laws, for any answer, and each sort of answer by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.conftest import UNHURRIED
from custody.channels.crawl import trust
from custody.channels.crawl.trust import (
    APART,
    NO_SUCH,
    WORD,
    Ask,
    Doubt,
    Mark,
    Page,
    agreed,
    claims,
    cover,
    denied,
    judge,
    unshown,
)
from custody.channels.snowflake import HIGHEST

CHANNEL = 7
MARKS = st.tuples(
    st.integers(0, 5).map(lambda n: n * APART // 2), st.sampled_from(["page", NO_SUCH, "event"]), st.sampled_from("ab")
)
DOUBTS = st.builds(
    lambda shown, marks: Doubt().joined(Doubt(shown, frozenset(marks))),
    st.integers(-1, 5 * APART),
    st.sets(MARKS, max_size=5),
)
SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)).map(lambda s: (s[0], s[0] + s[1])), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("5") | st.just(str(2**63)),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["id", "channel_id", "x", "deleted_at"]), inner, max_size=4)
    ),
    max_leaves=20,
)
ASKS = st.one_of(
    st.builds(lambda n: Ask(after=n, limit=4), st.integers(0, 60)),
    st.builds(lambda n: Ask(before=n, limit=4), st.integers(0, 60)),
)


def raw(one: int) -> dict[str, Any]:
    return {"id": str(one), "channel_id": str(CHANNEL), "content": ""}


def page(ids: list[int], after: int | None = None, before: int | None = None, limit: int = 100) -> Page:
    return judge(CHANNEL, Ask(after, before, limit), [raw(one) for one in ids])


# --- Laws ---


@UNHURRIED
@given(DOUBTS, DOUBTS, DOUBTS)
def test_doubts_are_joined_in_any_order_and_as_often_as_one_likes(a: Doubt, b: Doubt, c: Doubt) -> None:
    assert a.joined(b) == b.joined(a)
    assert a.joined(b).joined(c) == a.joined(b.joined(c))
    assert a.joined(a) == a


@UNHURRIED
@given(DOUBTS)
def test_a_sight_later_than_all_marks_leaves_none(doubt: Doubt) -> None:
    seen = doubt.seen(6 * APART)
    assert (seen.marks, seen.confirmed()) == (frozenset(), None)


@UNHURRIED
@given(SPANS, SPANS, SPANS)
def test_what_was_shown_only_grows_in_whichever_order(a: list[Any], b: list[Any], c: list[Any]) -> None:
    assert cover(cover(a), *b) == cover(cover(b), *a) == cover([*a, *b])
    assert cover(cover(a, *b), *c) == cover(a, *cover(b, *c))
    held = {one for low, high in a for one in range(low, high + 1)}
    assert held <= {one for low, high in cover(a, *b) for one in range(low, high + 1)}


@UNHURRIED
@given(ASKS, JSON, st.lists(st.integers(0, 60), unique=True).map(sorted))
def test_no_answer_whatever_raises_and_a_bad_one_proves_nothing(ask: Ask, answer: Any, kept: list[int]) -> None:
    found = judge(CHANNEL, ask, answer, newest=100)
    assert all(ask.low < one < ask.high and one <= 100 for one in found.ids)
    assert len(found.ids) == len(found.sights)
    lacking, closer = unshown(found, kept)
    assert not set(lacking) & set(found.ids)
    assert set(closer) | set(lacking) <= set(kept)
    assert denied(found, kept) <= set(kept) - set(found.ids)
    if found.bad or not found.ids:
        assert (found.spans(), claims(found), lacking, closer) == ((), None, [], [])


@UNHURRIED
@given(st.sets(st.integers(1, 60), max_size=12), ASKS, ASKS)
def test_two_pages_agree_on_nothing_that_either_does_not_claim(ids: set[int], one: Ask, other: Ask) -> None:
    pages = []
    for ask in (one, other):
        fit = sorted(n for n in ids if ask.low < n < ask.high)
        some = fit[: ask.limit] if ask.after is not None else fit[-ask.limit :]
        pages.append(judge(CHANNEL, ask, [raw(n) for n in reversed(some)]))
    proof = agreed(*pages)
    if proof is not None:
        for found in pages:
            claim = claims(found)
            assert claim is not None
            assert claim[0] < max(proof[0], 1)
            assert proof[1] < claim[1]


# --- Sorts of pages ---

BAD: dict[str, tuple[Ask, Any]] = {
    "ids below the bound": (Ask(after=5), [raw(5), raw(6)]),
    "ids above the bound": (Ask(before=5), [raw(5), raw(4)]),
    "more than asked for": (Ask(after=0, limit=2), [raw(1), raw(2), raw(3)]),
    "one twice": (Ask(after=0), [raw(1), raw(1)]),
    "no order": (Ask(after=0), [raw(2), raw(3), raw(1)]),
    "another channel's": (Ask(after=0), [raw(1), raw(2) | {"channel_id": "8"}]),
    "no list": (Ask(after=0), {"code": 0}),
}


@pytest.mark.parametrize("sort", BAD)
def test_a_page_that_cannot_be_the_answer_proves_nothing(sort: str) -> None:
    ask, answer = BAD[sort]
    found = judge(CHANNEL, ask, answer)
    assert found.bad
    assert (found.span, found.spans(), claims(found)) == (None, (), None)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        "x",
        {},
        {"id": "x"},
        {"id": 5},
        {"id": str(2**63)},
        {"id": "9" * 5000},
        {"id": "1000"},
        {"id": "4", "deleted_at": ""},
        {"id": "4", "channel_id": str(CHANNEL)},
        {"id": "4", "content": None},
        {"id": "4", "content": 5},
    ],
)
def test_an_element_that_cannot_be_read_costs_its_neighbourhood_and_no_more(odd: Any) -> None:
    found = judge(CHANNEL, Ask(after=0), [raw(9), raw(5), odd, raw(3), raw(1)], newest=100)
    assert (found.bad, found.ids, found.holes) == ("", (1, 3, 5, 9), ((3, 5),))
    assert found.spans() == ((1, 3), (5, 9))
    assert claims(found) is None
    assert unshown(found, [2, 4, 7])[0] == [2, 7], "of what lies in the hole it says nothing"


def test_a_page_speaks_strongly_for_its_span_and_weakly_for_the_rest() -> None:
    full, short = page([3, 5, 9], after=1, limit=3), page([3, 5, 9], after=1)
    assert (full.spans(), short.spans()) == (((3, 9),), ((3, 9),))
    assert (claims(full), claims(short)) == ((1, 10), (1, HIGHEST + 1))
    assert (claims(page([3, 9], before=20, limit=2)), claims(page([3, 9], before=20))) == ((2, 20), (-1, 20))
    assert unshown(full, [2, 4, 9, 12]) == ([4], [2])
    assert unshown(short, [2, 4, 9, 12]) == ([4], [2, 12])
    assert denied(short, [2, 4, 9, 12]) == {2, 4, 12}


def test_an_empty_page_claims_nothing() -> None:
    empty = page([], after=5)
    assert (empty.span, claims(empty), agreed(empty, page([1], before=9))) == (None, None, None)


def test_two_weak_claims_from_opposite_sides_are_a_proof_and_from_one_side_none() -> None:
    up, down = page([9], after=0), page([9], before=10)
    assert agreed(up, down) == (0, 9)
    assert agreed(up, up) is None
    assert agreed(down, down) is None


# --- Witnesses ---

CONFIRMED: list[tuple[str, list[Mark], bool]] = [
    ("one look", [(0, "page", "a")], False),
    ("two pages and no refusal", [(0, "page", "a"), (2 * APART, "page", "b")], False),
    ("a page and a refusal of the same minute", [(0, "page", "a"), (APART - 1, NO_SUCH, NO_SUCH)], False),
    ("a page and a refusal, later", [(0, "page", "a"), (APART, NO_SUCH, NO_SUCH)], True),
    ("two refusals", [(0, NO_SUCH, NO_SUCH), (APART, NO_SUCH, NO_SUCH)], True),
    ("two refusals of the same minute", [(0, NO_SUCH, NO_SUCH), (APART - 1, NO_SUCH, NO_SUCH)], False),
    ("a word", [(0, WORD, "operator")], True),
]


@pytest.mark.parametrize(("what", "marks", "expected"), CONFIRMED)
def test_two_witnesses_some_time_apart_one_of_them_a_refusal(what: str, marks: list[Mark], expected: bool) -> None:
    assert (Doubt(marks=frozenset(marks)).confirmed() is not None) is expected, what


def test_the_same_answer_twice_is_one_witness() -> None:
    doubt = Doubt(marks=frozenset({(0, "page", "a"), (2 * APART, "page", "a"), (APART // 2, NO_SUCH, NO_SUCH)}))
    assert doubt.confirmed() == 2 * APART, "the page and the refusal are two"
    assert Doubt(marks=frozenset({(0, "page", "a"), (2 * APART, "page", "a")})).confirmed(refused=False) is None


@UNHURRIED
@given(DOUBTS)
def test_a_doubt_is_read_as_it_was_written(doubt: Doubt) -> None:
    row: dict[str, Any] = {"absent": [trust.written(mark) for mark in doubt.marks]}
    row |= {"seen": trust.stamp(doubt.shown)} if doubt.shown >= 0 else {}
    assert trust.doubt_of(row) == doubt


@UNHURRIED
@given(JSON, JSON)
def test_a_row_that_is_spoilt_is_no_doubt(seen: Any, absent: Any) -> None:
    assert trust.doubt_of({"seen": seen, "absent": absent}).confirmed() is None


@pytest.mark.parametrize(
    ("kept", "denied_at_most", "a_day"), [(0, 10, 10), (100, 10, 10), (500, 50, 25), (10_000, 100, 100)]
)
def test_the_brake_knows_how_many_are_too_many(kept: int, denied_at_most: int, a_day: int) -> None:
    assert (trust.most_denied(kept), trust.quota(kept)) == (denied_at_most, a_day)
    assert trust.guild_quota(10 * kept) in range(50, 1_001)
