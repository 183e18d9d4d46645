"""What claims answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, Union

from ._core import exact
from ._core.ordered import ordered
from ._wire import messages as wire
from .errors import HelveError, InvalidError, Reason

T = TypeVar("T")
L = TypeVar("L")
T_co = TypeVar("T_co", covariant=True)
L_co = TypeVar("L_co", covariant=True)

#: Bytes of a digest.
DIGEST_BYTES_MAX = 64


class LeaseEnd(str, Enum):
    """How a lease ended."""

    #: By itself: its holder may have carried the side effect out, or not.
    EXPIRED = "expired"
    #: Its holder abandoned it: it says that it did not carry the side effect out.
    ABANDONED = "abandoned"
    #: It was finished, and its result is forgotten: the side effect was carried out.
    FINISHED = "finished"


@dataclass(frozen=True)
class EarlierLease:
    """A lease of the same key that ended before."""

    end: LeaseEnd
    #: Its number: what the side effect touches may know whether it saw it.
    fence: int
    #: When it ended, in milliseconds since the Unix epoch on the cluster's clock.
    ended_at_ms: int

    @property
    def may_have_happened(self) -> bool:
        """Whether the side effect may have happened under it, or under one before it."""
        return self.end is not LeaseEnd.ABANDONED


@dataclass(frozen=True)
class Fresh(Generic[L_co]):
    """The caller has the lease: it carries the side effect out, and then finishes the lease.

    `lease.earlier` says whether an earlier holder may have carried it out too: it died before it
    finished, or its result is forgotten.
    """

    lease: L_co


@dataclass(frozen=True)
class InFlight:
    """Another caller has the lease. Ask again later: then it is done, or the key is free."""

    #: The number of that lease.
    fence: int
    #: When the lease ends, in milliseconds since the Unix epoch on the cluster's clock.
    until_ms: int
    #: How long the lease lasted on when the cluster answered, in seconds.
    left: float
    #: What its holder told.
    note: str


@dataclass(frozen=True)
class Done(Generic[T_co]):
    """The side effect was carried out, and this is its result."""

    result: T_co
    #: When the result is forgotten, in milliseconds on the cluster's clock; None: never.
    until_ms: int | None


@dataclass(frozen=True)
class OtherDigest:
    """The key is in flight or done for another digest, so this request is not the first one."""


#: What a claim came to. In `match`, `Fresh(lease)` and `Done(result)` bind what they hold.
Claimed = Union[Fresh[L], InFlight, Done[T], OtherDigest]


def digest_of(request: Any) -> bytes:
    """The digest of a request that has a JSON form: the same for the same request.

    It is the SHA-256 of the JSON with members in the order of their names, without spaces, and
    with fractions as ECMAScript writes them, so that 5.0 and 5 are the same. Clients in other
    languages make the same digest of the same value. Raises CodecError for what has no exact JSON
    form, as values of a store: NaN and infinities among them.
    """
    exact.encode(request)
    return hashlib.sha256(ordered(request).encode()).digest()


def earlier_of(reply: wire.ClaimReply) -> EarlierLease | None:
    """What a fresh claim is told of the leases before."""
    if not reply.HasField("earlier"):
        return None
    earlier = reply.earlier
    # An end that this version does not know rules nothing out either.
    end = _ENDS.get(earlier.end, LeaseEnd.EXPIRED)
    return EarlierLease(end, earlier.fence, earlier.ended_at_ms)


_ENDS: dict[int, LeaseEnd] = {
    wire.LEASE_END_EXPIRED: LeaseEnd.EXPIRED,
    wire.LEASE_END_ABANDONED: LeaseEnd.ABANDONED,
    wire.LEASE_END_FINISHED: LeaseEnd.FINISHED,
}


def checked(digest: bytes) -> bytes:
    """The digest, if the cluster takes it. Raises InvalidError (BAD_REQUEST) else."""
    if not isinstance(digest, bytes):
        raise _bad(f"it is of type {type(digest).__name__}, not bytes")
    if not 1 <= len(digest) <= DIGEST_BYTES_MAX:
        raise _bad(f"it has {len(digest)} bytes, not 1 to {DIGEST_BYTES_MAX}")
    return digest


def _bad(why: str) -> HelveError:
    message = f"the digest cannot be used: {why}. Give a hash of the request, as of digest_of"
    return InvalidError(message, reason=Reason.BAD_REQUEST)
