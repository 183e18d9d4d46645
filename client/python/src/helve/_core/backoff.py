"""How long to wait before the next try."""

from __future__ import annotations

import random


class Backoff:
    """Pauses that double up to a bound, each drawn from its upper half.

    The draw spreads out callers that collided once.
    """

    def __init__(self, first: float, maximum: float) -> None:
        self._next = max(first, 0.001)
        self._max = max(maximum, self._next)

    def next(self) -> float:
        """The next pause, in seconds."""
        half = self._next / 2
        self._next = min(self._next * 2, self._max)
        return half + half * random.random()
