"""What a watch is about, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ._core import parts
from ._wire import messages as wire
from .owner import Owner, on_wire
from .records import RecordInfo, info_of

#: The rule of each name of a watch.
_RULES = {
    "store": parts.store,
    "owner": parts.owner,
    "id": parts.handle_id,
    "prefix": parts.key_prefix,
}


@dataclass(frozen=True)
class Watch:
    """The records whose changes are told: `Watch.store("cart")` and the like make it."""

    #: What the contract calls it, and the names in it.
    target: str
    names: tuple[tuple[str, str], ...]

    @classmethod
    def store(cls, store: str, *, owner: Owner | None = None) -> Watch:
        """The handles of a store: of one owner, or of all if none is named."""
        if owner is None:
            return cls("store", (("store", store),))
        return cls("store", (("store", store), ("owner", on_wire(owner))))

    @classmethod
    def handle(cls, store: str, id: str, *, owner: Owner) -> Watch:
        """One handle."""
        return cls("handle", (("store", store), ("owner", on_wire(owner)), ("id", id)))

    @classmethod
    def keys(cls, prefix: str = "", *, owner: Owner) -> Watch:
        """An owner's keys that begin with these characters."""
        return cls("keys", (("owner", on_wire(owner)), ("prefix", prefix)))

    @classmethod
    def owner(cls, owner: Owner) -> Watch:
        """All handles, of whatever store, and all keys of an owner."""
        return cls("owner", (("owner", on_wire(owner)),))

    def request(self, after: int | None) -> wire.WatchRequest:
        """The request on the wire."""
        made = wire.WatchRequest(after=after)
        target = getattr(made, self.target)
        # Named even if all its names are empty.
        target.SetInParent()
        for name, value in self.names:
            setattr(target, name, _RULES[name](value))
        return made


class ChangeKind(str, Enum):
    """What happened to a record."""

    #: It was made, or its value was replaced. A renewal is no change.
    PUT = "put"
    #: A handle's value was taken.
    TAKEN = "taken"
    DELETED = "deleted"
    #: Its lifetime had ended, and its row was removed.
    EXPIRED = "expired"
    #: A kind that only newer versions know: read the record.
    OTHER = "other"


@dataclass(frozen=True)
class Change:
    """One change of a record, without its value: read the record, which has the newest one."""

    kind: ChangeKind
    #: The store of a handle; None: it is a key.
    store: str | None
    #: Name and owner of the record, and the revision of this change. Times, lifetimes and the
    #: value's size are of a put alone.
    info: RecordInfo
    #: The number of the change among all of its revision: the pair of both only grows.
    ordinal: int

    @property
    def name(self) -> str:
        """The handle's id, or the key."""
        return self.info.name

    @property
    def revision(self) -> int:
        """The log index of the change."""
        return self.info.revision


_KINDS = {
    wire.CHANGE_KIND_PUT: ChangeKind.PUT,
    wire.CHANGE_KIND_TAKEN: ChangeKind.TAKEN,
    wire.CHANGE_KIND_DELETED: ChangeKind.DELETED,
    wire.CHANGE_KIND_EXPIRED: ChangeKind.EXPIRED,
}


def change_of(told: wire.Change) -> Change:
    """What a node tells of a change."""
    kind = _KINDS.get(told.kind, ChangeKind.OTHER)
    return Change(kind, told.store or None, info_of(told.info), told.ordinal)
