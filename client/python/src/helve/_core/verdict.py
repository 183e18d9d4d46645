"""What a failed try says of the call."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from .._wire import messages as wire
from ..errors import (
    DeniedError,
    ErrorKind,
    HelveError,
    InternalError,
    InvalidError,
    OverloadedError,
    Reason,
    UnavailableError,
    refused,
)

DOMAIN = "helve.v1"
DETAILS = "grpc-status-details-bin"


class Effect(Enum):
    """What is certain after a failed try."""

    #: The cluster refused the call itself: trying again changes nothing.
    REFUSED = auto()
    #: Something between refused it: this try had no effect. Of earlier tries it says nothing.
    BARRED = auto()
    #: This try had no effect; another one may.
    NOT_DONE = auto()
    #: This try may have had an effect.
    UNKNOWN = auto()


class Health(Enum):
    """What a failed try says of its node, or of a proxy before it."""

    #: It answered.
    SOUND = auto()
    #: It did not, or is about to stop.
    SUSPECT = auto()
    #: A proxy answered in its place, for now.
    BEHIND = auto()
    #: What is at its address will not answer this call, however often it is tried.
    USELESS = auto()


@dataclass(frozen=True)
class Verdict:
    """What a failed try says of the call and of its node."""

    effect: Effect
    error: HelveError
    health: Health = Health.SOUND
    #: The pause that the answer asks for, in seconds.
    pause: float = 0.0


class Failed(Exception):  # noqa: N818
    """A try that failed. It never leaves the client."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.error.message)
        self.verdict = verdict


def silence(address: str) -> Verdict:
    """The verdict on a try without any answer."""
    message = f"{address} did not answer in time. See `helve status`"
    return Verdict(Effect.UNKNOWN, UnavailableError(message, address=address), Health.SUSPECT)


def no_reply(address: str) -> Verdict:
    """The verdict on an answer that says OK without the reply that a node gives."""
    message = (
        f"{address} says OK without a reply: what answers there is no node. "
        "Give the port on which a node serves clients"
    )
    return Verdict(Effect.UNKNOWN, UnavailableError(message, address=address), Health.USELESS)


def unconnected(address: str, why: str) -> Verdict:
    """The verdict on a try that found no connection to send anything over."""
    message = f"cannot connect to {address}: {why}. Is the node running? Try `helve status`"
    error = UnavailableError(message, address=address, is_unconnected=True)
    return Verdict(Effect.NOT_DONE, error, Health.SUSPECT)


def takes(request: Any) -> bool:
    """Whether a call changes something, and its reply holds values."""
    if isinstance(request, wire.TransactRequest):
        return any(part.HasField("take") for part in request.operations)
    return isinstance(request, (wire.TakeRequest, wire.ClaimRequest))


def of_status(address: str, error: Any, *, has_values: bool = False) -> Verdict:
    """The verdict on a call that ended with this status; `has_values`: see `takes`."""
    code, details = error.code(), error.details() or ""
    trailers = dict(tuple(pair) for pair in error.trailing_metadata() or ())
    encoded = trailers.get(DETAILS)
    info, pause = _details(encoded) if isinstance(encoded, bytes) else (None, 0.0)
    if info is not None:
        try:
            reason = Reason(info.reason)
        except ValueError:
            # Of a newer version, which may say by it that the call was executed.
            return _of_code(address, code, details)
        return of_reason(reason, details, dict(info.metadata), pause)
    http = re.search(r"http2? (?:header with )?status:? (\d{3})", details, re.IGNORECASE)
    if http:
        pause = _seconds(trailers.get("retry-after"))
        return _of_http(address, int(http.group(1)), pause)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return silence(address)
    if code is grpc.StatusCode.UNAVAILABLE and "failed to connect to all addresses" in details:
        return _of_connection(address, details)
    worded = _of_words(address, code, details, has_values, trailers.get("x-envoy-ratelimited"))
    if worded is None:
        return _of_code(address, code, details)
    if worded.effect is Effect.NOT_DONE:
        pause = pause or _seconds(trailers.get("retry-after"))
        return replace(worded, pause=pause)
    return worded


