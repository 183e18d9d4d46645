"""The methods of `helve.v1`: their names on the wire, and what they take and answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from . import messages as wire

Req = TypeVar("Req", bound=Message)
Rep = TypeVar("Rep", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Req, Rep]):
    """One method: `/helve.v1.SERVICE/NAME`."""

    path: str
    request: type[Req]
    reply: type[Rep]
    #: Whether it changes something, and so bears an identity.
    mutates: bool = False


def _of(service: str, name: str, request: Any, reply: Any, mutates: bool = False) -> Any:
    return Method(f"/helve.v1.{service}/{name}", request, reply, mutates)


MINT: Method[wire.MintRequest, wire.MintReply] = _of(
    "HandleService", "Mint", wire.MintRequest, wire.MintReply, True
)
PUT: Method[wire.PutRequest, wire.PutReply] = _of(
    "HandleService", "Put", wire.PutRequest, wire.PutReply, True
)
GET: Method[wire.GetRequest, wire.GetReply] = _of(
    "HandleService", "Get", wire.GetRequest, wire.GetReply
)
TAKE: Method[wire.TakeRequest, wire.TakeReply] = _of(
    "HandleService", "Take", wire.TakeRequest, wire.TakeReply, True
)
RENEW: Method[wire.RenewRequest, wire.RenewReply] = _of(
    "HandleService", "Renew", wire.RenewRequest, wire.RenewReply, True
)
DELETE: Method[wire.DeleteRequest, wire.DeleteReply] = _of(
    "HandleService", "Delete", wire.DeleteRequest, wire.DeleteReply, True
)
CLAIM: Method[wire.ClaimRequest, wire.ClaimReply] = _of(
    "HandleService", "Claim", wire.ClaimRequest, wire.ClaimReply, True
)
COUNT: Method[wire.CountRequest, wire.CountReply] = _of(
    "HandleService", "Count", wire.CountRequest, wire.CountReply
)
LIST: Method[wire.ListRequest, wire.ListReply] = _of(
    "HandleService", "List", wire.ListRequest, wire.ListReply
)
STORE: Method[wire.StoreRequest, wire.StoreReply] = _of(
    "StateService", "Store", wire.StoreRequest, wire.StoreReply, True
)
RETRIEVE: Method[wire.RetrieveRequest, wire.RetrieveReply] = _of(
    "StateService", "Retrieve", wire.RetrieveRequest, wire.RetrieveReply
)
DELETE_KEY: Method[wire.DeleteKeyRequest, wire.DeleteKeyReply] = _of(
    "StateService", "Delete", wire.DeleteKeyRequest, wire.DeleteKeyReply, True
)
LIST_KEYS: Method[wire.ListKeysRequest, wire.ListKeysReply] = _of(
    "StateService", "List", wire.ListKeysRequest, wire.ListKeysReply
)
EXISTS: Method[wire.ExistsRequest, wire.ExistsReply] = _of(
    "StateService", "Exists", wire.ExistsRequest, wire.ExistsReply
)
BATCH_STORE: Method[wire.BatchStoreRequest, wire.BatchStoreReply] = _of(
    "StateService", "BatchStore", wire.BatchStoreRequest, wire.BatchStoreReply, True
)
BATCH_RETRIEVE: Method[wire.BatchRetrieveRequest, wire.BatchRetrieveReply] = _of(
    "StateService", "BatchRetrieve", wire.BatchRetrieveRequest, wire.BatchRetrieveReply
)
TRANSACT: Method[wire.TransactRequest, wire.TransactReply] = _of(
    "TransactService", "Transact", wire.TransactRequest, wire.TransactReply, True
)
WATCH: Method[wire.WatchRequest, wire.WatchReply] = _of(
    "WatchService", "Watch", wire.WatchRequest, wire.WatchReply
)
OPEN_SESSION: Method[wire.OpenSessionRequest, wire.OpenSessionReply] = _of(
    "CallService", "OpenSession", wire.OpenSessionRequest, wire.OpenSessionReply
)
