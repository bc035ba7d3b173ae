"""Keys only their owner can use, and heads that anybody can keep, find again and check."""

from __future__ import annotations

import os
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from custody.errors import BadInput, NotFound, Refused, Unsafe
from custody.kernel.history.exchange import standalone_verifier
from custody.kernel.history.head import from_moment, heads_in, moment, read_head
from custody.kernel.history.keys import load_key, make_key, read_public_key
from kernel.history.archive import INTRUDER, NAME, SIGNER, grown_archive

# the example of the signed note format's first implementation
NOTE_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
NOTE_TEXT = b"If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
NOTE_SIGNATURE = b64decode(
    "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
)

# RFC 8032, section 7.1: public key, message, signature
ED25519 = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
]


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "seal.key"
    made = make_key(path, NAME)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_key(path, NAME).public == made.public
    with pytest.raises(Refused, match="never replaced"):
        make_key(path, NAME)
    assert load_key(path, NAME).public == made.public


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610, 0o602])
def test_a_key_that_others_could_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "seal.key"
    make_key(path, NAME)
    path.chmod(mode)
    with pytest.raises(Unsafe, match=f"mode {mode:04o}"):
        load_key(path, NAME)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seal.key"
    make_key(path, NAME)
    os.chown(path, 65534, 65534)
    with pytest.raises(Unsafe, match="another user"):
        load_key(path, NAME)


def test_a_key_is_not_read_through_a_link(tmp_path: Path) -> None:
    make_key(tmp_path / "real.key", NAME)
    (tmp_path / "seal.key").symlink_to(tmp_path / "real.key")
    with pytest.raises(Unsafe):
        load_key(tmp_path / "seal.key", NAME)
    with pytest.raises(Refused):
        make_key(tmp_path / "seal.key", NAME)


def test_a_key_is_not_read_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "seal.key", 0o600)
    with pytest.raises(Unsafe, match="not a plain file"):
        load_key(tmp_path / "seal.key", NAME)


def test_a_new_key_is_on_disk_before_anything_is_signed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    make_key(tmp_path / "seal.key", NAME)
    assert synced == [(tmp_path / "seal.key").stat().st_size]


def test_a_file_without_an_ed25519_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_key(tmp_path / "none.key", NAME)
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for name, content in {"words.key": b"my secret", "ec.key": other}.items():
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(BadInput):
            load_key(path, NAME)


@pytest.mark.parametrize("name", ["", "two words", "plus+plus", "line\nbreak", "-dash", "x" * 200])
def test_a_name_that_would_break_a_head_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="cannot name a history"):
        make_key(tmp_path / "seal.key", name)
    assert not (tmp_path / "seal.key").exists()
    make_key(tmp_path / "seal.key", NAME)
    with pytest.raises(BadInput, match="cannot name a history"):
        load_key(tmp_path / "seal.key", name)


def test_a_public_key_travels_as_one_line() -> None:
    line = str(SIGNER.public)
    assert read_public_key(f" {line}\n") == SIGNER.public
    assert standalone_verifier.read_key(line) == (NAME, SIGNER.public.id, SIGNER.public.raw)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "name",
        "name+00000000+",
        str(SIGNER.public).replace(NAME, "other.example.org"),
        str(SIGNER.public)[:-4] + "AAAA",
        str(SIGNER.public)[:-4],
        str(SIGNER.public).replace("+A", "+?"),
    ],
)
def test_a_damaged_public_key_is_refused(line: str) -> None:
    with pytest.raises(BadInput):
        read_public_key(line)
    with pytest.raises(ValueError):
        standalone_verifier.read_key(line)


def test_signatures_are_those_of_signed_notes() -> None:
    key = read_public_key(NOTE_KEY)
    assert key.signed(NOTE_TEXT, NOTE_SIGNATURE)
    assert not key.signed(NOTE_TEXT + b"\n", NOTE_SIGNATURE)
    assert not key.signed(NOTE_TEXT, NOTE_SIGNATURE[:-1])
    assert not key.signed(NOTE_TEXT, b"")
    assert not key.signed(NOTE_TEXT, b"\0\0\0\0" + NOTE_SIGNATURE[4:])
    assert standalone_verifier.ed25519_holds(key.raw, NOTE_SIGNATURE[4:], NOTE_TEXT)


@pytest.mark.parametrize(("key", "message", "signature"), ED25519)
def test_the_stand_alone_verifier_knows_ed25519(key: str, message: str, signature: str) -> None:
    public, text, sign = (bytes.fromhex(part) for part in (key, message, signature))
    assert standalone_verifier.ed25519_holds(public, sign, text)
    assert not standalone_verifier.ed25519_holds(public, sign, text + b"!")
    assert not standalone_verifier.ed25519_holds(public, sign[:32] + bytes(32), text)
    assert not standalone_verifier.ed25519_holds(public, b"\xff" * 64, text)
    assert not standalone_verifier.ed25519_holds(public[:-1], sign, text)


