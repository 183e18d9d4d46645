"""Names and keys of requests, by the rules of the nodes: what breaks one is refused unsent."""

from __future__ import annotations

import re

from ..errors import Reason, refused

_NAME_BYTES_MAX = 64
_OWNER_BYTES_MAX = 256
_ID_BYTES_MAX = 128
_KEY_BYTES_MAX = 1024
_NAME = re.compile(r"[a-z0-9_-]{1,64}")


def store(name: str) -> str:
    """The name of a store."""
    return _name("store", name)


def id_prefix(name: str) -> str:
    """What minted ids begin with; it may be empty."""
    return _name("id prefix", name) if name != "" else name


def owner(name: str) -> str:
    """An owner's name, which any text may be."""
    _check("owner", name, Reason.BAD_REQUEST, _OWNER_BYTES_MAX)
    return name


def handle_id(text: str) -> str:
    """The id of a handle, or the key of a claim."""
    _check("id", text, Reason.BAD_ID, _ID_BYTES_MAX)
    if not text or "\0" in text:
        raise refused(Reason.BAD_ID, "an id is not empty and has no NUL")
    return text


def key(text: str) -> str:
    """A key."""
    _check("key", text, Reason.BAD_KEY, _KEY_BYTES_MAX)
    if not text or "\0" in text:
        raise refused(Reason.BAD_KEY, "a key is not empty and has no NUL")
    return text


def key_prefix(text: str) -> str:
    """What keys begin with; it may be empty."""
    _check("key prefix", text, Reason.BAD_KEY, _KEY_BYTES_MAX)
    if "\0" in text:
        raise refused(Reason.BAD_KEY, "no key has a NUL in it")
    return text


def _name(what: str, name: object) -> str:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    message = f"the {what} is not 1 to {_NAME_BYTES_MAX} bytes of [a-z0-9_-]"
    raise refused(Reason.BAD_NAME, message)


def _check(what: str, text: object, reason: Reason, bytes_max: int) -> None:
    if not isinstance(text, str):
        raise refused(reason, f"the {what} is no text: it is of the type {type(text).__name__}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        message = f"the {what} has a lone surrogate, and UTF-8 has none"
        raise refused(reason, message) from error
    if size > bytes_max:
        message = f"the {what} has {size} bytes, and {bytes_max} are allowed"
        raise refused(Reason.TOO_LARGE, message)
