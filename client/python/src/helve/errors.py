"""What can go wrong, said so that a caller knows what to do next.

Each error has a `kind`, with the names of the Rust client, and is of a class of its own, so that
`except helve.AmbiguousError` works. There are as many kinds as there are different things to do.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar


class ErrorKind(str, Enum):
    """What to do about an error. `advice` of the error says it in words."""

    CONFLICT = "Conflict"
    AMBIGUOUS = "Ambiguous"
    UNAVAILABLE = "Unavailable"
    OVERLOADED = "Overloaded"
    FULL = "Full"
    INVALID = "Invalid"
    CLOSED = "Closed"
    DENIED = "Denied"
    FORGOTTEN = "Forgotten"
    LAPSED = "Lapsed"
    CODEC = "Codec"
    SEALED = "Sealed"
    ENTROPY = "Entropy"
    UNSUPPORTED = "Unsupported"
    INTERNAL = "Internal"


class Reason(str, Enum):
    """Why a call failed, in the cluster's words: `google.rpc.ErrorInfo.reason`."""

    CONFLICT = "CONFLICT"
    REPLAY_MISMATCH = "REPLAY_MISMATCH"
    STALE_CALL = "STALE_CALL"
    TOO_EARLY = "TOO_EARLY"
    SESSION_EXPIRED = "SESSION_EXPIRED"
    REQUEST_TOO_OLD = "REQUEST_TOO_OLD"
    TOO_LARGE = "TOO_LARGE"
    BAD_ID = "BAD_ID"
    BAD_KEY = "BAD_KEY"
    BAD_NAME = "BAD_NAME"
    BAD_LIFETIME = "BAD_LIFETIME"
    CLAIMED = "CLAIMED"
    BAD_REQUEST = "BAD_REQUEST"
    QUOTA = "QUOTA"
    OVERLOADED = "OVERLOADED"
    DISK_FULL = "DISK_FULL"
    NO_LEADER = "NO_LEADER"
    AMBIGUOUS = "AMBIGUOUS"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    DENIED = "DENIED"
    WRONG_CLUSTER = "WRONG_CLUSTER"
    WRONG_NODE = "WRONG_NODE"
    FORMAT_NEWER = "FORMAT_NEWER"
    LIST_LAPSED = "LIST_LAPSED"
    WATCH_TOO_OLD = "WATCH_TOO_OLD"
    WATCH_LAPSED = "WATCH_LAPSED"
    NOT_LEADING = "NOT_LEADING"
    CHANGE_UNDER_WAY = "CHANGE_UNDER_WAY"
    NO_MEMBER = "NO_MEMBER"
    NO_TENANT = "NO_TENANT"
    SEAT_TAKEN = "SEAT_TAKEN"
    ALREADY_VOTER = "ALREADY_VOTER"
    STAYS_LEARNER = "STAYS_LEARNER"
    QUORUM_AT_RISK = "QUORUM_AT_RISK"
    NODE_SILENT = "NODE_SILENT"
    AUDIT_FAILING = "AUDIT_FAILING"
    KEY_MISSING = "KEY_MISSING"
    DAMAGED = "DAMAGED"
    STOPPING = "STOPPING"


