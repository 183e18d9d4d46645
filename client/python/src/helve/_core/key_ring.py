"""A key ring in the cluster, as `helve key` makes it, and the keys that it holds.

The forms are those of the Rust crate `helve-request-state`. Needs `cryptography`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..errors import InvalidError
from .files import exposed

#: The store of handles in which rings are kept.
STORE = "helve-key-rings"
SALT_BYTES = 12
NONCE_BYTES = 12
TAG_BYTES = 16
KEY_ID_BYTES = 8
_DOMAIN = b"helve key ring r1"
_PREFIX = "r1."
_KEY_BYTES_MIN = 32
_FILE_BYTES_MAX = 4096
#: Lengths of keys that are stored as they are.
_PLAIN_BYTES = (32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096)
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_HEX = frozenset(b"0123456789abcdefABCDEF")
#: How base64 of an X.509 public key, and a token of Helve, begin.
_NO_KEYS = (b"\x30", b"hlv_")


def derived(secret: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 without a salt: 32 bytes."""
    key: bytes = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)
    return key


@dataclass(frozen=True)
class StateKey:
    """One key of a ring."""

    #: As `helve key list` shows it, as bytes.
    id: bytes
    #: The key that others are derived from, one for each state.
    sealing: bytes

    @classmethod
    def of(cls, secret: bytes) -> StateKey:
        """Derived from a secret of the ring."""
        key_id = derived(secret, b"helve request-state h1 key id")[:KEY_ID_BYTES]
        return cls(key_id, derived(secret, b"helve request-state p1 seal"))

    def for_one(self, salt: bytes) -> AESGCM:
        """The cipher for one state alone: nonces need not be counted."""
        return AESGCM(derived(self.sealing, b"one state" + salt))


@dataclass(frozen=True)
class Ring:
    """What a ring holds."""

    #: Counts changes: an older ring is recognised by it even if it is written again.
    generation: int
    #: The key that seals.
    active: StateKey
    #: All that open, by id.
    keys: dict[bytes, StateKey]

    @classmethod
    def open(cls, sealed: object, name: str, operator: bytes) -> Ring:
        """Of what the cluster holds. Raises InvalidError if it is not for this key and name."""
        refusal = f"key ring {name!r} does not open under this operator key"
        if not isinstance(sealed, str) or not sealed.startswith(_PREFIX):
            raise InvalidError(f"{refusal}: give the key that it was made with")
        wrap = derived(operator, _DOMAIN)
        try:
            blob = from_base64(sealed[len(_PREFIX) :])
            salt, rest = blob[:SALT_BYTES], blob[SALT_BYTES:]
            cipher = AESGCM(derived(wrap, b"one ring" + salt))
            associated = _DOMAIN + salt + name.encode()
            found = json.loads(cipher.decrypt(rest[:NONCE_BYTES], rest[NONCE_BYTES:], associated))
        except (ValueError, InvalidTag) as error:
            raise InvalidError(f"{refusal}: give the key that it was made with") from error
        return cls._of(found, name)

    @classmethod
    def _of(cls, found: dict[str, object], name: str) -> Ring:
        keys: dict[bytes, StateKey] = {}
        active: StateKey | None = None
        for member in found["keys"]:  # type: ignore[attr-defined]
            key = StateKey.of(base64.b64decode(member["secret"], validate=True))
            keys[key.id] = key
            if member["phase"] == "active":
                active = key
        if active is None:
            raise empty(name)
        return cls(int(found["generation"]), active, keys)  # type: ignore[call-overload]


def empty(name: str) -> InvalidError:
    """The error of a ring that has no key, or is not there."""
    return InvalidError(f"key ring {name!r} has no key: make one with `helve key add`")


def checked_name(name: str) -> str:
    """The name of a ring, if it is one."""
    if not 1 <= len(name) <= 64 or not _NAME.issuperset(name):
        raise InvalidError(f"{name!r} is no name of a key ring: 1 to 64 of a-z, 0-9, _ and -")
    return name


def to_base64(data: bytes) -> str:
    """URL-safe, without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def from_base64(text: str) -> bytes:
    """The bytes, if this is their one spelling. Raises ValueError if not."""
    data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if to_base64(data) != text:
        raise ValueError("not the one spelling in base64")
    return data


def read_operator_key(path: str | os.PathLike[str]) -> bytes:
    """The operator's key in a file: one line of hexadecimal digits or base64, or plain bytes.

    Raises InvalidError if the file cannot be read, other users may, or it holds anything else.
    """
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidError(f"the key file {os.fspath(path)} cannot be read: {error}") from error
    if (why := exposed(path, mode)) is not None:
        raise InvalidError(f"the key file {os.fspath(path)}: {why}")
    key = _parsed(content)
    if key is None:
        message = (
            "it must hold one line of 64 or more hexadecimal digits, or of base64 for 32 bytes or "
            "more, or 32, 48, 64, 96, 128, 256, 512, 1024, 2048 or 4096 bytes that are no text"
        )
        raise InvalidError(f"the key file {os.fspath(path)} holds no key: {message}")
    return key


def _parsed(content: bytes) -> bytes | None:
    line = content.strip(b" \t\r\n")
    # Hexadecimal digits are letters of base64, too: a line of them that was cut short is none.
    if line and _HEX.issuperset(line):
        key = binascii.unhexlify(line) if len(line) % 2 == 0 else b""
        return key if len(key) >= _KEY_BYTES_MIN else None
    decoded = _base64(line)
    if decoded is not None and len(decoded) >= _KEY_BYTES_MIN:
        return None if decoded.startswith(_NO_KEYS) else decoded
    if len(content) not in _PLAIN_BYTES or not any(content):
        return None
    try:
        content.decode()
    except UnicodeDecodeError:
        return content
    # Text, unless it has characters that none has.
    is_text = all(byte >= 32 or byte in b"\t\r\n" for byte in content)
    return None if is_text else content


def _base64(line: bytes) -> bytes | None:
    digits = line.rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
    padded = digits + b"=" * (-len(digits) % 4)
    if len(line) not in (len(digits), len(padded)):
        return None
    try:
        key = base64.b64decode(padded, validate=True)
    except binascii.Error:
        return None
    return key if base64.b64encode(key) == padded else None
