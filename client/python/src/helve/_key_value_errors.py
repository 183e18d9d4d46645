"""What the client says, in the error classes of py-key-value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import SupportsFloat

from .errors import CodecError, HelveError, Reason
from .ttl import Lifetime, Ttl, millis

try:
    from key_value.aio import errors as kv
except ImportError:  # py-key-value-aio 0.3.
    from key_value.shared import errors as kv

__all__ = ["is_too_large", "kv", "lifetime_of", "told"]

_VALUE_BYTES_MAX = 1 << 20


@contextmanager
def told(collection: str | None, key: str | None) -> Iterator[None]:
    """Says what the client says in the classes of py-key-value."""
    try:
        yield
    except CodecError as error:
        if "stored value" in error.message:
            raise kv.DeserializationError(error.message) from error
        raise kv.SerializationError(error.message) from error
    except HelveError as error:
        if is_too_large(error):
            raise _too_large(error, collection, key) from error
        if error.reason is Reason.BAD_KEY:
            raise kv.InvalidKeyError(error.message) from error
        raise kv.StoreConnectionError(f"{error.message} {error.advice}") from error


def is_too_large(error: BaseException | None) -> bool:
    """Whether a request or its answer was over a limit."""
    return isinstance(error, HelveError) and error.reason is Reason.TOO_LARGE


def _too_large(error: HelveError, collection: str | None, key: str | None) -> Exception:
    if not hasattr(kv, "ValueTooLargeError"):  # py-key-value-aio 0.3.
        return kv.KeyValueOperationError(error.message)  # type: ignore[no-any-return]
    most = _VALUE_BYTES_MAX
    return kv.ValueTooLargeError(  # type: ignore[no-any-return]
        size=most + 1, max_size=most, collection=collection, key=key
    )


def lifetime_of(ttl: SupportsFloat | None) -> Lifetime:
    """A `ttl` of py-key-value, in seconds."""
    if ttl is None:
        return Ttl.DEFAULT
    try:
        if isinstance(ttl, (bool, str)):
            raise TypeError
        seconds = float(ttl)
        millis(seconds)
    except (TypeError, ValueError, HelveError) as error:
        raise kv.InvalidTTLError(ttl=ttl) from error
    return seconds
