# Made of `items.py` by tools/unasync.py: do not edit.
"""Items of LangGraph's store as keys. `helve.langgraph` makes a `BaseStore` of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, unquote

from langgraph.store.base import GetOp, Item, ListNamespacesOp, PutOp, SearchItem, SearchOp

from .._core.batches import batches, json_bytes
from ..errors import UnsupportedError
from ..owner import Owner
from ..records import Record, RecordInfo
from .client import Client
from .keys import Keys

_KIND = "s"
#: What an item's own key begins with; a part of its namespace begins with `=`.
_KEY = ":"


class Items:
    """Items under namespaces, each a record, over one client.

    An item of `a`, `b` and key `k` is under `s/=a/=b/:k`. Its `ttl`, in minutes, is an idle time:
    it begins again with each read that asks for it.
    """

    def __init__(self, client: Client, owner: Owner) -> None:
        self._client = client
        self._owner = owner
        self._keys = client.keys(owner=owner)

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """The answers to operations in order: reads see what was there before the writes.

        Writes are made together, or in several steps if they are over 128, or over 3 MiB. Of two
        writes to one item the last counts. A value has at most 1 MiB, and nothing is written if one
        has more.
        """
        answers: list[Any] = []
        writes: dict[str, PutOp] = {}
        for op in ops:
            if isinstance(op, PutOp):
                writes[_place(op.namespace, op.key)] = op
                answers.append(None)
            elif isinstance(op, GetOp):
                answers.append(self._get(op))
            elif isinstance(op, SearchOp):
                answers.append(self._search(op))
            elif isinstance(op, ListNamespacesOp):
                answers.append(self._namespaces(op))
            else:
                raise UnsupportedError(f"an operation that this version does not know: {op!r}")
        self._write(list(writes.items()))
        return answers

    def _get(self, op: GetOp) -> Item | None:
        place = _place(op.namespace, op.key)
        if op.refresh_ttl:
            found = self._keys.get_record(place)
            return None if found is None else _item(found)
        # A list restarts no idle time. Of a name with others behind it the first is the name's own.
        page = self._keys.list_values_page(place, None, 1)
        is_there = bool(page.items) and page.items[0].name == place
        return _item(page.items[0]) if is_there else None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.query:
            message = "search by meaning: this store has no index. Search by namespace and filter"
            raise UnsupportedError(message)
        found: list[Record[Any]] = []
        for record in self._keys.scan(_prefix(op.namespace_prefix)):
            if all(
                _holds(record.value.get(key), value) for key, value in (op.filter or {}).items()
            ):
                found.append(record)
                if len(found) >= op.offset + op.limit:
                    break
        found = found[op.offset :]
        for record in found:
            if op.refresh_ttl and record.info.idle_ttl_ms is not None:
                self._keys.get_record(record.name)
        return [_search_item(record) for record in found]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found: dict[tuple[str, ...], None] = {}
        after: str | None = None
        while True:
            page = self._keys.list_page(f"{_KIND}/", after, 500)
            for info in page.items:
                namespace, _ = _parts(info)
                if all(_matches(each, namespace) for each in op.match_conditions or ()):
                    found[namespace[: op.max_depth]] = None
            after = page.next
            if after is None:
                break
        return sorted(found)[op.offset : op.offset + op.limit]

    def _write(self, writes: Sequence[tuple[str, PutOp]]) -> None:
        for part in batches(writes, _size):
            transaction = self._client.transaction()
            for place, op in part:
                if op.value is None:
                    transaction.delete_key(self._keys, place)
                else:
                    transaction.put_key(self._lasting(op.ttl), place, dict(op.value))
            transaction.commit()

    def _lasting(self, ttl: float | None) -> Keys[Any]:
        """Keys whose values end when they are not read for this many minutes."""
        if ttl is None:
            return self._keys
        return self._client.keys(owner=self._owner, idle_ttl=ttl * 60)


def _size(write: tuple[str, PutOp]) -> int:
    value = write[1].value
    return 0 if value is None else json_bytes(dict(value))


def _prefix(namespace: Sequence[str]) -> str:
    return "/".join([_KIND, *(f"={quote(part, safe='')}" for part in namespace), ""])


def _place(namespace: Sequence[str], key: str) -> str:
    return f"{_prefix(namespace)}{_KEY}{quote(key, safe='')}"


def _parts(info: RecordInfo) -> tuple[tuple[str, ...], str]:
    *namespace, key = info.name.split("/")[1:]
    return tuple(unquote(part[1:]) for part in namespace), unquote(key[1:])


def _facts(record: Record[Any]) -> dict[str, Any]:
    namespace, key = _parts(record.info)
    return {
        "namespace": namespace,
        "key": key,
        "value": record.value,
        "created_at": _time(record.info.created_at_ms),
        "updated_at": _time(record.info.updated_at_ms),
    }


def _item(record: Record[Any]) -> Item:
    return Item(**_facts(record))


def _search_item(record: Record[Any]) -> SearchItem:
    return SearchItem(**_facts(record))


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc)


def _matches(condition: Any, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    is_prefix = condition.match_type == "prefix"
    part = namespace[: len(path)] if is_prefix else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", each) for wanted, each in zip(path, part, strict=True))


def _holds(value: Any, wanted: Any) -> bool:
    """Whether a value is what a filter wants: the value itself, or `$gt` and the like."""
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    if not any(key.startswith("$") for key in wanted):
        inner = value if isinstance(value, dict) else {}
        return all(_holds(inner.get(key), each) for key, each in wanted.items())
    return all(_compares(value, operator, each) for operator, each in wanted.items())


def _compares(value: Any, operator: str, wanted: Any) -> bool:
    if operator == "$eq":
        return bool(value == wanted)
    if operator == "$ne":
        return bool(value != wanted)
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise UnsupportedError(f"the operator {operator}: $eq, $ne, $gt, $gte, $lt or $lte")
    if value is None:
        return False
    left, right = float(value), float(wanted)
    equal = operator.endswith("e") and left == right
    return equal or (left > right if operator.startswith("$gt") else left < right)
