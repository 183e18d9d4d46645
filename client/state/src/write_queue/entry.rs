//! What the journal holds, entry by entry.

use bytes::Bytes;

/// One step of one write.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Entry {
    /// The write's number.
    #[prost(uint64, tag = "1")]
    pub(super) number: u64,
    #[prost(oneof = "Step", tags = "2, 3, 4, 5, 6")]
    pub(super) step: Option<Step>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
#[expect(
    clippy::large_enum_variant,
    reason = "a step is written, or read, one at a time"
)]
pub(super) enum Step {
    #[prost(message, tag = "2")]
    Queued(QueuedWrite),
    #[prost(message, tag = "3")]
    Sent(Sent),
    #[prost(message, tag = "4")]
    Settled(Settled),
    /// The callback has been told.
    #[prost(message, tag = "5")]
    Reported(Reported),
    /// The first try certainly had no effect: the next one may bear another identity.
    #[prost(message, tag = "6")]
    Withdrawn(Withdrawn),
}

/// The write as it was queued. A request without identity, and without revision.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct QueuedWrite {
    #[prost(message, optional, tag = "1")]
    pub(super) store: Option<helve_proto::v1::StoreRequest>,
    #[prost(message, optional, tag = "2")]
    pub(super) delete: Option<helve_proto::v1::DeleteKeyRequest>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) if_revision: Option<u64>,
    /// The number of the queued write over which this one writes.
    #[prost(uint64, optional, tag = "4")]
    pub(super) after: Option<u64>,
}

/// The identity and the condition with which the write was sent for the first time, and with which alone it may be sent again.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Sent {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) session_id: Bytes,
    #[prost(uint64, tag = "2")]
    pub(super) seq: u64,
    #[prost(uint64, optional, tag = "3")]
    pub(super) if_revision: Option<u64>,
}

/// What became of the write.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Settled {
    #[prost(enumeration = "Outcome", tag = "1")]
    pub(super) outcome: i32,
    /// Of a write that was applied: its own; of a conflict: the key's.
    #[prost(uint64, tag = "2")]
    pub(super) revision: u64,
    /// Of a refusal: why.
    #[prost(string, tag = "3")]
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Outcome {
    Unspecified = 0,
    Applied = 1,
    Conflict = 2,
    Lapsed = 3,
    Refused = 4,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Reported {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Withdrawn {}

impl QueuedWrite {
    /// Owner and key.
    pub(super) fn name(&self) -> (&str, &str) {
        match (&self.store, &self.delete) {
            (Some(store), _) => (&store.owner, &store.key),
            (None, Some(delete)) => (&delete.owner, &delete.key),
            (None, None) => ("", ""),
        }
    }
}
