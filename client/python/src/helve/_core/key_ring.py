"""A key ring in the cluster, as `helve key` makes it, and the keys that it holds.

The forms are those of the Rust crate `helve-request-state`. Needs `cryptography`.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
import os
import re
import unicodedata
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..errors import InvalidError
from .files import exposed, read

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
#: The digits in which base64 and base64url differ.
_STANDARD, _URL_SAFE = frozenset(b"+/"), frozenset(b"-_")
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
#: White space around a line.
_SPACE = b" \t\n\x0c\r"
#: What is decoded of a text: no shorter part of it encodes a key.
_DIGITS = re.compile(rb"[A-Za-z0-9+/_-]{32,}")
#: How often what is encoded may be encoded again.
_LAYERS_MAX = 3
#: How lines of SSH public keys begin, and the names in what they encode (RFC 4253, section 6.6).
_SSH = (b"ssh-", b"ecdsa-sha2-", b"sk-ssh-", b"sk-ecdsa-")
#: What may follow the name of a JWK's `kty`, in JSON, YAML or a program.
_KTY = (b'kty"', b"kty'", b"kty\\", b"kty:", b"kty ")
#: How PEM (RFC 7468) and blocks of SSH (RFC 4716) begin, in small letters.
_BLOCKS = (b"--begin ", b"-- begin ", b"begin ssh2 public key")
#: The tags of what keys and certificates in DER hold directly.
_DER_MEMBERS = frozenset(b"\x02\x03\x04\x05\x06\x30\x31\xa0\xa1\xa2\xa3")
#: Bytes of an uncompressed point on P-256, P-384 and P-521 (SEC 1, section 2.3.3).
_POINT_BYTES = (65, 97, 133)


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
        content, found = read(path, _FILE_BYTES_MAX)
    except OSError as error:
        message = f"the key file {os.fspath(path)} cannot be read: {error.strerror}"
        raise InvalidError(message) from error
    if (why := exposed(path, found.st_mode)) is not None:
        raise InvalidError(f"the key file {os.fspath(path)}: {why}")
    # The beginning of a longer file would be another key.
    key = _parsed(content) if len(content) <= _FILE_BYTES_MAX else None
    if key is None:
        message = (
            "it must hold one line of 64 or more hexadecimal digits, or of base64 for 32 bytes or "
            "more, or 32, 48, 64, 96, 128, 256, 512, 1024, 2048 or 4096 bytes that are no text; "
            "and nothing that is public, such as a public key or a page, nor a placeholder"
        )
        raise InvalidError(f"the key file {os.fspath(path)} holds no key: {message}")
    return key


class _Form(enum.Enum):
    """What a content is, as far as it matters for a key."""

    #: Often public: a key or certificate, a page, JSON, a URL, or a token that others were sent.
    PUBLIC = enum.auto()
    #: One of Helve's tokens.
    TOKEN = enum.auto()
    #: No text.
    BINARY = enum.auto()
    #: Other text, or nothing.
    OTHER = enum.auto()

    @classmethod
    def of(cls, content: bytes) -> _Form:
        """The form of a content. The Rust crate `helve-seal` knows the same, as `Looks`."""
        text = content.strip(_SPACE)
        lower = text.lower()
        if not text or not any(content) or content.startswith(b"\xef\xbb\xbf"):
            return cls.OTHER
        if _is_utf16(content):
            return cls.OTHER
        is_gzip = len(content) > 64 and content.startswith(b"\x1f\x8b\x08")
        is_block = any(begin in lower for begin in _BLOCKS)
        if is_gzip or is_block or _is_der(content) or _is_ssh(content) or _is_point(content):
            return cls.PUBLIC
        if not _is_text(content):
            return cls.BINARY
        if _is_public_text(text, lower):
            return cls.PUBLIC
        return cls.TOKEN if text.startswith(b"hlv_") else cls.OTHER


def _parsed(content: bytes) -> bytes | None:
    """The key in a content; None if it holds anything else, or what others know."""
    if _holds_public(content, _LAYERS_MAX):
        return None
    key = _of_line(content)
    if key is not None and len(key) >= _KEY_BYTES_MIN:
        is_token = _Form.TOKEN in (_Form.of(content), _Form.of(key))
        return None if is_token or _is_guessable(key) else key
    is_plain = len(content) in _PLAIN_BYTES and _Form.of(content) is _Form.BINARY
    return content if is_plain else None


def _holds_public(content: bytes, layers: int) -> bool:
    """Whether something public is in it, as it is or in what a part of it encodes."""
    if _Form.of(content) is _Form.PUBLIC:
        return True
    if layers == 0:
        return False
    dense = content.translate(None, _SPACE)
    for digits in [*_DIGITS.findall(content), dense]:
        has_prefix = digits[:2].lower() == b"0x" and _HEX.issuperset(digits[2:])
        inside = _decoded(digits[2:] if has_prefix else digits)
        if inside is not None and _holds_public(inside, layers - 1):
            return True
    return False


def _is_guessable(key: bytes) -> bool:
    """Whether it repeats a few bytes, as a placeholder, or may be the modulus of an RSA key."""
    if len(set(key)) < 8:
        return True
    number = key.lstrip(b"\0")
    if len(number) < 255 or number[0] < 0x80:
        return False
    value = int.from_bytes(number, "big")
    return all(value % factor for factor in (2, *range(3, 1 << 12, 2)))


def _is_utf16(content: bytes) -> bool:
    """Whether every second byte is zero, as in ASCII text that was saved as UTF-16."""
    pairs = len(content) // 2
    zeros = sorted((content[::2].count(0), content[1::2].count(0)))
    return pairs >= 4 and zeros[1] * 4 >= pairs * 3 and zeros[0] * 4 <= pairs


def _is_text(content: bytes) -> bool:
    """UTF-8 without control characters, or ASCII but for one byte of eight."""
    odd = sum(not (32 <= byte < 127 or byte in b"\t\n\r") for byte in content)
    if odd * 8 <= len(content):
        return True
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    controls = (each for each in text if unicodedata.category(each) == "Cc")
    return all(each in "\t\n\r" for each in controls)


def _is_public_text(text: bytes, lower: bytes) -> bool:
    has_body = any(word.startswith(b"AAAA") for word in text.split())
    return (
        text.startswith((b"{", b"[", *_SSH))
        or (has_body and any(begin in text for begin in _SSH))
        or lower.startswith((b"<", b"http/", b"http://", b"https://"))
        or any(part in lower for part in (b"<html", b"<!doctype", *_KTY))
        or _is_jwt(text)
    )


def _is_jwt(text: bytes) -> bool:
    parts = text.split(b".")
    return len(parts) in (3, 5) and (_of_line(parts[0]) or b"").startswith(b"{")


def _is_der(content: bytes) -> bool:
    """Whether it is one sequence (ITU-T X.690) of members that fill it exactly."""
    whole = _der_member(content)
    if whole is None:
        return False
    tag, rest, behind = whole
    if tag != 0x30 or not rest or behind:
        return False
    while rest:
        member = _der_member(rest)
        if member is None or member[0] not in _DER_MEMBERS:
            return False
        rest = member[2]
    return True


def _der_member(data: bytes) -> tuple[int, bytes, bytes] | None:
    """The tag and the content of the first member, and what comes behind it."""
    if len(data) < 2:
        return None
    tag, length, rest = data[0], data[1], data[2:]
    if length > 0x7F:
        digits = length & 0x7F
        if not 1 <= digits <= 4 or len(rest) < digits:
            return None
        length, rest = int.from_bytes(rest[:digits], "big"), rest[digits:]
    return None if len(rest) < length else (tag, rest[:length], rest[length:])


def _is_ssh(content: bytes) -> bool:
    """Whether it is an SSH public key as SSH sends it."""
    end = 4 + int.from_bytes(content[:4], "big")
    return len(content) >= end and content[4:end].startswith(_SSH)


def _is_point(content: bytes) -> bool:
    """Whether it has the form of an uncompressed point of an elliptic curve."""
    return len(content) in _POINT_BYTES and content[0] == 4


def _of_line(content: bytes) -> bytes | None:
    """What one line of hexadecimal digits or base64 encodes. Padding is read at its end only."""
    line = content.strip(_SPACE)
    return None if b"=" in line.rstrip(b"=") else _decoded(line)


def _decoded(text: bytes) -> bytes | None:
    """The same of texts that may have padding between them."""
    # Hexadecimal digits are letters of base64, too: a line of them that was cut short is none.
    if _HEX.issuperset(text):
        return binascii.unhexlify(text) if len(text) % 2 == 0 else None
    if not _STANDARD.isdisjoint(text) and not _URL_SAFE.isdisjoint(text):
        return None
    digits = text.translate(_TO_STANDARD)
    if b"=" not in digits:
        digits += b"=" * (-len(digits) % 4)
    data = b""
    for part in re.findall(rb"[^=]+=*|=+", digits):
        try:
            decoded = base64.b64decode(part, validate=True)
        except binascii.Error:
            return None
        if base64.b64encode(decoded) != part:
            return None
        data += decoded
    return data
