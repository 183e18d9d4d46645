"""Several writes as one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .._core import limits, parts
from .._core.backoff import Backoff
from .._wire import messages as wire
from .._wire import methods
from ..errors import ConflictError, closed
from ..transacted import Committed, Ticket, Transacted, transacted
from ..ttl import Lifetime, Ttl
from .handles import AsyncHandleStore
from .keys import AsyncKeys
from .steps import pause, within

if TYPE_CHECKING:
    from .client import AsyncClient

T = TypeVar("T")
R = TypeVar("R")


class AsyncTransaction:
    """Writes to handles and keys that take effect together, at one revision, or not at all.

    At most 128, and 4 MiB; no handle and no key in two of them. Each method notes one write, and
    answers the ticket under which `Committed` has its reply. With `if_revision` the write holds
    only if the record's revision is this one; 0: if there is no such record.
    """

    def __init__(self, client: AsyncClient) -> None:
        """Is made by `AsyncClient.transaction`."""
        self._client = client
        self._request = wire.TransactRequest()
        self._stores: list[AsyncHandleStore[Any] | AsyncKeys[Any]] = []

    def mint(self, store: AsyncHandleStore[T], value: T, ttl: Lifetime = Ttl.DEFAULT) -> Ticket[T]:
        """Keeps a value under a new id: the name of the reply's info."""
        operation = wire.MintOperation(
            store=parts.store(store._store),
            owner=store._on_wire(),
            id_prefix=parts.id_prefix(store._id_prefix),
            value=store._codec.encode(value),
            lifetime=store._defaults.lifetime(ttl),
        )
        return self._note(store, "mint", operation)

    def put(
        self,
        store: AsyncHandleStore[T],
        id: str,
        value: T,
        ttl: Lifetime = Ttl.DEFAULT,
        *,
        if_revision: int | None = None,
    ) -> Ticket[T]:
        """Writes a value under an id. A handle that expired or was taken aborts the transaction."""
        operation = wire.PutOperation(
            store=parts.store(store._store),
            owner=store._on_wire(),
            id=parts.handle_id(id),
            value=store._codec.encode(value),
            lifetime=store._defaults.lifetime(ttl),
            if_revision=if_revision,
        )
        return self._note(store, "put", operation)

    def take(
        self, store: AsyncHandleStore[T], id: str, *, if_revision: int | None = None
    ) -> Ticket[T]:
        """Takes a handle; `Committed.taken` has its value. One that does not live aborts."""
        operation = wire.TakeOperation(
            store=parts.store(store._store),
            owner=store._on_wire(),
            id=parts.handle_id(id),
            if_revision=if_revision,
        )
        return self._note(store, "take", operation)

    def renew(
        self,
        store: AsyncHandleStore[T],
        id: str,
        ttl: Lifetime = Ttl.DEFAULT,
        *,
        if_revision: int | None = None,
    ) -> Ticket[T]:
        """Gives a handle a new lifetime. One that does not live aborts the transaction."""
        operation = wire.RenewOperation(
            store=parts.store(store._store),
            owner=store._on_wire(),
            id=parts.handle_id(id),
            lifetime=store._defaults.lifetime(ttl),
            if_revision=if_revision,
        )
        return self._note(store, "renew", operation)

    def delete(
        self, store: AsyncHandleStore[T], id: str, *, if_revision: int | None = None
    ) -> Ticket[T]:
        """Deletes a handle. One that does not live aborts the transaction."""
        operation = wire.DeleteOperation(
            store=parts.store(store._store),
            owner=store._on_wire(),
            id=parts.handle_id(id),
            if_revision=if_revision,
        )
        return self._note(store, "delete", operation)

    def put_key(
        self,
        keys: AsyncKeys[T],
        key: str,
        value: T,
        ttl: Lifetime = Ttl.DEFAULT,
        *,
        if_revision: int | None = None,
    ) -> Ticket[T]:
        """Stores a value under a key."""
        operation = wire.StoreOperation(
            owner=keys._on_wire(),
            key=parts.key(key),
            value=keys._codec.encode(value),
            lifetime=keys._defaults.lifetime(ttl),
            if_revision=if_revision,
        )
        return self._note(keys, "store", operation)

    def delete_key(
        self, keys: AsyncKeys[T], key: str, *, if_revision: int | None = None
    ) -> Ticket[T]:
        """Deletes a key; it need not exist."""
        operation = wire.DeleteKeyOperation(
            owner=keys._on_wire(), key=parts.key(key), if_revision=if_revision
        )
        return self._note(keys, "delete_key", operation)

    async def commit(self) -> Transacted:
        """Makes it so, all or nothing.

        Answers `Committed`, or `Aborted` if a handle does not live. Raises ConflictError, which
        names the operation, if an `if_revision` does not hold; ClosedError if one of the stores
        is closed; and those of every write.
        """
        if any(store._is_closed for store in self._stores):
            raise closed()
        reply = await self._client.call(methods.TRANSACT, self._request)
        return transacted(reply)

    def _note(
        self, store: AsyncHandleStore[T] | AsyncKeys[T], kind: str, operation: Any
    ) -> Ticket[T]:
        self._stores.append(store)
        self._request.operations.append(wire.Operation(**{kind: operation}))
        return Ticket(len(self._request.operations) - 1, store._codec)


async def transact(client: AsyncClient, build: Callable[[AsyncTransaction], Awaitable[R]]) -> R:
    """What `AsyncClient.transact` does."""
    until = time.monotonic() + min(client.deadline, limits.DEADLINE_MAX)
    backoff = Backoff(limits.CONTENTION_FIRST, limits.CONTENTION_MAX)
    while True:
        transaction = client.transaction()
        answer: R = await within(until, partial(build, transaction), is_writing=False)
        if not transaction._stores:
            return answer
        revision = 0
        try:
            if isinstance(await within(until, transaction.commit, is_writing=True), Committed):
                return answer
        except ConflictError as conflict:
            revision = conflict.revision
        await pause(until, backoff, revision)
