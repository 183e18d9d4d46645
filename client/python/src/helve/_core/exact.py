"""Whether JSON can be kept as it is: what a parser would change without a word is refused.

The rules are those of the Rust client, so that whatever one client stores the other reads: its
parser holds integers of 64 bits and doubles, and reads 127 levels. A fraction is the double that
it names, in its shortest form or with 17 digits: 0.10000000000000001 comes back as 0.1, and
9007199254740993.0, which no double is, is refused. An integer beyond 64 bits is refused where it
is stored, and read if a double is the same number: former versions stored such integers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ..errors import CodecError
from .limits import DEPTH_MAX

_SHOWN_CHARS_MAX = 48
#: Other numbers are integers of 64 bits, or have at most 15 digits, which a double holds.
_LONG_NUMBER = re.compile(r"[\d.]{17}|\d[eE]")
#: Characters of an integer beyond which no double is near it.
_DOUBLE_CHARS_MAX = 310


def encode(value: Any) -> bytes:
    """The value as JSON. Raises CodecError for what would not come back as it is."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = text.encode()
    except RecursionError as error:
        raise _depth() from error
    except (TypeError, ValueError) as error:
        raise CodecError(f"the value has no JSON form: {error}") from error
    read = _read(text, "the value", check_number)
    if read != value:
        # Equal but for tuples: then it only comes back as lists.
        _check_names(value)
    if text.count("[") + text.count("{") > DEPTH_MAX:
        check_depth(text)
    return data


def decode(data: bytes) -> Any:
    """The value of JSON, exactly. Raises CodecError for what a parser would change."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        message = f"the stored value is not the JSON that is expected: {error}"
        raise CodecError(message) from error
    return _read(text, "the stored value", check_stored_number)


def _read(text: str, what: str, check: Callable[[str], None]) -> Any:
    is_long = _LONG_NUMBER.search(text) is not None
    hooks: dict[str, Any] = {}
    if is_long:

        def integer(text: str) -> int:
            check(text)
            return int(text)

        def fraction(text: str) -> float:
            check(text)
            return float(text)

        hooks = {"parse_int": integer, "parse_float": fraction}
    try:
        value = json.loads(text, object_pairs_hook=_members, parse_constant=_constant, **hooks)
    except CodecError as error:
        raise CodecError(f"{what} would not come back as it is: {error.message}") from error
    except RecursionError as error:
        raise _depth() from error
    except ValueError as error:
        raise CodecError(f"{what} is not the JSON that is expected: {error}") from error
    if "\\ud" in text or "\\uD" in text:
        _check_surrogates(value, what)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        shown = twice[:_SHOWN_CHARS_MAX]
        raise CodecError(f"the name {shown!r} occurs twice in one object: leave one out")
    return members


def _constant(name: str) -> Any:
    raise CodecError(f"{name} is no JSON")


def check_number(text: str) -> None:
    """Raises CodecError for an integer beyond 64 bits, and for a number that no double holds."""
    if _is_integer(text) and not _fits(text):
        raise CodecError(
            f"the integer {text[:_SHOWN_CHARS_MAX]} does not fit 64 bits: "
            "write it as a string, or as a float if a double will do"
        )
    check_stored_number(text)


def check_stored_number(text: str) -> None:
    """Raises CodecError for a stored number that reading would change to another one."""
    if _is_integer(text):
        is_held = _fits(text) or (len(text) <= _DOUBLE_CHARS_MAX and _names_double(text))
    else:
        is_held = _names_double(text)
    if not is_held:
        raise CodecError(
            f"no double holds the number {text[:_SHOWN_CHARS_MAX]} exactly: write it as a string"
        )


def _is_integer(text: str) -> bool:
    return not any(mark in text for mark in ".eE")


def _fits(text: str) -> bool:
    """Whether an integer fits 64 bits."""
    return len(text) <= 20 and -(2**63) <= int(text) < 2**64


def _names_double(text: str) -> bool:
    """Whether the number is how a double is written: shortest, or with 17 digits.

    Other numbers near a double are not that double, though they may have fewer digits: the
    nearest double to 9007199254740993.0 is one less.
    """
    value = float(text)
    if not math.isfinite(value):
        return False
    if value == 0.0:
        # Of a zero the exponent may be beyond those of Decimal.
        return re.search("[1-9]", re.split("[eE]", text)[0]) is None
    return Decimal(text) in (Decimal(repr(value)), Decimal(f"{value:.16e}"))


def check_depth(text: str) -> None:
    """Raises CodecError for more levels of arrays and objects than every client reads."""
    depth, at = 0, 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text):
        mark = found.group()
        if mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1
        at = max(at, depth)
    if at > DEPTH_MAX:
        raise _depth()


def _depth() -> CodecError:
    return CodecError(f"arrays and objects lie more than {DEPTH_MAX} deep within each other")


def _check_names(value: Any) -> None:
    """Raises CodecError for a member whose name is no text: it would come back as text."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            for name in each:
                if not isinstance(name, str):
                    raise CodecError(f"the name {name!r} of a member is no text: make it one")
            pending.extend(each.values())
        elif isinstance(each, (list, tuple)):
            pending.extend(each)


def _check_surrogates(value: Any, what: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise CodecError(f"{what} is no JSON: it has a lone surrogate") from error
