"""Guards: locks in the cluster that expire, so that a dead holder blocks no one for long."""

from __future__ import annotations

import time
from typing import Any

from .._core import limits
from .._core.backoff import Backoff
from .._core.identity import entropy
from ..errors import AmbiguousError, ConflictError
from ..records import Conflict
from ..ttl import Span
from . import io
from .keys import AsyncKeys


class AsyncGuards:
    """Locks under keys: at most one caller holds the guard of a key.

    A guard ends when its holder lets go, or when its time is over on the cluster's clock. So the
    death of a holder delays the others, and never stops them. A holder that was suspended for
    longer than its guard lives does not know that it lost it: what it guards must be written on a
    condition, on the revision that it read under the guard, or on the guard's `fence`.
    """

    def __init__(self, keys: AsyncKeys[Any]) -> None:
        """Is made by `AsyncClient.guards`."""
        self._keys = keys

    async def try_acquire(self, key: str, ttl: Span) -> AsyncGuard | None:
        """The guard of this key, if no one holds it. It is given up after `ttl`.

        Raises AmbiguousError only if not even a read says who holds it; then it may be held by
        no one until `ttl` has passed.
        """
        holder = entropy(16).hex()
        try:
            outcome = await self._keys.put_if(key, holder, 0, ttl)
        except AmbiguousError:
            found = await self._keys.get_record(key)
            # Never written, or lapsed already: either way it is not held by this call.
            if found is None or found.value != holder:
                return None
            return AsyncGuard(self._keys, key, found.revision)
        if isinstance(outcome, Conflict):
            return None
        return AsyncGuard(self._keys, key, outcome.info.revision)

    async def acquire(self, key: str, ttl: Span, patience: float) -> AsyncGuard:
        """The guard of this key, as soon as no one else holds it, within `patience` seconds.

        Waiting costs reads, no writes. Raises ConflictError if others held it all the time.
        """
        until = time.monotonic() + min(patience, limits.DEADLINE_MAX)
        backoff = Backoff(limits.GUARD_FIRST, limits.GUARD_MAX)
        while True:
            guard = await self.try_acquire(key, ttl)
            if guard is not None:
                return guard
            while True:
                if time.monotonic() >= until:
                    raise ConflictError("others held the guard all the time: try again")
                await io.sleep(backoff.next())
                if not await self._keys.exists(key):
                    break


class AsyncGuard:
    """A lock held. As a context manager it is let go at the end of the block."""

    def __init__(self, keys: AsyncKeys[Any], key: str, fence: int) -> None:
        self._keys = keys
        self._is_released = False
        self.key = key
        #: The revision of the guard's key, higher than that of all holders before. As long as the
        #: key has it, the guard is held: a transaction can say so in a condition. After `helve
        #: restore`, or a `helve recover` that lost entries, revisions are given again.
        self.fence = fence

    async def release(self) -> bool:
        """Lets go. False: it was lost before, and another may have held it in the meantime.

        If it raises, the guard lapses by itself.
        """
        self._is_released = True
        return await self._keys.delete_if(self.key, self.fence)

    async def __aenter__(self) -> AsyncGuard:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._is_released:
            await self.release()
