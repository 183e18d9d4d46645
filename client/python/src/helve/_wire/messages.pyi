"""Types of the messages. Made by `tools/messages.py` from the contracts: do not edit."""

from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import Any as _Any, ClassVar as _ClassVar, Optional as _Optional, Union as _Union

from google.protobuf import descriptor_pool as _descriptor_pool, message as _message
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper

_pool: _descriptor_pool.DescriptorPool

class HandleStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HANDLE_STATUS_UNSPECIFIED: _ClassVar[HandleStatus]
    HANDLE_STATUS_LIVE: _ClassVar[HandleStatus]
    HANDLE_STATUS_EXPIRED: _ClassVar[HandleStatus]
    HANDLE_STATUS_TAKEN: _ClassVar[HandleStatus]
    HANDLE_STATUS_UNKNOWN: _ClassVar[HandleStatus]

class WriteStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WRITE_STATUS_UNSPECIFIED: _ClassVar[WriteStatus]
    WRITE_STATUS_CREATED: _ClassVar[WriteStatus]
    WRITE_STATUS_REPLACED: _ClassVar[WriteStatus]
    WRITE_STATUS_EXPIRED: _ClassVar[WriteStatus]
    WRITE_STATUS_TAKEN: _ClassVar[WriteStatus]
HANDLE_STATUS_UNSPECIFIED: HandleStatus
HANDLE_STATUS_LIVE: HandleStatus
HANDLE_STATUS_EXPIRED: HandleStatus
HANDLE_STATUS_TAKEN: HandleStatus
HANDLE_STATUS_UNKNOWN: HandleStatus
WRITE_STATUS_UNSPECIFIED: WriteStatus
WRITE_STATUS_CREATED: WriteStatus
WRITE_STATUS_REPLACED: WriteStatus
WRITE_STATUS_EXPIRED: WriteStatus
WRITE_STATUS_TAKEN: WriteStatus

class CallIdentity(_message.Message):
    __slots__ = ("session", "request_id")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session: SessionCall
    request_id: bytes
    def __init__(self, session: _Optional[_Union[SessionCall, _Mapping[str, _Any]]] = ..., request_id: _Optional[bytes] = ...) -> None: ...

class SessionCall(_message.Message):
    __slots__ = ("session_id", "seq", "first_incomplete")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    FIRST_INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    session_id: bytes
    seq: int
    first_incomplete: int
    def __init__(self, session_id: _Optional[bytes] = ..., seq: _Optional[int] = ..., first_incomplete: _Optional[int] = ...) -> None: ...

class ReplyHeader(_message.Message):
    __slots__ = ("index", "clock_ms", "leader_hint")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    LEADER_HINT_FIELD_NUMBER: _ClassVar[int]
    index: int
    clock_ms: int
    leader_hint: str
    def __init__(self, index: _Optional[int] = ..., clock_ms: _Optional[int] = ..., leader_hint: _Optional[str] = ...) -> None: ...

class Lifetime(_message.Message):
    __slots__ = ("default", "never", "after_ms", "keep", "idle_ttl_ms")
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    NEVER_FIELD_NUMBER: _ClassVar[int]
    AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    IDLE_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    default: Unit
    never: Unit
    after_ms: int
    keep: Unit
    idle_ttl_ms: int
    def __init__(self, default: _Optional[_Union[Unit, _Mapping[str, _Any]]] = ..., never: _Optional[_Union[Unit, _Mapping[str, _Any]]] = ..., after_ms: _Optional[int] = ..., keep: _Optional[_Union[Unit, _Mapping[str, _Any]]] = ..., idle_ttl_ms: _Optional[int] = ...) -> None: ...

