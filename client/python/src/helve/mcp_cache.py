"""Responses that clients of the official MCP SDK 2.x cached, for every replica.

Needs `pip install 'helve[mcp]'` with `mcp` 2.0 or newer.
"""

from __future__ import annotations

import time
from typing import Any

import mcp_types
from mcp.client.caching import CacheEntry, CacheKey

from ._async.client import AsyncClient
from ._core.names import digest
from .errors import CodecError
from .owner import SHARED, Owner

#: Records that are deleted together; a cluster takes 128 operations.
_BATCH = 128


class HelveResponseCacheStore:
    """The `store` of `CacheConfig`: what one replica fetched, another one has.

    The cluster removes entries when they go stale. A response is kept under its method, parameters
    and partition, of which two are never taken for each other.
    """

    def __init__(
        self, client: AsyncClient, *, owner: Owner = SHARED, prefix: str = "responses/"
    ) -> None:
        """Stores of one owner and prefix are one."""
        self._client = client
        self._keys = client.keys(owner=owner)
        self._prefix = prefix

    async def get(self, key: CacheKey) -> CacheEntry | None:
        """The entry under a key, or None."""
        found = await self._keys.get(self._name(key))
        if found is None:
            return None
        model = _model(found["type"])
        value = model.model_validate(found["value"], by_name=False)
        return CacheEntry(value, found["scope"], found["expires_at"])

    async def set(self, key: CacheKey, entry: CacheEntry) -> None:
        """Keeps an entry until it is stale. One that never is fresh is not kept."""
        left = 0.0 if entry.expires_at is None else entry.expires_at - time.time()
        if left <= 0:
            await self.delete(key)
            return
        name = type(entry.value).__name__
        if _model(name) is not type(entry.value):
            raise CodecError(f"a cached response of a type that is not of the SDK: {name}")
        value = {
            "type": name,
            "value": entry.value.model_dump(mode="json", by_alias=True, exclude_none=True),
            "scope": entry.scope,
            "expires_at": entry.expires_at,
        }
        await self._keys.put(self._name(key), value, left)

    async def delete(self, key: CacheKey) -> None:
        """Deletes an entry; it need not exist."""
        await self._keys.delete(self._name(key))

    async def clear(self) -> None:
        """Deletes all entries that are there."""
        while True:
            page = await self._keys.list_page(self._prefix, None, _BATCH)
            if not page.items:
                return
            transaction = self._client.transaction()
            for info in page.items:
                transaction.delete_key(self._keys, info.name)
            await transaction.commit()

    def _name(self, key: CacheKey) -> str:
        return self._prefix + "/".join(
            digest(part) for part in (key.partition, key.method, key.params_key)
        )


def _model(name: str) -> Any:
    """The SDK's model of this name. Raises CodecError if it is none of its results."""
    found = getattr(mcp_types, name, None)
    if not (isinstance(found, type) and issubclass(found, mcp_types.Result)):
        raise CodecError(f"a cached response of a type that is not of the SDK: {name}")
    return found
