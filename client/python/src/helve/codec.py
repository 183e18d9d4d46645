"""How values become bytes, and bytes become values again.

A store keeps bytes alone, and does not know what wrote them: all that use a store of one name must
use one codec, clients in other languages included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from ._core import exact
from .errors import CodecError

T = TypeVar("T")


class Codec(Protocol[T]):
    """How values of one type are kept. Both methods raise CodecError for what they cannot do."""

    def encode(self, value: T) -> bytes:
        """The bytes that a value is kept as: at most 1 MiB."""
        ...

    def decode(self, data: bytes) -> T:
        """The value that is kept as these bytes."""
        ...


class Json:
    """Values as JSON (RFC 8259): what a store does if not told otherwise.

    A value comes back as it was stored, or is refused: integers of more than 64 bits, names that
    are no text, NaN, lone surrogates, and more than 100 levels within each other are refused. A
    tuple comes back as a list.
    """

    def encode(self, value: Any) -> bytes:
        return exact.encode(value)

    def decode(self, data: bytes) -> Any:
        return exact.decode(data)


class Raw:
    """Bytes as they are."""

    def encode(self, value: bytes) -> bytes:
        return bytes(value)

    def decode(self, data: bytes) -> bytes:
        return data


class Mapped(Generic[T]):
    """Values of a class of your own, as JSON: `to_json` and `of_json` go between the two.

    Of pydantic: `Mapped(lambda cart: cart.model_dump(mode="json"), Cart.model_validate)`. What
    `of_json` raises as ValueError, TypeError or KeyError is answered as CodecError.
    """

    def __init__(self, to_json: Callable[[T], Any], of_json: Callable[[Any], T]) -> None:
        self._to_json = to_json
        self._of_json = of_json

    def encode(self, value: T) -> bytes:
        return exact.encode(self._to_json(value))

    def decode(self, data: bytes) -> T:
        value = exact.decode(data)
        try:
            return self._of_json(value)
        except (ValueError, TypeError, KeyError) as error:
            message = f"the stored value is not what this codec expects: {error}"
            raise CodecError(message) from error