class Unit(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RecordInfo(_message.Message):
    __slots__ = ("name", "owner", "revision", "created_at_ms", "updated_at_ms", "expires_at_ms", "idle_ttl_ms", "idle_deadline_ms", "value_bytes", "sealed_under")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    IDLE_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    IDLE_DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    VALUE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEALED_UNDER_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner: str
    revision: int
    created_at_ms: int
    updated_at_ms: int
    expires_at_ms: int
    idle_ttl_ms: int
    idle_deadline_ms: int
    value_bytes: int
    sealed_under: bytes
    def __init__(self, name: _Optional[str] = ..., owner: _Optional[str] = ..., revision: _Optional[int] = ..., created_at_ms: _Optional[int] = ..., updated_at_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., idle_ttl_ms: _Optional[int] = ..., idle_deadline_ms: _Optional[int] = ..., value_bytes: _Optional[int] = ..., sealed_under: _Optional[bytes] = ...) -> None: ...

class ClaimStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLAIM_STATUS_UNSPECIFIED: _ClassVar[ClaimStatus]
    CLAIM_STATUS_FRESH: _ClassVar[ClaimStatus]
    CLAIM_STATUS_IN_FLIGHT: _ClassVar[ClaimStatus]
    CLAIM_STATUS_DONE: _ClassVar[ClaimStatus]
    CLAIM_STATUS_CONFLICT: _ClassVar[ClaimStatus]
    CLAIM_STATUS_FINISHED: _ClassVar[ClaimStatus]
    CLAIM_STATUS_ABANDONED: _ClassVar[ClaimStatus]
    CLAIM_STATUS_LEASE_LOST: _ClassVar[ClaimStatus]

class LeaseEnd(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEASE_END_UNSPECIFIED: _ClassVar[LeaseEnd]
    LEASE_END_EXPIRED: _ClassVar[LeaseEnd]
    LEASE_END_ABANDONED: _ClassVar[LeaseEnd]
    LEASE_END_FINISHED: _ClassVar[LeaseEnd]
CLAIM_STATUS_UNSPECIFIED: ClaimStatus
CLAIM_STATUS_FRESH: ClaimStatus
CLAIM_STATUS_IN_FLIGHT: ClaimStatus
CLAIM_STATUS_DONE: ClaimStatus
CLAIM_STATUS_CONFLICT: ClaimStatus
CLAIM_STATUS_FINISHED: ClaimStatus
CLAIM_STATUS_ABANDONED: ClaimStatus
CLAIM_STATUS_LEASE_LOST: ClaimStatus
LEASE_END_UNSPECIFIED: LeaseEnd
LEASE_END_EXPIRED: LeaseEnd
LEASE_END_ABANDONED: LeaseEnd
LEASE_END_FINISHED: LeaseEnd

class MintRequest(_message.Message):
    __slots__ = ("identity", "store", "owner", "id_prefix", "value", "lifetime")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    identity: CallIdentity
    store: str
    owner: str
    id_prefix: str
    value: bytes
    lifetime: Lifetime
    def __init__(self, identity: _Optional[_Union[CallIdentity, _Mapping[str, _Any]]] = ..., store: _Optional[str] = ..., owner: _Optional[str] = ..., id_prefix: _Optional[str] = ..., value: _Optional[bytes] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping[str, _Any]]] = ...) -> None: ...

class MintReply(_message.Message):
    __slots__ = ("header", "info")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    info: RecordInfo
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ...) -> None: ...

class PutRequest(_message.Message):
    __slots__ = ("identity", "store", "owner", "id", "value", "lifetime", "if_revision")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    identity: CallIdentity
    store: str
    owner: str
    id: str
    value: bytes
    lifetime: Lifetime
    if_revision: int
    def __init__(self, identity: _Optional[_Union[CallIdentity, _Mapping[str, _Any]]] = ..., store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ..., value: _Optional[bytes] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping[str, _Any]]] = ..., if_revision: _Optional[int] = ...) -> None: ...

class PutReply(_message.Message):
    __slots__ = ("header", "status", "info")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    status: WriteStatus
    info: RecordInfo
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., status: _Optional[_Union[WriteStatus, str]] = ..., info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("store", "owner", "id")
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    store: str
    owner: str
    id: str
    def __init__(self, store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class GetReply(_message.Message):
    __slots__ = ("header", "status", "info", "value")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    status: HandleStatus
    info: RecordInfo
    value: bytes
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., status: _Optional[_Union[HandleStatus, str]] = ..., info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ..., value: _Optional[bytes] = ...) -> None: ...

class TakeRequest(_message.Message):
    __slots__ = ("identity", "store", "owner", "id", "if_revision")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    identity: CallIdentity
    store: str
    owner: str
    id: str
    if_revision: int
    def __init__(self, identity: _Optional[_Union[CallIdentity, _Mapping[str, _Any]]] = ..., store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ..., if_revision: _Optional[int] = ...) -> None: ...

