"""Proofs: everything somebody needs to be convinced of one event, in one small JSON object.

    the event ─ leaf ─(path)→ its block's root ─ block ─(tree_path)→ the running tree's root ─ signed head

Whoever holds a later head (a mail, a witness file) needs nothing else, and none of our code: the stand-alone
verifier beside this module checks such a bundle. With an *earlier* head at hand, `since` adds the path that
shows the proof's head to be a continuation of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from custody.errors import BadInput
from custody.kernel.history.block import Block, subtrees_of_blocks
from custody.kernel.history.chain import Leaf, body_hash, leaf_hash, looks_erased
from custody.kernel.history.event_body import canonical
from custody.kernel.history.head import Head, read_head
from custody.kernel.history.keys import PublicKey
from custody.kernel.history.merkle import Hash, consistency_path, includes, inclusion_path, leaf, subtrees_of
from custody.kernel.history.witness import continues
from custody.kernel.model.event import Event

VERSION: Final = 1

Blocks = Callable[[int], Block]
"""Blocks by number; a proof looks up a few dozen of them, however many there are."""


def prove(
    event: Event,
    place: Leaf,
    previous: Hash,
    leaves: Sequence[Hash],
    blocks: Blocks,
    last: int,
    *,
    since: Head | None = None,
) -> dict[str, Any]:
    """The proof that `event` is in the history under the head of block `last`.

    `previous` is the leaf before it in its subject (START for the first), `leaves` are all of its block's.
    """
    block, head = blocks(place.block), blocks(last).head
    bundle: dict[str, Any] = {
        "is": "proof",
        "version": VERSION,
        "event": event_fields(event) | {"subject": event.subject, "seq": event.seq},
        "previous": previous.hex(),
        "body": place.body.hex(),
        "salt": place.salt.hex() if place.salt is not None else None,
        "position": place.position,
        "path": _hexes(inclusion_path(subtrees_of(leaves), len(leaves), place.position)),
        "block": block.header,
        "tree_path": _hexes(inclusion_path(subtrees_of_blocks(blocks), last, place.block - 1)),
        "head": str(head),
    }
    if since is not None and since.blocks <= last:
        bundle["since"] = {"head": str(since), "path": _hexes(consistency(blocks, since.blocks, last))}
    return bundle


def consistency(blocks: Blocks, old: int, new: int) -> list[Hash]:
    """The path that shows the head of block `new` to continue that of block `old`; see witness.continues."""
    return consistency_path(subtrees_of_blocks(blocks), old, new)


def event_fields(event: Event) -> dict[str, Any]:
    """An event as JSON, without its place."""
    return {
        "type": event.type,
        "outcome": event.outcome,
        "agent": event.agent,
        "at": event.at,
        "detail": dict(event.detail),
        "token": event.token,
        "move": event.move,
    }


def check_proof(bundle: Mapping[str, Any], keys: Iterable[PublicKey]) -> list[str]:
    """What is wrong with a proof; nothing, if it convinces."""
    try:
        return [message for message, is_right in _steps(bundle, tuple(keys)).items() if not is_right]
    except (KeyError, TypeError, ValueError, AttributeError, BadInput) as error:
        return [f"this is not a proof: {error}"]


def _steps(bundle: Mapping[str, Any], keys: Sequence[PublicKey]) -> dict[str, bool]:
    """Each step from the event to the head, with what it means if it fails."""
    event = Event(id=0, **bundle["event"])
    body, header, head = bytes.fromhex(bundle["body"]), bundle["block"], read_head(bundle["head"])
    made = leaf_hash(event, bytes.fromhex(bundle["previous"]), body)
    steps = {
        "the event's agent or detail is not what was sealed": _body_holds(event, bundle["salt"], body),
        "the event is not in the block": includes(
            bytes.fromhex(header["root"]), header["count"], bundle["position"], made, path=_hashes(bundle["path"])
        ),
        "the block is not under the head": includes(
            head.tree,
            head.blocks,
            header["number"] - 1,
            leaf(canonical(header)),
            path=_hashes(bundle["tree_path"]),
        ),
        "the head is not signed by a known key": head.signed_by(keys) is not None,
    }
    if "since" in bundle:
        since = read_head(bundle["since"]["head"])
        steps["the earlier head is not signed by a known key"] = since.signed_by(keys) is not None
        path = _hashes(bundle["since"]["path"])
        steps["the head does not continue the earlier one"] = continues(since, head, path)
    return steps


def _body_holds(event: Event, salt: str | None, body: Hash) -> bool:
    """An erased body proves nothing about its text, so there must be none."""
    return looks_erased(event) if salt is None else body_hash(event, bytes.fromhex(salt)) == body


def _hexes(hashes: Iterable[Hash]) -> list[str]:
    return [each.hex() for each in hashes]


def _hashes(hexes: Iterable[str]) -> list[Hash]:
    return [bytes.fromhex(each) for each in hexes]
