"""What transactions answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar, Union

from ._wire import messages as wire
from .codec import Codec
from .errors import InternalError
from .records import NotLive, Record, RecordInfo, info_of, not_live, record_of

T = TypeVar("T")


@dataclass(frozen=True)
class Ticket(Generic[T]):
    """One write of a transaction."""

    #: Its place, from 0: what `ConflictError.operation` and `Aborted.operation` name.
    operation: int
    codec: Codec[T]


class Committed:
    """Every operation took effect."""

    def __init__(self, revision: int, replies: tuple[wire.OperationReply, ...]) -> None:
        #: The log index at which all of it took effect: the revision of everything it wrote.
        self.revision = revision
        #: One for each operation, in order.
        self.replies = replies

    def info(self, ticket: Ticket[T]) -> RecordInfo | None:
        """The record after the write; of a take, as it was. None of deletes."""
        reply = self.replies[ticket.operation]
        return info_of(reply.info) if reply.HasField("info") else None

    def taken(self, ticket: Ticket[T]) -> Record[T]:
        """What a take took. Raises CodecError if the codec cannot read it."""
        reply = self.replies[ticket.operation]
        if not reply.HasField("info"):
            raise InternalError("the operation took nothing")
        return record_of(reply.info, reply.value, ticket.codec)

    def existed(self, ticket: Ticket[T]) -> bool:
        """Of a put: the record was replaced, not created. Of a deleted key: there was one."""
        return self.replies[ticket.operation].status == wire.WRITE_STATUS_REPLACED

    def __repr__(self) -> str:
        return f"Committed(revision={self.revision}, {len(self.replies)} operations)"


@dataclass(frozen=True)
class Aborted:
    """No operation took effect, because a handle does not live."""

    #: The first operation that could not take effect, from 0.
    operation: int
    #: Why not.
    status: NotLive


#: What a transaction came to.
Transacted = Union[Committed, Aborted]


def transacted(reply: wire.TransactReply) -> Transacted:
    """What a reply says of a transaction."""
    if reply.HasField("committed"):
        return Committed(reply.header.index, tuple(reply.committed.replies))
    if reply.HasField("aborted"):
        return Aborted(reply.aborted.operation, not_live(reply.aborted.status))
    raise InternalError("a reply without its result")
