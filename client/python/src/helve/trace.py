"""In which span of the caller's calls are made: `traceparent` of W3C Trace Context.

The client records no spans by itself. It tells nodes which span is around a call, and a node that
exports traces continues it if it is sampled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

#: Characters of a value of version 00, with which those of later versions begin.
_CHARACTERS = 55
_FORM = re.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

_current: ContextVar[str | None] = ContextVar("helve_traceparent", default=None)


@contextmanager
def within_trace(traceparent: str | None) -> Iterator[None]:
    """Makes the calls of its block in this span of yours.

    `traceparent` is the header of the request that you answer, or what your exporter says of its
    current span. A value that is malformed, or None, changes nothing: calls go on as without it. It
    holds for this thread or task, and for the tasks that it starts, and is sent with each try. No
    `tracestate` is sent.

        with within_trace(request.headers.get("traceparent")):
            cart = await carts.get(name)
    """
    parent = parsed(traceparent)
    if parent is None:
        yield
        return
    before = _current.set(parent)
    try:
        yield
    finally:
        # A generator may be closed in another task, which has a value of its own.
        with suppress(ValueError):
            _current.reset(before)


def parsed(text: str | None) -> str | None:
    """The value, rewritten as version 00; None if it is malformed."""
    if not isinstance(text, str):
        return None
    found = _FORM.fullmatch(text[:_CHARACTERS])
    if found is None:
        return None
    version, trace_id, span_id, flags = found.groups()
    rest = text[_CHARACTERS : _CHARACTERS + 1]
    # A later version may have more fields, and FF is none.
    is_known = rest == "" if version == "00" else version != "ff" and rest in ("", "-")
    # Zeros name nothing.
    if not is_known or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return f"00-{trace_id}-{span_id}-{int(flags, 16) & 1:02x}"


def metadata() -> tuple[tuple[str, str], ...]:
    """What a call that is made here says of its span."""
    parent = _current.get()
    return () if parent is None else (("traceparent", parent),)
