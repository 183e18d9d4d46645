"""Tasks of servers on the official MCP SDK 1.30, which any replica goes on with.

Needs `pip install 'helve[mcp]'` with `mcp` 1.30: the SDK 2.x has no task store.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any

from mcp.shared.experimental.tasks.helpers import create_task_state, is_terminal
from mcp.shared.experimental.tasks.store import TaskStore
from mcp.types import Result, Task, TaskMetadata, TaskStatus

from ._async.client import AsyncClient
from ._core.names import digest
from ._core.news import News, pause
from .errors import ConflictError, OverloadedError, UnavailableError
from .owner import SHARED, Owner
from .records import Conflict, Record
from .ttl import Lifetime, Span, Ttl

#: What this task of the event loop has read last of each task: its updates are what comes behind.
_seen: ContextVar[dict[str, int] | None] = ContextVar("helve_tasks_seen", default=None)
_SEEN_MAX = 64


class HelveTaskStore(TaskStore):
    """Tasks of which no change is lost: each is compared with what it was made of.

    A task that has ended stays as it ended, whichever replicas write at once. The cluster removes
    it after its `ttl`, or after `default_ttl` if its caller named none.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        owner: Owner = SHARED,
        prefix: str = "mcp-tasks/",
        default_ttl: Span | None = None,
        page_size: int = 10,
        poll_interval: float = 0.2,
    ) -> None:
        """Stores of one owner and prefix are one. Give the tasks of each end user an owner."""
        self._client = client
        self._keys = client.keys(owner=owner)
        self._prefix = prefix
        self._default: Lifetime = Ttl.NEVER if default_ttl is None else default_ttl
        self._page_size = page_size
        self._interval = poll_interval
        self._news = News()

    async def create_task(self, metadata: TaskMetadata, task_id: str | None = None) -> Task:
        """Keeps a new task. Raises ValueError if there is one of this id."""
        task = create_task_state(metadata, task_id)
        value = {"task": _plain(task)}
        outcome = await self._keys.put_if(self._name(task.taskId), value, 0, self._lifetime(value))
        if isinstance(outcome, Conflict):
            raise ValueError(f"Task with ID {task.taskId} already exists")
        return task

    async def get_task(self, task_id: str) -> Task | None:
        """A task, or None."""
        found = await self._keys.get_record(self._name(task_id))
        self._note(task_id, found)
        return None if found is None else Task.model_validate(found.value["task"])

    async def update_task(
        self, task_id: str, status: TaskStatus | None = None, status_message: str | None = None
    ) -> Task:
        """Changes status or message. Raises ValueError for a task that is gone or has ended."""

        def change(value: dict[str, Any]) -> dict[str, Any]:
            task = Task.model_validate(value["task"])
            if status is not None and status != task.status and is_terminal(task.status):
                raise ValueError(f"Cannot transition from terminal status '{task.status}'")
            if status is not None:
                task.status = status
            if status_message is not None:
                task.statusMessage = status_message
            task.lastUpdatedAt = datetime.now(timezone.utc)
            return {**value, "task": _plain(task)}

        # Its time begins again when it ends, as the SDK's own store has it.
        restarts = status is not None and is_terminal(status)
        value = await self._change(task_id, change, restarts=restarts)
        await self.notify_update(task_id)
        return Task.model_validate(value["task"])

    async def store_result(self, task_id: str, result: Result) -> None:
        """Keeps the result of a task. Raises ValueError if there is no such task."""
        plain = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        await self._change(task_id, lambda value: {**value, "result": plain}, restarts=False)

    async def get_result(self, task_id: str) -> Result | None:
        """The result of a task, or None."""
        found = await self._keys.get(self._name(task_id))
        if found is None or "result" not in found:
            return None
        return Result.model_validate(found["result"])

    async def list_tasks(self, cursor: str | None = None) -> tuple[list[Task], str | None]:
        """A page of tasks, and what the next one begins behind; None behind the last one."""
        after = None if cursor is None else self._name(cursor)
        page = await self._keys.list_values_page(self._prefix, after, self._page_size)
        tasks = [Task.model_validate(record.value["task"]) for record in page.items]
        return tasks, None if page.next is None else tasks[-1].taskId

    async def delete_task(self, task_id: str) -> bool:
        """Deletes a task; true if there was one."""
        return await self._keys.delete(self._name(task_id))

    async def wait_for_update(self, task_id: str) -> None:
        """Waits until any replica changes a task, or one has since this caller read it last.

        It looks every `poll_interval` seconds, and at once when this replica changes the task.
        Raises ValueError if there is no such task.
        """
        name, seen = self._name(task_id), (_seen.get() or {}).get(self._name(task_id))
        with self._news.looking(name) as news:
            while True:
                news.clear()
                try:
                    found = await self._keys.get_record(name)
                except (UnavailableError, OverloadedError):
                    await pause(news, self._interval)
                    continue
                if found is None:
                    raise ValueError(f"Task with ID {task_id} not found")
                seen = seen or found.revision
                if found.revision != seen:
                    return
                await pause(news, self._interval)

    async def notify_update(self, task_id: str) -> None:
        """Has those of this replica that wait for a task look for its update now."""
        self._news.tell(self._name(task_id))

    async def _change(
        self,
        task_id: str,
        change: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        restarts: bool,
    ) -> dict[str, Any]:
        """Changes a task, over whatever others wrote meanwhile."""
        name = self._name(task_id)
        until = time.monotonic() + self._client.deadline
        while True:
            found = await self._keys.get_record(name)
            if found is None:
                raise ValueError(f"Task with ID {task_id} not found")
            value = change(found.value)
            lifetime = self._lifetime(value) if restarts else Ttl.KEEP
            outcome = await self._keys.put_if(name, value, found.revision, lifetime)
            if not isinstance(outcome, Conflict):
                return value
            if time.monotonic() >= until:
                message = f"others changed task {task_id} until the deadline ended"
                raise ConflictError(message, revision=outcome.revision)

    def _lifetime(self, value: dict[str, Any]) -> Lifetime:
        ttl_ms = value["task"].get("ttl")
        return self._default if ttl_ms is None else max(ttl_ms, 1) / 1000

    def _note(self, task_id: str, found: Record[Any] | None) -> None:
        # A new dictionary each time: tasks that were begun from this one have its older one.
        seen = dict(_seen.get() or {})
        name = self._name(task_id)
        seen.pop(name, None)
        if found is not None:
            while len(seen) >= _SEEN_MAX:
                del seen[next(iter(seen))]
            seen[name] = found.revision
        _seen.set(seen)

    def _name(self, task_id: str) -> str:
        return self._prefix + digest(task_id)


def _plain(task: Task) -> dict[str, Any]:
    found: dict[str, Any] = task.model_dump(mode="json")
    return found
