"""What makes a version, what is kept as last seen, and what is owed: pure rules, joined in any order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from channels.conftest import UNHURRIED, Clock
from channels.memory import Memory
from channels.orders import message, message_id
from custody.channels.debts.debts import MOST, Debt, Debts, joined
from custody.channels.kinds import table_settings
from custody.channels.messages import last_seen, versions
from custody.channels.table import Table
from custody.errors import BadInput

Raw = dict[str, Any]
PLAIN: Raw = message(1) | {"author": {"id": "5", "username": "ann"}, "attachments": [], "embeds": []}
EDITED = PLAIN | {"edited_timestamp": "2026", "content": "edited"}
FILE = {"id": "9", "filename": "a.png", "size": 3, "url": "https://cdn/a.png?ex=1&is=2&hm=3"}
FORWARD = {"message": {"content": "from there", "attachments": [FILE]}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (PLAIN, PLAIN, False),
        (PLAIN, EDITED, True),
        (EDITED, EDITED | {"edited_timestamp": "2027"}, True),
        (EDITED, EDITED | {"edited_timestamp": "2027", "content": ""}, True),  # an edit that leaves nothing
        (PLAIN, PLAIN | {"content": "changed without a mark"}, True),
        (PLAIN, PLAIN | {"reactions": [{"count": 2}], "pinned": True, "embeds": [{"title": "t"}], "flags": 4}, False),
        (PLAIN | {"attachments": [FILE]}, PLAIN | {"attachments": [FILE | {"url": "https://cdn/a.png?ex=7"}]}, False),
        (PLAIN | {"attachments": [FILE]}, PLAIN | {"attachments": []}, True),
        (PLAIN, PLAIN | {"author": {"id": "5", "username": "renamed"}}, False),
        (PLAIN, PLAIN | {"author": {"id": "6"}}, True),
        (PLAIN | {"poll": {"question": 1}}, PLAIN | {"poll": {"question": 1, "results": {"answers": 3}}}, False),
        (PLAIN | {"poll": {"question": 1}}, PLAIN | {"poll": {"question": 2}}, True),
        (PLAIN | {"sticker_items": [{"id": "1"}]}, PLAIN | {"sticker_items": [{"id": "2"}]}, True),
        (PLAIN | {"message_snapshots": [FORWARD]}, PLAIN | {"message_snapshots": []}, True),
        (PLAIN, PLAIN | {"thread": {"id": "3"}, "referenced_message": {"id": "2"}, "made_up": 1}, False),
    ],
)
def test_a_version_is_a_difference_in_what_somebody_wrote(old: Raw, new: Raw, expected: bool) -> None:
    assert versions.newer(old, new) is expected
    lines = versions.merged((line(old),), line(new))
    assert len(lines) == 1 + expected


def line(raw: Raw) -> bytes:
    return json.dumps(raw).encode()


def test_a_sight_without_content_gives_way_to_the_same_message_with_it() -> None:
    veil = PLAIN | {"content": ""}
    assert versions.merged((line(veil),), line(PLAIN)) == (line(PLAIN),)
    sticker = veil | {"sticker_items": [{"id": "1"}]}
    assert not versions.hollow(sticker)
    assert not versions.hollow(veil | {"message_snapshots": [FORWARD]})
    assert len(versions.merged((line(PLAIN),), line(veil | {"edited_timestamp": "2026"}))) == 2


def test_versions_stand_in_the_order_in_which_they_were_made() -> None:
    late = versions.merged((line(PLAIN), line(EDITED | {"edited_timestamp": "2028"})), line(EDITED))
    assert [json.loads(one)["edited_timestamp"] for one in late] == [PLAIN["edited_timestamp"], "2026", "2028"]
    assert versions.merged(late, line(EDITED)) == late


# --- Rows ---

CHANGED = PLAIN | {"reactions": [{"count": 42}], "pinned": True, "embeds": [{"title": "t"}], "thread": {"id": "7"}}


def test_a_row_says_only_what_differs_and_a_second_look_at_the_same_says_nothing() -> None:
    row = last_seen.row_of(PLAIN, None, CHANGED, "T1")
    assert row is not None
    assert row.keys() - {"id", "seen"} == {"reactions", "pinned", "embeds", "thread"}
    assert last_seen.on_top(PLAIN, row) == CHANGED
    assert last_seen.row_of(PLAIN, row, CHANGED, "T2") is None
    assert last_seen.row_of(PLAIN, None, PLAIN, "T1") is None
    signed = PLAIN | {"embeds": [{"image": {"url": "https://cdn/x?ex=1&hm=2&size=3"}}]}
    again = PLAIN | {"embeds": [{"image": {"url": "https://cdn/x?ex=8&hm=9&size=3"}}]}
    assert last_seen.row_of(signed, None, again, "T1") is None


def test_reactions_may_shrink_but_previews_results_and_threads_do_not_shrink_to_nothing() -> None:
    row = last_seen.row_of(PLAIN, None, CHANGED, "T1")
    gone = last_seen.row_of(PLAIN, row, PLAIN, "T2")
    assert gone is not None
    assert gone["was"] == {
        "embeds": {"seen": "T1", "value": [{"title": "t"}]},
        "thread": {"seen": "T1", "value": {"id": "7"}},
    }
    assert "reactions" not in last_seen.on_top(PLAIN, gone)
    assert last_seen.row_of(PLAIN, gone, PLAIN, "T3") is None
    back = last_seen.row_of(PLAIN, gone, CHANGED, "T4")
    assert back is not None
    assert "was" not in back
    kept = last_seen.row_of(CHANGED, None, CHANGED | {"embeds": []}, "T5")  # what the version itself showed
    assert kept is not None
    assert kept["was"]["embeds"]["value"] == [{"title": "t"}]


def test_a_row_says_nothing_about_a_version_it_does_not_lie_over() -> None:
    row = last_seen.row_of(PLAIN, None, CHANGED, "T1")
    assert last_seen.on_top(EDITED, row) == EDITED
    assert last_seen.row_of(EDITED, row, EDITED, "T2") is None


def test_a_sight_takes_back_what_was_marked_against_a_message() -> None:
    marked = {"id": PLAIN["id"], "seen": "T1", "absent": [["T2", "404", "1f"]], "gone": {"since": "T3", "how": "x"}}
    row = last_seen.row_of(PLAIN, marked, PLAIN, "T4")
    assert row is not None
    assert last_seen.merged(marked, row) == {"id": PLAIN["id"], "seen": "T4"}
    early = last_seen.merged(marked, {"id": PLAIN["id"], "seen": "T1"})
    assert early["absent"] == [["T2", "404", "1f"]]


STAMPS = st.sampled_from(["", "T1", "T2", "T3", "T4"])
VALUES = st.sampled_from([[], [{"a": 1}], [{"a": 2}]])


def possible(row: Raw) -> Raw:
    """What was is older than the row that says so, and no longer shown; what has marks alone says nothing else."""
    if not row["seen"]:
        return {name: value for name, value in row.items() if name in ("id", *last_seen.MARKS)}
    past = row.get("was", {}).get("embeds", {"seen": "", "value": []})
    true = past["value"] and past["seen"] < row["seen"] and not row.get("embeds")
    return row if true else {name: value for name, value in row.items() if name != "was"}


ROWS = st.fixed_dictionaries(
    {"id": st.just("5"), "seen": STAMPS},
    optional={
        "reactions": VALUES,
        "embeds": VALUES,
        "thread": VALUES,
        "shown": STAMPS,
        "was": st.fixed_dictionaries({"embeds": st.fixed_dictionaries({"seen": STAMPS, "value": VALUES})}),
        "absent": st.lists(st.tuples(STAMPS, st.sampled_from(["page", "404"]), st.just("1f")).map(list), max_size=3),
    },
).map(possible)


@given(ROWS, ROWS, ROWS)
@UNHURRIED
def test_rows_are_joined_in_any_order_and_any_number_of_times(one: Raw, two: Raw, three: Raw) -> None:
    both = last_seen.merged(one, two)
    assert both == last_seen.merged(two, one)
    looks = [row["seen"] for row in (one, two, three) if "seen" in row]
    assume(len(set(looks)) == len(looks))  # one look at a message gives one row
    assert last_seen.merged(both, two) == both
    assert last_seen.merged(both, three) == last_seen.merged(one, last_seen.merged(two, three))


def test_a_look_writes_what_changed_and_nothing_else(clock: Clock) -> None:
    blobs = Memory(clock)
    table, overlay = Table(blobs, 7, table_settings(16)), last_seen.of(blobs, 7)
    shown = [message(n) for n in range(50)]
    table.upsert(shown, "", "T0")
    assert last_seen.refresh(table, overlay, shown, "T1") == 0
    assert list(blobs.list("seen/")) == []
    changed = [raw | {"reactions": [{"count": 1}]} if n % 10 == 0 else raw for n, raw in enumerate(shown)]
    assert last_seen.refresh(table, overlay, changed, "T2") == 5
    before = [(blob.name, blob.etag) for blob in blobs.list("")]
    assert last_seen.refresh(table, overlay, changed, "T3") == 0
    assert [(blob.name, blob.etag) for blob in blobs.list("")] == before
    assert last_seen.refresh(table, overlay, [message(3) | {"content": "an older sight"}], "T4") == 0
    zipped = list(last_seen.zipped(table, overlay))
    assert [bool(row) for _, row in zipped] == [n % 10 == 0 for n in range(50)]
    assert [last_seen.on_top(found.message, row) for found, row in zipped] == [dict(raw) for raw in changed]
    assert last_seen.of(blobs, 7).search(message_id(10)) is not None


# --- Debts ---


def test_a_debt_is_open_until_it_is_paid_to_its_end() -> None:
    debts = Debts().owe(10, 20, "veil", "T1")
    (debt,) = debts.open()
    assert debt.next == 10
    half = debts.paid(debt, 15)
    assert half.open()[0].next == 16
    assert not half.paid(debt, 20).open()
    assert debts.joined(half) == half == half.joined(debts)
    assert half.paid(debt, 20).joined(debts).open() == ()  # an older mark does not open it again
    assert half.paid(debt, 20).owe(10, 20, "veil", "T2").open()  # a newer claim does


def test_debts_that_touch_are_one_and_too_many_become_fewer_without_forgetting_any() -> None:
    debts = Debts()
    for page in range(100):
        debts = debts.joined(debts.owe(page * 100, page * 100 + 100, "veil", f"T{page:03}"))
    assert [(one.low, one.high) for one in debts.open()] == [(0, 10_000)]
    many = Debts()
    for place in range(200):
        many = many.owe(place * 1000, place * 1000 + 1, "damaged", "T")
    assert len(many.every) <= MOST
    assert all(any(d.low <= p * 1000 <= d.high for d in many.open()) for p in range(200))
    assert len(many.mark()) < 7_000


DEBTS = st.lists(
    st.builds(
        lambda low, size, why, since, at: Debt(low, low + size, why, since, at),
        st.integers(0, 50),
        st.integers(0, 20),
        st.sampled_from(["veil", "damaged"]),
        st.sampled_from(["T1", "T2"]),
        st.integers(-1, 80),
    ),
    max_size=4,
)


@given(DEBTS, DEBTS)
@UNHURRIED
def test_joined_marks_owe_what_nobody_has_paid(one: list[Debt], two: list[Debt]) -> None:
    left, right = Debts().joined(Debts(tuple(one))), Debts().joined(Debts(tuple(two)))
    both = left.joined(right)
    assert both == right.joined(left)
    assert both.joined(both) == both
    assert Debts.read(both.mark()) == both
    paid = [debt for debt in (*left.every, *right.every) if not debt.open]
    for debt in (*left.open(), *right.open()):
        same = [p for p in paid if (p.low, p.high, p.why) == (debt.low, debt.high, debt.why) and p.since >= debt.since]
        assert same or any(o.why == debt.why and o.low <= debt.low and debt.high <= o.high for o in both.open())


def test_a_mark_that_is_none_is_refused() -> None:
    assert Debts.read("") == Debts()
    assert joined("", "") == ""
    with pytest.raises(BadInput):
        Debts.read('{"debts":[1]}')
    more = joined('{"debts":[],"cursor":"5"}', '{"debts":[],"cursor":"7"}')
    assert Debts.read(more).more == {"cursor": "7"}
