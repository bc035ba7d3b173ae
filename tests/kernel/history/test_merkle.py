"""Merkle trees: the reference vectors of certificate transparency, and every path of every small tree."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody.kernel.history.exchange import standalone_verifier
from custody.kernel.history.merkle import (
    EMPTY,
    consistency_path,
    extends,
    frontier_root,
    grown,
    includes,
    inclusion_path,
    leaf,
    node,
    root,
    subtrees_of,
)

# the eight inputs, the roots and the paths that RFC 6962 implementations are tested with
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
LEAVES = [leaf(bytes.fromhex(text)) for text in INPUTS]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION = [  # leaf (from 0), tree size, path
    (0, 1, []),
    (
        0,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        5,
        8,
        [
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
]
CONSISTENCY = [  # old size, new size, path
    (
        1,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        6,
        8,
        [
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (
        2,
        5,
        [
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]
FORTY = [leaf(bytes([number])) for number in range(40)]


def hexes(path: list[bytes]) -> list[str]:
    return [each.hex() for each in path]


def alone_continues(before: bytes, old: int, top: bytes, new: int, path: list[bytes]) -> bool:
    heads = ({"blocks": old, "tree": before}, {"blocks": new, "tree": top})
    try:
        return standalone_verifier.continues(*heads, path)
    except (standalone_verifier.CannotRead, IndexError):
        return False


def test_the_root_over_nothing_is_the_hash_of_nothing() -> None:
    assert root([]) == EMPTY == sha256(b"").digest() == frontier_root(())


@pytest.mark.parametrize("size", range(1, 9))
def test_roots_are_those_of_the_reference_vectors(size: int) -> None:
    assert root(LEAVES[:size]).hex() == ROOTS[size - 1]
    assert standalone_verifier.root(LEAVES[:size]).hex() == ROOTS[size - 1]


@pytest.mark.parametrize(("index", "size", "path"), INCLUSION)
def test_inclusion_paths_are_those_of_the_reference_vectors(index: int, size: int, path: list[str]) -> None:
    assert hexes(inclusion_path(subtrees_of(LEAVES), size, index)) == path


@pytest.mark.parametrize(("old", "new", "path"), CONSISTENCY)
def test_consistency_paths_are_those_of_the_reference_vectors(old: int, new: int, path: list[str]) -> None:
    assert hexes(consistency_path(subtrees_of(LEAVES), old, new)) == path


@pytest.mark.parametrize("size", range(1, 41))
def test_every_leaf_of_every_small_tree_is_proved_and_no_other(size: int) -> None:
    top = root(FORTY[:size])
    for index in range(size):
        path = inclusion_path(subtrees_of(FORTY), size, index)
        steps = hexes(path)
        assert includes(top, size, index, FORTY[index], path)
        assert standalone_verifier.climbs(FORTY[index], size, index, steps, top)
        assert not standalone_verifier.climbs(leaf(b"another"), size, index, steps, top)
        assert not path or not standalone_verifier.climbs(FORTY[index], size, index, steps[:-1], top)
        with pytest.raises(standalone_verifier.CannotRead):
            standalone_verifier.climbs(FORTY[index], size, index, [*steps, EMPTY.hex()], top)
        assert not includes(top, size, index, leaf(b"another"), path)
        assert not includes(top, size, index, FORTY[index], [*path, EMPTY])
        assert not includes(top, size, index, FORTY[index], path[:-1]) or not path
        for other in range(size):
            assert (other == index) == includes(top, size, other, FORTY[index], path)


@pytest.mark.parametrize("new", range(1, 41))
def test_every_small_tree_is_shown_to_continue_each_before_it(new: int) -> None:
    top = root(FORTY[:new])
    for old in range(1, new + 1):
        before = root(FORTY[:old])
        path = consistency_path(subtrees_of(FORTY), old, new)
        assert extends(before, old, top, new, path)
        assert not extends(leaf(b"forged"), old, top, new, path)
        assert not extends(before, old, leaf(b"forged"), new, path)
        assert not extends(before, old, top, new, [*path, EMPTY])
        assert not path or not extends(before, old, top, new, path[:-1])
        assert alone_continues(before, old, top, new, path)
        assert not alone_continues(leaf(b"forged"), old, top, new, path)
        assert not alone_continues(before, old, leaf(b"forged"), new, path)
        assert old == new or not alone_continues(before, old, top, new, [*path, EMPTY])
        assert not path or not alone_continues(before, old, top, new, path[:-1])
        forged = [leaf(b"forged"), *FORTY[1:new]]
        lying = consistency_path(subtrees_of(forged), old, new)
        assert not extends(before, old, root(forged), new, lying)


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
def test_a_leaf_outside_the_tree_has_no_path(index: int, size: int) -> None:
    with pytest.raises(IndexError):
        inclusion_path(subtrees_of(FORTY), size, index)
    assert not includes(EMPTY, size, index, EMPTY, [])


@pytest.mark.parametrize(("old", "new"), [(0, 3), (4, 3), (-1, 3)])
def test_only_an_earlier_tree_can_be_continued(old: int, new: int) -> None:
    with pytest.raises(IndexError):
        consistency_path(subtrees_of(FORTY), old, new)
    assert not extends(EMPTY, old, root(FORTY[:new]), new, [])


def test_a_node_cannot_be_passed_off_as_a_leaf() -> None:
    pair = node(FORTY[0], FORTY[1])
    assert leaf(FORTY[0] + FORTY[1]) != pair
    assert root([pair]) == root(FORTY[:2])  # which is why only hashes made by leaf() may enter a tree


@given(st.integers(1, 200))
def test_the_frontier_gives_the_root_of_the_whole_tree(size: int) -> None:
    leaves = [leaf(number.to_bytes(2, "big")) for number in range(size)]
    frontier: tuple[bytes, ...] = ()
    for number, each in enumerate(leaves):
        frontier = grown(frontier, number, each)
    assert frontier_root(frontier) == root(leaves)
    assert len(frontier) == size.bit_count()
