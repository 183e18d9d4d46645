"""The text of JSON that has one form for one value, in whatever language it is written.

It is that of RFC 8785 but for two rules: members are in the order of the code points of their
names, and an integer of 64 bits keeps all its digits.
"""

from __future__ import annotations

import json
from typing import Any

#: Digits in front of the point up to which a number has no exponent.
_WHOLE_DIGITS_MAX = 21
#: Zeros behind the point up to which a number has no exponent.
_ZEROS_MAX = 5


def ordered(value: Any) -> str:
    """The text of a value that `exact.encode` takes."""
    if isinstance(value, dict):
        names = sorted(value)
        return f"{{{','.join(f'{_plain(name)}:{ordered(value[name])}' for name in names)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(ordered, value))}]"
    return _number(value) if isinstance(value, float) else _plain(value)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """A double as ECMAScript writes it: 5.0 is 5, and 1e-05 is 0.00001.

    A whole one within 64 bits is the integer: other clients read it as that.
    """
    if value.is_integer() and -(2**63) <= value < 2**64:
        return str(int(value))
    sign = "-" if value < 0 else ""
    # Both languages have the shortest digits that name the double.
    mantissa, _, exponent = float.__repr__(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # Where the decimal point is, from the first digit.
    point = int(exponent or 0) + len(digits) - len(fraction)
    if len(digits) <= point <= _WHOLE_DIGITS_MAX:
        return f"{sign}{digits.ljust(point, '0')}"
    if 0 < point <= _WHOLE_DIGITS_MAX:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -_ZEROS_MAX <= point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    behind = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{behind}e{point - 1:+d}"
