"""Calls that take several steps, each within the deadline of the whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .._core.backoff import Backoff
from ..errors import AmbiguousError, ConflictError, UnavailableError
from . import io


async def within(until: float, step: Callable[[], Any], *, is_writing: bool) -> Any:
    """What the step answers, if it does so in time."""

    def late() -> Exception:
        if is_writing:
            return AmbiguousError("the deadline ended while writing")
        return UnavailableError("the deadline ended while reading")

    return await io.within(until - time.monotonic(), step, late)


async def pause(until: float, backoff: Backoff, revision: int) -> None:
    """Waits before the next round, because others wrote first and left this revision."""
    length = backoff.next()
    if length >= until - time.monotonic():
        message = (
            "others wrote first until the deadline ended: try again, with fewer writers at once"
        )
        raise ConflictError(message, revision=revision)
    await io.sleep(length)
