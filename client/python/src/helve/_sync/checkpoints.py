# Made of `checkpoints.py` by tools/unasync.py: do not edit.
"""Checkpoints of LangGraph threads as keys. `helve.langgraph` makes a saver of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from .._core.batches import COUNT, batches
from ..codec import Raw
from ..owner import Owner
from ..records import RecordInfo
from ..ttl import Span
from .client import Client

#: Bytes of a record; a cluster takes 1 MiB. What is larger is kept in pieces.
PIECE_BYTES = 960 << 10
_PAGE = 500
#: What a piece's name ends with: its number. No part of a name begins so.
_PIECE = "/#"


class Item(NamedTuple):
    """What is kept under one name: facts as JSON, and serialized values."""

    facts: dict[str, Any]
    parts: tuple[bytes, ...]

    def encode(self) -> bytes:
        """A line of JSON, which names the lengths of the values behind it."""
        head = {**self.facts, "lengths": [len(part) for part in self.parts]}
        return json.dumps(head, separators=(",", ":")).encode() + b"\n" + b"".join(self.parts)

    @classmethod
    def decode(cls, data: bytes) -> Item:
        head, _, rest = data.partition(b"\n")
        facts = json.loads(head)
        parts = []
        for length in facts.pop("lengths"):
            parts.append(rest[:length])
            rest = rest[length:]
        return cls(facts, tuple(parts))


def name(kind: str, *parts: str) -> str:
    """The name of a record below a kind, of parts that may be any text."""
    return "/".join([kind, *(f"={quote(part, safe='')}" for part in parts)])


def parts_of(name: str) -> list[str]:
    """The parts of a record's name."""
    return [unquote(part[1:]) for part in name.split("/")[1:] if part.startswith("=")]


