"""The identities of mutations: every retry of a call repeats one."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, insort

from .._wire import messages as wire
from ..errors import EntropyError


def entropy(count: int) -> bytes:
    """Random bytes. Raises EntropyError if the operating system has none."""
    try:
        return os.urandom(count)
    except NotImplementedError as error:
        raise EntropyError(f"the operating system gave no randomness: {error}") from error


class Session:
    """A replay session that the cluster has opened.

    It gives each mutation its number, and knows the lowest one that is still incomplete: the
    cluster forgets outcomes below it. Its methods may be called from several threads.
    """

    def __init__(self, session_id: bytes, window: int) -> None:
        self.id = session_id
        #: How far a number may run ahead of the lowest incomplete one.
        self.window = max(window, 1)
        self._lock = threading.Lock()
        self._next = 1
        self._incomplete: list[int] = []

    def begin(self) -> int | None:
        """The next number; none while the window has no room."""
        with self._lock:
            if self._next - self._first_incomplete() >= self.window:
                return None
            number = self._next
            self._next += 1
            insort(self._incomplete, number)
            return number

    def release(self, number: int) -> None:
        """Says that no caller waits for this number's outcome: the cluster may forget it."""
        with self._lock:
            del self._incomplete[bisect_left(self._incomplete, number)]

    def stamp(self, identity: wire.CallIdentity, number: int) -> None:
        """Writes the identity of the next try. Only the lowest incomplete number may differ."""
        with self._lock:
            first = self._first_incomplete()
        identity.session.session_id = self.id
        identity.session.seq = number
        identity.session.first_incomplete = first

    def _first_incomplete(self) -> int:
        return self._incomplete[0] if self._incomplete else self._next


class Clock:
    """The cluster's time, as replies tell it: request ids bear it."""

    def __init__(self) -> None:
        self._ahead_ms = 0.0

    def learn(self, clock_ms: int) -> None:
        """Takes over the time that a reply names."""
        self._ahead_ms = clock_ms - time.time() * 1000

    def request_id(self) -> bytes:
        """A UUIDv7 of now (RFC 9562, section 5.7)."""
        return uuid7(self.now_ms(), entropy(10))

    def now_ms(self) -> int:
        """The cluster's time, in milliseconds since the Unix epoch."""
        return max(0, int(time.time() * 1000 + self._ahead_ms))


def uuid7(time_ms: int, random: bytes) -> bytes:
    """A UUIDv7 of this time, with ten random bytes."""
    data = bytearray(time_ms.to_bytes(6, "big") + random)
    data[6] = 0x70 | (data[6] & 0x0F)
    data[8] = 0x80 | (data[8] & 0x3F)
    return bytes(data)
