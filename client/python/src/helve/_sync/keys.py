# Made of `keys.py` by tools/unasync.py: do not edit.
"""Values under keys of the caller's choosing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._core import limits, parts
from .._core.backoff import Backoff
from .._wire import messages as wire
from .._wire import methods
from ..codec import Codec
from ..errors import CodecError, ConflictError, InternalError, closed
from ..owner import Owner, on_wire
from ..records import (
    Conflict,
    Created,
    Listing,
    NotLive,
    Page,
    Record,
    RecordInfo,
    Replaced,
    StoreOutcome,
    as_sent,
    info_of,
    listing_of,
    page_of,
    record_of,
    stored,
)
from ..ttl import Defaults, Lifetime, Ttl
from .steps import pause, within

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")
R = TypeVar("R")

#: Records of a page, if its caller says nothing.
PAGE = 100


class Keys(Generic[T]):
    """Values of type `T` under keys of 1 to 1,024 bytes of UTF-8 without NUL.

    `/` has no special meaning. A key has a revision, which every write changes: what is written
    with a revision as condition overwrites nothing that was not read.
    """

    def __init__(
        self, client: Client, owner: Owner, codec: Codec[T], defaults: Defaults
    ) -> None:
        """Is made by `Client.keys`."""
        self._client = client
        self._owner = owner
        self._codec = codec
        self._defaults = defaults
        self._is_closed = False

    def for_owner(self, owner: Owner) -> Keys[T]:
        """The keys of another end user; they share nothing with these but the client."""
        return Keys(self._client, owner, self._codec, self._defaults)

    def get(self, key: str) -> T | None:
        """The value, if there is such a key. Restarts the idle time."""
        found = self.get_record(key)
        return None if found is None else found.value

    def get_record(self, key: str) -> Record[T] | None:
        """The value with its revision and times, if there is such a key. Restarts the idle time."""
        request = wire.RetrieveRequest(owner=self._on_wire(), key=parts.key(key))
        reply = self._open().call(methods.RETRIEVE, request)
        return self._record(reply.record) if reply.HasField("record") else None

    def put(self, key: str, value: T, ttl: Lifetime = Ttl.DEFAULT) -> RecordInfo:
        """Stores a value, and answers the revision and times that it got."""
        outcome = self._write(key, value, ttl, None)
        return outcome.info

    def put_if(
        self, key: str, value: T, revision: int, ttl: Lifetime = Ttl.DEFAULT
    ) -> StoreOutcome:
        """Stores a value if the key's revision is `revision`; 0: if there is no such key.

        A conflict is an outcome here, no error.
        """
        try:
            return self._write(key, value, ttl, revision)
        except ConflictError as conflict:
            return Conflict(conflict.revision)

    def put_if_absent(self, key: str, value: T, ttl: Lifetime = Ttl.DEFAULT) -> StoreOutcome:
        """Stores a value if there is no such key."""
        return self.put_if(key, value, 0, ttl)

    def put_many(self, items: Mapping[str, T], ttl: Lifetime = Ttl.DEFAULT) -> None:
        """Stores all, or none: at most 128 keys, and 4 MiB in all."""
        lifetime = self._defaults.lifetime(ttl)
        request = wire.BatchStoreRequest(owner=self._on_wire())
        for key, value in items.items():
            request.items.add(
                key=parts.key(key), value=self._codec.encode(value), lifetime=lifetime
            )
        self._open().call(methods.BATCH_STORE, request)

    def get_many(self, keys: Sequence[str]) -> tuple[Record[T] | None, ...]:
        """The records in the order asked for, all from one view. At most 128."""
        names = [parts.key(key) for key in keys]
        request = wire.BatchRetrieveRequest(owner=self._on_wire(), keys=names)
        reply = self._open().call(methods.BATCH_RETRIEVE, request)
        return tuple(
            self._record(each.record) if each.HasField("record") else None for each in reply.keys
        )

    def exists(self, key: str) -> bool:
        """Whether there is such a key. Does not restart the idle time."""
        request = wire.ExistsRequest(owner=self._on_wire(), key=parts.key(key))
        return (self._open().call(methods.EXISTS, request)).exists

    def delete(self, key: str) -> bool:
        """Deletes a key; true if there was one."""
        return self._delete(key, None)

    def delete_if(self, key: str, revision: int) -> bool:
        """Deletes a key if its revision is `revision`. False: it is another, or there is none."""
        try:
            return self._delete(key, revision)
        except ConflictError:
            return False

    def take(self, key: str) -> Record[T] | None:
        """Gets and deletes: of any number of callers one receives the value.

        None: there is no such key. Raises ConflictError if others wrote first until the deadline
        ended, and AmbiguousError if it ended during the deletion.
        """
        until, backoff = self._loop()
        while True:
            found = within(until, lambda: self.get_record(key), is_writing=False)
            if found is None:
                return None
            deleted = within(until, self._delete_over(key, found.revision), is_writing=True)
            if deleted:
                return found  # type: ignore[no-any-return]
            pause(until, backoff, found.revision)

    def update(self, key: str, change: Callable[[T | None], T]) -> Record[T]:
        """Changes a value, and loses no other caller's change.

        Reads, calls `change` with what is there or None, writes if no other write came between, or
        begins again. A key that exists keeps its lifetime; a new one gets that of the options.
        `change` may be called several times: it must do nothing but compute. What it raises is
        raised, and then nothing is written. Raises ConflictError if others wrote first until the
        deadline ended, and AmbiguousError if it ended during the write.
        """
        until, backoff = self._loop()
        while True:
            found = within(until, lambda: self.get_record(key), is_writing=False)
            value = change(None if found is None else found.value)
            outcome = within(until, self._put_over(key, value, found), is_writing=True)
            if isinstance(outcome, (Created, Replaced)):
                return Record(outcome.info, value)
            pause(until, backoff, outcome.revision)

    def list(self, prefix: str = "") -> Listing[RecordInfo]:
        """The keys that begin with these characters, in the order of their bytes, without values.

        Raises LapsedError if it takes over 60 s, and InvalidError (TOO_LARGE) if it is over
        256 MiB: `scan` has no such bounds.
        """
        return listing_of(*self._listed(self._list_request(prefix)), _info)

    def list_values(self, prefix: str = "") -> Listing[Record[T]]:
        """As `list`, with the values."""
        request = self._list_request(prefix)
        request.with_values = True
        return listing_of(*self._listed(request), self._record)

    def list_page(
        self, prefix: str = "", after: str | None = None, limit: int = PAGE
    ) -> Page[RecordInfo]:
        """At most `limit` keys, of those behind the key `after` alone, within the deadline.

        It costs about as much as it lists, however many keys there are. `next` of the answer is
        what the next page begins behind. A limit of 0 is taken as 1.
        """
        limit = max(limit, 1)
        return page_of(*self._listed(self._page_request(prefix, after, limit)), limit, _info)

    def list_values_page(
        self, prefix: str = "", after: str | None = None, limit: int = PAGE
    ) -> Page[Record[T]]:
        """As `list_page`, with the values."""
        return self._values_page(prefix, after, limit, self._record)

    def scan(
        self,
        prefix: str = "",
        page: int = PAGE,
        *,
        unread: Callable[[CodecError], None] | None = None,
    ) -> Iterator[Record[T]]:
        """All keys with their values, page by page: for any number of them.

        Each page is a view of its own: what is written meanwhile may be seen or not. A value that
        the codec does not read raises CodecError, which names its key, behind the records before
        it. `unread` is given the error instead, and the scan goes on behind that key.
        """
        after: str | None = None
        while True:
            found = self._values_page(prefix, after, page, as_sent)
            for each in found.items:
                try:
                    record = self._record(each)
                except CodecError as error:
                    if unread is None:
                        raise
                    unread(error)
                    continue
                yield record
            after = found.next
            if after is None:
                return

    def close(self) -> None:
        """Ends this object: its calls from now on raise ClosedError. The values stay."""
        self._is_closed = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._owner!r}, {self._client!r})"

    def _open(self) -> Client:
        if self._is_closed:
            raise closed()
        return self._client

    def _on_wire(self) -> str:
        return on_wire(self._owner)

    def _loop(self) -> tuple[float, Backoff]:
        until = time.monotonic() + min(self._client.deadline, limits.DEADLINE_MAX)
        return until, Backoff(limits.CONTENTION_FIRST, limits.CONTENTION_MAX)

    def _record(self, found: wire.KeyRecord) -> Record[T]:
        return record_of(found.info, found.value, self._codec)

    def _put_over(self, key: str, value: T, found: Record[T] | None) -> Callable[[], Any]:
        if found is None:
            return lambda: self.put_if(key, value, 0)
        return lambda: self.put_if(key, value, found.revision, Ttl.KEEP)

    def _delete_over(self, key: str, revision: int) -> Callable[[], Any]:
        return lambda: self.delete_if(key, revision)

    def _write(
        self, key: str, value: T, ttl: Lifetime, if_revision: int | None
    ) -> Created | Replaced:
        request = wire.StoreRequest(
            owner=self._on_wire(),
            key=parts.key(key),
            value=self._codec.encode(value),
            lifetime=self._defaults.lifetime(ttl),
            if_revision=if_revision,
        )
        outcome = stored(self._open().call(methods.STORE, request))
        if isinstance(outcome, NotLive):
            raise InternalError("a write status that no key has")
        return outcome

    def _delete(self, key: str, if_revision: int | None) -> bool:
        request = wire.DeleteKeyRequest(
            owner=self._on_wire(), key=parts.key(key), if_revision=if_revision
        )
        return (self._open().call(methods.DELETE_KEY, request)).existed

    def _list_request(self, prefix: str) -> wire.ListKeysRequest:
        return wire.ListKeysRequest(owner=self._on_wire(), prefix=parts.key_prefix(prefix))

    def _page_request(self, prefix: str, after: str | None, limit: int) -> wire.ListKeysRequest:
        request = self._list_request(prefix)
        request.after = after or ""
        # One more says whether any follow.
        request.keys_max = limit + 1
        return request

    def _values_page(
        self, prefix: str, after: str | None, limit: int, item: Callable[[Any], R]
    ) -> Page[R]:
        limit = max(limit, 1)
        request = self._page_request(prefix, after, limit)
        request.with_values = True
        return page_of(*self._listed(request), limit, item)

    def _listed(self, request: wire.ListKeysRequest) -> tuple[Any, Sequence[Any]]:
        client = self._open()
        return client._cluster().listed(
            methods.LIST_KEYS, request, client.deadline, after=request.after, limit=request.keys_max
        )


def _info(found: wire.KeyRecord) -> RecordInfo:
    return info_of(found.info)
