"""State handles and keys on Helve: for MCP servers, and everything whose replicas share state.

`AsyncClient` is for asyncio, `Client` for threads; both have the same methods.
"""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from ._async.claims import AsyncClaims, AsyncLease
from ._async.client import AsyncClient
from ._async.guards import AsyncGuard, AsyncGuards
from ._async.handles import AsyncHandleStore
from ._async.keys import AsyncKeys
from ._async.state_tool import AsyncStateTool
from ._async.transaction import AsyncTransaction
from ._async.watching import AsyncChanges
from ._sync.claims import Claims, Lease
from ._sync.client import Client
from ._sync.guards import Guard, Guards
from ._sync.handles import HandleStore
from ._sync.keys import Keys
from ._sync.state_tool import StateTool
from ._sync.transaction import Transaction
from ._sync.watching import Changes
from .claimed import (
    Claimed,
    Done,
    EarlierLease,
    Fresh,
    InFlight,
    LeaseEnd,
    OtherDigest,
    digest_of,
)
from .codec import Codec, Json, Mapped, Raw
from .errors import (
    AmbiguousError,
    ClosedError,
    CodecError,
    ConflictError,
    DeniedError,
    EntropyError,
    ErrorKind,
    ForgottenError,
    FullError,
    HelveError,
    InFlightError,
    InternalError,
    InvalidError,
    LapsedError,
    LeaseLostError,
    OtherDigestError,
    OverloadedError,
    Reason,
    SealedError,
    UnavailableError,
    UnkeptResultError,
    UnsupportedError,
    WatchLapsedError,
    WatchTooOldError,
)
from .owner import SHARED, Owner
from .records import (
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
    StoreOutcome,
    TakeOutcome,
)
from .tls import Tls
from .tools import ToolError, live
from .trace import within_trace
from .transacted import Aborted, Committed, Ticket, Transacted
from .ttl import Lifetime, Span, Ttl
from .watch import Change, ChangeKind, Watch

try:
    __version__ = _version("helve")
except _PackageNotFoundError:  # In a checkout that is not installed.
    __version__ = "0"

__all__ = [
    "SHARED",
    "Aborted",
    "AmbiguousError",
    "AsyncChanges",
    "AsyncClaims",
    "AsyncClient",
    "AsyncGuard",
    "AsyncGuards",
    "AsyncHandleStore",
    "AsyncKeys",
    "AsyncLease",
    "AsyncStateTool",
    "AsyncTransaction",
    "Change",
    "ChangeKind",
    "Changes",
    "Claimed",
    "Claims",
    "Client",
    "ClosedError",
    "Codec",
    "CodecError",
    "Committed",
    "Conflict",
    "ConflictError",
    "Created",
    "DeniedError",
    "Done",
    "EarlierLease",
    "EntropyError",
    "ErrorKind",
    "ForgottenError",
    "Fresh",
    "FullError",
    "Guard",
    "Guards",
    "HandleStore",
    "HelveError",
    "InFlight",
    "InFlightError",
    "InternalError",
    "InvalidError",
    "Json",
    "Keys",
    "LapsedError",
    "Lease",
    "LeaseEnd",
    "LeaseLostError",
    "Lifetime",
    "Listing",
    "Live",
    "Mapped",
    "NotLive",
    "OtherDigest",
    "OtherDigestError",
    "OverloadedError",
    "Owner",
    "Page",
    "PutOutcome",
    "Raw",
    "Reason",
    "Record",
    "RecordInfo",
    "Replaced",
    "Resolved",
    "SealedError",
    "Span",
    "StateTool",
    "StoreOutcome",
    "TakeOutcome",
    "Ticket",
    "Tls",
    "ToolError",
    "Transacted",
    "Transaction",
    "Ttl",
    "UnavailableError",
    "UnkeptResultError",
    "UnsupportedError",
    "Watch",
    "WatchLapsedError",
    "WatchTooOldError",
    "__version__",
    "digest_of",
    "live",
    "within_trace",
]
