"""What reads and writes answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, Union

from ._wire import messages as wire
from .codec import Codec
from .errors import CodecError, InternalError

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class RecordInfo:
    """What is known of a handle or key, apart from its value."""

    #: The handle's id, or the key.
    name: str
    #: The end user whose record it is; empty where all callers share it.
    owner: str
    #: The log index of the last change of value: compare operand and fencing token.
    revision: int
    #: Times in milliseconds since the Unix epoch, on the cluster's clock.
    created_at_ms: int
    updated_at_ms: int
    #: The absolute deadline; None: none.
    expires_at_ms: int | None
    #: The idle time; None: none.
    idle_ttl_ms: int | None
    #: When the record expires unless it is renewed; None: no idle time.
    idle_deadline_ms: int | None
    #: Size of the value, in bytes.
    value_bytes: int

    @property
    def ends_at_ms(self) -> int | None:
        """When the record expires unless it is used; None: never."""
        ends = [at for at in (self.expires_at_ms, self.idle_deadline_ms) if at is not None]
        return min(ends, default=None)


@dataclass(frozen=True)
class Record(Generic[T_co]):
    """A handle or a key, with its value."""

    info: RecordInfo
    value: T_co

    @property
    def name(self) -> str:
        """The handle's id, or the key."""
        return self.info.name

    @property
    def revision(self) -> int:
        """The operand of `put_if` and the like."""
        return self.info.revision


@dataclass(frozen=True)
class Live(Generic[T_co]):
    """The handle lives; of a take: it lived, and this call took it."""

    record: T_co


class NotLive(Enum):
    """Why a handle does not live. To all but its owner it is unknown, by construction."""

    #: Its lifetime ended, less than a day ago.
    EXPIRED = "expired"
    #: Its value was taken, less than a day ago.
    TAKEN = "taken"
    #: Never minted, deleted, long gone, or another owner's.
    UNKNOWN = "unknown"


#: What became of a handle.
Resolved = Union[Live[T], NotLive]


@dataclass(frozen=True)
class Created:
    """There was no such record before."""

    info: RecordInfo


@dataclass(frozen=True)
class Replaced:
    """The record's value was replaced."""

    info: RecordInfo


@dataclass(frozen=True)
class Conflict:
    """The revision is another one, and nothing was written. Read again, decide again."""

    #: The record's revision; 0 if there is no such record.
    revision: int


#: What a conditional put of a handle did. A handle that expired or was taken is not written.
PutOutcome = Union[Created, Replaced, Conflict, NotLive]
#: What a conditional put of a key did.
StoreOutcome = Union[Created, Replaced, Conflict]
#: What a conditional take of a handle did.
TakeOutcome = Union[Live[Record[T]], Conflict, NotLive]


@dataclass(frozen=True)
class Listing(Generic[T_co]):
    """A list, all of it from one view."""

    #: The log index of the view: every change up to it is seen, none after it.
    revision: int
    #: The cluster's clock of the view, in milliseconds since the Unix epoch.
    clock_ms: int
    #: What is listed, by name in the order of the bytes.
    items: tuple[T_co, ...]


@dataclass(frozen=True)
class Page(Listing[T_co]):
    """A page of a list, all of it from one view. The next page is of a newer one."""

    #: The name behind which the next page begins; None if nothing follows.
    next: str | None


def info_of(info: wire.RecordInfo) -> RecordInfo:
    """What a reply says of a record."""

    def given(name: str) -> int | None:
        return getattr(info, name) if info.HasField(name) else None

    return RecordInfo(
        name=info.name,
        owner=info.owner,
        revision=info.revision,
        created_at_ms=info.created_at_ms,
        updated_at_ms=info.updated_at_ms,
        expires_at_ms=given("expires_at_ms"),
        idle_ttl_ms=given("idle_ttl_ms"),
        idle_deadline_ms=given("idle_deadline_ms"),
        value_bytes=info.value_bytes,
    )


def record_of(info: wire.RecordInfo, data: bytes, codec: Codec[T]) -> Record[T]:
    """A record. Raises CodecError, which names it, if the codec cannot read its value."""
    told = info_of(info)
    try:
        return Record(told, codec.decode(data))
    except CodecError as error:
        raise CodecError(f"record {told.name!r}: {error.message}") from error


def as_sent(found: Any) -> Any:
    """A record of a list whose value is not read yet."""
    return found


_NOT_LIVE = {
    wire.HANDLE_STATUS_EXPIRED: NotLive.EXPIRED,
    wire.HANDLE_STATUS_TAKEN: NotLive.TAKEN,
    wire.HANDLE_STATUS_UNKNOWN: NotLive.UNKNOWN,
}


def not_live(status: int) -> NotLive:
    """Why a handle does not live."""
    found = _NOT_LIVE.get(status)  # type: ignore[call-overload]
    if found is None:
        raise InternalError(f"a handle status that this version does not know: {status}")
    return NotLive(found)


def resolved(status: int, live: Callable[[], T]) -> Resolved[T]:
    """What became of a handle; `live` reads the record of one that lives."""
    return Live(live()) if status == wire.HANDLE_STATUS_LIVE else not_live(status)


def stored(reply: Any) -> Created | Replaced | NotLive:
    """What a reply to a put or a store says that it did."""
    if reply.status == wire.WRITE_STATUS_CREATED:
        return Created(info_of(reply.info))
    if reply.status == wire.WRITE_STATUS_REPLACED:
        return Replaced(info_of(reply.info))
    if reply.status == wire.WRITE_STATUS_EXPIRED:
        return NotLive.EXPIRED
    if reply.status == wire.WRITE_STATUS_TAKEN:
        return NotLive.TAKEN
    raise InternalError(f"a write status that this version does not know: {reply.status}")


def listing_of(header: Any, found: Sequence[Any], item: Callable[[Any], T]) -> Listing[T]:
    """A list of what a cluster's reply holds; `item` reads each."""
    return Listing(header.index, header.clock_ms, tuple(map(item, found)))


def page_of(header: Any, found: Sequence[Any], limit: int, item: Callable[[Any], T]) -> Page[T]:
    """The first `limit` of a list which, if more follow, has at least one of them, too.

    Only what is shown is read: an error is never that of a record beyond the page.
    """
    listing = listing_of(header, found[:limit], item)
    following = found[limit - 1].info.name if len(found) > limit else None
    return Page(listing.revision, listing.clock_ms, listing.items, following)
