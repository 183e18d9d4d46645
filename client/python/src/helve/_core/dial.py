"""How a client connects to a node."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from .. import trace
from ..errors import Reason, refused
from ..tls import Tls
from . import limits
from .bearer import Bearer
from .tries import Pace


@dataclass(frozen=True)
class Dial:
    """What all connections and calls of a client have in common."""

    endpoints: tuple[str, ...]
    bearer: Bearer
    tls: Tls | None
    pace: Pace
    connect_timeout: float
    follows_leader: bool
    #: Whether mutations are numbered in a replay session, or bear request ids.
    has_session: bool
    #: Whether the caller vouches for the network that a token crosses in plain text.
    insecure: bool = False

    @property
    def guards_token(self) -> bool:
        """Whether addresses beyond this machine are refused: there is a token, and no TLS."""
        return self.tls is None and self.bearer.is_given and not self.insecure

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What a call bears: who calls, and the span around it."""
        return (*self.bearer.metadata(), *trace.metadata())

    def credentials(self) -> grpc.ChannelCredentials | None:
        """The TLS of a connection; None: plain text."""
        if self.tls is None:
            return None
        try:
            return grpc.ssl_channel_credentials(self.tls.ca, self.tls.key, self.tls.certificate)
        except ValueError as error:
            raise refused(Reason.BAD_REQUEST, f"TLS cannot be set up: {error}") from error

    def options(self) -> list[tuple[str, int | str]]:
        """Options of a channel. What retries is this client, which knows identities."""
        keep_alive_ms = int(limits.KEEP_ALIVE * 1000)
        options: list[tuple[str, int | str]] = [
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_send_message_length", limits.MESSAGE_BYTES_MAX),
            ("grpc.max_receive_message_length", limits.MESSAGE_BYTES_MAX),
            ("grpc.keepalive_time_ms", keep_alive_ms),
            ("grpc.keepalive_timeout_ms", keep_alive_ms),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            # A node that comes back is found soon.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        if self.tls is not None and self.tls.server_name is not None:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
        return options
