"""Conversations of pydantic-ai on a cluster.

Needs `pip install 'helve[pydantic-ai]'`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter

from ._async.client import AsyncClient
from ._core.batches import batches, json_bytes
from .errors import ConflictError
from .owner import SHARED, Owner
from .records import Record
from .ttl import Span

_RECORD: TypeAdapter[Any] = TypeAdapter(ConversationRecord)


class HelveConversationStore(ConversationStore):
    """Keeps conversations as logs of messages, which any replica goes on with.

    A save writes its new messages and the record in one transaction, if the conversation is as it
    was loaded: of writers at once one succeeds, and the others get `ConversationConflict`, with
    nothing left behind. Of a save of over 127 messages, or over 3 MiB, the first ones are written
    before: without their record they are part of no conversation. A message has at most 1 MiB as
    JSON, and of a save with a larger one nothing is written. Messages of deleted conversations are
    kept, since a fork may share them; a `ttl` ends them.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        owner: Owner = SHARED,
        prefix: str = "conversations/",
        ttl: Span | None = None,
    ) -> None:
        """Stores of one owner and prefix are one. With `ttl` each write ends so long after it.

        A conversation that is used for longer than `ttl` loses its oldest messages.
        """
        self._client = client
        self._keys = client.keys(owner=owner, default_ttl=ttl)
        self._records = f"{prefix}records/"
        self._entries = f"{prefix}entries/"

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation."""
        found = await self._keys.get_record(self._name(conversation_id))
        return None if found is None else _RECORD.validate_python(found.value)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """The records of a scope, or of all, the newest first. It reads all records."""
        found = [
            _RECORD.validate_python(record.value)
            async for record in self._keys.scan(self._records)
            if scope is None or record.value["scope"] == scope
        ]
        found.sort(key=lambda record: record.updated_at, reverse=True)
        return found[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Keeps a record and its new entries, over the record with `expected_revision`."""
        held = await self._expected(record.conversation_id, expected_revision)
        head = record.head_id
        is_new = any(entry.id == head for entry in new_entries)
        if head is not None and not is_new and not await self._keys.exists(self._entries + head):
            raise ConversationConflict(record.conversation_id)
        items = {self._entries + entry.id: _plain(entry) for entry in new_entries}
        place = self._name(record.conversation_id)
        # The record is the last, so that what goes with it fits beside it.
        items[place] = _RECORD.dump_python(record, mode="json")
        *before, last = batches(items, lambda name: json_bytes(items[name]))
        for part in before:
            await self._keys.put_many({name: items[name] for name in part})
        transaction = self._client.transaction()
        for name in last[:-1]:
            transaction.put_key(self._keys, name, items[name])
        revision = held.revision if held else 0
        transaction.put_key(self._keys, place, items[place], if_revision=revision)
        try:
            await transaction.commit()
        except ConflictError as error:
            raise ConversationConflict(record.conversation_id) from error

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Deletes a conversation's record. Its messages stay: a fork may share them."""
        held = await self._expected(conversation_id, expected_revision)
        name = self._name(conversation_id)
        if held is None or not await self._keys.delete_if(name, held.revision):
            raise ConversationConflict(conversation_id)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry with this id. Raises KeyError if there is none."""
        found = await self._keys.get(self._entries + entry_id)
        if found is None:
            raise KeyError(entry_id)
        message = ModelMessagesTypeAdapter.validate_python([found["message"]])[0]
        return ConversationEntry(
            id=found["id"], parent_id=found["parent_id"], message=message, kind=found["kind"]
        )

    def _name(self, conversation_id: str) -> str:
        return self._records + quote(conversation_id, safe="")

    async def _expected(
        self, conversation_id: str, expected_revision: str | None
    ) -> Record[Any] | None:
        """The record as it is kept, if it has this revision."""
        held = await self._keys.get_record(self._name(conversation_id))
        if (None if held is None else held.value["revision"]) != expected_revision:
            raise ConversationConflict(conversation_id)
        return held


def _plain(entry: ConversationEntry) -> dict[str, Any]:
    message = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")[0]
    facts = {"id": entry.id, "parent_id": entry.parent_id, "kind": entry.kind}
    return {**facts, "message": message}