class HelveError(Exception):
    """What went wrong. Branch on the class or on `kind`; the message is for people."""

    kind: ClassVar[ErrorKind] = ErrorKind.INTERNAL
    #: What to do, in words.
    advice: ClassVar[str] = "Report it: a defect of Helve, or versions that do not fit together."

    def __init__(
        self,
        message: str,
        *,
        reason: Reason | None = None,
        address: str | None = None,
        is_unconnected: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        #: The cluster's own reason, where it gave one.
        self.reason = reason
        #: The address that the message names. Do not pass it on to callers of your own.
        self.address = address
        #: Whether no connection was made to any node that was tried last.
        self.is_unconnected = is_unconnected

    @property
    def maybe_done(self) -> bool:
        """Whether the call may have taken effect. Of every other error it is certain: it did not.

        A take that fails as Codec is the exception: its value is gone, and the message says so.
        """
        return self.kind is ErrorKind.AMBIGUOUS

    def __repr__(self) -> str:
        reason = None if self.reason is None else self.reason.value
        return f"{type(self).__name__}({self.message!r}, reason={reason})"


class ConflictError(HelveError):
    """A condition on a revision does not hold, and nothing was written."""

    kind = ErrorKind.CONFLICT
    advice = "Read again, decide again."

    def __init__(
        self,
        message: str,
        *,
        reason: Reason | None = Reason.CONFLICT,
        address: str | None = None,
        is_unconnected: bool = False,
        revision: int = 0,
        operation: int = 0,
    ) -> None:
        super().__init__(message, reason=reason, address=address, is_unconnected=is_unconnected)
        #: The record's revision, 0 if there is no such record.
        self.revision = revision
        #: Of a transaction or batch: the operation at fault, from 0; else 0.
        self.operation = operation


class LeaseLostError(ConflictError):
    """The lease of a claim is over, was given up, or its key was deleted; nothing was kept."""

    advice = "Claim again: another caller may have carried the side effect out since."


class InFlightError(ConflictError):
    """Another caller had the lease of a claim for as long as this one waited."""

    advice = "Ask again later: then it is done, or the lease is over."

    def __init__(
        self,
        message: str,
        *,
        reason: Reason | None = None,
        address: str | None = None,
        is_unconnected: bool = False,
        until_ms: int = 0,
    ) -> None:
        super().__init__(message, reason=reason, address=address, is_unconnected=is_unconnected)
        #: When the lease ends, in milliseconds since the Unix epoch on the cluster's clock.
        self.until_ms = until_ms


class AmbiguousError(HelveError):
    """The call was sent, and whether it took effect cannot be known."""

    kind = ErrorKind.AMBIGUOUS
    advice = (
        "Read the record again, and decide by what it holds. Never repeat blindly what must not "
        "happen twice."
    )


class UnkeptResultError(AmbiguousError):
    """A side effect was carried out under a claim, and its result is not known to be kept."""

    advice = (
        "Keep `result` yourself, or make it known to what `recover` asks. Do not repeat the side "
        "effect."
    )

    def __init__(
        self,
        message: str,
        *,
        reason: Reason | None = None,
        address: str | None = None,
        is_unconnected: bool = False,
        result: Any = None,
    ) -> None:
        super().__init__(message, reason=reason, address=address, is_unconnected=is_unconnected)
        #: What the side effect came to.
        self.result = result


class UnavailableError(HelveError):
    """No node answered within the deadline, or no leader was known; the call had no effect."""

    kind = ErrorKind.UNAVAILABLE
    advice = "Try again later. `helve status` says which nodes run."


class OverloadedError(HelveError):
    """The cluster, or this client, has too much under way; the call had no effect."""

    kind = ErrorKind.OVERLOADED
    advice = "Try again after a pause, with less at once."


class FullError(HelveError):
    """A quota is used up, or a disk is below its reserve; the call had no effect."""

    kind = ErrorKind.FULL
    advice = "Delete or take something, or call the operator. Trying again alone does not help."


class InvalidError(HelveError):
    """The request breaks a limit or a rule, and had no effect."""

    kind = ErrorKind.INVALID
    advice = "Change the request: it will never succeed."


class OtherDigestError(InvalidError):
    """The key of a claim is in flight or done for another digest, and so for another request."""

    advice = "Use another key, or send the request as it was sent first."


class ClosedError(HelveError):
    """The store, or the client, was closed."""

    kind = ErrorKind.CLOSED
    advice = "Open another one."


class DeniedError(HelveError):
    """The credential is missing, or does not allow this."""

    kind = ErrorKind.DENIED
    advice = "Get another credential."


class ForgottenError(HelveError):
    """The identity of the call is older than what the cluster remembers, or too far ahead."""

    kind = ErrorKind.FORGOTTEN
    advice = "Read the record: what an earlier call under that identity did is not known any more."


class LapsedError(HelveError):
    """A list took too long for its view, and what was read of it is dropped."""

    kind = ErrorKind.LAPSED
    advice = "List less at once: by pages, by owner, by prefix, or without values."


class _WatchEndedError(LapsedError):
    """A watch that does not go on from where it was."""

    def __init__(
        self,
        message: str,
        *,
        reason: Reason | None = None,
        address: str | None = None,
        is_unconnected: bool = False,
        revision: int = 0,
    ) -> None:
        super().__init__(message, reason=reason, address=address, is_unconnected=is_unconnected)
        #: Changes of later revisions than this one are told: watch after it to go on, without what
        #: lies between.
        self.revision = revision


class WatchTooOldError(_WatchEndedError):
    """No node has all changes that follow the revision of a watch any more."""

    advice = "List again, and watch after the list's revision."


class WatchLapsedError(_WatchEndedError):
    """A node ended a watch whose caller did not read, and no node goes on with it."""

    advice = "Watch again after the revision of the watch, and read faster."


class CodecError(HelveError):
    """A value has no exact JSON form, or a stored one is not what the codec expects."""

    kind = ErrorKind.CODEC
    advice = "Write the value in another form, or read it with the codec that wrote it."


class SealedError(HelveError):
    """A sealed value does not open under the keys at hand; it stays as it is."""

    kind = ErrorKind.SEALED
    advice = "Give the key that it was sealed under, or put the value back from elsewhere."


class EntropyError(HelveError):
    """The operating system gave no randomness. Nothing was minted or sent."""

    kind = ErrorKind.ENTROPY
    advice = "Repair the machine."


class UnsupportedError(HelveError):
    """This client cannot do that, and nothing was done."""

    kind = ErrorKind.UNSUPPORTED
    advice = "Do without, or use another client."


class InternalError(HelveError):
    """Something contradicts itself."""

    kind = ErrorKind.INTERNAL


CLASSES: dict[ErrorKind, type[HelveError]] = {
    each.kind: each
    for each in (
        ConflictError, AmbiguousError, UnavailableError, OverloadedError, FullError, InvalidError,
        ClosedError, DeniedError, ForgottenError, LapsedError, CodecError, SealedError,
        EntropyError, UnsupportedError, InternalError,
    )
}  # fmt: skip

_KINDS: dict[Reason, ErrorKind] = {
    Reason.CONFLICT: ErrorKind.CONFLICT,
    Reason.AMBIGUOUS: ErrorKind.AMBIGUOUS,
    Reason.NO_LEADER: ErrorKind.UNAVAILABLE,
    Reason.STOPPING: ErrorKind.UNAVAILABLE,
    Reason.AUDIT_FAILING: ErrorKind.UNAVAILABLE,
    Reason.KEY_MISSING: ErrorKind.UNAVAILABLE,
    Reason.DAMAGED: ErrorKind.SEALED,
    Reason.OVERLOADED: ErrorKind.OVERLOADED,
    Reason.QUOTA: ErrorKind.FULL,
    Reason.DISK_FULL: ErrorKind.FULL,
    Reason.REPLAY_MISMATCH: ErrorKind.INVALID,
    Reason.TOO_LARGE: ErrorKind.INVALID,
    Reason.BAD_ID: ErrorKind.INVALID,
    Reason.BAD_KEY: ErrorKind.INVALID,
    Reason.BAD_NAME: ErrorKind.INVALID,
    Reason.BAD_LIFETIME: ErrorKind.INVALID,
    Reason.CLAIMED: ErrorKind.INVALID,
    Reason.BAD_REQUEST: ErrorKind.INVALID,
    Reason.UNAUTHENTICATED: ErrorKind.DENIED,
    Reason.DENIED: ErrorKind.DENIED,
    Reason.STALE_CALL: ErrorKind.FORGOTTEN,
    Reason.TOO_EARLY: ErrorKind.FORGOTTEN,
    Reason.SESSION_EXPIRED: ErrorKind.FORGOTTEN,
    Reason.REQUEST_TOO_OLD: ErrorKind.FORGOTTEN,
    Reason.LIST_LAPSED: ErrorKind.LAPSED,
    Reason.WATCH_TOO_OLD: ErrorKind.LAPSED,
    Reason.WATCH_LAPSED: ErrorKind.LAPSED,
}


def kind_of(reason: Reason) -> ErrorKind:
    """The kind of error that goes with a reason of the cluster."""
    return _KINDS.get(reason, ErrorKind.INTERNAL)


def refused(
    reason: Reason,
    message: str,
    *,
    revision: int = 0,
    operation: int = 0,
    address: str | None = None,
) -> HelveError:
    """The error that goes with a reason.

    Operations are of conflicts alone, revisions of conflicts and watches.
    """
    kind = kind_of(reason)
    if kind is ErrorKind.CONFLICT:
        return ConflictError(message, address=address, revision=revision, operation=operation)
    if reason is Reason.WATCH_TOO_OLD:
        return WatchTooOldError(message, reason=reason, address=address, revision=revision)
    if reason is Reason.WATCH_LAPSED:
        return WatchLapsedError(message, reason=reason, address=address, revision=revision)
    return CLASSES[kind](message, reason=reason, address=address)


def closed() -> ClosedError:
    """The answer to calls of a closed store or client."""
    return ClosedError("this store or its client was closed")
