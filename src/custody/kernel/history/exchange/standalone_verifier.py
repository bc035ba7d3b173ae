#!/usr/bin/env python3
"""Verifies a Custody history without Custody: one file, the standard library, nothing to install.

    python3 standalone_verifier.py history.jsonl --key KEY [--witness FILE ...]
    python3 standalone_verifier.py proof.json    --key KEY [--witness FILE ...]

KEY is the archive's public key, one line, as the archive published it: not one found beside the history. A
witness FILE is any text with heads in it (a witness file, saved mails). Exit code 0: everything holds; 1:
what does not is listed; 2: the file cannot be read. Written to be read: an auditor need not trust us.

How a history is sealed. Every event has a leaf; "canonical" is RFC 8785 JSON, ‖ joins bytes:
    body  = SHA-256(salt ‖ canonical {agent, detail})
    leaf  = SHA-256(0x00 ‖ canonical ["custody event 1", subject, seq, leaf before, type, outcome, at, token,
                                       move, body])
    root  = RFC 6962 Merkle root over a block's leaves
    block = SHA-256(0x00 ‖ canonical header), the header naming the root and the block before
    tree  = RFC 6962 Merkle root over all blocks so far, signed (Ed25519) as part of a head
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from hashlib import sha256, sha512
from typing import Any

NONE = "00" * 32
HOUR = 3_600_000_000


class CannotRead(Exception):
    """The file is not what it should be, or the value not one that can be hashed."""


# --- Canonical JSON (RFC 8785) ---


def canonical(value: Any) -> bytes:
    try:
        return write(value).encode()
    except (UnicodeEncodeError, RecursionError) as error:
        raise CannotRead(f"a value that cannot be hashed: {error}") from error


def write(value: Any) -> str:
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        if not -(2**53) < value < 2**53:
            raise CannotRead(f"the number {value} is not exact")
        return str(value) if isinstance(value, int) else write_float(value)
    if isinstance(value, list):
        return "[" + ",".join([write(part) for part in value]) + "]"
    keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join([f"{write(key)}:{write(value[key])}" for key in keys]) + "}"


def write_float(value: float) -> str:
    """As ECMAScript does: shortest digits, exponents from 1e21 up and 1e-7 down."""
    if value == 0:
        return "0"
    sign, digit_tuple, exponent = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, digit_tuple)).rstrip("0")
    point = len(digit_tuple) + int(exponent)
    minus = "-" * sign
    if 0 < point <= 21:
        fraction = f".{digits[point:]}" if len(digits) > point else ""
        return minus + digits[:point].ljust(point, "0") + fraction
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{minus}{digits[0]}{fraction}e{point - 1:+d}"


# --- Ed25519 signatures (RFC 8032), checking only ---

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def point_from(data: bytes) -> tuple[int, int, int, int]:
    """The curve point in its 32 bytes: y, and the lowest bit of x."""
    y = int.from_bytes(data, "little")
    odd, y = y >> 255, y & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (x == 0 and odd):
        raise ValueError("not a point of the curve")
    if x % 2 != odd:
        x = P - x
    return x, y, 1, x * y % P


def add(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    a = (one[1] - one[0]) * (other[1] - other[0]) % P
    b = (one[1] + one[0]) * (other[1] + other[0]) % P
    c = 2 * one[3] * other[3] * D % P
    d = 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(number: int, point: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    result = (0, 1, 1, 0)
    for bit in bin(number)[2:]:
        result = add(result, result)
        if bit == "1":
            result = add(result, point)
    return result


BASE = point_from((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def ed25519_holds(key: bytes, signature: bytes, text: bytes) -> bool:
    if len(key) != 32 or len(signature) != 64:
        return False
    scalar = int.from_bytes(signature[32:], "little")
    try:
        signer, commitment = point_from(key), point_from(signature[:32])
    except ValueError:
        return False
    challenge = int.from_bytes(sha512(signature[:32] + key + text).digest(), "little") % ORDER
    left, right = multiply(scalar, BASE), add(commitment, multiply(challenge, signer))
    same_x = (left[0] * right[2] - right[0] * left[2]) % P == 0
    return scalar < ORDER and same_x and (left[1] * right[2] - right[1] * left[2]) % P == 0


# --- Merkle trees (RFC 6962) ---


def leaf(data: bytes) -> bytes:
    return sha256(b"\0" + data).digest()


def node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


def root(hashes: list[bytes]) -> bytes:
    while len(hashes) > 1:
        paired = [node(hashes[i], hashes[i + 1]) for i in range(0, len(hashes) - 1, 2)]
        hashes = paired + hashes[len(paired) * 2 :]
    return hashes[0] if hashes else sha256(b"").digest()


def folded(frontier: list[bytes]) -> bytes:
    """The root of a tree that is given by its complete subtrees, largest first."""
    result = frontier[-1]
    for left in frontier[-2::-1]:
        result = node(left, result)
    return result


def climb(index: int, last: int, start: bytes, path: list[bytes]) -> tuple[bytes, bytes]:
    """Walk up from a subtree: the root of what ends with it, and the root of the whole tree."""
    older = newer = start
    path = path[::-1]
    while last:
        if index % 2 or index < last:
            step = path.pop() if path else b""
            if index % 2:
                older = node(step, older)
            newer = node(step, newer) if index % 2 else node(newer, step)
        index, last = index // 2, last // 2
    if path:
        raise CannotRead("a path is too long")
    return older, newer


def continues(old: dict[str, Any], new: dict[str, Any], path: list[bytes]) -> bool:
    """Whether the tree of one head begins with the tree of an earlier one."""
    if old["blocks"] >= new["blocks"]:
        return bool(old["blocks"] == new["blocks"] and old["tree"] == new["tree"])
    index, last = old["blocks"] - 1, new["blocks"] - 1
    while index % 2:
        index, last = index // 2, last // 2
    start, path = (path[0], path[1:]) if index else (old["tree"], path)
    return climb(index, last, start, path) == (old["tree"], new["tree"])


# --- Heads and keys ---


def read_key(line: str) -> tuple[str, bytes, bytes]:
    """A public key: name + id + base64 of 0x01 and 32 bytes."""
    name, identity, encoded = line.strip().split("+", 2)
    raw = base64.b64decode(encoded, validate=True)
    if raw[:1] != b"\x01" or sha256(f"{name}\n".encode() + raw).hexdigest()[:8] != identity:
        raise ValueError("not an Ed25519 key, or damaged")
    return name, bytes.fromhex(identity), raw[1:]


HEAD = re.compile(
    r"^(?P<text>(?P<origin>\S+)\n(?P<blocks>[1-9]\d*)\n(?P<tree>[A-Za-z0-9+/]{43}=)\n"
    r"algorithm (?P<algorithm>\S+)\nevents (?P<events>\d+)\nsealed \S+\n)\n(?P<signatures>(?:— \S+ \S+\n)+)",
    re.MULTILINE,
)


def heads_in(text: str) -> Iterator[dict[str, Any]]:
    """Every head in a text, also when it is quoted as mails do."""
    plain = "".join(f"{line.lstrip('> ').rstrip()}\n" for line in text.splitlines())
    for found in HEAD.finditer(plain):
        yield {
            "text": found["text"].encode(),
            "origin": found["origin"],
            "blocks": int(found["blocks"]),
            "tree": base64.b64decode(found["tree"]),
            "events": int(found["events"]),
            "signatures": [line.split(" ")[1:] for line in found["signatures"].splitlines()],
        }


def is_signed(head: dict[str, Any], keys: list[tuple[str, bytes, bytes]]) -> bool:
    for name, encoded in head["signatures"]:
        signature = base64.b64decode(encoded)
        for key_name, identity, key in keys:
            known = key_name == name and signature[:4] == identity
            if known and ed25519_holds(key, signature[4:], head["text"]):
                return True
    return False


def head_of(block: dict[str, Any]) -> dict[str, Any]:
    """The head a block was published with."""
    tree = folded([bytes.fromhex(each) for each in block["frontier"]])
    try:
        at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=block["at"])  # noqa: UP017 (old Pythons)
    except OverflowError as error:
        raise CannotRead("a time that no calendar has") from error
    lines = [block["origin"], block["number"], base64.b64encode(tree).decode()]
    lines += [f"algorithm {block['algorithm']}", f"events {block['total']}"]
    lines += [f"sealed {at:%Y-%m-%dT%H:%M:%S.%f}Z"]
    return {
        "text": "".join(f"{line}\n" for line in lines).encode(),
        "origin": block["origin"],
        "blocks": block["number"],
        "tree": tree,
        "events": block["total"],
        "signatures": [(block["origin"], base64.b64encode(bytes.fromhex(block["signature"])).decode())],
    }


HEADER = ("algorithm", "at", "complete", "count", "number", "origin", "previous", "root", "total")


def block_hash(block: dict[str, Any]) -> bytes:
    return leaf(canonical({name: block[name] for name in HEADER}))


def event_leaf(subject: str, seq: int, event: dict[str, Any], previous: str, body: str) -> bytes:
    outline = [event[name] for name in ("type", "outcome", "at", "token", "move")]
    return leaf(canonical(["custody event 1", subject, seq, previous, *outline, body]))


def body_of(event: dict[str, Any], salt: str) -> str:
    told = {"agent": event["agent"], "detail": event["detail"]}
    return sha256(bytes.fromhex(salt) + canonical(told)).hexdigest()


# --- A whole history ---


class Checker:
    """Reads an export line by line; remembers the end of each subject's chain and the block before."""

    def __init__(self, keys: list[tuple[str, bytes, bytes]], every: bool) -> None:
        self.keys = keys
        self.heads: list[dict[str, Any]] = []
        self.every = every  # check each block's signature: slow here; the last one vouches for all before it
        self.faults: list[tuple[str, str, str]] = []
        self.ends: dict[str, tuple[int, str, int]] = {}  # subject: seq, leaf, earliest time of the next
        self.block: dict[str, Any] | None = None
        self.leaves: list[bytes] = []
        self.is_open = False
        self.blocks = 0
        self.gone = 0  # missing blocks were told of up to this one
        self.floor = -(2**63)
        self.erased: list[tuple[str, int]] = []
        self.erasers: set[tuple[str, int]] = set()
        self.trees: dict[int, dict[str, Any]] = {}
        self.wanted: set[int] = set()
        self.events = 0

    def take_heads(self, heads: Iterable[dict[str, Any]]) -> None:
        """Heads that witnesses kept; before the first block."""
        self.heads += heads
        self.wanted |= {head["blocks"] for head in self.heads}

    def fault(self, kind: str, where: str, message: str) -> None:
        self.faults.append((kind, where, message))

    def are_gone(self, first: int, last: int) -> None:
        first = max(first, self.gone + 1)
        if first <= last:
            self.gone = last
            self.fault("block-missing", f"block {first}", f"blocks {first} to {last} are gone")

    def take_event(self, line: dict[str, Any]) -> None:
        self.events += 1
        subject, seq, event = line["subject"], line["seq"], line["event"]
        last, previous, earliest = self.ends.get(subject, (0, NONE, -(2**63)))
        in_order = seq == last + 1
        self.sequence(subject, seq, last, sealed=line["block"] is not None)
        ceiling = 2**63
        if line["block"] is not None:
            ceiling = self.take_leaf(line)
            if event is None:
                self.fault("deleted", f"{subject}#{seq}", "the event is gone, its leaf is still there")
            elif self.is_unchanged(line, event, previous if in_order else ""):
                self.note_erasures(event)
        elif in_order:
            self.note_erasures(event)
        if event is not None:
            if event["at"] < max(earliest, self.floor) or event["at"] > ceiling:
                self.fault("misdated", f"{subject}#{seq}", "its time does not fit the order of sealing")
            earliest = event["at"] - HOUR
        self.ends[subject] = max(last, seq) if line["block"] is None else seq, line.get("leaf", ""), earliest

    def sequence(self, subject: str, seq: int, last: int, sealed: bool) -> None:
        if seq <= last:
            self.fault("repeated" if sealed else "leaf-missing", f"{subject}#{seq}", "its place was taken before")
        elif seq > last + 1:
            self.fault("deleted", f"{subject}#{last + 1}", f"gone up to #{seq - 1}, and the leaves too")

    def take_leaf(self, line: dict[str, Any]) -> int:
        """Add a leaf to its block; the latest time its event may have."""
        if self.block is None or line["block"] != self.block["number"]:
            self.are_gone(line["block"], line["block"])
            return 2**63
        self.leaves.append(bytes.fromhex(line["leaf"]))
        return int(self.block["at"]) + HOUR

    def is_unchanged(self, line: dict[str, Any], event: dict[str, Any], previous: str) -> bool:
        place = f"{line['subject']}#{line['seq']}"
        try:
            if line["salt"] is None:
                self.erased.append((line["subject"], line["seq"]))
                if event["agent"] or event["detail"]:
                    self.fault("written-over", place, "its body was erased, yet something stands in its place")
            elif body_of(event, line["salt"]) != line["body"]:
                self.fault("edited", place, "its agent or its detail was changed")
                return False
            made = event_leaf(line["subject"], line["seq"], event, previous, body=line["body"])
            if previous and made.hex() != line["leaf"]:
                self.fault("edited", place, "its type, outcome, time, token or move was changed, or its leaf")
                return False
        except CannotRead as error:
            self.fault("edited", place, str(error))
            return False
        return True

    def note_erasures(self, event: dict[str, Any]) -> None:
        if event["type"] == "body-erased" and event["outcome"] != "failure":
            named = event["detail"].get("erased")
            places = named if isinstance(named, list) else []
            self.erasers |= {(place["subject"], place["seq"]) for place in places if isinstance(place, dict)}

    def take_block(self, block: dict[str, Any]) -> None:
        self.close_block()
        self.blocks += 1
        try:
            self.follows(block)
        except CannotRead as error:
            self.fault("block-forged", f"block {block['number']}", f"cannot be read: {error}")
        self.block, self.leaves, self.is_open = block, [], True
        if self.every or block["number"] in self.wanted:
            self.check_head(block)

    def follows(self, block: dict[str, Any]) -> None:
        before = self.block
        where, expected = f"block {block['number']}", before["number"] + 1 if before else 1
        if block["number"] != expected:
            self.are_gone(expected, block["number"] - 1)
            return
        if block["previous"] != (block_hash(before).hex() if before else NONE):
            self.fault("block-forged", where, "the block before it is not the one it was sealed upon")
        if block["frontier"] != grown(before["frontier"] if before else [], expected - 1, block_hash(block)):
            self.fault("block-forged", where, "the running tree does not grow from the block before it")
        if block["total"] != (before["total"] if before else 0) + block["count"]:
            self.fault("block-forged", where, "the number of events so far does not add up")
        if before and (block["at"] < before["at"] or block["origin"] != before["origin"]):
            self.fault("block-forged", where, "its time goes back, or it carries another history's name")

    def close_block(self) -> None:
        """All leaves of the last block were read: are they those it was sealed over?"""
        if self.block is None or not self.is_open:
            return
        self.is_open = False
        if self.block["complete"]:
            self.floor = max(self.floor, self.block["at"] - HOUR)
        where, count = f"block {self.block['number']}", self.block["count"]
        if self.block["algorithm"] != "sha256-ed25519":
            self.fault("algorithm", where, f"sealed as {self.block['algorithm']!r}, unknown here")
        if len(self.leaves) != count:
            self.fault("block-changed", where, f"sealed over {count} events, has {len(self.leaves)}")
        elif root(self.leaves).hex() != self.block["root"]:
            self.fault("block-changed", where, "its events, or their order, are not those it was sealed over")

    def check_head(self, block: dict[str, Any]) -> None:
        """The head this block was published with: kept for the witnesses, and its signature checked."""
        try:
            head = head_of(block)
            holds = is_signed(head, self.keys)
            self.trees[block["number"]] = head
        except CannotRead:
            holds = False
        if not holds:
            self.fault("signature", f"block {block['number']}", "not signed by a known key")

    def finish(self) -> None:
        if self.block and not self.every and self.block["number"] not in self.wanted:
            self.check_head(self.block)
        for head in self.heads:
            self.check_witness(head)
        for subject, seq in self.erased:
            if (subject, seq) not in self.erasers:
                self.fault("unexplained-erasure", f"{subject}#{seq}", "erased, and no event says by whom and why")

    def check_witness(self, head: dict[str, Any]) -> None:
        where, ours = f"block {head['blocks']}", self.trees.get(head["blocks"])
        if not is_signed(head, self.keys):
            self.fault("witness", where, "a witness's head is not signed by a known key")
        elif ours is None and self.block and head["blocks"] <= self.block["number"]:
            return  # a missing block before the end was told of already
        elif ours is None:
            self.fault("went-back", where, "a witness has seen a later block than the last one here")
        elif ours["origin"] != head["origin"]:
            self.fault("witness", where, "a witness's head is of another history")
        elif (ours["tree"], ours["events"]) != (head["tree"], head["events"]):
            self.fault("forked", where, "a witness has seen another block of this number")


