"""What the state tool's tools take and answer: the same as those of `helve mcp`."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from datetime import timedelta
from importlib.resources import files
from typing import Any, TypeVar

from .errors import ErrorKind, HelveError
from .records import Live, Record, RecordInfo, Resolved
from .ttl import Lifetime, Ttl

#: Keys in one batch, and in one answer of `list`.
BATCH_KEYS_MAX = 100
LIST_KEYS_MAX = 1000
#: Bytes of values in one answer.
ANSWER_BYTES_MAX = 2 << 20

T = TypeVar("T")
_WRITES = {"store", "batch_store"}
_REASONS = {
    ErrorKind.UNAVAILABLE: "UNAVAILABLE",
    ErrorKind.OVERLOADED: "UNAVAILABLE",
    ErrorKind.FULL: "FULL",
    ErrorKind.INVALID: "BAD_ARGUMENT",
    ErrorKind.DENIED: "DENIED",
}


class ToolError(Exception):
    """A tool that failed: what to tell the model."""

    def __init__(self, reason: str, message: str, *, revision: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        #: As `helve mcp` has it in `_meta` under `helve.v1/reason`.
        self.reason = reason
        #: Of a conflict: the key's revision.
        self.revision = revision

    @classmethod
    def of(cls, error: HelveError) -> ToolError:
        """What an error of the client is to a model; it names no address."""
        reason = _REASONS.get(error.kind, "INTERNAL")
        if reason == "BAD_ARGUMENT":
            return cls(reason, error.message)
        return cls(reason, f"nothing was done. {error.advice}")


def live(id: str, found: Resolved[T]) -> T:
    """The record of a handle that a tool was given as an argument.

    If it does not live, raises ToolError, whose reason is EXPIRED, TAKEN or UNKNOWN.
    """
    if isinstance(found, Live):
        return found.record
    raise ToolError(found.name, f"{id} is {found.value}: check the id, or create another")


def definitions(*, writes: bool, deletes: bool) -> list[dict[str, Any]]:
    """The tools that a model is shown."""
    found = []
    for tool in _TOOLS:
        name = tool["name"]
        if (name in _WRITES and not writes) or (name == "delete" and not deletes):
            continue
        found.append(copy.deepcopy(tool))
    return found


_TOOLS: list[dict[str, Any]] = json.loads((files("helve") / "state_tool.json").read_text("utf-8"))
_PROPERTIES = {tool["name"]: set(tool["inputSchema"]["properties"]) for tool in _TOOLS}


class Arguments:
    """The arguments of a call, checked as they are read."""

    def __init__(self, tool: str, given: Mapping[str, Any]) -> None:
        self._given = dict(given)
        unknown = self._given.keys() - _PROPERTIES[tool]
        if unknown:
            names = ", ".join(sorted(_PROPERTIES[tool]))
            raise bad(f"unknown field {sorted(unknown)[0]!r}, expected one of {names}")

    def key(self) -> str:
        """The key."""
        return self._text("key")

    def keys(self) -> list[str]:
        """The keys of a batch."""
        keys = self._batch("keys")
        if not all(isinstance(key, str) for key in keys):
            raise bad("keys: each is a string")
        return keys

    def items(self) -> list[Arguments]:
        """The items of a batch."""
        items = self._batch("items")
        if not all(isinstance(item, Mapping) for item in items):
            raise bad("items: each is an object")
        made = [Arguments("store", item) for item in items]
        keys = [item.key() for item in made]
        twice = next((key for at, key in enumerate(keys) if key in keys[:at]), None)
        if twice is not None:
            raise bad(f"{twice!r} occurs in two items")
        return made

    def value(self) -> Any:
        """The value; it may be null, and must be there."""
        if "value" not in self._given:
            raise bad("missing field `value`")
        return self._given["value"]

    def if_revision(self) -> int | None:
        """The revision that the caller has seen."""
        return self._integer("if_revision")

    def ttl(self) -> Lifetime:
        """How long the key is to live."""
        ttl_ms, lifetime = self._integer("ttl_ms"), self._given.get("lifetime")
        if ttl_ms is not None and lifetime is not None:
            raise bad("ttl_ms and lifetime together: give one of them")
        if ttl_ms == 0:
            raise bad("ttl_ms of 0: at least 1")
        if ttl_ms is not None:
            return _span(ttl_ms)
        if lifetime not in (None, "default", "never", "keep"):
            raise bad(f"lifetime {lifetime!r}: default, never or keep")
        return Ttl[(lifetime or "default").upper()]

    def prefix(self) -> str:
        """What the keys begin with."""
        return self._text("prefix") if self._given.get("prefix") is not None else ""

    def after(self) -> str | None:
        """The key behind which the list begins."""
        return self._text("after") if self._given.get("after") is not None else None

    def limit(self) -> int:
        """How many keys to answer."""
        limit = self._integer("limit")
        limit = LIST_KEYS_MAX if limit is None else limit
        if not 1 <= limit <= LIST_KEYS_MAX:
            raise bad(f"a limit of {limit}: 1 to {LIST_KEYS_MAX}")
        return limit

    def key_of(self, operation: int) -> str:
        """The key that a conflict is about."""
        items = self._given.get("items")
        found = items[operation] if isinstance(items, list) else self._given
        return str(found.get("key", ""))

    def _text(self, name: str) -> str:
        value = self._given.get(name)
        if value is None:
            raise bad(f"missing field `{name}`")
        if not isinstance(value, str):
            raise bad(f"{name}: a string")
        return value

    def _batch(self, name: str) -> list[Any]:
        found = self._given.get(name)
        if not isinstance(found, list):
            raise bad(f"{name}: an array")
        if not 1 <= len(found) <= BATCH_KEYS_MAX:
            raise bad(f"{len(found)} {name}: 1 to {BATCH_KEYS_MAX} at once")
        return found

    def _integer(self, name: str) -> int | None:
        """An integer, which some clients write as 10.0."""
        value = self._given.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer() and 0 <= value < 2**53:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
            raise bad(f"{name}: {value!r} is no integer from 0 to 2^64 - 1")
        return value


def _span(ttl_ms: int) -> timedelta:
    try:
        return timedelta(milliseconds=ttl_ms)
    except OverflowError:
        raise bad(f"ttl_ms of {ttl_ms}: use lifetime never") from None


def bad(message: str) -> ToolError:
    """The arguments must change."""
    return ToolError("BAD_ARGUMENT", message)


def info_of(info: RecordInfo) -> dict[str, Any]:
    """What a model is told of a key."""
    told = {
        "key": info.name,
        "revision": info.revision,
        "created_at_ms": info.created_at_ms,
        "updated_at_ms": info.updated_at_ms,
        "value_bytes": info.value_bytes,
    }
    ends = info.ends_at_ms
    return told if ends is None else {**told, "expires_at_ms": ends}


def retrieved(key: str, record: Record[Any] | None) -> dict[str, Any]:
    """What a model is told of a key that it asked for."""
    if record is None:
        return {"key": key, "found": False}
    return {"key": key, "found": True, "value": record.value, "info": info_of(record.info)}
