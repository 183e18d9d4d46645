"""Stores for servers on the official MCP SDK (`mcp` 1.30 and 2.x), and on FastMCP.

Needs `pip install 'helve[mcp]'`.
"""

from __future__ import annotations

import logging
from typing import Any

from mcp.server.streamable_http import EventCallback, EventMessage
from mcp.server.streamable_http import EventStore as SdkEventStore
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import TypeAdapter

from ._async.client import AsyncClient
from ._core.identity import entropy
from ._core.names import digest
from .errors import HelveError
from .owner import SHARED, Owner
from .records import Record
from .ttl import Span

try:
    from mcp_types import JSONRPCMessage
except ImportError:  # mcp 1.x.
    from mcp.types import JSONRPCMessage  # type: ignore[no-redef,attr-defined]

_MESSAGE: TypeAdapter[Any] = TypeAdapter(JSONRPCMessage)
_LOG = logging.getLogger("helve")


class EventStore(SdkEventStore):
    """Keeps the events of streams, so that clients that reconnect get what they missed.

    It loses no event, however many replicas write to one stream: each event is a record of its
    own, and the order of the stream is that in which the cluster wrote them. An event whose answer
    is lost is written once. A client may reconnect to another replica.

    The SDK names a stream by its request alone, so sessions that share a store share streams. Give
    each session a store of its own by `scoped`; FastMCP does that by itself. Ids of events hold
    128 random bits, and tell nothing to a client that was not sent them.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        owner: Owner = SHARED,
        prefix: str = "events/",
        ttl: Span = 3600,
        max_events_per_stream: int = 1000,
    ) -> None:
        """An event lives for `ttl`, or until its stream has `max_events_per_stream` newer ones.

        Older ones are deleted now and then, so a stream may have a few more for a while.
        """
        if max_events_per_stream < 1:
            raise ValueError("max_events_per_stream must be at least 1")
        self._keys = client.keys(owner=owner)
        self._prefix = prefix
        self._ttl = ttl
        self._max = max_events_per_stream
        self._stored: dict[str, int] = {}

    def scoped(self, session: str) -> EventStore:
        """The same store for the streams of one session."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._prefix = f"{self._prefix}{digest(session)}/"
        other._stored = {}
        return other

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Keeps an event, and answers its id. `message` is None for an event that primes."""
        stream, number = digest(stream_id), entropy(16).hex()
        value = {"stream": stream_id, "message": None if message is None else _plain(message)}
        await self._keys.put(f"{self._prefix}{stream}/{number}", value, self._ttl)
        await self._trim(stream)
        return f"{stream}.{number}"

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Sends the events of a stream behind one of them; answers the stream, or None."""
        stream, _, number = last_event_id.partition(".")
        if not (_is_hex(stream) and _is_hex(number)):
            return None
        space = f"{self._prefix}{stream}/"
        last = await self._keys.get_record(f"{space}{number}")
        if last is None:
            return None
        for record in await self._following(space, last.revision):
            message = record.value["message"]
            if message is not None:
                event_id = f"{stream}.{record.name[len(space) :]}"
                await send_callback(EventMessage(_MESSAGE.validate_python(message), event_id))
        return str(last.value["stream"])

    async def _following(self, space: str, revision: int) -> list[Record[Any]]:
        """The events behind a revision, in order.

        A later page is of a newer view, and may hold an event that follows one which an earlier
        page missed. So the view of the first page bounds all: else the missed one would never be
        sent.
        """
        found: list[Record[Any]] = []
        page = await self._keys.list_values_page(space)
        until = page.revision
        while True:
            found += [each for each in page.items if revision < each.revision <= until]
            if page.next is None:
                return sorted(found, key=lambda record: record.revision)
            page = await self._keys.list_values_page(space, page.next)

    async def _trim(self, stream: str) -> None:
        """Deletes what is beyond the bound, each time an eighth of it was stored here."""
        count = self._stored[stream] = self._stored.get(stream, 0) + 1
        if count % max(self._max // 8, 1):
            return
        if len(self._stored) > 10_000:
            # Streams end without a word.
            self._stored.clear()
        try:
            listing = await self._keys.list(f"{self._prefix}{stream}/")
            old = sorted(listing.items, key=lambda info: info.revision)[: -self._max]
            for info in old:
                await self._keys.delete(info.name)
        except HelveError as error:
            # The event is stored, and its id must reach the caller. What is left over expires, or
            # is deleted the next time.
            _LOG.warning("old events of a stream are not deleted now: %s", error)


class TokenStorage:
    """Keeps what an OAuth client of one server was given, so that every replica logs in as one.

    It is the `storage` of `OAuthClientProvider`. Tokens are values like any other: have the
    cluster seal values at rest, and name the end user whose they are as `owner`.
    """

    def __init__(
        self, client: AsyncClient, server_url: str, *, owner: Owner, prefix: str = "oauth/"
    ) -> None:
        """Storages of one owner, prefix and server are one."""
        self._keys = client.keys(owner=owner)
        self._place = f"{prefix}{digest(server_url)}/"

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, if there are any."""
        found = await self._keys.get(f"{self._place}tokens")
        return None if found is None else OAuthToken.model_validate(found)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keeps tokens; the last ones count."""
        await self._keys.put(f"{self._place}tokens", _plain(tokens))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client's registration, if there is one."""
        found = await self._keys.get(f"{self._place}client")
        return None if found is None else OAuthClientInformationFull.model_validate(found)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keeps the client's registration."""
        await self._keys.put(f"{self._place}client", _plain(client_info))


def _plain(message: Any) -> Any:
    """A model as JSON; a message of mcp 1.x is wrapped in a model of its own."""
    return message.model_dump(mode="json", by_alias=True, exclude_none=True)


def _is_hex(text: str) -> bool:
    return len(text) == 32 and all(character in "0123456789abcdef" for character in text)
