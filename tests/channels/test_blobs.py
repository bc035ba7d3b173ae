"""THE conformance suite of blob stores: what the table relies on, on every store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from custody.channels.blobs.port import MOST_BLOCKS, Blobs, BlocksMissing, Changed, Facts, Leased, NoBlob, Properties
from custody.errors import BadInput, CustodyError

NAME = "ch/7/leaf/a.jsonl"


def put(blobs: Blobs, name: str = NAME, /, **blocks: str) -> str:
    blobs.stage(name, [(key, value.encode()) for key, value in blocks.items()])
    return blobs.commit(name, list(blocks))


def text(blobs: Blobs, name: str = NAME) -> str:
    return blobs.read(name).data.decode()


def properties(blobs: Blobs, name: str = NAME) -> Properties:
    found = blobs.head(name)
    assert found is not None
    return found


def test_a_blob_is_its_committed_blocks_in_the_order_of_the_list(blobs: Blobs) -> None:
    blobs.stage(NAME, [("a", b"one\n"), ("b", b"two\n"), ("c", b"three\n")])
    etag = blobs.commit(NAME, ["c", "a", "b"])
    assert text(blobs) == "three\none\ntwo\n"
    found = blobs.blocks(NAME)
    assert (found.ids, found.sizes, found.etag) == (("c", "a", "b"), (6, 4, 4), etag)


def test_staged_blocks_are_seen_by_nobody_before_the_commit(blobs: Blobs) -> None:
    blobs.stage(NAME, [("a", b"one")])
    for look in (blobs.read, blobs.head, blobs.blocks):
        with pytest.raises(NoBlob):
            look(NAME)
    assert list(blobs.list("ch/")) == []


def test_a_commit_adds_replaces_and_leaves_out(blobs: Blobs) -> None:
    put(blobs, a="one ", b="two ", c="three ")
    blobs.stage(NAME, [("b", b"TWO "), ("d", b"four ")])
    blobs.commit(NAME, ["a", "b", "d"])
    assert text(blobs) == "one TWO four "


def test_a_commit_may_only_append(blobs: Blobs) -> None:
    put(blobs, a="one ", b="two ")
    blobs.stage(NAME, [("c", b"three ")])
    blobs.commit(NAME, ["a", "b", "c"])
    assert text(blobs) == "one two three "
    assert blobs.blocks(NAME).sizes == (4, 4, 6)


def test_a_block_may_be_named_twice(blobs: Blobs) -> None:
    put(blobs, a="one ", b="two ")
    blobs.commit(NAME, ["a", "b", "a"])
    assert text(blobs) == "one two one "


def test_an_empty_list_makes_an_empty_blob(blobs: Blobs) -> None:
    put(blobs, a="one")
    blobs.commit(NAME, [])
    assert text(blobs) == ""
    assert blobs.blocks(NAME).ids == ()


def test_a_commit_drops_every_staged_block_it_does_not_name(blobs: Blobs) -> None:
    blobs.stage(NAME, [("a", b"one"), ("b", b"two")])
    blobs.commit(NAME, ["a"])
    with pytest.raises(BlocksMissing):
        blobs.commit(NAME, ["a", "b"])


def test_a_commit_drops_what_another_writer_has_staged(blobs: Blobs) -> None:
    put(blobs, a="one ")
    blobs.stage(NAME, [("b", b"theirs ")])
    blobs.stage(NAME, [("c", b"ours ")])
    blobs.commit(NAME, ["a", "c"])
    with pytest.raises(BlocksMissing):
        blobs.commit(NAME, ["a", "c", "b"])
    assert text(blobs) == "one ours "


def test_a_commit_that_names_a_missing_block_changes_nothing(blobs: Blobs) -> None:
    etag = put(blobs, a="one ")
    blobs.stage(NAME, [("b", b"two ")])
    with pytest.raises(BlocksMissing):
        blobs.commit(NAME, ["a", "b", "x"])
    assert (text(blobs), blobs.blocks(NAME).etag) == ("one ", etag)
    blobs.commit(NAME, ["a", "b"])
    assert text(blobs) == "one two "


def test_the_block_staged_last_under_an_id_is_the_one_that_counts(blobs: Blobs) -> None:
    blobs.stage(NAME, [("a", b"first")])
    blobs.stage(NAME, [("a", b"second")])
    blobs.commit(NAME, ["a"])
    assert text(blobs) == "second"


def test_staging_nothing_is_nothing(blobs: Blobs) -> None:
    blobs.stage(NAME, [])
    assert list(blobs.list("")) == []


def test_every_commit_has_another_etag(blobs: Blobs) -> None:
    first = put(blobs, a="one")
    second = blobs.commit(NAME, ["a"])
    assert first != second
    assert properties(blobs).etag == blobs.read(NAME).etag == next(iter(blobs.list(""))).etag == second


def test_a_commit_with_an_old_etag_is_refused(blobs: Blobs) -> None:
    old = put(blobs, a="one ")
    current = blobs.commit(NAME, ["a"])
    blobs.stage(NAME, [("b", b"two ")])
    with pytest.raises(Changed):
        blobs.commit(NAME, ["a", "b"], if_match=old)
    assert text(blobs) == "one "
    blobs.stage(NAME, [("b", b"two ")])
    blobs.commit(NAME, ["a", "b"], if_match=current)
    assert text(blobs) == "one two "


def test_a_commit_with_an_etag_needs_the_blob(blobs: Blobs) -> None:
    blobs.stage(NAME, [("a", b"one")])
    with pytest.raises((Changed, NoBlob)):
        blobs.commit(NAME, ["a"], if_match='"0x1"')
    with pytest.raises(NoBlob):
        blobs.head(NAME)


def test_a_commit_that_wants_a_new_blob_does_not_replace_one(blobs: Blobs) -> None:
    blobs.stage(NAME, [("a", b"one")])
    blobs.commit(NAME, ["a"], if_absent=True)
    blobs.stage(NAME, [("a", b"two")])
    with pytest.raises(Changed):
        blobs.commit(NAME, ["a"], if_absent=True)
    assert text(blobs) == "one"


def test_metadata_tags_and_tier_come_with_the_commit_and_go_with_the_next(blobs: Blobs) -> None:
    facts = Facts({"mark": '{"upto":"5"}'}, {"kind": "leaf", "parent": "ch/7/index"}, "Cool")
    blobs.stage(NAME, [("a", b"one")])
    blobs.commit(NAME, ["a"], facts)
    assert properties(blobs).facts == facts
    assert next(iter(blobs.list(""))).facts == facts
    assert blobs.read(NAME).metadata == facts.metadata
    blobs.commit(NAME, ["a"])
    assert properties(blobs).facts == Facts()


def test_tier_and_tags_change_without_a_new_etag(blobs: Blobs) -> None:
    etag = put(blobs, a="one")
    blobs.set_tier(NAME, "Cold")
    blobs.set_tags(NAME, {"kind": "leaf"})
    found = properties(blobs)
    assert (found.etag, found.facts.tier, found.facts.tags) == (etag, "Cold", {"kind": "leaf"})
    assert text(blobs) == "one"


def test_a_change_of_tier_is_dated(blobs: Blobs) -> None:
    put(blobs, a="one")
    blobs.set_tier(NAME, "Cool")
    found = properties(blobs)
    assert found.tier_changed is not None
    assert found.tier_changed >= found.modified


def test_the_first_read_is_dated_and_looking_is_not_reading(blobs: Blobs) -> None:
    put(blobs, a="one")
    blobs.blocks(NAME)
    assert properties(blobs).accessed is None
    etag = properties(blobs).etag
    blobs.read(NAME)
    found = properties(blobs)
    assert found.accessed is not None
    assert found.accessed >= found.modified.replace(microsecond=0)
    assert (found.etag, found.facts.tags) == (etag, {})


@pytest.mark.parametrize(
    ("start", "size", "expected"),
    [(0, None, "0123456789"), (3, None, "3456789"), (3, 4, "3456"), (9, 1, "9"), (8, 100, "89"), (2, 0, "")],
)
def test_a_range_is_cut_at_the_end(blobs: Blobs, start: int, size: int | None, expected: str) -> None:
    put(blobs, a="01234", b="56789")
    assert blobs.read(NAME, start, size).data.decode() == expected


def test_a_range_that_begins_after_the_end_is_refused(blobs: Blobs) -> None:
    put(blobs, a="01234")
    with pytest.raises(BadInput):
        blobs.read(NAME, 5, 1)


def test_a_read_with_an_old_etag_is_refused(blobs: Blobs) -> None:
    old = put(blobs, a="one")
    assert blobs.read(NAME, 0, 2, if_match=old).data == b"on"
    blobs.commit(NAME, ["a"])
    with pytest.raises(Changed):
        blobs.read(NAME, 0, 2, if_match=old)


def test_a_head_says_whether_the_blob_changed(blobs: Blobs) -> None:
    etag = put(blobs, a="one")
    assert blobs.head(NAME, unless=etag) is None
    blobs.commit(NAME, ["a"])
    assert blobs.head(NAME, unless=etag) is not None


def test_a_list_holds_the_names_that_begin_so_in_order(blobs: Blobs) -> None:
    for name in ("ch/7/leaf/b", "ch/7/leaf/a.x", "ch/7/index", "ch/77/index", "other", "ch/7-a"):
        put(blobs, name, a="x")
    assert [found.name for found in blobs.list("ch/7/")] == ["ch/7/index", "ch/7/leaf/a.x", "ch/7/leaf/b"]
    assert [found.name for found in blobs.list("ch/7/leaf/b")] == ["ch/7/leaf/b"]
    assert len(list(blobs.list(""))) == 6
    assert list(blobs.list("none/")) == []
    assert {found.size for found in blobs.list("")} == {1}


def test_a_deleted_blob_is_gone_and_its_name_may_be_used_again(blobs: Blobs) -> None:
    put(blobs, a="one")
    blobs.stage(NAME, [("b", b"staged")])
    blobs.delete(NAME)
    assert list(blobs.list("")) == []
    for look in (blobs.read, blobs.head, blobs.blocks, blobs.delete):
        with pytest.raises(NoBlob):
            look(NAME)
    put(blobs, b="two")
    assert text(blobs) == "two"


def test_a_delete_with_an_old_etag_is_refused(blobs: Blobs) -> None:
    old = put(blobs, a="one")
    current = blobs.commit(NAME, ["a"])
    with pytest.raises(Changed):
        blobs.delete(NAME, if_match=old)
    blobs.delete(NAME, if_match=current)
    assert list(blobs.list("")) == []


CHANGES: dict[str, Callable[[Blobs, str], object]] = {
    "stage": lambda blobs, lease: blobs.stage(NAME, [("b", b"two")], lease=lease),
    "commit": lambda blobs, lease: blobs.commit(NAME, ["a"], lease=lease),
    "delete": lambda blobs, lease: blobs.delete(NAME, lease=lease),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_leased_blob_is_changed_by_its_holder_only(blobs: Blobs, change: str) -> None:
    put(blobs, a="one")
    lease = blobs.acquire(NAME, 60)
    for other in ("", "00000000-0000-0000-0000-000000000001"):
        with pytest.raises(Leased):
            CHANGES[change](blobs, other)
    assert text(blobs) == "one"
    CHANGES[change](blobs, lease)


@pytest.mark.parametrize("change", CHANGES)
def test_a_released_lease_opens_nothing(blobs: Blobs, change: str) -> None:
    put(blobs, a="one")
    lease = blobs.acquire(NAME, 15)
    blobs.release(NAME, lease)
    with pytest.raises(Leased):
        CHANGES[change](blobs, lease)
    CHANGES[change](blobs, "")


def test_a_lease_has_one_holder_and_leaves_the_etag(blobs: Blobs) -> None:
    etag = put(blobs, a="one")
    lease = blobs.acquire(NAME, 15)
    with pytest.raises(Leased):
        blobs.acquire(NAME, 15)
    blobs.renew(NAME, lease)
    with pytest.raises(Leased):
        blobs.renew(NAME, "00000000-0000-0000-0000-000000000001")
    blobs.release(NAME, lease)
    assert properties(blobs).etag == etag
    assert blobs.acquire(NAME, 15) != lease


def test_only_a_blob_can_be_leased(blobs: Blobs) -> None:
    with pytest.raises(NoBlob):
        blobs.acquire(NAME, 15)


REFUSED: dict[str, Callable[[Blobs], object]] = {
    "too many blocks": lambda blobs: blobs.commit(NAME, ["a"] * (MOST_BLOCKS + 1)),
    "an id without characters": lambda blobs: blobs.stage(NAME, [("", b"x")]),
    "an id of 65 bytes": lambda blobs: blobs.stage(NAME, [("i" * 65, b"x")]),
    "eleven tags": lambda blobs: blobs.commit(NAME, ["a"], Facts(tags={f"t{n}": "" for n in range(11)})),
    "a tag with a question mark": lambda blobs: blobs.set_tags(NAME, {"why": "?"}),
    "metadata that is not ASCII": lambda blobs: blobs.commit(NAME, ["a"], Facts({"who": "Zoë"})),
    "metadata without a value": lambda blobs: blobs.commit(NAME, ["a"], Facts({"who": ""})),
    "9 KiB of metadata": lambda blobs: blobs.commit(NAME, ["a"], Facts({"who": "x" * 9000})),
    "a lease of ten seconds": lambda blobs: blobs.acquire(NAME, 10),
    "a name outside": lambda blobs: put(blobs, "ch/../../etc/x", a="x"),
    "a hidden name": lambda blobs: put(blobs, "ch/.x", a="x"),
    "a name with an @": lambda blobs: put(blobs, "ch/x@state", a="x"),
    "no name": lambda blobs: put(blobs, "", a="x"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_store_takes_is_refused_and_changes_nothing(blobs: Blobs, what: str) -> None:
    etag = put(blobs, a="one")
    with pytest.raises(BadInput):
        REFUSED[what](blobs)
    assert properties(blobs).etag == etag
    assert [found.name for found in blobs.list("")] == [NAME]


def test_block_ids_of_one_blob_have_one_length(blobs: Blobs) -> None:
    with pytest.raises(BadInput):
        blobs.stage(NAME, [("aa", b"one"), ("a", b"two")])
    blobs.stage(NAME, [("aa", b"one")])
    with pytest.raises(BadInput):
        blobs.stage(NAME, [("a", b"two")])


def test_block_ids_may_be_any_text(blobs: Blobs) -> None:
    ids = ["00000000000000000001", 'é b"<&>+/=%?#      ']
    assert len(ids[0]) == len(ids[1].encode()) == 20
    blobs.stage(NAME, [(one, one.encode()) for one in ids])
    blobs.commit(NAME, ids)
    assert blobs.blocks(NAME).ids == tuple(ids)
    assert text(blobs) == "".join(ids)


def test_every_error_says_which_blob(blobs: Blobs) -> None:
    with pytest.raises(CustodyError) as caught:
        blobs.read(NAME)
    assert caught.value.where == NAME