class TakeReply(_message.Message):
    __slots__ = ("header", "status", "info", "value")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    status: HandleStatus
    info: RecordInfo
    value: bytes
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., status: _Optional[_Union[HandleStatus, str]] = ..., info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ..., value: _Optional[bytes] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("identity", "store", "owner", "id", "lifetime")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    identity: CallIdentity
    store: str
    owner: str
    id: str
    lifetime: Lifetime
    def __init__(self, identity: _Optional[_Union[CallIdentity, _Mapping[str, _Any]]] = ..., store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping[str, _Any]]] = ...) -> None: ...

class RenewReply(_message.Message):
    __slots__ = ("header", "status", "info")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    status: HandleStatus
    info: RecordInfo
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., status: _Optional[_Union[HandleStatus, str]] = ..., info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("identity", "store", "owner", "id", "if_revision")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    identity: CallIdentity
    store: str
    owner: str
    id: str
    if_revision: int
    def __init__(self, identity: _Optional[_Union[CallIdentity, _Mapping[str, _Any]]] = ..., store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ..., if_revision: _Optional[int] = ...) -> None: ...

class DeleteReply(_message.Message):
    __slots__ = ("header", "status")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    status: HandleStatus
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., status: _Optional[_Union[HandleStatus, str]] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("identity", "store", "owner", "id", "begin", "finish", "abandon")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    ABANDON_FIELD_NUMBER: _ClassVar[int]
    identity: CallIdentity
    store: str
    owner: str
    id: str
    begin: ClaimBegin
    finish: ClaimFinish
    abandon: ClaimAbandon
    def __init__(self, identity: _Optional[_Union[CallIdentity, _Mapping[str, _Any]]] = ..., store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ..., begin: _Optional[_Union[ClaimBegin, _Mapping[str, _Any]]] = ..., finish: _Optional[_Union[ClaimFinish, _Mapping[str, _Any]]] = ..., abandon: _Optional[_Union[ClaimAbandon, _Mapping[str, _Any]]] = ...) -> None: ...

class ClaimBegin(_message.Message):
    __slots__ = ("digest", "lease_ms", "note")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    lease_ms: int
    note: bytes
    def __init__(self, digest: _Optional[bytes] = ..., lease_ms: _Optional[int] = ..., note: _Optional[bytes] = ...) -> None: ...

class ClaimFinish(_message.Message):
    __slots__ = ("fence", "result", "result_ttl_ms")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    fence: int
    result: bytes
    result_ttl_ms: int
    def __init__(self, fence: _Optional[int] = ..., result: _Optional[bytes] = ..., result_ttl_ms: _Optional[int] = ...) -> None: ...

class ClaimAbandon(_message.Message):
    __slots__ = ("fence", "never_happened")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    NEVER_HAPPENED_FIELD_NUMBER: _ClassVar[int]
    fence: int
    never_happened: bool
    def __init__(self, fence: _Optional[int] = ..., never_happened: _Optional[bool] = ...) -> None: ...

class EarlierLease(_message.Message):
    __slots__ = ("end", "fence", "ended_at_ms")
    END_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    end: LeaseEnd
    fence: int
    ended_at_ms: int
    def __init__(self, end: _Optional[_Union[LeaseEnd, str]] = ..., fence: _Optional[int] = ..., ended_at_ms: _Optional[int] = ...) -> None: ...

class ClaimReply(_message.Message):
    __slots__ = ("header", "status", "info", "value", "fence", "earlier")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    status: ClaimStatus
    info: RecordInfo
    value: bytes
    fence: int
    earlier: EarlierLease
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., status: _Optional[_Union[ClaimStatus, str]] = ..., info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ..., value: _Optional[bytes] = ..., fence: _Optional[int] = ..., earlier: _Optional[_Union[EarlierLease, _Mapping[str, _Any]]] = ...) -> None: ...

