"""What one call of a plug writes, in parts that a cluster takes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..errors import Reason, refused
from .exact import encode

T = TypeVar("T")

#: Writes of a part; a cluster takes 128.
COUNT = 128
#: Bytes of the values of a part; a cluster takes 4 MiB, names included.
BYTES = 3 << 20
#: Bytes of a value; a cluster takes no more.
VALUE_BYTES_MAX = 1 << 20


def batches(items: Iterable[T], size_of: Callable[[T], int]) -> list[list[T]]:
    """The items in order, in parts of at most `COUNT` and `BYTES`.

    `size_of` answers the bytes of an item's value. All are measured before the first part is there
    to write. Raises InvalidError (TOO_LARGE) if a value is larger than a cluster takes, and what
    `size_of` raises.
    """
    parts: list[list[T]] = []
    left = 0
    for item in items:
        size = size_of(item)
        if size > VALUE_BYTES_MAX:
            message = f"a value has {size} bytes, and {VALUE_BYTES_MAX} are allowed"
            raise refused(Reason.TOO_LARGE, f"{message}. Nothing was written")
        if not parts or len(parts[-1]) == COUNT or size > left:
            parts.append([])
            left = BYTES
        parts[-1].append(item)
        left -= size
    return parts


def json_bytes(value: Any) -> int:
    """The bytes of a value as JSON. Raises CodecError for what would not come back as it is."""
    return len(encode(value))