def test_the_stand_alone_verifier_refuses_a_signature_counted_once_round_the_group() -> None:
    """S and S + L sign alike; only the smaller is a signature, or one signature could pass for two."""
    public, message, signature = (bytes.fromhex(part) for part in ED25519[1])
    scalar = int.from_bytes(signature[32:], "little") + standalone_verifier.ORDER
    other = signature[:32] + scalar.to_bytes(32, "little")
    assert not standalone_verifier.ed25519_holds(public, other, message)


@pytest.mark.parametrize(
    "data",
    [
        (2).to_bytes(32, "little"),  # no x goes with this y
        standalone_verifier.P.to_bytes(32, "little"),  # zero, written in a second way
        (1 | 1 << 255).to_bytes(32, "little"),  # x is zero, yet called odd
    ],
)
def test_the_stand_alone_verifier_takes_no_bytes_for_a_point_that_are_none(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a point"):
        standalone_verifier.point_from(data)
    assert not standalone_verifier.ed25519_holds(data, bytes(64), b"")


def test_the_stand_alone_verifier_agrees_with_the_library_on_many_signatures() -> None:
    random = Random(8)
    for length in range(40):
        text = random.randbytes(length)
        sign = SIGNER.key.sign(text)
        assert standalone_verifier.ed25519_holds(SIGNER.public.raw, sign, text)
        place = random.randrange(64)
        broken = sign[:place] + bytes([sign[place] ^ 1 << random.randrange(8)]) + sign[place + 1 :]
        assert not standalone_verifier.ed25519_holds(SIGNER.public.raw, broken, text)
        assert not standalone_verifier.ed25519_holds(INTRUDER.public.raw, sign, text)


# --- heads ---

HEAD = grown_archive(Random(1)).last.head


def test_a_head_is_six_lines_and_a_signature() -> None:
    lines = str(HEAD).split("\n")
    assert lines[0] == NAME
    assert lines[1] == "6"
    assert len(lines[2]) == 44
    assert lines[3] == "algorithm sha256-ed25519"
    assert lines[4].startswith("events ")
    assert lines[5].startswith("sealed 2026-02-25T06:14:")
    assert lines[6] == ""
    assert lines[7].startswith(f"— {NAME} ")
    assert lines[8:] == [""]


def test_a_head_reads_back_as_it_was() -> None:
    assert read_head(str(HEAD)) == HEAD
    (other,) = standalone_verifier.heads_in(str(HEAD))
    assert (other["text"], other["tree"], other["blocks"]) == (HEAD.text, HEAD.tree, HEAD.blocks)


@pytest.mark.parametrize("place", range(6))
def test_a_head_with_any_line_changed_is_not_signed(place: int) -> None:
    changed = [
        replace(HEAD, origin="other.example.org"),
        replace(HEAD, blocks=HEAD.blocks + 1),
        replace(HEAD, tree=bytes(32)),
        replace(HEAD, algorithm="none"),
        replace(HEAD, events=HEAD.events + 1),
        replace(HEAD, at=HEAD.at + 1),
    ][place]
    assert HEAD.signed_by([SIGNER.public])
    assert not changed.signed_by([SIGNER.public])
    (other,) = standalone_verifier.heads_in(str(changed))
    assert not standalone_verifier.is_signed(other, [standalone_verifier.read_key(str(SIGNER.public))])


@pytest.mark.parametrize("quote", ["", "> ", ">> ", "    "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_heads_are_found_in_mails(quote: str, end: str) -> None:
    lines = ["Dear depositor,", "", "your batch is done. The history stands at:", "", *str(HEAD).splitlines()]
    lines += ["", "Yours, the archive", "", *str(HEAD).splitlines(), "-- ", "sent by custody"]
    mail = end.join(quote + line for line in lines)
    assert list(heads_in(mail)) == [HEAD, HEAD]
    assert len(list(standalone_verifier.heads_in(mail))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n— x y\n",
        str(HEAD)[:-20],
        str(HEAD).replace("events ", "event "),
        str(HEAD).replace("\n6\n", "\n06\n"),
        str(HEAD).replace("\n6\n", "\n0\n"),
        str(HEAD).replace("sealed ", "sealed ?"),
        str(HEAD).replace("— ", "-- "),
        str(HEAD).split("\n", 1)[1],
        str(HEAD).replace("=\nalgorithm", "\nalgorithm"),
    ],
)
def test_what_is_not_quite_a_head_is_no_head(text: str) -> None:
    assert [head for head in heads_in(text) if head.signed_by([SIGNER.public])] == []
    with pytest.raises(BadInput, match="expected one head"):
        read_head(str(HEAD) + "\n" + str(HEAD))


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_lines_that_nobody_signed_are_no_head(end: str) -> None:
    assert list(heads_in(HEAD.text.decode() + end)) == []
    assert list(standalone_verifier.heads_in(HEAD.text.decode() + end)) == []


def test_times_keep_their_microseconds() -> None:
    for at in (0, 1, HEAD.at, -1, 253_402_300_799_999_999):
        assert from_moment(moment(at)) == at