class CountRequest(_message.Message):
    __slots__ = ("store", "owner")
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    store: str
    owner: str
    def __init__(self, store: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class CountReply(_message.Message):
    __slots__ = ("header", "live")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    live: int
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., live: _Optional[int] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("store", "owner", "with_values", "resume_token", "handles_max", "after")
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    WITH_VALUES_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HANDLES_MAX_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    store: str
    owner: str
    with_values: bool
    resume_token: bytes
    handles_max: int
    after: str
    def __init__(self, store: _Optional[str] = ..., owner: _Optional[str] = ..., with_values: _Optional[bool] = ..., resume_token: _Optional[bytes] = ..., handles_max: _Optional[int] = ..., after: _Optional[str] = ...) -> None: ...

class ListReply(_message.Message):
    __slots__ = ("header", "handles", "resume_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    handles: _containers.RepeatedCompositeFieldContainer[ListedHandle]
    resume_token: bytes
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., handles: _Optional[_Iterable[_Union[ListedHandle, _Mapping[str, _Any]]]] = ..., resume_token: _Optional[bytes] = ...) -> None: ...

class ListedHandle(_message.Message):
    __slots__ = ("info", "value")
    INFO_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    info: RecordInfo
    value: bytes
    def __init__(self, info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ..., value: _Optional[bytes] = ...) -> None: ...

class StoreRequest(_message.Message):
    __slots__ = ("identity", "owner", "key", "value", "lifetime", "if_revision")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    identity: CallIdentity
    owner: str
    key: str
    value: bytes
    lifetime: Lifetime
    if_revision: int
    def __init__(self, identity: _Optional[_Union[CallIdentity, _Mapping[str, _Any]]] = ..., owner: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[bytes] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping[str, _Any]]] = ..., if_revision: _Optional[int] = ...) -> None: ...

class StoreReply(_message.Message):
    __slots__ = ("header", "status", "info")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    status: WriteStatus
    info: RecordInfo
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., status: _Optional[_Union[WriteStatus, str]] = ..., info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ...) -> None: ...

class RetrieveRequest(_message.Message):
    __slots__ = ("owner", "key")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    owner: str
    key: str
    def __init__(self, owner: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class RetrieveReply(_message.Message):
    __slots__ = ("header", "record")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    record: KeyRecord
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., record: _Optional[_Union[KeyRecord, _Mapping[str, _Any]]] = ...) -> None: ...

class KeyRecord(_message.Message):
    __slots__ = ("info", "value")
    INFO_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    info: RecordInfo
    value: bytes
    def __init__(self, info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ..., value: _Optional[bytes] = ...) -> None: ...

class DeleteKeyRequest(_message.Message):
    __slots__ = ("identity", "owner", "key", "if_revision")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    identity: CallIdentity
    owner: str
    key: str
    if_revision: int
    def __init__(self, identity: _Optional[_Union[CallIdentity, _Mapping[str, _Any]]] = ..., owner: _Optional[str] = ..., key: _Optional[str] = ..., if_revision: _Optional[int] = ...) -> None: ...

class DeleteKeyReply(_message.Message):
    __slots__ = ("header", "existed")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    existed: bool
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., existed: _Optional[bool] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ("owner", "prefix", "with_values", "resume_token", "after", "keys_max")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    WITH_VALUES_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    KEYS_MAX_FIELD_NUMBER: _ClassVar[int]
    owner: str
    prefix: str
    with_values: bool
    resume_token: bytes
    after: str
    keys_max: int
    def __init__(self, owner: _Optional[str] = ..., prefix: _Optional[str] = ..., with_values: _Optional[bool] = ..., resume_token: _Optional[bytes] = ..., after: _Optional[str] = ..., keys_max: _Optional[int] = ...) -> None: ...

class ListKeysReply(_message.Message):
    __slots__ = ("header", "records", "resume_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    records: _containers.RepeatedCompositeFieldContainer[KeyRecord]
    resume_token: bytes
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., records: _Optional[_Iterable[_Union[KeyRecord, _Mapping[str, _Any]]]] = ..., resume_token: _Optional[bytes] = ...) -> None: ...

class ExistsRequest(_message.Message):
    __slots__ = ("owner", "key")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    owner: str
    key: str
    def __init__(self, owner: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class ExistsReply(_message.Message):
    __slots__ = ("header", "exists")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    exists: bool
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., exists: _Optional[bool] = ...) -> None: ...

