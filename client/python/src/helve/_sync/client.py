# Made of `client.py` by tools/unasync.py: do not edit.
"""A client of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

from .._core import limits
from .._core.bearer import Bearer
from .._core.dial import Dial
from .._core.pool import Pool
from .._core.tries import Pace
from .._wire.methods import Method, Rep, Req
from ..codec import Codec, Json
from ..errors import Reason, closed, refused
from ..owner import Owner
from ..tls import Tls
from ..ttl import Defaults, Span
from ..watch import Watch
from .claims import Claims
from .cluster import Cluster
from .guards import Guards
from .handles import HandleStore
from .io import Scopes
from .keys import Keys
from .transaction import Transaction, transact
from .watching import Changes

T = TypeVar("T")
R = TypeVar("R")
#: What `from_environment` reads.
_VARIABLES = frozenset(
    {
        "HELVE_ENDPOINTS",
        "HELVE_TOKEN_FILE",
        "HELVE_INSECURE_TOKEN",
        "HELVE_TLS_CA",
        "HELVE_TLS_CLIENT_CERT",
        "HELVE_TLS_CLIENT_KEY",
        "HELVE_TLS_SERVER_NAME",
    }
)


class Client:
    """A client of a cluster, for asyncio.

    It connects to nothing before its first call. Calls may be made from any number of tasks. Make
    one for a process, and keep it: it holds the connections and the replay session.
    """

    def __init__(
        self,
        endpoints: str | Sequence[str],
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        tls: Tls | None = None,
        deadline: float = limits.DEADLINE,
        attempt_timeout: float = limits.ATTEMPT_TIMEOUT,
        backoff: tuple[float, float] = (limits.BACKOFF_FIRST, limits.BACKOFF_MAX),
        tries_max: int | None = None,
        connect_timeout: float = limits.CONNECT_TIMEOUT,
        follow_leader: bool = False,
        identities: Literal["session", "request-id"] = "session",
        insecure: bool = False,
    ) -> None:
        """Says how to reach the cluster. All times are in seconds.

        - `endpoints`: the nodes, each as `HOST:PORT`, or one text with commas between. One
          suffices; with several the client goes on when one is gone.
        - `token`, or `token_file`: who calls. A file is read again when it changes. A pipe is read
          once, and this waits for its writer, ten seconds at most.
        - `tls`: whom to trust. Without it, plain text.
        - `deadline`: how long each call may take, retries included; a day at most.
        - `attempt_timeout`: how long the first try of a call waits for its node before it turns
          to another. Each further try waits twice as long.
        - `backoff`: the pause before the second try, at most, and that between two later tries.
        - `tries_max`: how many tries a call has. With 1, a write whose answer is lost is
          ambiguous at once.
        - `connect_timeout`: how long a connection may take to be made.
        - `follow_leader`: also goes to a leader that is none of the endpoints.
        - `identities`: how retries are told from new calls. In a `session` outcomes are kept
          until they are received; a `request-id` needs no call to open one, for processes that
          live for a few calls, and its outcome is kept for ten minutes.
        - `insecure`: sends the token in plain text beyond this machine, too, where every machine
          between can read it: you vouch for that network.

        Raises InvalidError if there is no endpoint, one is not `HOST:PORT`, or what was given for
        TLS or as a token cannot be used; and for a token without TLS, if an endpoint is not
        loopback, unless `insecure`.
        """
        if isinstance(endpoints, str):
            endpoints = endpoints.split(",")
        if identities not in ("session", "request-id"):
            message = f"identities={identities!r}: 'session' or 'request-id'"
            raise refused(Reason.BAD_REQUEST, message)
        first, maximum = backoff
        self._dial = Dial(
            endpoints=tuple(endpoints),
            bearer=Bearer(token, token_file),
            tls=tls,
            pace=Pace(
                attempt_timeout, first, maximum, None if tries_max is None else max(tries_max, 1)
            ),
            connect_timeout=connect_timeout,
            follows_leader=follow_leader,
            has_session=identities == "session",
            insecure=insecure,
        )
        # The first call makes them, because they belong to its event loop; mistakes are said now.
        Pool(
            self._dial.endpoints,
            lambda address: address,
            is_tls=tls is not None,
            learns=False,
            guards_token=self._dial.guards_token,
        )
        self._dial.credentials()
        self._deadline = deadline
        self._scopes: Scopes[Cluster] = Scopes(lambda: Cluster(self._dial))
        self._state = _State()

    @classmethod
    def from_environment(cls, **options: Any) -> Client:
        """A client as the environment of `helve`'s command line says.

        `HELVE_ENDPOINTS` (default 127.0.0.1:7400), `HELVE_TOKEN_FILE`, `HELVE_TLS_CA`,
        `HELVE_TLS_CLIENT_CERT`, `HELVE_TLS_CLIENT_KEY`, `HELVE_TLS_SERVER_NAME`, and
        `HELVE_INSECURE_TOKEN`, which is `true` or `1` for `insecure`.
        `options` as for the class. Raises InvalidError if one of them is set to nothing.
        """
        given = {name: value for name, value in os.environ.items() if name in _VARIABLES}
        # As if it were not set would not do: calls would go without a token, or in plain text.
        if emptied := sorted(name for name, value in given.items() if not value):
            message = f"{emptied[0]} is empty: unset it, or give it a value"
            raise refused(Reason.BAD_REQUEST, message)
        ca = given.get("HELVE_TLS_CA")
        found: dict[str, Any] = {
            "token_file": given.get("HELVE_TOKEN_FILE"),
            "insecure": given.get("HELVE_INSECURE_TOKEN", "").lower() in ("true", "1"),
        }
        if ca is not None:
            found["tls"] = Tls(
                ca,
                certificate=given.get("HELVE_TLS_CLIENT_CERT"),
                key=given.get("HELVE_TLS_CLIENT_KEY"),
                server_name=given.get("HELVE_TLS_SERVER_NAME"),
            )
        return cls(given.get("HELVE_ENDPOINTS", "127.0.0.1:7400"), **{**found, **options})

    @classmethod
    def like(cls, other: Any) -> Client:
        """A client with the settings of another one, be it for asyncio or for threads.

        It shares nothing with it: it has connections of its own, and is closed by itself.
        """
        made = object.__new__(cls)
        made._dial = other._dial
        made._deadline = other._deadline
        made._scopes = Scopes(lambda: Cluster(made._dial))
        made._state = _State()
        return made

    @property
    def deadline(self) -> float:
        """How long each call may take, retries included, in seconds."""
        return self._deadline

    def with_deadline(self, deadline: float) -> Client:
        """The same client, sharing connections and `close`, but its calls may take this long."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._deadline = deadline
        return other

    @overload
    def handles(
        self,
        store: str,
        *,
        owner: Owner,
        id_prefix: str = "",
        default_ttl: Span | None = None,
        idle_ttl: Span | None = None,
    ) -> HandleStore[Any]: ...

    @overload
    def handles(
        self,
        store: str,
        *,
        owner: Owner,
        codec: Codec[T],
        id_prefix: str = "",
        default_ttl: Span | None = None,
        idle_ttl: Span | None = None,
    ) -> HandleStore[T]: ...

    def handles(
        self,
        store: str,
        *,
        owner: Owner,
        codec: Codec[Any] | None = None,
        id_prefix: str = "",
        default_ttl: Span | None = None,
        idle_ttl: Span | None = None,
    ) -> HandleStore[Any]:
        """A store of handles. Stores of the same name on the same cluster are one.

        - `store`: 1 to 64 bytes of `[a-z0-9_-]`; it is made by its first mint.
        - `owner`: whose handles these are: an end user's name, `SHARED`, or a function that each
          call asks for one of them. To another owner a handle is unknown.
        - `codec`: how values become bytes; as JSON if not told otherwise.
        - `id_prefix`: minted ids begin with `prefix-`; at most 64 bytes of `[a-z0-9_-]`.
        - `default_ttl`: what `Ttl.DEFAULT` is; without it: for ever.
        - `idle_ttl`: handles that are not read or written for this long expire.

        Names are checked by the first call.
        """
        defaults = Defaults(default_ttl, idle_ttl)
        return HandleStore(self, store, owner, codec or Json(), id_prefix, defaults)

    @overload
    def keys(
        self, *, owner: Owner, default_ttl: Span | None = None, idle_ttl: Span | None = None
    ) -> Keys[Any]: ...

    @overload
    def keys(
        self,
        *,
        owner: Owner,
        codec: Codec[T],
        default_ttl: Span | None = None,
        idle_ttl: Span | None = None,
    ) -> Keys[T]: ...

    def keys(
        self,
        *,
        owner: Owner,
        codec: Codec[Any] | None = None,
        default_ttl: Span | None = None,
        idle_ttl: Span | None = None,
    ) -> Keys[Any]:
        """Values under keys of the caller's choosing. The options are those of `handles`."""
        return Keys(self, owner, codec or Json(), Defaults(default_ttl, idle_ttl))

    @overload
    def claims(
        self,
        store: str,
        *,
        owner: Owner,
        lease: Span = limits.LEASE,
        default_ttl: Span | None = None,
    ) -> Claims[Any]: ...

    @overload
    def claims(
        self,
        store: str,
        *,
        owner: Owner,
        codec: Codec[T],
        lease: Span = limits.LEASE,
        default_ttl: Span | None = None,
    ) -> Claims[T]: ...

    def claims(
        self,
        store: str,
        *,
        owner: Owner,
        codec: Codec[Any] | None = None,
        lease: Span = limits.LEASE,
        default_ttl: Span | None = None,
    ) -> Claims[Any]:
        """Claims on side effects that must happen once. A store of claims holds nothing else.

        - `store`, `owner`: as of `handles`; who has another owner neither sees nor meets them.
        - `codec`: how results become bytes; as JSON if not told otherwise.
        - `lease`: how long a caller may take to carry a side effect out, a day at most. A holder
          that dies holds others up for as long.
        - `default_ttl`: how long results are kept; without it: for ever. Afterwards the key is
          free, so keep them for as long as a caller may ask again.
        """
        return Claims(self, store, owner, codec or Json(), lease, default_ttl)

    def guards(self, *, owner: Owner) -> Guards:
        """Locks under this owner's keys. A guard's key holds nothing else."""
        return Guards(self.keys(owner=owner))

    def transaction(self) -> Transaction:
        """A transaction over handles and keys, still empty."""
        return Transaction(self)

    def transact(self, build: Callable[[Transaction], R]) -> R:
        """Commits what `build` puts into a transaction, and answers what `build` answers.

        `build` reads, and notes its writes with the `if_revision` that it read. If a record has
        changed by then, or a handle lives no more, nothing is written, and `build` is called
        again: it must do nothing but read and note. What it raises is raised. If it notes no
        write, none is made. Raises ConflictError if others wrote first until the deadline ended,
        and AmbiguousError if it ended during the commit.
        """
        return transact(self, build)

    def watch(self, watch: Watch, *, after: int | None = None) -> Changes:
        """Watches records. Every change acknowledged after this returns is told, in order.

        - `after`: begins with the changes that follow this revision, which is the `revision` of an
          earlier watch, or that of a listing. Without it, with what follows now.

        Raises WatchTooOldError if no node has all changes after that revision.
        """
        return Changes(self._cluster(), watch.request(after), self._deadline).open()

    def clock_ms(self) -> int:
        """The cluster's time in milliseconds since the Unix epoch, as replies have told it.

        Before the first reply it is this machine's.
        """
        return self._cluster().clock_ms()

    def call(self, method: Method[Req, Rep], request: Req) -> Rep:
        """Makes one call of `helve.v1` as it is. Stores and transactions do this for you.

        A request that bears an identity keeps it; then its retries are the caller's.
        """
        return self._cluster().call(method, request, self._deadline)

    def close(self) -> None:
        """Ends the work of this client and its stores.

        Calls from now on raise ClosedError, and so do those under way, but for writes that were
        sent and not answered: they raise AmbiguousError. Closing again does nothing.
        """
        self._state.is_closed = True
        for cluster in self._scopes.all():
            cluster.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._dial.endpoints)})"

    def _cluster(self) -> Cluster:
        if self._state.is_closed:
            raise closed()
        return self._scopes.here()


class _State:
    """What clients of other deadlines share."""

    def __init__(self) -> None:
        self.is_closed = False