def grown(frontier: list[str], size: int, added: bytes) -> list[str]:
    """The complete subtrees after one more leaf."""
    nodes = list(frontier)
    while size % 2:
        added = node(bytes.fromhex(nodes.pop()), added)
        size //= 2
    return [*nodes, added.hex()]


def check_history(lines: Iterable[dict[str, Any]], checker: Checker) -> None:
    counts = None
    for line in lines:
        if line["is"] == "head":
            checker.take_heads(heads_in(line["text"]))
        elif line["is"] == "block":
            checker.take_block(line)
        elif line["is"] == "event":
            if line["block"] is None:
                checker.close_block()
            checker.take_event(line)
        elif line["is"] == "end":
            counts = line["events"], line["blocks"]
    checker.close_block()
    checker.finish()
    if counts != (checker.events, checker.blocks):
        raise CannotRead("the export was cut off: its last line is missing, or does not add up")


# --- One event ---


def check_proof(proof: dict[str, Any], checker: Checker) -> None:
    """From the event to the head, and from the head to what witnesses kept."""
    event, block = proof["event"], proof["block"]
    where = f"{event['subject']}#{event['seq']}"
    (head,) = heads_in(proof["head"])
    body_holds = not (event["agent"] or event["detail"])
    if proof["salt"] is not None:
        body_holds = body_of(event, proof["salt"]) == proof["body"]
    made = event_leaf(event["subject"], event["seq"], event, proof["previous"], body=proof["body"])
    in_block = climbs(made, block["count"], proof["position"], proof["path"], top=bytes.fromhex(block["root"]))
    in_tree = climbs(block_hash(block), head["blocks"], block["number"] - 1, proof["tree_path"], top=head["tree"])
    for kind, holds, message in (
        ("edited", body_holds, "its agent or detail is not what was sealed"),
        ("block-changed", in_block, "it is not in the block"),
        ("block-forged", in_tree, "its block is not under the head"),
        ("signature", is_signed(head, checker.keys), "the head is not signed by a known key"),
    ):
        if not holds:
            checker.fault(kind, where, message)
    checker.trees = {head["blocks"]: head}
    if "since" in proof:
        (since,) = heads_in(proof["since"]["head"])
        checker.trees.setdefault(since["blocks"], since)
        if not continues(since, head, [bytes.fromhex(each) for each in proof["since"]["path"]]):
            checker.fault("forked", where, "the head does not continue the earlier one")
    known = [kept for kept in checker.heads if kept["blocks"] in checker.trees]
    for kept in known:
        checker.check_witness(kept)
    checker.heads = known


