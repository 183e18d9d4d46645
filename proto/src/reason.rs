//! The machine-readable reason of an error.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $variant:ident => $text:literal,)*) => {
        /// Why a call failed: `google.rpc.ErrorInfo.reason`. Callers branch on it, never on the message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Reason {
            /// Every reason, for tables and tests.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The text on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// What it means, and what a caller does about it; for tables.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*).trim_ascii(),)* }
            }

            /// The reason that this text on the wire names; `None` for one that this version does not know.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

reasons! {
    /// `if_revision` does not hold. Read again, decide again.
    Conflict => "CONFLICT",
    /// The identity was used for another request. A bug of the caller: never reuse an identity.
    ReplayMismatch => "REPLAY_MISMATCH",
    /// The call's number is below its session's floor, so its outcome is forgotten. It was not executed now.
    StaleCall => "STALE_CALL",
    /// The call's number is beyond its session's window, or its request id is from the future. It was not executed.
    TooEarly => "TOO_EARLY",
    /// The replay session is gone. If the call was sent before, its outcome cannot be known.
    SessionExpired => "SESSION_EXPIRED",
    /// The request id is older than the outcomes that are kept. It was not executed now.
    RequestTooOld => "REQUEST_TOO_OLD",
    /// An id, key, value, message or transaction is over its limit.
    TooLarge => "TOO_LARGE",
    /// A handle id is empty, or has a NUL.
    BadId => "BAD_ID",
    /// A key is empty, has a NUL, or is named twice in one call.
    BadKey => "BAD_KEY",
    /// A tenant, store or id prefix is not 1 to 64 bytes of `[a-z0-9_-]`.
    BadName => "BAD_NAME",
    /// A lifetime is zero, or does not fit.
    BadLifetime => "BAD_LIFETIME",
    /// The record is a claim, which only Claim and Delete change; or Claim names a handle that is none. Use another id or store.
    Claimed => "CLAIMED",
    /// The request lacks a part, or a part is malformed.
    BadRequest => "BAD_REQUEST",
    /// The tenant's quota is used up. Deletes still work.
    Quota => "QUOTA",
    /// Too much is under way. Retry after a pause.
    Overloaded => "OVERLOADED",
    /// A disk is below its reserve. Deletes and takes still work.
    DiskFull => "DISK_FULL",
    /// No leader within the deadline. The call was not executed.
    NoLeader => "NO_LEADER",
    /// The outcome is not known. Retry under the same identity.
    Ambiguous => "AMBIGUOUS",
    /// No valid credential.
    Unauthenticated => "UNAUTHENTICATED",
    /// The credential does not allow this.
    Denied => "DENIED",
    /// The peer belongs to another cluster.
    WrongCluster => "WRONG_CLUSTER",
    /// The message was meant for another node.
    WrongNode => "WRONG_NODE",
    /// Something was written by a newer version.
    FormatNewer => "FORMAT_NEWER",
    /// The list took too long. Continue with the resume token.
    ListLapsed => "LIST_LAPSED",
    /// The node has no longer what follows the revision. Another node may. Where none has, list, and watch after the list's
    /// index.
    WatchTooOld => "WATCH_TOO_OLD",
    /// The watch was not read for too long, or lasted as long as one may. Watch after the revision that it names.
    WatchLapsed => "WATCH_LAPSED",
    /// Only the leader does this, and the node does not lead. Ask the one that does.
    NotLeading => "NOT_LEADING",
    /// Another change of members is under way. Wait for its end.
    ChangeUnderWay => "CHANGE_UNDER_WAY",
    /// There is no such member; it may have been removed.
    NoMember => "NO_MEMBER",
    /// There is no such tenant. An operator makes it.
    NoTenant => "NO_TENANT",
    /// Another node has the seat or the address.
    SeatTaken => "SEAT_TAKEN",
    /// The member votes already. Nothing is to be done.
    AlreadyVoter => "ALREADY_VOTER",
    /// The node was started with `--learner`, and gets no vote. Start it without the flag first.
    StaysLearner => "STAYS_LEARNER",
    /// Too few voters would be left, or would answer, to go on.
    QuorumAtRisk => "QUORUM_AT_RISK",
    /// A node that the call waits for does not answer, or did not ask for its seat.
    NodeSilent => "NODE_SILENT",
    /// The node cannot write its audit log. The call was not executed. Try another node.
    AuditFailing => "AUDIT_FAILING",
    /// The value is sealed under a key that the node does not hold. Another node may: retry there, a mutation under the same identity.
    KeyMissing => "KEY_MISSING",
    /// The stored value is not what was sealed for this record. Of a mutation: it was done. Put the value back from elsewhere.
    Damaged => "DAMAGED",
    /// This node must stop, or has stopped. Try another node.
    Stopping => "STOPPING",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