def _details(encoded: bytes) -> tuple[wire.ErrorInfo | None, float]:
    """What the cluster says, and for how long the answer asks to be left alone, in seconds."""
    info, pause = None, 0.0
    try:
        for detail in wire.Status.FromString(encoded).details:
            if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                info = wire.ErrorInfo.FromString(detail.value)
            elif detail.type_url.endswith("/google.rpc.RetryInfo"):
                delay = wire.RetryInfo.FromString(detail.value).retry_delay
                pause = max(delay.seconds + delay.nanos / 1e9, 0.0)
    except DecodeError:
        # No node sends that: it is the word of something between.
        return None, 0.0
    return (info if info is not None and info.domain == DOMAIN else None), pause


def of_reason(
    reason: Reason, message: str, metadata: dict[str, str], pause: float = 0.0
) -> Verdict:
    """The verdict that goes with the cluster's own reason."""

    def number(name: str) -> int:
        text = metadata.get(name, "")
        # 64 bits have at most 20 digits.
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0

    error = refused(reason, message, revision=number("revision"), operation=number("operation"))
    if reason is Reason.OVERLOADED:
        return Verdict(Effect.NOT_DONE, error, pause=pause or number("retry_after_ms") / 1000)
    if reason is Reason.NO_LEADER:
        return Verdict(Effect.NOT_DONE, error)
    if reason in (Reason.AMBIGUOUS, Reason.KEY_MISSING):
        # Of a mutation it may have been done; its outcome is kept, and another node may open it.
        return Verdict(Effect.UNKNOWN, error)
    if reason in (Reason.STOPPING, Reason.AUDIT_FAILING):
        # A node says it only of what it never proposed.
        return Verdict(Effect.NOT_DONE, error, Health.SUSPECT)
    return Verdict(Effect.REFUSED, error)


def elsewhere(verdict: Verdict) -> Verdict:
    """The verdict on a watch: what one node has forgotten, or ended for its caller's slowness,
    another one may still tell.
    """
    if verdict.error.reason is Reason.WATCH_TOO_OLD:
        return Verdict(Effect.NOT_DONE, verdict.error, Health.USELESS)
    if verdict.error.reason is Reason.WATCH_LAPSED:
        return Verdict(Effect.NOT_DONE, verdict.error)
    return verdict


def _of_connection(address: str, details: str) -> Verdict:
    why = details.rpartition("last error: ")[2].strip().rstrip(")") or "nothing listens there"
    why = " ".join(why.split())[:300]
    verdict = unconnected(address, why)
    handshake = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "Hostname Verification")
    if any(words in details for words in handshake):
        # Nor will there be a connection as long as both sides are set up as they are.
        return Verdict(Effect.NOT_DONE, verdict.error, Health.USELESS)
    return verdict


