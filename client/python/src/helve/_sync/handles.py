# Made of `handles.py` by tools/unasync.py: do not edit.
"""The handle store: what a server keeps between calls, under ids that the cluster mints."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Callable, Sequence
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
    Live,
    NotLive,
    Page,
    PutOutcome,
    Record,
    RecordInfo,
    Replaced,
    Resolved,
    TakeOutcome,
    as_sent,
    info_of,
    listing_of,
    page_of,
    record_of,
    resolved,
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
#: Of an idempotency key's digest, in an id: 128 bits, as minted ids have.
_DIGEST_CHARACTERS = 32


class HandleStore(Generic[T]):
    """A store of values of type `T` under opaque ids (SEP-2567 state handles).

    Every method raises those errors of `helve.errors` that its call can meet; `UnavailableError`,
    `OverloadedError`, `InvalidError`, `DeniedError` and `ClosedError` always, `AmbiguousError` and
    `FullError` of writes.
    """

    def __init__(
        self,
        client: Client,
        store: str,
        owner: Owner,
        codec: Codec[T],
        id_prefix: str,
        defaults: Defaults,
    ) -> None:
        """Is made by `Client.handles`."""
        self._client = client
        self._store = store
        self._owner = owner
        self._codec = codec
        self._id_prefix = id_prefix
        self._defaults = defaults
        self._is_closed = False

    def for_owner(self, owner: Owner) -> HandleStore[T]:
        """The same store for another end user; it shares nothing with this one but the client."""
        return HandleStore(
            self._client, self._store, owner, self._codec, self._id_prefix, self._defaults
        )

    def mint(self, value: T, ttl: Lifetime = Ttl.DEFAULT) -> str:
        """Keeps a value under a new id: `prefix-` and 26 characters of base32, 128 random bits."""
        return (self.mint_record(value, ttl)).name

    def mint_record(self, value: T, ttl: Lifetime = Ttl.DEFAULT) -> RecordInfo:
        """As `mint`, but answers all that is known of the new handle, its revision included."""
        request = wire.MintRequest(
            store=parts.store(self._store),
            owner=self._on_wire(),
            id_prefix=parts.id_prefix(self._id_prefix),
            value=self._codec.encode(value),
            lifetime=self._defaults.lifetime(ttl),
        )
        return info_of((self._open().call(methods.MINT, request)).info)

    def mint_once(self, key: str | None, value: T, ttl: Lifetime = Ttl.DEFAULT) -> str:
        """As `mint`, but once for each idempotency key of the owner: again, it answers the same id.

        The id is made of the key: any caller of the owner who knows the key knows the id. What
        became of the handle since is kept, and `value` then not used. A handle that expired or was
        taken is not made again for a day. Without a key this is `mint`.
        """
        if key is None:
            return self.mint(value, ttl)
        digest = hashlib.sha256(key.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        id = f"{self._id_prefix}-{digest}" if self._id_prefix else digest
        self.put_if_absent(id, value, ttl)
        return id

    def put(self, id: str, value: T, ttl: Lifetime = Ttl.DEFAULT) -> bool:
        """Writes a value under an id of the caller's choosing.

        True if the handle existed and was replaced; False if it was created, and also if it has
        expired or was taken and therefore nothing was written: `put_if` tells these apart.
        """
        return isinstance(self._write(id, value, ttl, None), Replaced)

    def put_if(
        self, id: str, value: T, revision: int, ttl: Lifetime = Ttl.DEFAULT
    ) -> PutOutcome:
        """Writes a value if the handle's revision is `revision`; 0: if there is no such handle.

        A conflict is an outcome here, no error.
        """
        try:
            return self._write(id, value, ttl, revision)
        except ConflictError as conflict:
            return Conflict(conflict.revision)

    def put_if_absent(self, id: str, value: T, ttl: Lifetime = Ttl.DEFAULT) -> PutOutcome:
        """Writes a value if there is no such handle."""
        return self.put_if(id, value, 0, ttl)

    def get(self, id: str) -> T | None:
        """The value, if the handle lives. Restarts the idle time."""
        found = self.resolve(id)
        return found.record.value if isinstance(found, Live) else None

    def resolve(self, id: str) -> Resolved[Record[T]]:
        """The handle with its revision and times, or what became of it. Restarts the idle time."""
        request = wire.GetRequest(
            store=parts.store(self._store), owner=self._on_wire(), id=parts.handle_id(id)
        )
        reply = self._open().call(methods.GET, request)
        return resolved(reply.status, lambda: self._record(reply))

    def take(self, id: str) -> Resolved[Record[T]]:
        """Gets and deletes: of any number of callers one receives the value.

        After CodecError the value is gone.
        """
        return self._take(id, None)

    def take_if(self, id: str, revision: int) -> TakeOutcome[T]:
        """As `take`, if the handle's revision is `revision`: nothing is taken that was not seen."""
        try:
            return self._take(id, revision)
        except ConflictError as conflict:
            return Conflict(conflict.revision)

    def renew(self, id: str, ttl: Lifetime = Ttl.DEFAULT) -> Resolved[RecordInfo]:
        """Gives a handle a new lifetime. `Ttl.KEEP` restarts only its idle time."""
        request = wire.RenewRequest(
            store=parts.store(self._store),
            owner=self._on_wire(),
            id=parts.handle_id(id),
            lifetime=self._defaults.lifetime(ttl),
        )
        reply = self._open().call(methods.RENEW, request)
        return resolved(reply.status, lambda: info_of(reply.info))

    def delete(self, id: str) -> bool:
        """Deletes a handle; true if it lived."""
        request = wire.DeleteRequest(
            store=parts.store(self._store), owner=self._on_wire(), id=parts.handle_id(id)
        )
        reply = self._open().call(methods.DELETE, request)
        return reply.status == wire.HANDLE_STATUS_LIVE

    def count(self) -> int:
        """How many of the store's handles live, under its owner."""
        request = wire.CountRequest(store=parts.store(self._store), owner=self._on_wire())
        return (self._open().call(methods.COUNT, request)).live

    def update(self, id: str, change: Callable[[T], T]) -> Resolved[Record[T]]:
        """Changes a value, and loses no other caller's change.

        Reads, calls `change`, writes if no other write came between, else begins again; keeps the
        lifetime. `change` may be called several times: it must do nothing but compute. What it
        raises is raised, and then nothing is written. Answers the handle as written, or why there
        is none. Raises ConflictError if others wrote first until the deadline ended, and
        AmbiguousError if it ended during the write.
        """
        until = time.monotonic() + min(self._client.deadline, limits.DEADLINE_MAX)
        backoff = Backoff(limits.CONTENTION_FIRST, limits.CONTENTION_MAX)
        while True:
            found: Resolved[Record[T]] = within(
                until, lambda: self.resolve(id), is_writing=False
            )
            if not isinstance(found, Live):
                return found
            value, seen = change(found.record.value), found.record.revision
            outcome = within(until, self._put_over(id, value, seen), is_writing=True)
            if isinstance(outcome, (Created, Replaced)):
                return Live(Record(outcome.info, value))
            if isinstance(outcome, NotLive):
                return outcome
            pause(until, backoff, outcome.revision)

    def list(self) -> Listing[RecordInfo]:
        """The live handles of the store under its owner, by id, without their values.

        Does not restart idle times. Raises LapsedError if it takes over 60 s, and InvalidError
        (TOO_LARGE) if it is over 256 MiB: `scan` has no such bounds.
        """
        return listing_of(*self._listed(self._list_request()), _info)

    def list_values(self) -> Listing[Record[T]]:
        """As `list`, with the values."""
        request = self._list_request()
        request.with_values = True
        return listing_of(*self._listed(request), self._record)

    def list_page(self, after: str | None = None, limit: int = PAGE) -> Page[RecordInfo]:
        """At most `limit` handles, of those behind the id `after` alone, within the deadline.

        It costs about as much as it lists, however large the store is. `next` of the answer is
        what the next page begins behind. A limit of 0 is taken as 1.
        """
        limit = max(limit, 1)
        return page_of(*self._listed(self._page_request(after, limit)), limit, _info)

    def list_values_page(
        self, after: str | None = None, limit: int = PAGE
    ) -> Page[Record[T]]:
        """As `list_page`, with the values."""
        return self._values_page(after, limit, self._record)

    def scan(
        self, page: int = PAGE, *, unread: Callable[[CodecError], None] | None = None
    ) -> Iterator[Record[T]]:
        """All handles with their values, page by page: for stores of any size.

        Each page is a view of its own: what is written meanwhile may be seen or not. A value that
        the codec does not read raises CodecError, which names its handle, behind the records before
        it. `unread` is given the error instead, and the scan goes on behind that handle.
        """
        after: str | None = None
        while True:
            found = self._values_page(after, page, as_sent)
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
        """Ends this store object: its calls from now on raise ClosedError. The values stay."""
        self._is_closed = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store!r}, {self._owner!r}, {self._client!r})"

    def _open(self) -> Client:
        if self._is_closed:
            raise closed()
        return self._client

    def _on_wire(self) -> str:
        return on_wire(self._owner)

    def _record(self, reply: wire.GetReply | wire.TakeReply | wire.ListedHandle) -> Record[T]:
        if not reply.HasField("info"):
            raise InternalError("a reply without its info")
        return record_of(reply.info, reply.value, self._codec)

    def _put_over(self, id: str, value: T, revision: int) -> Callable[[], Any]:
        return lambda: self.put_if(id, value, revision, Ttl.KEEP)

    def _write(
        self, id: str, value: T, ttl: Lifetime, if_revision: int | None
    ) -> Created | Replaced | NotLive:
        request = wire.PutRequest(
            store=parts.store(self._store),
            owner=self._on_wire(),
            id=parts.handle_id(id),
            value=self._codec.encode(value),
            lifetime=self._defaults.lifetime(ttl),
            if_revision=if_revision,
        )
        return stored(self._open().call(methods.PUT, request))

    def _take(self, id: str, if_revision: int | None) -> Resolved[Record[T]]:
        request = wire.TakeRequest(
            store=parts.store(self._store),
            owner=self._on_wire(),
            id=parts.handle_id(id),
            if_revision=if_revision,
        )
        reply = self._open().call(methods.TAKE, request)
        return resolved(reply.status, lambda: self._record(reply))

    def _list_request(self) -> wire.ListRequest:
        return wire.ListRequest(store=parts.store(self._store), owner=self._on_wire())

    def _page_request(self, after: str | None, limit: int) -> wire.ListRequest:
        request = self._list_request()
        request.after = after or ""
        # One more says whether any follow.
        request.handles_max = limit + 1
        return request

    def _values_page(
        self, after: str | None, limit: int, item: Callable[[Any], R]
    ) -> Page[R]:
        limit = max(limit, 1)
        request = self._page_request(after, limit)
        request.with_values = True
        return page_of(*self._listed(request), limit, item)

    def _listed(self, request: wire.ListRequest) -> tuple[Any, Sequence[Any]]:
        client = self._open()
        return client._cluster().listed(
            methods.LIST, request, client.deadline, after=request.after, limit=request.handles_max
        )


def _info(found: wire.ListedHandle) -> RecordInfo:
    return info_of(found.info)
