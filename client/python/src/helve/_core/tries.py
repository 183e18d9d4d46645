"""The tries of one call: which node is next, after which pause, and what the end says."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from ..errors import (
    CLASSES,
    AmbiguousError,
    ErrorKind,
    HelveError,
    Reason,
    UnavailableError,
    closed,
)
from . import limits
from .backoff import Backoff
from .pool import L, Node, Pool
from .verdict import Effect, Health, Verdict, is_outcome


@dataclass(frozen=True)
class Pace:
    """How tries follow each other; times in seconds."""

    attempt_timeout: float = limits.ATTEMPT_TIMEOUT
    backoff_first: float = limits.BACKOFF_FIRST
    backoff_max: float = limits.BACKOFF_MAX
    #: None: as many as the deadline leaves time for.
    tries_max: int | None = None


class Tries(Generic[L]):
    """Goes from node to node until a call is answered, refused, or out of time.

    It makes no call itself. Its owner asks `timeout` before each try, and tells `failed` after one
    without an answer.
    """

    def __init__(
        self,
        pool: Pool[L],
        until: float,
        pace: Pace,
        *,
        is_lasting: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._until = until
        self._pace = pace
        self._is_lasting = is_lasting
        self._attempt_timeout = pace.attempt_timeout
        self._backoff = Backoff(pace.backoff_first, pace.backoff_max)
        self._behind = Backoff(limits.BEHIND_FIRST, limits.BEHIND_MAX)
        self._useless: set[int] = set()
        self._tried = 0
        self._last: HelveError = UnavailableError("no time was left to send the call")
        #: Whether a try had no answer that says that it was not done.
        self.in_doubt = False
        #: The node for the next try.
        self.node: Node[L] = pool.preferred()

    def timeout(self) -> float:
        """How long the next try may take. Raises the error that ends the call, out of time."""
        left = self._until - self._clock()
        if left <= 0:
            raise self._gave_up("within the deadline")
        timeout = min(left, self._attempt_timeout)
        self._attempt_timeout *= 2
        self._tried += 1
        return timeout

    def failed(self, verdict: Verdict) -> float:
        """The pause before the next try, in seconds. Raises the error that ends the call."""
        self._last = verdict.error
        if verdict.effect is Effect.REFUSED:
            raise verdict.error if is_outcome(verdict.error) else self._unless_in_doubt()
        if verdict.effect is Effect.BARRED:
            raise self._unless_in_doubt()
        if verdict.effect is Effect.UNKNOWN:
            self.in_doubt = True
        if verdict.health is not Health.SOUND:
            self._pool.suspect(self.node)
        if self._pace.tries_max is not None and self._tried >= self._pace.tries_max:
            raise self._gave_up(f"in {self._tried} tries")
        if verdict.health is Health.USELESS:
            self._useless.add(self.node.index)
        following = self._pool.after(self.node, self._useless)
        if following is None:
            raise self._unless_in_doubt()
        pause = self._pause(verdict, following)
        self.node = following
        # One that is cut off would put in doubt what is certain so far: that nothing was done.
        least = limits.TRY_LEAST if self._is_lasting and not self.in_doubt else 0.0
        if pause + least >= self._until - self._clock():
            raise self._gave_up("within the deadline")
        return pause

    def closed(self) -> HelveError:
        """The error of a call whose client was closed meanwhile."""
        self._last = closed()
        return self._unless_in_doubt()

    def _pause(self, verdict: Verdict, following: Node[L]) -> float:
        if verdict.health is not Health.BEHIND:
            return max(self._backoff.next(), verdict.pause)
        # A proxy asks for a pause of its own, a node for one of the whole cluster.
        if following.index != self.node.index and not following.is_suspect:
            return self._behind.next()
        return max(self._behind.next(), verdict.pause)

    def _unless_in_doubt(self) -> HelveError:
        return self._ambiguous() if self.in_doubt and self._is_lasting else self._last

    def _gave_up(self, within: str) -> HelveError:
        if self.in_doubt and self._is_lasting:
            return self._ambiguous()
        last = self._last
        if last.kind is ErrorKind.OVERLOADED:
            return last
        return self._about(ErrorKind.UNAVAILABLE, f"no node answered {within}: {last.message}")

    def _ambiguous(self) -> HelveError:
        message = f"the call was sent, and its outcome is not known: {self._last.message}"
        return self._about(ErrorKind.AMBIGUOUS, message)

    def _about(self, kind: ErrorKind, message: str) -> HelveError:
        """An error that says what the last try came to."""
        made = CLASSES[kind]
        return made(
            message,
            reason=Reason.AMBIGUOUS if made is AmbiguousError else self._last.reason,
            address=self._last.address,
            is_unconnected=self._last.is_unconnected,
        )
