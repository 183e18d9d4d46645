"""Change events of servers on the official MCP SDK 2.x, for the clients of every replica.

Needs `pip install 'helve[mcp]'` with `mcp` 2.0 or newer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from ._async.client import AsyncClient
from ._async.watching import AsyncChanges
from ._core import names
from ._core.backoff import Backoff
from .errors import ClosedError, HelveError, WatchTooOldError
from .owner import SHARED, Owner
from .records import Listing, RecordInfo
from .ttl import Span
from .watch import ChangeKind, Watch

_LOG = logging.getLogger(__name__)
_LISTS: dict[str, ServerEvent] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}
_NAMES = {type(event): name for name, event in _LISTS.items()}
_UPDATED = "updated"
#: The key of an event about a whole list.
_WHOLE = "all"
#: Between two tries of a watch that failed, in seconds.
_PAUSES = (0.2, 5.0)
#: By how much a time of this process and one of the cluster may differ, in milliseconds.
_MARGIN_MS = 1000


class HelveSubscriptionBus:
    """The `SubscriptionBus` of servers in replicas: what one publishes, the clients of all hear.

    A listener hears each event that is published after `subscribe` returned, in the order of the
    cluster, whichever replicas and nodes die meanwhile. A replica that was cut off for long hears
    of all that changed meanwhile, once. Events are hints to read again: a first listener may also
    hear those of the second or two before it came.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        owner: Owner = SHARED,
        prefix: str = "subscriptions/",
        ttl: Span = 3600,
    ) -> None:
        """Buses of one owner and prefix are one. Give each server a prefix of its own.

        `ttl` is how long an event is kept for replicas that are cut off from the cluster. As long
        as there are listeners, the bus watches the cluster, in the event loop of the first one.
        """
        self._client = client
        self._keys = client.keys(owner=owner)
        self._watch = Watch.keys(prefix, owner=owner)
        self._prefix = prefix
        self._ttl = ttl
        # By a token: one function may listen twice.
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}
        self._following: asyncio.Task[None] | None = None

    async def publish(self, event: ServerEvent) -> None:
        """Tells an event to the listeners of all replicas, in the order of the cluster."""
        if isinstance(event, ResourceUpdated):
            name = names.name(self._prefix, _UPDATED, event.uri)
            await self._keys.put(name, event.uri, self._ttl)
        else:
            name = names.name(self._prefix, _NAMES[type(event)], _WHOLE)
            await self._keys.put(name, None, self._ttl)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Has a function called for each event; answers a function that ends that."""
        token = object()
        self._listeners[token] = listener
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().create_task(self._follow())

        def unsubscribe() -> None:
            self._listeners.pop(token, None)
            if not self._listeners and self._following is not None:
                self._following.cancel()
                self._following = None

        return unsubscribe

    async def _follow(self) -> None:
        """Tells the listeners what the cluster tells, for as long as there are any."""
        began, backoff = time.monotonic(), Backoff(*_PAUSES)
        revision: int | None = None
        is_behind = False
        while True:
            try:
                if is_behind:
                    revision = await self._since(revision or 0)
                    is_behind = False
                async with await self._client.watch(self._watch, after=revision) as changes:
                    if revision is None:
                        waited_ms = int((time.monotonic() - began) * 1000)
                        since_ms = self._client.clock_ms() - waited_ms - _MARGIN_MS
                        await self._between(since_ms, changes.revision)
                    revision, backoff = changes.revision, Backoff(*_PAUSES)
                    try:
                        await self._hear(changes)
                    finally:
                        revision = changes.revision
            except ClosedError:
                return
            except HelveError as error:
                is_behind = is_behind or isinstance(error, WatchTooOldError)
                _LOG.warning("changes are not heard of now, and will be later: %s", error)
            await asyncio.sleep(backoff.next())

    async def _hear(self, changes: AsyncChanges) -> None:
        async for change in changes:
            if change.kind is ChangeKind.PUT:
                await self._tell(change.name)

    async def _between(self, since_ms: int, revision: int) -> None:
        """Tells what was published since the first listener came, and before the watch."""
        for info in (await self._published()).items:
            if info.updated_at_ms >= since_ms and info.revision <= revision:
                await self._tell(info.name)

    async def _since(self, revision: int) -> int:
        """Tells what was published after a revision that no node goes on from."""
        listing = await self._published()
        for info in listing.items:
            if info.revision > revision:
                await self._tell(info.name)
        return listing.revision

    async def _published(self) -> Listing[RecordInfo]:
        """The events that are kept, in the order of the cluster."""
        listing = await self._keys.list(self._prefix)
        items = sorted(listing.items, key=lambda info: info.revision)
        return Listing(listing.revision, listing.clock_ms, tuple(items))

    async def _tell(self, name: str) -> None:
        event = await self._event(name)
        if event is None:
            return
        for listener in list(self._listeners.values()):
            try:
                listener(event)
            except Exception:
                _LOG.exception("a listener raised, and others go on")
        # Streams drain between the events of a burst.
        await asyncio.sleep(0)

    async def _event(self, name: str) -> ServerEvent | None:
        """The event that a key is about; None: of a newer version, or gone."""
        kind, _, key = name[len(self._prefix) :].partition("/")
        if kind != _UPDATED:
            return _LISTS.get(kind)
        uri = await self._keys.get(name) if names.is_hashed(self._prefix, name) else key
        return None if uri is None else ResourceUpdated(uri)
