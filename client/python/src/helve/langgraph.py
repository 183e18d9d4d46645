"""Checkpoints and items of LangGraph on a cluster.

Needs `pip install 'helve[langgraph]'`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.store.base import BaseStore, TTLConfig

from ._async.checkpoints import AsyncCheckpoints
from ._async.client import AsyncClient
from ._async.items import AsyncItems
from ._sync.checkpoints import Checkpoints
from ._sync.client import Client
from ._sync.items import Items
from .owner import SHARED, Owner
from .ttl import Span


class HelveSaver(BaseCheckpointSaver[str]):
    """Keeps the checkpoints of threads, so that any replica goes on where another one ended.

    A checkpoint that can be read has all values of its channels, whatever died while it was
    written. Values may be of any size: what is over 1 MiB is kept in pieces. `ainvoke` and the
    like use the client for asyncio, `invoke` one for threads with the same settings.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        owner: Owner = SHARED,
        ttl: Span | None = None,
        serde: Any = None,
    ) -> None:
        """Threads of one owner are one set. With `ttl` each record ends so long after its write."""
        super().__init__(serde=serde)
        self._settings = (client, owner, ttl)
        self._threads = Client.like(client)

    def _here(self) -> Checkpoints:
        _, owner, ttl = self._settings
        return Checkpoints(self._threads, self.serde, owner, ttl)

    def _there(self) -> AsyncCheckpoints:
        client, owner, ttl = self._settings
        return AsyncCheckpoints(client, self.serde, owner, ttl)

    def close(self) -> None:
        """Ends the client for threads; that for asyncio is its owner's."""
        self._threads.close()

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """A checkpoint, or the latest of its thread and namespace."""
        return self._here().get_tuple(config)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """A checkpoint, or the latest of its thread and namespace."""
        return await self._there().get_tuple(config)

    def list(
        self,
        config: Any,
        *,
        filter: dict[str, Any] | None = None,
        before: Any = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread and namespace, or of all, the newest first."""
        return self._here().list(config, filter=filter, before=before, limit=limit)

    async def alist(
        self,
        config: Any,
        *,
        filter: dict[str, Any] | None = None,
        before: Any = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The checkpoints of a thread and namespace, or of all, the newest first."""
        found = self._there().list(config, filter=filter, before=before, limit=limit)
        async for each in found:
            yield each

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Keeps a checkpoint with the values of these channels."""
        return self._here().put(config, checkpoint, metadata, new_versions)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Keeps a checkpoint with the values of these channels."""
        return await self._there().put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keeps the writes of a task."""
        self._here().put_writes(config, writes, task_id, task_path)

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keeps the writes of a task."""
        await self._there().put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Deletes all that a thread has."""
        self._here().delete_threads([thread_id])

    async def adelete_thread(self, thread_id: str) -> None:
        """Deletes all that a thread has."""
        await self._there().delete_threads([thread_id])

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of these runs, and their writes. It reads all threads."""
        self._here().delete_runs(run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of these runs, and their writes. It reads all threads."""
        await self._there().delete_runs(run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all that a thread has to another."""
        self._here().copy_thread(source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all that a thread has to another."""
        await self._there().copy_thread(source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keeps the latest checkpoint of each namespace, and what it needs; or none."""
        self._here().prune(thread_ids, strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keeps the latest checkpoint of each namespace, and what it needs; or none."""
        await self._there().prune(thread_ids, strategy)

    def get_next_version(self, current: str | int | float | None, channel: None) -> str:
        """The version behind this one: a number that sorts, and a random part.

        The random part keeps the values of two branches of a thread apart.
        """
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:032}.{random.getrandbits(53):016}"


class HelveItemStore(BaseStore):
    """LangGraph's long-term memory: items under namespaces, for all threads and replicas.

    A `ttl` is in minutes, and begins again with each read that asks for it; what has expired is
    never served. Search is by namespace and filter: it reads what is below the namespace. It has
    no index of meanings, and refuses a `query` with UnsupportedError.
    """

    supports_ttl = True

    def __init__(
        self, client: AsyncClient, *, owner: Owner = SHARED, ttl: TTLConfig | None = None
    ) -> None:
        """Stores of one owner are one. `ttl` is LangGraph's configuration of lifetimes."""
        self.ttl_config = ttl
        self._there = AsyncItems(client, owner)
        self._threads = Client.like(client)
        self._here = Items(self._threads, owner)

    def close(self) -> None:
        """Ends the client for threads; that for asyncio is its owner's."""
        self._threads.close()

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Makes operations, by the client for threads."""
        return self._here.batch(ops)

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """Makes operations, by the client for asyncio."""
        return await self._there.batch(ops)
