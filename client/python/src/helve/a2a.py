"""Tasks of A2A agents on a cluster, which any number of replicas serve.

Needs `pip install 'helve[a2a]'`. `HelveTaskStore` and `HelveTaskEventStream` are the
`VersionedTaskStore` and the `TaskEventStream` of `a2a.server.cluster` (a2a-sdk 1.2 and newer):

    DefaultRequestHandler(..., task_store=HelveTaskStore(client),
                          event_stream=HelveTaskEventStream(client))
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from a2a.server.cluster import (
    ConcurrentTaskModificationError,
    StoredTask,
    TaskEventStream,
    TaskVersion,
    VersionedEvent,
    VersionedTaskStore,
)
from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
from a2a.server.tasks import InMemoryTaskStore
from a2a.types.a2a_pb2 import (
    ListTasksRequest,
    ListTasksResponse,
    Message,
    StreamResponse,
    Task,
    TaskState,
)
from a2a.utils.proto_utils import to_stream_response

from ._async.client import AsyncClient
from ._async.keys import AsyncKeys
from ._core.identity import entropy
from ._core.names import digest
from ._core.news import News, pause
from .codec import Raw
from .errors import AmbiguousError, ConflictError, HelveError, OverloadedError, UnavailableError
from .owner import SHARED, Owner
from .records import Record
from .transacted import Committed
from .ttl import Lifetime, Span, Ttl

_TERMINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_REJECTED,
    }
)
#: Every record begins with the id of the write that made it.
_WRITE_BYTES = 16
_LOG_TTL = 24 * 3600
#: Records that are deleted together; a cluster takes 128 operations.
_BATCH = 128


@dataclass(frozen=True)
class _Place:
    """Where a task is kept."""

    task: str
    #: Holds the owner's digest: the first owner of a task id keeps it from all others, since
    #: event streams name tasks by their id alone.
    claim: str
    owner: bytes
    log: str


class HelveTaskStore(VersionedTaskStore):
    """Tasks whose every change is compared with the version that it was made of.

    A save writes the task and its event in one transaction. A save whose answer was lost is looked
    for under its own id: it is answered as done, or as overtaken, and `AmbiguousError` is left for
    one that neither holds of yet. A version is the revision at which the cluster wrote the task.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        owner: Owner = SHARED,
        prefix: str = "a2a/",
        ttl: Span | None = None,
        log_ttl: Span = _LOG_TTL,
        owner_resolver: OwnerResolver = resolve_user_scope,
    ) -> None:
        """Stores of one owner and prefix are one.

        A task lives for `ttl` after its last save, or for ever; its events live for `log_ttl`.
        `owner_resolver` says whose a task is, and `owner` under whose name the store keeps all.
        """
        self._client = client
        self._keys: AsyncKeys[bytes] = client.keys(owner=owner, codec=Raw())
        self._prefix = prefix
        self._ttl: Lifetime = Ttl.NEVER if ttl is None else ttl
        self._log_ttl = log_ttl
        self._owner_of = owner_resolver

    async def save(
        self,
        task: Task,
        *,
        event: Any = None,
        prev: Task | None = None,
        prev_version: TaskVersion,
        context: ServerCallContext,
    ) -> TaskVersion:
        """Writes a task over the version it was made of, and answers its new version.

        A task that becomes CANCELED replaces any version that has not ended. Raises
        `ConcurrentTaskModificationError` if another writer came first.
        """
        place = self._place(task.id, context)
        if task.status.state != TaskState.TASK_STATE_CANCELED:
            return await self._write(place, task, event, _revision(prev_version))
        until = time.monotonic() + self._client.deadline
        while True:
            held = await self._keys.get_record(place.task)
            if held is None or _task(held).status.state in _TERMINAL:
                raise ConcurrentTaskModificationError(task.id)
            try:
                return await self._write(place, task, event, held.revision)
            except ConcurrentTaskModificationError:
                if time.monotonic() >= until:
                    raise

    async def get(self, task_id: str, context: ServerCallContext) -> StoredTask | None:
        """A task and its version, or None."""
        found = await self._keys.get_record(self._place(task_id, context).task)
        return None if found is None else StoredTask(_task(found), TaskVersion(found.revision))

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """A page of the caller's tasks, filtered and ordered by the SDK. It reads all of them."""
        found = InMemoryTaskStore()
        async for record in self._keys.scan(self._space(context)):
            await found.save(_task(record), context)
        return await found.list(params, context)

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Deletes a task and its events; without such a task it does nothing."""
        place = self._place(task_id, context)
        until = time.monotonic() + self._client.deadline
        while True:
            held = await self._keys.get_record(place.task)
            if held is None:
                return
            transaction = self._client.transaction()
            transaction.delete_key(self._keys, place.task, if_revision=held.revision)
            transaction.delete_key(self._keys, place.claim)
            try:
                await transaction.commit()
                break
            except ConflictError:
                if time.monotonic() >= until:
                    raise
        while True:
            page = await self._keys.list_page(place.log, None, _BATCH)
            if not page.items:
                return
            transaction = self._client.transaction()
            for info in page.items:
                transaction.delete_key(self._keys, info.name)
            await transaction.commit()

    async def _write(self, place: _Place, task: Task, event: Any, before: int) -> TaskVersion:
        """Writes a task if its revision is `before`; 0: if there is no such task."""
        write = entropy(_WRITE_BYTES)
        told = b"" if event is None else to_stream_response(event).SerializeToString()
        entry = _entry(place.log, before)
        transaction = self._client.transaction()
        value = write + task.SerializeToString()
        transaction.put_key(self._keys, place.task, value, self._ttl, if_revision=before)
        transaction.put_key(self._keys, entry, write + told, self._log_ttl)
        # The claim lives as long as its task.
        if before == 0:
            transaction.put_key(self._keys, place.claim, place.owner, self._ttl, if_revision=0)
        elif self._ttl is not Ttl.NEVER:
            transaction.put_key(self._keys, place.claim, place.owner, self._ttl)
        try:
            done = await transaction.commit()
        except ConflictError as error:
            raise ConcurrentTaskModificationError(task.id) from error
        except AmbiguousError as error:
            return TaskVersion(await self._found(place, entry, write, before, task.id, error))
        assert isinstance(done, Committed), "keys abort no transaction"
        return TaskVersion(done.revision)

    async def _found(
        self,
        place: _Place,
        entry: str,
        write: bytes,
        before: int,
        task_id: str,
        lost: AmbiguousError,
    ) -> int:
        """The revision of a write whose answer was lost, or the error that goes with its fate."""
        try:
            # In this order: once the task is another one, the entry says who made it so.
            held = await self._keys.get_record(place.task)
            made = await self._keys.get_record(entry)
        except HelveError:
            raise lost from None
        if made is not None and made.value[:_WRITE_BYTES] == write:
            return made.revision
        if (0 if held is None else held.revision) == before:
            # It may still be on its way.
            raise lost
        raise ConcurrentTaskModificationError(task_id) from lost

    def _space(self, context: ServerCallContext) -> str:
        return f"{self._prefix}tasks/{digest(self._owner_of(context))}/"

    def _place(self, task_id: str, context: ServerCallContext) -> _Place:
        return _Place(
            task=self._space(context) + digest(task_id),
            claim=f"{self._prefix}ids/{digest(task_id)}",
            owner=digest(self._owner_of(context)).encode(),
            log=_log(self._prefix, task_id),
        )


class HelveTaskEventStream(TaskEventStream):
    """The events that `HelveTaskStore` wrote, for subscribers on any replica.

    A subscriber looks for new ones every `poll_interval` seconds, and at once for those that its
    own replica publishes. It goes on while the cluster changes its leader.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        owner: Owner = SHARED,
        prefix: str = "a2a/",
        log_ttl: Span = _LOG_TTL,
        poll_interval: float = 0.2,
    ) -> None:
        """Owner and prefix are those of the store."""
        self._keys: AsyncKeys[bytes] = client.keys(owner=owner, codec=Raw(), default_ttl=log_ttl)
        self._prefix = prefix
        self._interval = poll_interval
        self._news = News()

    async def publish(self, task_id: str, event: VersionedEvent) -> None:
        """Tells an event to all replicas. Those of saves are written already, messages are not."""
        if isinstance(event.event, Message):
            told = to_stream_response(event.event).SerializeToString()
            log, number = _log(self._prefix, task_id), entropy(8).hex()
            # Sorts behind the save that made this version, and before the next one.
            name = f"{log}{_revision(event.version):020}.m{number}"
            await self._keys.put(name, entropy(_WRITE_BYTES) + told)
        self._news.tell(task_id)

    async def subscribe(
        self, task_id: str, *, after: TaskVersion
    ) -> AsyncGenerator[VersionedEvent, None]:
        """The events of a task behind a version, in order; it ends with its subscriber."""
        log, oldest = _log(self._prefix, task_id), _revision(after)
        # An entry is named by the version before it: this is just before the first one of them.
        cursor = f"{log}{oldest:020}"
        with self._news.looking(task_id) as news:
            while True:
                news.clear()
                try:
                    page = await self._keys.list_values_page(log, cursor)
                except (UnavailableError, OverloadedError):
                    await pause(news, self._interval)
                    continue
                for record in page.items:
                    cursor = record.name
                    event = _event(record)
                    if event is not None and record.revision > oldest:
                        yield VersionedEvent(event, TaskVersion(record.revision))
                if page.next is None:
                    await pause(news, self._interval)

    async def destroy(self, task_id: str) -> None:
        """Does nothing: slower subscribers still read the last events, which end by themselves."""


def _log(prefix: str, task_id: str) -> str:
    return f"{prefix}log/{digest(task_id)}/"


def _entry(log: str, before: int) -> str:
    """The entry of the one save that follows this version."""
    return f"{log}{before:020}.s"


def _revision(version: TaskVersion) -> int:
    value = version._value
    if not isinstance(value, int):
        raise TypeError(f"versions of this store are integers, not {type(value).__name__}")
    return value


def _task(record: Record[bytes]) -> Task:
    return Task.FromString(record.value[_WRITE_BYTES:])


def _event(record: Record[bytes]) -> Any:
    """The event of an entry; None of a save without one."""
    response = StreamResponse.FromString(record.value[_WRITE_BYTES:])
    which = response.WhichOneof("payload")
    return None if which is None else getattr(response, which)