class BatchStoreRequest(_message.Message):
    __slots__ = ("identity", "owner", "items")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    identity: CallIdentity
    owner: str
    items: _containers.RepeatedCompositeFieldContainer[StoreItem]
    def __init__(self, identity: _Optional[_Union[CallIdentity, _Mapping[str, _Any]]] = ..., owner: _Optional[str] = ..., items: _Optional[_Iterable[_Union[StoreItem, _Mapping[str, _Any]]]] = ...) -> None: ...

class StoreItem(_message.Message):
    __slots__ = ("key", "value", "lifetime", "if_revision")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    lifetime: Lifetime
    if_revision: int
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping[str, _Any]]] = ..., if_revision: _Optional[int] = ...) -> None: ...

class BatchStoreReply(_message.Message):
    __slots__ = ("header", "infos")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    INFOS_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    infos: _containers.RepeatedCompositeFieldContainer[RecordInfo]
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., infos: _Optional[_Iterable[_Union[RecordInfo, _Mapping[str, _Any]]]] = ...) -> None: ...

class BatchRetrieveRequest(_message.Message):
    __slots__ = ("owner", "keys")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    owner: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, owner: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...

class BatchRetrieveReply(_message.Message):
    __slots__ = ("header", "keys")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    keys: _containers.RepeatedCompositeFieldContainer[RetrievedKey]
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., keys: _Optional[_Iterable[_Union[RetrievedKey, _Mapping[str, _Any]]]] = ...) -> None: ...

class RetrievedKey(_message.Message):
    __slots__ = ("record",)
    RECORD_FIELD_NUMBER: _ClassVar[int]
    record: KeyRecord
    def __init__(self, record: _Optional[_Union[KeyRecord, _Mapping[str, _Any]]] = ...) -> None: ...

class TransactRequest(_message.Message):
    __slots__ = ("identity", "operations")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    identity: CallIdentity
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    def __init__(self, identity: _Optional[_Union[CallIdentity, _Mapping[str, _Any]]] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping[str, _Any]]]] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("mint", "put", "take", "renew", "delete", "store", "delete_key")
    MINT_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    TAKE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    DELETE_KEY_FIELD_NUMBER: _ClassVar[int]
    mint: MintOperation
    put: PutOperation
    take: TakeOperation
    renew: RenewOperation
    delete: DeleteOperation
    store: StoreOperation
    delete_key: DeleteKeyOperation
    def __init__(self, mint: _Optional[_Union[MintOperation, _Mapping[str, _Any]]] = ..., put: _Optional[_Union[PutOperation, _Mapping[str, _Any]]] = ..., take: _Optional[_Union[TakeOperation, _Mapping[str, _Any]]] = ..., renew: _Optional[_Union[RenewOperation, _Mapping[str, _Any]]] = ..., delete: _Optional[_Union[DeleteOperation, _Mapping[str, _Any]]] = ..., store: _Optional[_Union[StoreOperation, _Mapping[str, _Any]]] = ..., delete_key: _Optional[_Union[DeleteKeyOperation, _Mapping[str, _Any]]] = ...) -> None: ...

class MintOperation(_message.Message):
    __slots__ = ("store", "owner", "id_prefix", "value", "lifetime")
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    store: str
    owner: str
    id_prefix: str
    value: bytes
    lifetime: Lifetime
    def __init__(self, store: _Optional[str] = ..., owner: _Optional[str] = ..., id_prefix: _Optional[str] = ..., value: _Optional[bytes] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping[str, _Any]]] = ...) -> None: ...

class PutOperation(_message.Message):
    __slots__ = ("store", "owner", "id", "value", "lifetime", "if_revision")
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    store: str
    owner: str
    id: str
    value: bytes
    lifetime: Lifetime
    if_revision: int
    def __init__(self, store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ..., value: _Optional[bytes] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping[str, _Any]]] = ..., if_revision: _Optional[int] = ...) -> None: ...

class TakeOperation(_message.Message):
    __slots__ = ("store", "owner", "id", "if_revision")
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    store: str
    owner: str
    id: str
    if_revision: int
    def __init__(self, store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ..., if_revision: _Optional[int] = ...) -> None: ...

