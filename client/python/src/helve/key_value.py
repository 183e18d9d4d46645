"""A store for py-key-value (`AsyncKeyValue`): for FastMCP, and whatever else takes one.

Needs `pip install 'helve[key-value]'`. It works with py-key-value-aio 0.3 to 0.5, by its shape
and its error classes.

Names are kept readable: the value under `key` of a collection is under the key
`kv/COLLECTION/KEY` of Helve, as the JSON object that it is. A name that is too long, or that holds
NUL, is replaced by its SHA-256 behind a `*`; its value is then wrapped, with the names it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsFloat

from ._async.client import AsyncClient
from ._core import names
from ._core.batches import COUNT, batches, json_bytes
from ._key_value_errors import is_too_large, kv, lifetime_of, told
from .owner import SHARED, Owner
from .records import Conflict, Record
from .ttl import Span, Ttl

_PAGE = 500


class HelveStore:
    """Keeps dictionaries in collections on a cluster.

    Beyond the protocol it has what a plain key-value store lacks: `put_if_absent`, compare-and-swap
    (`get_record`, `put_if`), `update` and `take`. Errors are those of `key_value.aio.errors`, with
    the client's own as their cause: its `kind` and `maybe_done` say more.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        owner: Owner = SHARED,
        prefix: str = "kv/",
        default_collection: str = "default_collection",
        default_ttl: Span | None = None,
        idle_ttl: Span | None = None,
    ) -> None:
        """Stores of one owner and prefix are one store, whichever replica they are in.

        `default_ttl` is for what is put without a `ttl`; `idle_ttl` ends what is neither read nor
        written for so long. Without them values live for ever.
        """
        self._client = client
        self._keys = client.keys(owner=owner, default_ttl=default_ttl, idle_ttl=idle_ttl)
        self._prefix = prefix
        self.default_collection = default_collection

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """The value under a key, or None."""
        found = await self.get_record(key, collection=collection)
        return None if found is None else found.value

    async def get_record(
        self, key: str, *, collection: str | None = None
    ) -> Record[dict[str, Any]] | None:
        """The value with the revision that `put_if` compares, or None."""
        name = self._name(collection, key)
        with told(collection, key):
            found = await self._keys.get_record(name)
        return None if found is None else self._unwrapped(found)

    async def ttl(
        self, key: str, *, collection: str | None = None
    ) -> tuple[dict[str, Any] | None, float | None]:
        """The value and the seconds that it has to live, or None for either."""
        found = await self.get_record(key, collection=collection)
        return self._with_ttl(found)

    async def put(
        self,
        key: str,
        value: Mapping[str, Any],
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> None:
        """Stores a value."""
        name, lifetime = self._name(collection, key), lifetime_of(ttl)
        with told(collection, key):
            await self._keys.put(name, self._wrapped(name, collection, key, value), lifetime)

    async def put_if(
        self,
        key: str,
        value: Mapping[str, Any],
        revision: int,
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> bool:
        """Stores a value if the key's revision is `revision`; 0: if there is no such key."""
        name, lifetime = self._name(collection, key), lifetime_of(ttl)
        if ttl is None and revision:
            lifetime = Ttl.KEEP
        with told(collection, key):
            wrapped = self._wrapped(name, collection, key, value)
            outcome = await self._keys.put_if(name, wrapped, revision, lifetime)
        return not isinstance(outcome, Conflict)

    async def put_if_absent(
        self,
        key: str,
        value: Mapping[str, Any],
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> bool:
        """Stores a value if there is no such key; true if it did."""
        return await self.put_if(key, value, 0, collection=collection, ttl=ttl)

    async def update(
        self,
        key: str,
        change: Callable[[dict[str, Any] | None], Mapping[str, Any]],
        *,
        collection: str | None = None,
    ) -> dict[str, Any]:
        """Changes a value, and loses no other caller's change.

        `change` is given what is there or None; it may be called several times, and must do
        nothing but compute. A key that exists keeps its lifetime.
        """
        name = self._name(collection, key)

        def wrapped(found: Any) -> Any:
            changed = change(None if found is None else self._value_of(name, found))
            return self._wrapped(name, collection, key, changed)

        with told(collection, key):
            record = await self._keys.update(name, wrapped)
        return self._value_of(name, record.value)

    async def take(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """Gets and deletes: of any number of callers one receives the value."""
        name = self._name(collection, key)
        with told(collection, key):
            found = await self._keys.take(name)
        return None if found is None else self._value_of(name, found.value)

    async def delete(self, key: str, *, collection: str | None = None) -> bool:
        """Deletes a key; true if there was one."""
        name = self._name(collection, key)
        with told(collection, key):
            return await self._keys.delete(name)

    async def get_many(
        self, keys: Sequence[str], *, collection: str | None = None
    ) -> list[dict[str, Any] | None]:
        """The values in the order asked for, or None for those that are not there."""
        found = await self._records(keys, collection)
        return [None if record is None else record.value for record in found]

    async def ttl_many(
        self, keys: Sequence[str], *, collection: str | None = None
    ) -> list[tuple[dict[str, Any] | None, float | None]]:
        """As `get_many`, each with the seconds that it has to live."""
        return [self._with_ttl(record) for record in await self._records(keys, collection)]

    async def put_many(
        self,
        keys: Sequence[str],
        values: Sequence[Mapping[str, Any]],
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> None:
        """Stores values: up to 128, of 3 MiB in all, together or not at all; more in steps.

        Nothing is stored if one of them is too large.
        """
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys, and {len(values)} values")
        lifetime = lifetime_of(ttl)
        items: dict[str, Any] = {}
        for key, value in zip(keys, values, strict=True):
            name = self._name(collection, key)
            items[name] = self._wrapped(name, collection, key, value)
        with told(collection, None):
            for part in batches(items, lambda name: json_bytes(items[name])):
                await self._keys.put_many({name: items[name] for name in part}, lifetime)

    async def delete_many(self, keys: Sequence[str], *, collection: str | None = None) -> int:
        """Deletes keys, and answers how many there were: up to 128 together, more in steps."""
        names = list(dict.fromkeys(self._name(collection, key) for key in keys))
        return await self._delete_names(names, collection)

    async def keys(self, collection: str | None = None, *, limit: int | None = None) -> list[str]:
        """The keys of a collection, at most `limit`."""
        space = self._space(collection or self.default_collection)
        found: list[str] = []
        after: str | None = None
        while limit is None or len(found) < limit:
            with told(collection, None):
                page = await self._keys.list_page(space, after, _PAGE)
            for info in page.items:
                found.append(await self._key_of(info.name, space))
            after = page.next
            if after is None:
                break
        return found[:limit]

    async def collections(self, *, limit: int | None = None) -> list[str]:
        """The collections that hold something, at most `limit`."""
        found: list[str] = []
        after: str | None = None
        while limit is None or len(found) < limit:
            with told(None, None):
                page = await self._keys.list_page(self._prefix, after, 1)
            if not page.items:
                break
            name = page.items[0].name
            space = name[len(self._prefix) :].partition("/")[0]
            found.append(await self._collection_of(name, space))
            # "0" is the character behind "/": all of the collection lies before it.
            after = f"{self._prefix}{space}0"
        return found

    async def cull(self) -> None:
        """Does nothing: the cluster removes what has expired by itself, and never serves it."""

    async def destroy_collection(self, collection: str) -> bool:
        """Deletes all keys of a collection; true if there were any."""
        return await self._destroy(self._space(collection))

    async def destroy(self) -> bool:
        """Deletes all keys of all collections; true if there were any."""
        return await self._destroy(self._prefix)

    async def setup(self) -> None:
        """Does nothing: there is nothing to set up."""

    async def close(self) -> None:
        """Ends this store; the client goes on."""
        self._keys.close()

    async def __aenter__(self) -> HelveStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Names.

    def _space(self, collection: str) -> str:
        return names.space(self._prefix, collection)

    def _name(self, collection: str | None, key: str) -> str:
        try:
            return names.name(self._prefix, collection or self.default_collection, key)
        except UnicodeEncodeError as error:
            raise kv.InvalidKeyError(f"{key!r} is no text: {error}") from error

    def _is_wrapped(self, name: str) -> bool:
        return names.is_hashed(self._prefix, name)

    async def _key_of(self, name: str, space: str) -> str:
        if not self._is_wrapped(name):
            return name[len(space) :]
        found = await self._keys.get(name)
        return name[len(space) :] if found is None else str(found["key"])

    async def _collection_of(self, name: str, space: str) -> str:
        if not space.startswith("*"):
            return names.collection(space)
        found = await self._keys.get(name)
        return space if found is None else str(found["collection"])

    # Values.

    def _wrapped(
        self, name: str, collection: str | None, key: str, value: Mapping[str, Any]
    ) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise kv.SerializationError(f"a value is a mapping, not {type(value).__name__}")
        plain = dict(value)
        if not self._is_wrapped(name):
            return plain
        return {"collection": collection or self.default_collection, "key": key, "value": plain}

    def _value_of(self, name: str, stored: Any) -> dict[str, Any]:
        value = stored["value"] if self._is_wrapped(name) else stored
        if not isinstance(value, dict):
            raise kv.DeserializationError(f"{name!r} holds no object: another client wrote it")
        return value

    def _unwrapped(self, found: Record[Any]) -> Record[dict[str, Any]]:
        return Record(found.info, self._value_of(found.name, found.value))

    def _with_ttl(
        self, found: Record[dict[str, Any]] | None
    ) -> tuple[dict[str, Any] | None, float | None]:
        if found is None:
            return None, None
        ends = found.info.ends_at_ms
        left = None if ends is None else max(ends - self._client.clock_ms(), 0) / 1000
        return found.value, left

    # Calls.

    async def _records(
        self, keys: Sequence[str], collection: str | None
    ) -> list[Record[dict[str, Any]] | None]:
        names = [self._name(collection, key) for key in keys]
        found: list[Record[dict[str, Any]] | None] = []
        size = COUNT
        while len(found) < len(names):
            part = names[len(found) : len(found) + size]
            try:
                with told(collection, None):
                    records = await self._keys.get_many(part)
            except kv.KeyValueOperationError as error:
                if size == 1 or not is_too_large(error.__cause__):
                    raise
                # Large values: fewer fit one reply.
                size = max(size // 4, 1)
                continue
            found += [None if record is None else self._unwrapped(record) for record in records]
        return found

    async def _delete_names(self, names: list[str], collection: str | None = None) -> int:
        deleted = 0
        for at in range(0, len(names), COUNT):
            transaction = self._client.transaction()
            tickets = [transaction.delete_key(self._keys, name) for name in names[at : at + COUNT]]
            with told(collection, None):
                outcome = await transaction.commit()
            deleted += sum(outcome.existed(ticket) for ticket in tickets)  # type: ignore[union-attr]
        return deleted

    async def _destroy(self, prefix: str) -> bool:
        deleted = 0
        while True:
            with told(None, None):
                page = await self._keys.list_page(prefix, None, _PAGE)
            if not page.items:
                return deleted > 0
            deleted += await self._delete_names([info.name for info in page.items])
