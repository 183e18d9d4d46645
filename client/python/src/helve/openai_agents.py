"""Sessions of the OpenAI Agents SDK on a cluster.

Needs `pip install 'helve[openai-agents]'`.
"""

from __future__ import annotations

from typing import Any

from agents.memory import SessionABC
from agents.memory.session_settings import SessionSettings, resolve_session_limit

from ._async.client import AsyncClient
from ._core.batches import COUNT, batches, json_bytes
from ._core.identity import entropy
from ._core.names import digest
from .owner import SHARED, Owner
from .records import Record
from .ttl import Span


class HelveSession(SessionABC):
    """The history of one conversation, which any replica goes on with.

    Each item is a record of its own, so replicas that add at once lose nothing, and one item is
    popped by one caller. Up to 128 items of one call, of 3 MiB in all, are added together or not at
    all; more in steps. An item has at most 1 MiB as JSON: of a call with a larger one nothing is
    added.
    """

    def __init__(
        self,
        session_id: str,
        client: AsyncClient,
        *,
        owner: Owner = SHARED,
        ttl: Span | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Sessions of one id and owner are one. With `ttl` an item ends so long after its write."""
        self.session_id = session_id
        self.session_settings = session_settings
        self._client = client
        self._keys = client.keys(owner=owner, default_ttl=ttl)
        self._prefix = f"sessions/{digest(session_id)}/"

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The items in the order in which they were added; with a limit, the latest."""
        limit = resolve_session_limit(limit, self.session_settings)
        records = await self._records()
        items = [record.value for record in records]
        return items if limit is None else items[max(len(items) - limit, 0) :]

    async def add_items(self, items: list[Any]) -> None:
        """Adds items behind those that are there."""
        for part in batches(items, json_bytes):
            # Items of one batch have one revision: their numbers order them.
            batch = f"{self._prefix}{entropy(16).hex()}"
            await self._keys.put_many({f"{batch}/{n:03}": item for n, item in enumerate(part)})

    async def pop_item(self) -> Any | None:
        """Removes and answers the latest item; of any callers, one gets it."""
        while True:
            records = await self._records()
            if not records:
                return None
            if await self._keys.delete_if(records[-1].name, records[-1].revision):
                return records[-1].value

    async def clear_session(self) -> None:
        """Removes all items that are there."""
        names = [info.name for info in (await self._keys.list(self._prefix)).items]
        for at in range(0, len(names), COUNT):
            transaction = self._client.transaction()
            for name in names[at : at + COUNT]:
                transaction.delete_key(self._keys, name)
            await transaction.commit()

    async def _records(self) -> list[Record[Any]]:
        found = (await self._keys.list_values(self._prefix)).items
        return sorted(found, key=lambda record: (record.revision, record.name))