class RenewOperation(_message.Message):
    __slots__ = ("store", "owner", "id", "lifetime", "if_revision")
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    store: str
    owner: str
    id: str
    lifetime: Lifetime
    if_revision: int
    def __init__(self, store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping[str, _Any]]] = ..., if_revision: _Optional[int] = ...) -> None: ...

class DeleteOperation(_message.Message):
    __slots__ = ("store", "owner", "id", "if_revision")
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    store: str
    owner: str
    id: str
    if_revision: int
    def __init__(self, store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ..., if_revision: _Optional[int] = ...) -> None: ...

class StoreOperation(_message.Message):
    __slots__ = ("owner", "key", "value", "lifetime", "if_revision")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    owner: str
    key: str
    value: bytes
    lifetime: Lifetime
    if_revision: int
    def __init__(self, owner: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[bytes] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping[str, _Any]]] = ..., if_revision: _Optional[int] = ...) -> None: ...

class DeleteKeyOperation(_message.Message):
    __slots__ = ("owner", "key", "if_revision")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    owner: str
    key: str
    if_revision: int
    def __init__(self, owner: _Optional[str] = ..., key: _Optional[str] = ..., if_revision: _Optional[int] = ...) -> None: ...

class TransactReply(_message.Message):
    __slots__ = ("header", "committed", "aborted")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    committed: Committed
    aborted: Aborted
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., committed: _Optional[_Union[Committed, _Mapping[str, _Any]]] = ..., aborted: _Optional[_Union[Aborted, _Mapping[str, _Any]]] = ...) -> None: ...

class Committed(_message.Message):
    __slots__ = ("replies",)
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    replies: _containers.RepeatedCompositeFieldContainer[OperationReply]
    def __init__(self, replies: _Optional[_Iterable[_Union[OperationReply, _Mapping[str, _Any]]]] = ...) -> None: ...

class Aborted(_message.Message):
    __slots__ = ("operation", "status")
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    operation: int
    status: HandleStatus
    def __init__(self, operation: _Optional[int] = ..., status: _Optional[_Union[HandleStatus, str]] = ...) -> None: ...

class OperationReply(_message.Message):
    __slots__ = ("info", "value", "status")
    INFO_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    info: RecordInfo
    value: bytes
    status: WriteStatus
    def __init__(self, info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ..., value: _Optional[bytes] = ..., status: _Optional[_Union[WriteStatus, str]] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: bytes
    def __init__(self, session_id: _Optional[bytes] = ...) -> None: ...

class OpenSessionReply(_message.Message):
    __slots__ = ("header", "idle_ttl_ms", "window_calls_max")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    IDLE_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_CALLS_MAX_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    idle_ttl_ms: int
    window_calls_max: int
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., idle_ttl_ms: _Optional[int] = ..., window_calls_max: _Optional[int] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[ExchangeCall]
    def __init__(self, calls: _Optional[_Iterable[_Union[ExchangeCall, _Mapping[str, _Any]]]] = ...) -> None: ...

class ExchangeCall(_message.Message):
    __slots__ = ("correlation_id", "timeout_ms", "mint", "put", "get", "take", "renew", "delete", "count", "claim", "store", "retrieve", "delete_key", "exists", "batch_store", "batch_retrieve", "transact", "open_session")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MINT_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    GET_FIELD_NUMBER: _ClassVar[int]
    TAKE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    RETRIEVE_FIELD_NUMBER: _ClassVar[int]
    DELETE_KEY_FIELD_NUMBER: _ClassVar[int]
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    BATCH_STORE_FIELD_NUMBER: _ClassVar[int]
    BATCH_RETRIEVE_FIELD_NUMBER: _ClassVar[int]
    TRANSACT_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSION_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    timeout_ms: int
    mint: MintRequest
    put: PutRequest
    get: GetRequest
    take: TakeRequest
    renew: RenewRequest
    delete: DeleteRequest
    count: CountRequest
    claim: ClaimRequest
    store: StoreRequest
    retrieve: RetrieveRequest
    delete_key: DeleteKeyRequest
    exists: ExistsRequest
    batch_store: BatchStoreRequest
    batch_retrieve: BatchRetrieveRequest
    transact: TransactRequest
    open_session: OpenSessionRequest
    def __init__(self, correlation_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., mint: _Optional[_Union[MintRequest, _Mapping[str, _Any]]] = ..., put: _Optional[_Union[PutRequest, _Mapping[str, _Any]]] = ..., get: _Optional[_Union[GetRequest, _Mapping[str, _Any]]] = ..., take: _Optional[_Union[TakeRequest, _Mapping[str, _Any]]] = ..., renew: _Optional[_Union[RenewRequest, _Mapping[str, _Any]]] = ..., delete: _Optional[_Union[DeleteRequest, _Mapping[str, _Any]]] = ..., count: _Optional[_Union[CountRequest, _Mapping[str, _Any]]] = ..., claim: _Optional[_Union[ClaimRequest, _Mapping[str, _Any]]] = ..., store: _Optional[_Union[StoreRequest, _Mapping[str, _Any]]] = ..., retrieve: _Optional[_Union[RetrieveRequest, _Mapping[str, _Any]]] = ..., delete_key: _Optional[_Union[DeleteKeyRequest, _Mapping[str, _Any]]] = ..., exists: _Optional[_Union[ExistsRequest, _Mapping[str, _Any]]] = ..., batch_store: _Optional[_Union[BatchStoreRequest, _Mapping[str, _Any]]] = ..., batch_retrieve: _Optional[_Union[BatchRetrieveRequest, _Mapping[str, _Any]]] = ..., transact: _Optional[_Union[TransactRequest, _Mapping[str, _Any]]] = ..., open_session: _Optional[_Union[OpenSessionRequest, _Mapping[str, _Any]]] = ...) -> None: ...

class ExchangeReply(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[ExchangeAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[ExchangeAnswer, _Mapping[str, _Any]]]] = ...) -> None: ...

