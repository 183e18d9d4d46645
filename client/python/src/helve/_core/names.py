"""Names of collections and keys as one key of Helve."""

from __future__ import annotations

import hashlib
from urllib.parse import quote, unquote

_COLLECTION_BYTES_MAX = 256
_KEY_BYTES_MAX = 1024
_READABLE = " !#$&'()+,;=@[]:"


def space(prefix: str, collection: str) -> str:
    """What the keys of a collection begin with; of a long name, its SHA-256 behind a `*`."""
    quoted = quote(collection, safe=_READABLE)
    if len(quoted) > _COLLECTION_BYTES_MAX or not quoted:
        quoted = f"*{hashlib.sha256(collection.encode()).hexdigest()}"
    return f"{prefix}{quoted}/"


def digest(text: str) -> str:
    """A part of a key, of 32 characters, that any text can be."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def collection(quoted: str) -> str:
    """The collection's name that is quoted in a key."""
    return unquote(quoted)


def name(prefix: str, collection: str, key: str) -> str:
    """The key of Helve for a key of a collection; for what is no such key, its SHA-256."""
    begin = space(prefix, collection)
    size = len(begin.encode()) + len(key.encode())
    if size > _KEY_BYTES_MAX or not key or "\0" in key or key.startswith("*"):
        return f"{begin}*{hashlib.sha256(key.encode()).hexdigest()}"
    return begin + key


def is_hashed(prefix: str, name: str) -> bool:
    """Whether a name is not readable in its key, so that the value holds it."""
    quoted, _, key = name[len(prefix) :].partition("/")
    return quoted.startswith("*") or key.startswith("*")