#: A date as HTTP writes it.
_HTTP_DATE = re.compile(r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT", re.ASCII)


def _seconds(retry_after: Any) -> float:
    """How long `Retry-After` asks to be left alone, in seconds: it is such a number, or a date."""
    text = retry_after.strip() if isinstance(retry_after, str) else ""
    if text.isascii() and text.isdigit():
        return float(text)
    if not _HTTP_DATE.fullmatch(text):
        return 0.0
    try:
        until = parsedate_to_datetime(text).timestamp()
    except (OverflowError, TypeError, ValueError):
        return 0.0
    return max(until - time.time(), 0.0)


def _of_http(address: str, status: int, pause: float) -> Verdict:
    """What a proxy's own answer says: it answers without asking a node, but for what says so."""
    said = f"{address}: a proxy between, or another server, answered with HTTP {status}"
    down = UnavailableError(f"{said}. Look at its log", address=address)
    if status in (401, 403, 407, 511):
        message = f"{said}: give it the credentials, or reach the nodes without it"
        return Verdict(Effect.BARRED, DeniedError(message, address=address))
    if status == 413:
        message = f"{said}: write less at once, or raise its limit to 8 MiB"
        return Verdict(Effect.BARRED, refused(Reason.TOO_LARGE, message, address=address))
    if status == 429:
        message = f"{said}: call less often, or raise its limit"
        error = OverloadedError(message, address=address)
        return Verdict(Effect.NOT_DONE, error, Health.BEHIND, pause)
    if status in (408, 425, 503):
        return Verdict(Effect.NOT_DONE, down, Health.BEHIND, pause)
    if 300 <= status <= 499 or status in (501, 505, 506, 508, 510):
        return Verdict(Effect.NOT_DONE, down, Health.USELESS, pause)
    health = Health.BEHIND if 500 <= status <= 599 else Health.USELESS
    return Verdict(Effect.UNKNOWN, down, health)


#: What Envoy says of a call that no server took: its circuit breaker is open, it got no connection,
#: or the server refused the stream (RFC 9113, section 8.7). Once it has retried, it says "retried
#: and the latest reset reason" instead: an earlier try of its own may have reached a node.
_UNTAKEN = (
    "before headers. reset reason: overflow",
    "before headers. reset reason: connection failure",
    "before headers. reset reason: local connection failure",
    "before headers. reset reason: remote connection failure",
    "before headers. reset reason: connection timeout",
    "before headers. reset reason: remote refused stream reset",
)
#: What something between answers when its own connection broke: the call may have reached a node.
_RESETS = (
    "rst_stream",
    "goaway",
    "enhance_your_calm",
    "stream terminated",
    "too_many_pings",
    "disconnect/reset",
    "connection reset",
)
#: Names of HTTP 413, of which the request is too large.
_REQUEST_SIZES = (
    "payload too",
    "request entity too large",
    "content too large",
    "request too large",
)
#: Of a message that is too large: the request, or the reply.
_SIZES = ("too large", "larger than max", "size limit")
_RATES = ("rate_limited", "rate limited", "ratelimited")


def _of_words(
    address: str, code: grpc.StatusCode | None, details: str, has_values: bool, limited: Any
) -> Verdict | None:
    """What something between says that speaks gRPC: its codes alone do not tell what it did.

    `limited` is its header `x-envoy-ratelimited`. None: the code tells.
    """
    codes, words = grpc.StatusCode, details.lower()

    def says(any_of: tuple[str, ...]) -> bool:
        return any(each in words for each in any_of)

    message = _said(address, code, details)
    # Before the resets: Envoy begins both alike.
    if code is codes.UNAVAILABLE and says(_UNTAKEN):
        return Verdict(Effect.NOT_DONE, UnavailableError(message, address=address), Health.BEHIND)
    if says(_RESETS):
        return None
    if code in (codes.UNKNOWN, codes.OUT_OF_RANGE, codes.RESOURCE_EXHAUSTED):
        error = refused(Reason.TOO_LARGE, message, address=address)
        if says(_REQUEST_SIZES):
            return Verdict(Effect.BARRED, error)
        if says(_SIZES):
            # It may be the reply that is too large, after the call was carried out.
            unsure = Verdict(Effect.UNKNOWN, error, Health.USELESS)
            return unsure if has_values else Verdict(Effect.BARRED, error)
    # What limits the rate of calls says so instead of passing a call on.
    is_marked = code is codes.UNAVAILABLE and (limited == "true" or says(_RATES))
    if code is codes.RESOURCE_EXHAUSTED or is_marked:
        return Verdict(Effect.NOT_DONE, OverloadedError(message, address=address), Health.BEHIND)
    if code is codes.UNAVAILABLE and "no healthy upstream" in words:
        return Verdict(Effect.NOT_DONE, UnavailableError(message, address=address), Health.BEHIND)
    return None


_NO_SUCH_CALL = (
    "what answers there does not know this call. Give the port on which a node serves clients, "
    "and if this is one, upgrade its node: it is of an older version"
)


def _said(address: str, code: grpc.StatusCode | None, details: str) -> str:
    name = "unknown" if code is None else code.name
    return f"{address}: {name}: {details}" if details else f"{address}: {name}"


def _of_code(address: str, code: grpc.StatusCode | None, details: str) -> Verdict:
    """Without a reason it is the transport's word, or that of something between."""
    message = _said(address, code, details)
    codes = grpc.StatusCode
    if code in (codes.UNAUTHENTICATED, codes.PERMISSION_DENIED):
        return Verdict(Effect.BARRED, DeniedError(message, address=address))
    if code in (codes.INVALID_ARGUMENT, codes.OUT_OF_RANGE):
        return Verdict(Effect.BARRED, InvalidError(message, address=address))
    if code is codes.UNIMPLEMENTED:
        unknown = f"{message}: {_NO_SUCH_CALL}"
        error = InternalError(unknown, address=address)
        return Verdict(Effect.NOT_DONE, error, Health.USELESS)
    return Verdict(Effect.UNKNOWN, UnavailableError(message, address=address), Health.SUSPECT)


def is_outcome(error: HelveError) -> bool:
    """Whether every retry is given this refusal alike, so that it holds for earlier tries too."""
    return error.reason is not None and (
        error.kind in (ErrorKind.CONFLICT, ErrorKind.INVALID) or error.reason is Reason.QUOTA
    )