class ExchangeAnswer(_message.Message):
    __slots__ = ("correlation_id", "error", "mint", "put", "get", "take", "renew", "delete", "count", "claim", "store", "retrieve", "delete_key", "exists", "batch_store", "batch_retrieve", "transact", "open_session")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MINT_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    GET_FIELD_NUMBER: _ClassVar[int]
    TAKE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    RETRIEVE_FIELD_NUMBER: _ClassVar[int]
    DELETE_KEY_FIELD_NUMBER: _ClassVar[int]
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    BATCH_STORE_FIELD_NUMBER: _ClassVar[int]
    BATCH_RETRIEVE_FIELD_NUMBER: _ClassVar[int]
    TRANSACT_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSION_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    error: ErrorReply
    mint: MintReply
    put: PutReply
    get: GetReply
    take: TakeReply
    renew: RenewReply
    delete: DeleteReply
    count: CountReply
    claim: ClaimReply
    store: StoreReply
    retrieve: RetrieveReply
    delete_key: DeleteKeyReply
    exists: ExistsReply
    batch_store: BatchStoreReply
    batch_retrieve: BatchRetrieveReply
    transact: TransactReply
    open_session: OpenSessionReply
    def __init__(self, correlation_id: _Optional[int] = ..., error: _Optional[_Union[ErrorReply, _Mapping[str, _Any]]] = ..., mint: _Optional[_Union[MintReply, _Mapping[str, _Any]]] = ..., put: _Optional[_Union[PutReply, _Mapping[str, _Any]]] = ..., get: _Optional[_Union[GetReply, _Mapping[str, _Any]]] = ..., take: _Optional[_Union[TakeReply, _Mapping[str, _Any]]] = ..., renew: _Optional[_Union[RenewReply, _Mapping[str, _Any]]] = ..., delete: _Optional[_Union[DeleteReply, _Mapping[str, _Any]]] = ..., count: _Optional[_Union[CountReply, _Mapping[str, _Any]]] = ..., claim: _Optional[_Union[ClaimReply, _Mapping[str, _Any]]] = ..., store: _Optional[_Union[StoreReply, _Mapping[str, _Any]]] = ..., retrieve: _Optional[_Union[RetrieveReply, _Mapping[str, _Any]]] = ..., delete_key: _Optional[_Union[DeleteKeyReply, _Mapping[str, _Any]]] = ..., exists: _Optional[_Union[ExistsReply, _Mapping[str, _Any]]] = ..., batch_store: _Optional[_Union[BatchStoreReply, _Mapping[str, _Any]]] = ..., batch_retrieve: _Optional[_Union[BatchRetrieveReply, _Mapping[str, _Any]]] = ..., transact: _Optional[_Union[TransactReply, _Mapping[str, _Any]]] = ..., open_session: _Optional[_Union[OpenSessionReply, _Mapping[str, _Any]]] = ...) -> None: ...