def climbs(start: bytes, size: int, index: int, path: list[str], top: bytes) -> bool:
    """Whether a path leads from leaf `index` of a tree to its root."""
    steps = [bytes.fromhex(each) for each in path]
    return 0 <= index < size and climb(index, size - 1, start, steps)[1] == top


# --- The command ---


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A name that comes twice means different things to different readers."""
    if len({name for name, _ in pairs}) != len(pairs):
        raise CannotRead("an object names one thing twice")
    return dict(pairs)


def read_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=no_repeats)


def check_file(path: str, checker: Checker) -> str:
    with sys.stdin if path == "-" else open(path, encoding="utf-8") as source:
        first = source.readline()
        if first.startswith('{"is":"history"'):
            check_history((read_json(line) for line in source), checker)
            return f"{checker.events} events in {checker.blocks} blocks"
        proof = read_json(first + source.read())
    if proof["is"] != "proof":
        raise CannotRead("neither an exported history nor a proof")
    check_proof(proof, checker)
    return f"event {proof['event']['subject']}#{proof['event']['seq']}"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Verify an exported Custody history, or the proof of one event.")
    parser.add_argument("file", help="history.jsonl or proof.json; - reads a history from standard input")
    parser.add_argument("--key", action="append", required=True, help="the archive's public key")
    parser.add_argument("--witness", action="append", default=[], help="a file with heads in it")
    parser.add_argument("--every-signature", action="store_true", help="not only the last block's (slow)")
    parser.add_argument("--json", action="store_true", help="the faults as JSON")
    given = parser.parse_args(words)
    try:
        checker = Checker([read_key(line) for line in given.key], given.every_signature)
        for path in given.witness:
            with open(path, encoding="utf-8", errors="replace") as witness:
                checker.take_heads(heads_in(witness.read()))
        what = check_file(given.file, checker)
    except (CannotRead, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        print(f"cannot read {given.file}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    tell(what, checker, given.json)
    return 1 if checker.faults else 0


def tell(what: str, checker: Checker, as_json: bool) -> None:
    if as_json:
        faults = [{"kind": kind, "where": where, "message": message} for kind, where, message in checker.faults]
        print(json.dumps(faults))
        return
    for _, where, message in checker.faults:
        print(f"{where}: {message}")
    print(f"{what}: {len(checker.faults)} faults" if checker.faults else f"{what}: sound")
    if not checker.heads:
        print("No witness's head could be compared: an end cut off, or an older backup, would go unnoticed.")


if __name__ == "__main__":
    sys.exit(main())
