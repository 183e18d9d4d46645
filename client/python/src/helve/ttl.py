"""How long a record lives, as a caller says it."""

from __future__ import annotations

import math
from datetime import timedelta
from enum import Enum, auto
from typing import Union

from ._wire import messages as wire
from .errors import HelveError, Reason, refused


class Ttl(Enum):
    """A lifetime that is no time."""

    #: What the store's options say: their `default_ttl`, without one for ever.
    DEFAULT = auto()
    #: No deadline, whatever the options say. An idle time of the options still ends the record.
    NEVER = auto()
    #: The deadline and the idle time that the record has; the idle time starts again.
    KEEP = auto()


#: A time, as a timedelta or in seconds, or what `Ttl` names. It counts on the cluster's clock, in
#: whole milliseconds: a fraction counts as one more.
Lifetime = Union[Ttl, timedelta, int, float]
#: A time alone.
Span = Union[timedelta, int, float]

_MS_MAX = 2**64 - 1


def millis(span: Span) -> int:
    """Whole milliseconds, rounded up, so that a record never dies early.

    Raises InvalidError (BAD_LIFETIME) for zero, and for what does not fit 64 bits.
    """
    if isinstance(span, timedelta):
        ms = -(-(span // timedelta(microseconds=1)) // 1000)
    elif isinstance(span, bool) or not isinstance(span, (int, float)):
        raise _bad(f"{span!r} is no lifetime: give seconds, a timedelta or a Ttl")
    elif isinstance(span, int):
        ms = span * 1000
    elif not math.isfinite(span):
        raise _bad(f"a lifetime of {span} seconds: use Ttl.NEVER")
    else:
        # In whole nanoseconds first: 0.1 s are 100 ms, though the float is a little more.
        ms = -(-round(span * 1e9) // 1_000_000)
    if ms <= 0:
        raise _bad("a lifetime of zero: use Ttl.DEFAULT or Ttl.NEVER, or delete the record")
    if ms > _MS_MAX:
        raise _bad("a lifetime that does not fit 64 bits of milliseconds: use Ttl.NEVER")
    return ms


class Defaults:
    """What a store's options say of lifetimes. They are checked by the first write."""

    def __init__(self, ttl: Span | None, idle_ttl: Span | None) -> None:
        self._ttl = ttl
        self._idle_ttl = idle_ttl

    def lifetime(self, ttl: Lifetime) -> wire.Lifetime:
        """What goes to the cluster."""
        made = wire.Lifetime()
        if ttl is Ttl.KEEP:
            made.keep.SetInParent()
            return made
        if ttl is Ttl.NEVER or (ttl is Ttl.DEFAULT and self._ttl is None):
            made.never.SetInParent()
        else:
            span = self._ttl if ttl is Ttl.DEFAULT else ttl
            made.after_ms = millis(span)  # type: ignore[arg-type]
        if self._idle_ttl is not None:
            made.idle_ttl_ms = millis(self._idle_ttl)
        return made


def _bad(message: str) -> HelveError:
    return refused(Reason.BAD_LIFETIME, message)