class Checkpoints:
    """The checkpoints, values and writes of threads, each a record, over one client.

    - `c/THREAD/NAMESPACE/ID`: a checkpoint without the values of its channels, and its parent.
    - `v/THREAD/NAMESPACE/CHANNEL/VERSION`: a value of a channel.
    - `w/THREAD/NAMESPACE/ID/TASK/INDEX`: a pending write.

    A checkpoint is written with its values in one batch, or behind them if they do not fit one: a
    checkpoint that can be read has all its values.
    """

    def __init__(self, client: Client, serde: Any, owner: Owner, ttl: Span | None) -> None:
        self.serde = serde
        self._client = client
        self._keys = client.keys(owner=owner, codec=Raw(), default_ttl=ttl)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """A checkpoint, or the latest of its thread and namespace."""
        thread, space = _place(config)
        checkpoint_id = get_checkpoint_id(config)
        if not checkpoint_id:
            found = self._names(name("c", thread, space) + "/")
            if not found:
                return None
            checkpoint_id = max(parts_of(each)[2] for each in found)
        return self._tuple(thread, space, checkpoint_id)

    def list(
        self, config: Any, *, filter: dict[str, Any] | None, before: Any, limit: int | None
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread and namespace, or of all, the newest first."""
        wanted: list[str] = []
        if config:
            wanted.append(config["configurable"]["thread_id"])
            if config["configurable"].get("checkpoint_ns") is not None:
                wanted.append(config["configurable"]["checkpoint_ns"])
        only = get_checkpoint_id(config) if config else None
        end = get_checkpoint_id(before) if before else None
        places = [parts_of(each) for each in self._names(name("c", *wanted) + "/")]
        for thread, space, checkpoint_id in sorted(places, key=lambda place: place[2])[::-1]:
            if limit is not None and limit <= 0:
                return
            if (only and checkpoint_id != only) or (end and checkpoint_id >= end):
                continue
            item = (self._read([name("c", thread, space, checkpoint_id)]))[0]
            if item is None:
                continue
            metadata = self._loads(item, "metadata", 1)
            if any(metadata.get(key) != value for key, value in (filter or {}).items()):
                continue
            found = self._tuple(thread, space, checkpoint_id, item)
            if found is not None:
                limit = None if limit is None else limit - 1
                yield found

    def put(self, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        """Keeps a checkpoint with the values of these channels."""
        thread, space = _place(config)
        bare = dict(checkpoint)
        values = bare.pop("channel_values")
        records: dict[str, bytes] = {}
        for channel, version in versions.items():
            kind, data = self._dumps(values[channel]) if channel in values else ("empty", b"")
            item = Item({"type": kind}, (data,))
            records |= _pieces(name("v", thread, space, channel, str(version)), item)
        one, two = self._dumps(bare), self._dumps(get_checkpoint_metadata(config, metadata))
        parent = config["configurable"].get("checkpoint_id")
        facts = {"parent": parent, "checkpoint": one[0], "metadata": two[0]}
        item = Item(facts, (one[1], two[1]))
        last = _pieces(name("c", thread, space, checkpoint["id"]), item)
        self._write({**records, **last})
        return _config(thread, space, checkpoint["id"])

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> None:
        """Keeps the writes of a task. One that is there stays, but for those that replace."""
        thread, space = _place(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        for at, (channel, value) in enumerate(writes):
            number = WRITES_IDX_MAP.get(channel, at)
            kind, data = self._dumps(value)
            item = Item({"type": kind, "channel": channel, "path": path}, (data,))
            place = name("w", thread, space, checkpoint_id, task, str(number))
            pieces = _pieces(place, item)
            if number < 0:
                self._write(pieces)
                continue
            # The first piece decides, so the others go before it.
            first = pieces.pop(place)
            if pieces and self._keys.exists(place):
                continue
            self._write(pieces)
            self._keys.put_if_absent(place, first)

    def delete_threads(self, threads: Sequence[str]) -> None:
        """Deletes all that threads have."""
        for thread in threads:
            for kind in "cvw":
                self._delete(name(kind, thread) + "/")

    def delete_runs(self, runs: Sequence[str]) -> None:
        """Deletes the checkpoints of these runs, and their writes."""
        for each in self._names("c/"):
            item = (self._read([each]))[0]
            if item is not None and self._loads(item, "metadata", 1).get("run_id") in runs:
                self._delete_checkpoint(*parts_of(each))

    def copy_thread(self, source: str, target: str) -> None:
        """Copies all that a thread has to another: the values first, the checkpoints last."""
        for kind in "vwc":
            start = name(kind, source)
            for record in self._keys.scan(start + "/", 16):
                self._keys.put(name(kind, target) + record.name[len(start) :], record.value)

    def prune(self, threads: Sequence[str], strategy: str) -> None:
        """Keeps the latest checkpoint of each namespace, or none.

        Ancestors are kept as far back as a channel of the latest has no value of its own, which a
        channel of differences needs. Values that no kept checkpoint has are deleted.
        """
        if strategy == "delete":
            self.delete_threads(threads)
            return
        if strategy != "keep_latest":
            raise ValueError(f"strategy {strategy!r}: 'keep_latest' or 'delete'")
        for thread in threads:
            spaces: dict[str, list[str]] = {}
            for each in self._names(name("c", thread) + "/"):
                _, space, checkpoint_id = parts_of(each)
                spaces.setdefault(space, []).append(checkpoint_id)
            for space, ids in spaces.items():
                self._prune_space(thread, space, ids)

    def _prune_space(self, thread: str, space: str, ids: Sequence[str]) -> None:
        kept: set[str] = set()
        values: set[str] = set()
        at: str | None = max(ids)
        lacking: set[str] | None = None
        while at is not None and (lacking is None or lacking):
            item = (self._read([name("c", thread, space, at)]))[0]
            if item is None:
                break
            kept.add(at)
            versions = self._loads(item, "checkpoint", 0)["channel_versions"]
            names = [name("v", thread, space, channel, str(v)) for channel, v in versions.items()]
            values.update(names)
            found = dict(zip(versions, self._read(names), strict=True))
            empty = {c for c, value in found.items() if value and value.facts["type"] == "empty"}
            full = {c for c, value in found.items() if value} - empty
            lacking = empty if lacking is None else lacking - full
            at = item.facts["parent"]
        for checkpoint_id in ids:
            if checkpoint_id not in kept:
                self._delete_checkpoint(thread, space, checkpoint_id)
        every = self._every(name("v", thread, space) + "/")
        unused = [info.name for info in every if info.name.split(_PIECE)[0] not in values]
        self._delete_names(unused)

    def _tuple(
        self, thread: str, space: str, checkpoint_id: str, item: Item | None = None
    ) -> CheckpointTuple | None:
        item = item or (self._read([name("c", thread, space, checkpoint_id)]))[0]
        if item is None:
            return None
        checkpoint = self._loads(item, "checkpoint", 0)
        versions = checkpoint["channel_versions"]
        names = [name("v", thread, space, channel, str(v)) for channel, v in versions.items()]
        found = dict(zip(versions, self._read(names), strict=True))
        values = {
            channel: self._loads(value, "type", 0)
            for channel, value in found.items()
            if value is not None and value.facts["type"] != "empty"
        }
        parent = item.facts["parent"]
        return CheckpointTuple(
            config=_config(thread, space, checkpoint_id),  # type: ignore[arg-type]
            checkpoint={**checkpoint, "channel_values": values},
            metadata=self._loads(item, "metadata", 1),
            parent_config=_config(thread, space, parent) if parent else None,  # type: ignore[arg-type]
            pending_writes=self._writes(thread, space, checkpoint_id),
        )

    def _writes(self, thread: str, space: str, checkpoint_id: str) -> Any:
        names = self._names(name("w", thread, space, checkpoint_id) + "/")
        found = []
        for each, item in zip(names, self._read(names), strict=True):
            if item is not None:
                *_, task, number = parts_of(each)
                found.append((item.facts["path"], task, int(number), item))
        return [
            (task, item.facts["channel"], self._loads(item, "type", 0))
            for _, task, _, item in sorted(found, key=lambda write: write[:3])
        ]

    def _every(self, prefix: str) -> Sequence[RecordInfo]:
        found: list[RecordInfo] = []
        after: str | None = None
        while True:
            page = self._keys.list_page(prefix, after, _PAGE)
            found += page.items
            after = page.next
            if after is None:
                return found

    def _names(self, prefix: str) -> Sequence[str]:
        return [info.name for info in self._every(prefix) if _PIECE not in info.name]

    def _read(self, names: Sequence[str]) -> Sequence[Item | None]:
        """What is under these names, their pieces put together."""
        found: list[Item | None] = []
        # One at a time may have 1 MiB, and a reply has room for 4.
        for at in range(0, len(names), 3):
            for record in self._keys.get_many(names[at : at + 3]):
                found.append(None if record is None else self._whole(record))
        return found

    def _whole(self, record: Any) -> Item | None:
        count, _, data = record.value.partition(b"\n")
        pieces = [data]
        for number in range(1, int(count)):
            piece = self._keys.get(f"{record.name}{_PIECE}{number}")
            if piece is None:
                # It was deleted or replaced meanwhile.
                return None
            pieces.append(piece)
        return Item.decode(b"".join(pieces))

    def _write(self, records: Mapping[str, bytes]) -> None:
        """Writes records together if they fit one batch, else in this order, batch by batch."""
        for part in batches(records, lambda each: len(records[each])):
            self._keys.put_many({each: records[each] for each in part})

    def _delete_checkpoint(self, thread: str, space: str, checkpoint_id: str) -> None:
        place = name("c", thread, space, checkpoint_id)
        pieces = self._every(place + _PIECE)
        self._delete_names([place, *(info.name for info in pieces)])
        self._delete(name("w", thread, space, checkpoint_id) + "/")

    def _delete(self, prefix: str) -> None:
        self._delete_names([info.name for info in self._every(prefix)])

    def _delete_names(self, names: Sequence[str]) -> None:
        for at in range(0, len(names), COUNT):
            transaction = self._client.transaction()
            for each in names[at : at + COUNT]:
                transaction.delete_key(self._keys, each)
            transaction.commit()

    def _dumps(self, value: Any) -> tuple[str, bytes]:
        kind, data = self.serde.dumps_typed(value)
        return kind, bytes(data)

    def _loads(self, item: Item, kind: str, at: int) -> Any:
        return self.serde.loads_typed((item.facts[kind], item.parts[at]))


def _place(config: Any) -> tuple[str, str]:
    found = config["configurable"]
    return str(found["thread_id"]), found.get("checkpoint_ns") or ""


def _config(thread: str, space: str, checkpoint_id: str) -> dict[str, Any]:
    return {
        "configurable": {
            "thread_id": thread,
            "checkpoint_ns": space,
            "checkpoint_id": checkpoint_id,
        }
    }


def _pieces(place: str, item: Item) -> dict[str, bytes]:
    """An item as records: the first, under its name, says how many there are."""
    data = item.encode()
    cut = [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]
    pieces = {f"{place}{_PIECE}{number}": piece for number, piece in enumerate(cut[1:], 1)}
    pieces[place] = f"{len(cut)}\n".encode() + cut[0]
    return pieces
