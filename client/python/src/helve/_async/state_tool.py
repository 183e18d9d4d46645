"""The state tool for models: the tools of `helve mcp`, to be served by a server of your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import AmbiguousError, CodecError, ConflictError, HelveError, Reason
from ..owner import Owner
from ..records import Record, RecordInfo
from ..tools import (
    ANSWER_BYTES_MAX,
    Arguments,
    ToolError,
    definitions,
    info_of,
    retrieved,
)
from ..transacted import Committed
from ..ttl import Span
from .client import AsyncClient

#: How often a change that others got ahead of is looked at again.
_ROUNDS_MAX = 8


class AsyncStateTool:
    """JSON values under keys, as tools that a model calls.

    Names, schemas and answers are those of `helve mcp`, and both may serve the same keys. Serve
    `definitions()` as the list of tools, and `call` what a model asks for.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        owner: Owner,
        writes: bool = False,
        deletes: bool = False,
        replaces: bool = False,
        default_ttl: Span | None = None,
    ) -> None:
        """Says whose keys, and what a model may do.

        Without `writes` there are only the tools that read; `deletes` adds `delete`. Unless
        `replaces` is set, a value that is there is replaced only by a call that names its revision,
        and is not deleted: the model is told to ask its user for another way.
        """
        self._client = client
        self._keys = client.keys(owner=owner, default_ttl=default_ttl)
        self._writes = writes or deletes
        self._deletes = deletes
        self._replaces = replaces

    def definitions(self) -> list[dict[str, Any]]:
        """The tools as `tools/list` of MCP has them: names, schemas, hints and descriptions."""
        return definitions(writes=self._writes, deletes=self._deletes)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Calls a tool, and answers its structured result. Raises ToolError, for the model."""
        if name not in {tool["name"] for tool in self.definitions()}:
            raise ToolError("BAD_ARGUMENT", f"there is no tool {name!r}")
        given = Arguments(name, arguments)
        try:
            return await getattr(self, f"_{name}")(given)  # type: ignore[no-any-return]
        except ConflictError as error:
            key = given.key_of(error.operation)
            message = f"{key!r} is at revision {error.revision}: retrieve it, and decide again"
            raise ToolError("CONFLICT", message, revision=error.revision) from error
        except AmbiguousError as error:
            message = "it may have been done: retrieve, and compare, before you call again"
            raise ToolError("AMBIGUOUS", message) from error
        except CodecError as error:
            is_stored = "stored value" in error.message
            raise ToolError("NOT_EXACT" if is_stored else "BAD_ARGUMENT", error.message) from error
        except HelveError as error:
            raise ToolError.of(error) from error

    async def _store(self, given: Arguments) -> dict[str, Any]:
        return (await self._change([given]))[0]

    async def _batch_store(self, given: Arguments) -> dict[str, Any]:
        return {"stored": await self._change(given.items())}

    async def _retrieve(self, given: Arguments) -> dict[str, Any]:
        key = given.key()
        return retrieved(key, await self._keys.get_record(key))

    async def _batch_retrieve(self, given: Arguments) -> dict[str, Any]:
        keys = given.keys()
        try:
            found = await self._keys.get_many(keys)
        except HelveError as error:
            if error.reason is Reason.TOO_LARGE:
                raise ToolError("TOO_LARGE", "retrieve fewer keys at once") from error
            raise
        if sum(record.info.value_bytes for record in found if record) > ANSWER_BYTES_MAX:
            raise ToolError("TOO_LARGE", "over 2 MiB: retrieve fewer keys at once")
        return {"keys": [retrieved(key, each) for key, each in zip(keys, found, strict=True)]}

    async def _exists(self, given: Arguments) -> dict[str, Any]:
        key = given.key()
        return {"key": key, "exists": await self._keys.exists(key)}

    async def _list(self, given: Arguments) -> dict[str, Any]:
        page = await self._keys.list_page(given.prefix(), given.after(), given.limit())
        answer = {"keys": [info_of(info) for info in page.items], "revision": page.revision}
        return answer if page.next is None else {**answer, "next": page.next}

    async def _delete(self, given: Arguments) -> dict[str, Any]:
        key, revision = given.key(), given.if_revision()
        for _ in range(_ROUNDS_MAX):
            found = await self._keys.get_record(key)
            at = 0 if found is None else found.revision
            if revision is not None and revision != at:
                raise ConflictError("another revision", revision=at)
            if found is None:
                return {"key": key, "existed": False}
            self._expect_consent([found])
            if await self._keys.delete_if(key, at):
                return {"key": key, "existed": True}
        raise ToolError("CONFLICT", f"others change {key!r} all the time: try again")

    async def _change(self, items: list[Arguments]) -> list[dict[str, Any]]:
        """Stores all, or none: each over what its call names, or over what may be replaced."""
        keys = [item.key() for item in items]
        for _ in range(_ROUNDS_MAX):
            revisions = [item.if_revision() for item in items]
            if not self._replaces:
                revisions = await self._seen(items, keys)
            transaction = self._client.transaction()
            tickets = [
                transaction.put_key(self._keys, key, item.value(), item.ttl(), if_revision=revision)
                for key, item, revision in zip(keys, items, revisions, strict=True)
            ]
            try:
                done = await transaction.commit()
            except ConflictError as error:
                if items[error.operation].if_revision() is not None:
                    raise
                # Somebody changed one of them since: look again.
                continue
            assert isinstance(done, Committed)
            return [
                {
                    "status": "replaced" if done.existed(ticket) else "created",
                    **_written(done.info(ticket)),
                }
                for ticket in tickets
            ]
        raise ToolError("CONFLICT", "others change these keys all the time: try again")

    async def _seen(self, items: list[Arguments], keys: list[str]) -> list[int | None]:
        """The revisions that keys are at; those that a call does not name may not be replaced."""
        found = await self._keys.get_many(keys)
        revisions: list[int | None] = []
        for at, (item, record) in enumerate(zip(items, found, strict=True)):
            asked, revision = item.if_revision(), 0 if record is None else record.revision
            if asked is not None and asked != revision:
                raise ConflictError("another revision", revision=revision, operation=at)
            if asked is None and record is not None:
                self._expect_consent([record])
            revisions.append(revision)
        return revisions

    def _expect_consent(self, records: list[Record[Any]]) -> None:
        if not self._replaces:
            names = ", ".join(repr(record.name) for record in records)
            raise ToolError(
                "CANNOT_CONFIRM",
                f"this would lose the value of {names}, and this server cannot ask the user: store "
                "with if_revision what was read, or store under a new key",
            )


def _written(info: RecordInfo | None) -> dict[str, Any]:
    return {} if info is None else info_of(info)
