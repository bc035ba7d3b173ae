"""The sealer's key: Ed25519, in a file that only the sealer's user can read.

A key that anyone else can read signs for anyone else, so such a file is refused rather than used. Public keys
travel as one line of text (the verifier key of a C2SP signed note), fit for a mail or a web page:

    archive.example.org+4d2ab713+AQvB…=          name + short id + 0x01 and the key
"""

from __future__ import annotations

import os
import re
import stat
from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from custody.errors import BadInput, NotFound, Refused, Unsafe

ED25519: Final = b"\x01"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What anybody may know: enough to check a signature, not to make one."""

    name: str
    raw: bytes

    @property
    def id(self) -> bytes:
        return sha256(self.name.encode() + b"\n" + ED25519 + self.raw).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{b64encode(ED25519 + self.raw).decode()}"

    def signed(self, text: bytes, signature: bytes) -> bool:
        """Whether `signature` (key id and Ed25519 signature) is this key's, over `text`."""
        if signature[:4] != self.id:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature[4:], text)
        except InvalidSignature:
            return False
        return True


def read_public_key(line: str) -> PublicKey:
    """A public key from its line of text."""
    name, _, rest = line.strip().partition("+")
    identity, _, encoded = rest.partition("+")
    try:
        raw = b64decode(encoded, validate=True)
    except ValueError as error:
        raise _bad_key(line) from error
    key = PublicKey(name, raw[1:])
    if raw[:1] != ED25519 or len(raw) != 33 or not NAME.fullmatch(name) or key.id.hex() != identity:
        raise _bad_key(line)
    return key


def _bad_key(line: str) -> BadInput:
    return BadInput(
        f"this is not a public key of a history: {line.strip()[:80]!r}",
        code="history.key",
        hint="it has three parts joined by +: a name, eight hexadecimal digits, base64",
    )


@dataclass(frozen=True, slots=True)
class Signer:
    """The private half. `name` is the history's own name, the same in every head it signs."""

    name: str
    key: Ed25519PrivateKey

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.name, self.key.public_key().public_bytes_raw())

    def sign(self, text: bytes) -> bytes:
        return self.public.id + self.key.sign(text)


def make_key(path: Path, name: str) -> Signer:
    """A new key in a new file; an existing file is never replaced, as its key may be in use."""
    _check_name(name)
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError as error:
        raise Refused("there is a file already; keys are never replaced", where=str(path)) from error
    with os.fdopen(file, "wb") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    return Signer(name, key)


def load_key(path: Path, name: str) -> Signer:
    """The key in this file, if the file is ours and nobody else can read it."""
    _check_name(name)
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # or a pipe would keep us waiting
    except FileNotFoundError as error:
        raise NotFound("no signing key here", where=str(path), hint="make one with `custody init`") from error
    except OSError as error:
        raise Unsafe(f"the signing key cannot be opened: {error.strerror}", where=str(path)) from error
    with os.fdopen(file, "rb") as source:
        _check_mode(os.fstat(file), path)
        text = source.read(10_000)
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError) as error:
        raise BadInput("this file holds no private key", code="history.key", where=str(path)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput("the key in this file is not an Ed25519 key", code="history.key", where=str(path))
    return Signer(name, key)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} cannot name a history",
            code="history.name",
            hint="letters, digits and . _ / : - only, such as archive.example.org",
        )


def _check_mode(status: os.stat_result, path: Path) -> None:
    """The open file is judged, not the name: what is behind a name can be changed in between."""
    if not stat.S_ISREG(status.st_mode):
        raise Unsafe("the signing key is not a plain file", where=str(path))
    if status.st_uid != os.geteuid():
        raise Unsafe("the signing key belongs to another user", where=str(path))
    if status.st_mode & 0o077:
        raise Unsafe(
            f"other users may use the signing key (mode {stat.S_IMODE(status.st_mode):04o})",
            where=str(path),
            hint=f"chmod 600 {path}; make a new key if others could have read it",
        )