class ErrorReply(_message.Message):
    __slots__ = ("code", "reason", "message", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ChangeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANGE_KIND_UNSPECIFIED: _ClassVar[ChangeKind]
    CHANGE_KIND_PUT: _ClassVar[ChangeKind]
    CHANGE_KIND_TAKEN: _ClassVar[ChangeKind]
    CHANGE_KIND_DELETED: _ClassVar[ChangeKind]
    CHANGE_KIND_EXPIRED: _ClassVar[ChangeKind]
CHANGE_KIND_UNSPECIFIED: ChangeKind
CHANGE_KIND_PUT: ChangeKind
CHANGE_KIND_TAKEN: ChangeKind
CHANGE_KIND_DELETED: ChangeKind
CHANGE_KIND_EXPIRED: ChangeKind

class WatchRequest(_message.Message):
    __slots__ = ("store", "handle", "keys", "owner", "after", "cluster_id")
    STORE_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    store: WatchStore
    handle: WatchHandle
    keys: WatchKeys
    owner: WatchOwner
    after: int
    cluster_id: str
    def __init__(self, store: _Optional[_Union[WatchStore, _Mapping[str, _Any]]] = ..., handle: _Optional[_Union[WatchHandle, _Mapping[str, _Any]]] = ..., keys: _Optional[_Union[WatchKeys, _Mapping[str, _Any]]] = ..., owner: _Optional[_Union[WatchOwner, _Mapping[str, _Any]]] = ..., after: _Optional[int] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class WatchStore(_message.Message):
    __slots__ = ("store", "owner")
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    store: str
    owner: str
    def __init__(self, store: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class WatchHandle(_message.Message):
    __slots__ = ("store", "owner", "id")
    STORE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    store: str
    owner: str
    id: str
    def __init__(self, store: _Optional[str] = ..., owner: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class WatchKeys(_message.Message):
    __slots__ = ("owner", "prefix")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    owner: str
    prefix: str
    def __init__(self, owner: _Optional[str] = ..., prefix: _Optional[str] = ...) -> None: ...

class WatchOwner(_message.Message):
    __slots__ = ("owner",)
    OWNER_FIELD_NUMBER: _ClassVar[int]
    owner: str
    def __init__(self, owner: _Optional[str] = ...) -> None: ...

class WatchReply(_message.Message):
    __slots__ = ("header", "revision", "changes", "cluster_id")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    header: ReplyHeader
    revision: int
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    cluster_id: str
    def __init__(self, header: _Optional[_Union[ReplyHeader, _Mapping[str, _Any]]] = ..., revision: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[Change, _Mapping[str, _Any]]]] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("kind", "ordinal", "store", "info")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    kind: ChangeKind
    ordinal: int
    store: str
    info: RecordInfo
    def __init__(self, kind: _Optional[_Union[ChangeKind, str]] = ..., ordinal: _Optional[int] = ..., store: _Optional[str] = ..., info: _Optional[_Union[RecordInfo, _Mapping[str, _Any]]] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("code", "message", "details")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    details: _containers.RepeatedCompositeFieldContainer[Detail]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., details: _Optional[_Iterable[_Union[Detail, _Mapping[str, _Any]]]] = ...) -> None: ...

class Detail(_message.Message):
    __slots__ = ("type_url", "value")
    TYPE_URL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    type_url: str
    value: bytes
    def __init__(self, type_url: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class ErrorInfo(_message.Message):
    __slots__ = ("reason", "domain", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    reason: str
    domain: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, reason: _Optional[str] = ..., domain: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class RetryInfo(_message.Message):
    __slots__ = ("retry_delay",)
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    retry_delay: Delay
    def __init__(self, retry_delay: _Optional[_Union[Delay, _Mapping[str, _Any]]] = ...) -> None: ...

class Delay(_message.Message):
    __slots__ = ("seconds", "nanos")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NANOS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    nanos: int
    def __init__(self, seconds: _Optional[int] = ..., nanos: _Optional[int] = ...) -> None: ...
