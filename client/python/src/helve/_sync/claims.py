# Made of `claims.py` by tools/unasync.py: do not edit.
"""Claims: who carries out a side effect that must happen once, and what it came to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._core import limits, parts
from .._core.backoff import Backoff
from .._wire import messages as wire
from .._wire import methods
from ..claimed import (
    Claimed,
    Done,
    EarlierLease,
    Fresh,
    InFlight,
    LeaseEnd,
    OtherDigest,
    checked,
    earlier_of,
)
from ..codec import Codec
from ..errors import (
    AmbiguousError,
    CodecError,
    HelveError,
    InFlightError,
    InternalError,
    LeaseLostError,
    OtherDigestError,
    OverloadedError,
    Reason,
    UnavailableError,
    UnkeptResultError,
    closed,
    refused,
)
from ..owner import Owner, on_wire
from ..ttl import Lifetime, Span, Ttl, millis
from . import io

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")

_log = logging.getLogger("helve")


class Claims(Generic[T]):
    """Leases on side effects that must happen once, such as payments, and results of type `T`.

    Of any number of callers of a key one has the lease. Callers after its `finish` get its result.
    A holder that dies loses the lease at its end, on the cluster's clock; then the next caller has
    one, with a higher fence. A holder that was suspended for longer than its lease does not know
    that it lost it: what carries the side effect out should refuse a key that it has seen, or a
    lower fence. Clusters know claims from feature level 6 on; before, calls raise InternalError.
    """

    def __init__(
        self,
        client: Client,
        store: str,
        owner: Owner,
        codec: Codec[T],
        lease: Span,
        default_ttl: Span | None,
    ) -> None:
        """Is made by `Client.claims`."""
        self._client = client
        self._store = store
        self._owner = owner
        self._codec = codec
        self._lease = lease
        self._default_ttl = default_ttl
        self._is_closed = False

    def for_owner(self, owner: Owner) -> Claims[T]:
        """The claims of another end user; they share nothing with these but the client."""
        return Claims(
            self._client, self._store, owner, self._codec, self._lease, self._default_ttl
        )

    def claim(
        self, key: str, digest: bytes, *, lease: Span | None = None, note: str = ""
    ) -> Claimed[Lease[T], T]:
        """Asks for the right to carry out a side effect.

        - `key`: names the side effect; 1 to 128 bytes without NUL, such as `order-17/pay`.
        - `digest`: says what the side effect is, in 1 to 64 bytes: `digest_of(request)`. The same
          key with another digest is `OtherDigest`.
        - `lease`: how long the caller may take, a day at most; that of the options if None.
        - `note`: told to those who find the claim in flight.

        Raises InvalidError (CLAIMED) if the id is that of a handle. After AmbiguousError this
        caller may have a lease that it does not know of; it ends by itself.
        """
        return self._begin(self._on_wire(), key, digest, self._lease_ms(lease), note)

    def once(
        self,
        key: str,
        digest: bytes,
        effect: Callable[[Lease[T]], T],
        *,
        recover: Callable[[Lease[T]], T] | None = None,
        undone: type[Exception] | tuple[type[Exception], ...] = (),
        lease: Span | None = None,
        ttl: Lifetime = Ttl.DEFAULT,
        note: str = "",
        patience: float | None = None,
    ) -> T:
        """Carries out a side effect once, and answers its result to every caller of the key.

        - `effect` is called with the lease if this caller is the first one. What it answers is
          kept. It must end within the lease: `lease.left` says how much of it is left.
        - `recover` is called in its place if an earlier holder's lease ended without a word, so
          that the side effect may have happened; `lease.earlier` says which one's. It finds out,
          and answers the result; or it carries the side effect out. Give `effect` itself if it may
          be repeated, because what it calls knows the key. The cluster knows of an earlier holder
          for a day; afterwards `effect` is called.
        - `undone`: errors of `effect` and `recover` after which the side effect certainly did not
          happen, under an earlier lease either. The claim is given up, and the next caller begins
          at once. After any other error the lease ends by itself, and the next caller recovers.
        - `lease`, `note`: as of `claim`.
        - `ttl`: how long the result is kept; `default_ttl` of the options, without it for ever. For
          a day after, the key is that of an earlier holder.
        - `patience`: how long another caller's lease is waited for, in seconds; the client's
          deadline if None. Waiting costs reads, no writes.

        Raises what `effect` or `recover` raises, OtherDigestError, InFlightError if another caller
        had the lease all the time, UnkeptResultError if the side effect happened and its result
        could not be kept, and AmbiguousError if an earlier holder may have carried it out and
        there is no `recover`, or if a claim's own answer was lost.
        """
        patience = self._client.deadline if patience is None else patience
        until = time.monotonic() + min(patience, limits.DEADLINE_MAX)
        owner, lease_ms = self._on_wire(), self._lease_ms(lease)
        while True:
            outcome = self._begin(owner, key, digest, lease_ms, note)
            if isinstance(outcome, Fresh):
                return self._fresh(outcome.lease, effect, recover, undone, ttl)
            if isinstance(outcome, Done):
                return outcome.result
            if isinstance(outcome, OtherDigest):
                message = f"{key!r} was claimed for another digest, so for another request"
                raise OtherDigestError(message)
            self._changed(owner, key, outcome, until)

    def delete(self, key: str) -> bool:
        """Frees a key, whatever is known of it; true if it was in flight or done.

        The next caller carries the side effect out again, and `once` does so without `recover`.
        """
        request = wire.DeleteRequest(
            store=parts.store(self._store), owner=self._on_wire(), id=parts.handle_id(key)
        )
        reply = self._open().call(methods.DELETE, request)
        return reply.status == wire.HANDLE_STATUS_LIVE

    def close(self) -> None:
        """Ends this object: its calls from now on raise ClosedError. The claims stay."""
        self._is_closed = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store!r}, {self._owner!r}, {self._client!r})"

    def _open(self) -> Client:
        if self._is_closed:
            raise closed()
        return self._client

    def _on_wire(self) -> str:
        return on_wire(self._owner)

    def _lease_ms(self, lease: Span | None) -> int:
        return millis(self._lease if lease is None else lease)

    def _begin(
        self, owner: str, key: str, digest: bytes, lease_ms: int, note: str
    ) -> Claimed[Lease[T], T]:
        begin = wire.ClaimBegin(digest=checked(digest), lease_ms=lease_ms, note=note.encode())
        request = wire.ClaimRequest(
            store=parts.store(self._store), owner=owner, id=parts.handle_id(key), begin=begin
        )
        began = time.monotonic()
        reply = self._open().call(methods.CLAIM, request)
        ends_at_ms = reply.info.expires_at_ms
        left = max(ends_at_ms - reply.header.clock_ms, 0) / 1000
        if reply.status == wire.CLAIM_STATUS_FRESH:
            ends_at, earlier = began + left, earlier_of(reply)
            return Fresh(Lease(self, owner, key, reply.fence, ends_at_ms, ends_at, earlier))
        if reply.status == wire.CLAIM_STATUS_IN_FLIGHT:
            told = reply.value.decode(errors="replace")
            return InFlight(reply.info.revision, ends_at_ms, left, told)
        if reply.status == wire.CLAIM_STATUS_DONE:
            is_for_ever = not reply.info.HasField("expires_at_ms")
            result = self._result(key, reply.value)
            return Done(result, None if is_for_ever else ends_at_ms)
        if reply.status == wire.CLAIM_STATUS_CONFLICT:
            return OtherDigest()
        raise _unknown(reply.status)

    def _result(self, key: str, data: bytes) -> T:
        try:
            return self._codec.decode(data)
        except CodecError as error:
            raise CodecError(f"the result of {key!r}: {error.message}") from error

    def _result_ttl_ms(self, ttl: Lifetime) -> int | None:
        span = self._default_ttl if ttl is Ttl.DEFAULT else ttl
        if span is None or span is Ttl.NEVER:
            return None
        if isinstance(span, Ttl):
            message = f"{span} of a result, which had no lifetime before: give a time"
            raise refused(Reason.BAD_LIFETIME, message)
        return millis(span)

    def _changed(self, owner: str, key: str, found: InFlight, until: float) -> None:
        """Waits until a lease is finished, given up, or over."""
        backoff = Backoff(limits.GUARD_FIRST, limits.GUARD_MAX)
        while True:
            length = backoff.next()
            if length >= until - time.monotonic():
                message = f"{key!r} was in flight all the time: another caller has its lease"
                raise InFlightError(message, until_ms=found.until_ms)
            io.sleep(length)
            request = wire.GetRequest(
                store=parts.store(self._store), owner=owner, id=parts.handle_id(key)
            )
            reply = self._open().call(methods.GET, request)
            if reply.info.revision != found.fence:
                return

    def _fresh(
        self,
        lease: Lease[T],
        effect: Callable[[Lease[T]], T],
        recover: Callable[[Lease[T]], T] | None,
        undone: type[Exception] | tuple[type[Exception], ...],
        ttl: Lifetime,
    ) -> T:
        if lease.earlier is None or not lease.earlier.may_have_happened:
            return self._carried_out(effect, lease, undone, ttl)
        if recover is None:
            # The next caller is told of the earlier lease too.
            self._given_up(lease, never_happened=False)
            raise _may_have_happened(lease.key, lease.earlier)
        return self._carried_out(recover, lease, undone, ttl)

    def _carried_out(
        self,
        effect: Callable[[Lease[T]], T],
        lease: Lease[T],
        undone: type[Exception] | tuple[type[Exception], ...],
        ttl: Lifetime,
    ) -> T:
        try:
            result = effect(lease)
        except undone:
            self._given_up(lease, never_happened=True)
            raise
        return self._kept(lease, result, ttl)

    def _given_up(self, lease: Lease[T], *, never_happened: bool) -> None:
        try:
            lease.abandon(never_happened=never_happened)
        except HelveError as error:
            _log.warning("the claim %r is free once its lease ends: %s", lease.key, error)

    def _kept(self, lease: Lease[T], result: T, ttl: Lifetime) -> T:
        """Finishes until an answer says so: under one fence the first result is kept."""
        until = time.monotonic() + lease.left
        backoff = Backoff(limits.BACKOFF_FIRST, limits.BACKOFF_MAX)
        while True:
            try:
                return lease.finish(result, ttl)
            except HelveError as error:
                length = backoff.next()
                is_passing = isinstance(error, (AmbiguousError, OverloadedError, UnavailableError))
                if not is_passing or length >= until - time.monotonic():
                    message = (
                        f"the side effect {lease.key!r} was carried out, but its result "
                        f"is not known to be kept: {error.message}"
                    )
                    raise UnkeptResultError(message, reason=error.reason, result=result) from error
            io.sleep(length)


class Lease(Generic[T]):
    """The right to carry out one side effect, until it is finished, given up, or over."""

    def __init__(
        self,
        claims: Claims[T],
        owner: str,
        key: str,
        fence: int,
        until_ms: int,
        ends_at: float,
        earlier: EarlierLease | None,
    ) -> None:
        """Is made by `Claims.claim`."""
        self._claims = claims
        # The function that says who calls may say another one by the end.
        self._owner = owner
        self.key = key
        #: Its number, higher than those of all leases of the key before: what the side effect
        #: touches can refuse a lower one. After `helve restore`, or a `helve recover` that lost
        #: entries, numbers are given again from the last log index that was kept on.
        self.fence = fence
        #: When it ends, in milliseconds since the Unix epoch on the cluster's clock.
        self.until_ms = until_ms
        #: The newest lease of the key before this one that was not abandoned; if all were, the
        #: newest. None: none is known. The cluster knows of them for a day after the last one
        #: ended.
        self.earlier = earlier
        self._ends_at = ends_at

    @property
    def left(self) -> float:
        """How long it lasts on at least, in seconds, counted from when the claim was sent."""
        return max(self._ends_at - time.monotonic(), 0.0)

    def finish(self, result: T, ttl: Lifetime = Ttl.DEFAULT) -> T:
        """Keeps the result for all later callers, and answers the one that is kept.

        A second finish keeps nothing, and answers the first one's result: after an error it may be
        called again. `ttl` says how long the result is kept: `default_ttl` of the options, without
        it for ever. Raises LeaseLostError if the lease is over, was given up, or the key was
        deleted: then the result is not kept, and another caller may have the lease.
        """
        claims = self._claims
        finish = wire.ClaimFinish(
            fence=self.fence,
            result=claims._codec.encode(result),
            result_ttl_ms=claims._result_ttl_ms(ttl),
        )
        reply = self._call(finish=finish)
        if reply.status == wire.CLAIM_STATUS_FINISHED:
            return result
        if reply.status == wire.CLAIM_STATUS_DONE:
            return claims._result(self.key, reply.value)
        if reply.status == wire.CLAIM_STATUS_LEASE_LOST:
            raise LeaseLostError(f"the lease {self.fence} of {self.key!r} is no more")
        raise _unknown(reply.status)

    def abandon(self, *, never_happened: bool = False) -> bool:
        """Gives the lease up, because the side effect did not happen: the key is free at once.

        `never_happened` says that it did not happen under an `earlier` lease either. Otherwise the
        next lease is told of that one too. False: the lease was over before, or it is finished,
        and its result stays. If it raises, the lease ends by itself.
        """
        abandon = wire.ClaimAbandon(fence=self.fence, never_happened=never_happened)
        reply = self._call(abandon=abandon)
        if reply.status in (wire.CLAIM_STATUS_DONE, wire.CLAIM_STATUS_LEASE_LOST):
            return False
        if reply.status == wire.CLAIM_STATUS_ABANDONED:
            return True
        raise _unknown(reply.status)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r}, fence={self.fence})"

    def _call(self, **action: Any) -> wire.ClaimReply:
        claims = self._claims
        request = wire.ClaimRequest(store=claims._store, owner=self._owner, id=self.key, **action)
        return claims._open().call(methods.CLAIM, request)


def _may_have_happened(key: str, earlier: EarlierLease) -> AmbiguousError:
    if earlier.end is LeaseEnd.FINISHED:
        what = f"{key!r} was carried out under lease {earlier.fence}, and its result is forgotten"
    else:
        what = f"the holder of lease {earlier.fence} of {key!r} may have carried it out"
    return AmbiguousError(f"{what}: give `recover`, which finds out")


def _unknown(status: int) -> InternalError:
    return InternalError(f"a claim status that this version does not know: {status}")
