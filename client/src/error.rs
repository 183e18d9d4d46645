//! What can go wrong, said so that a caller knows what to do next.

use std::fmt;

use helve_proto::Reason;

/// What went wrong. Branch on [`kind`](Self::kind); the message is for people.
///
/// Its text names what failed, on what, why, and what to do, in one line. A [`source`](std::error::Error::source) is there only if the
/// text does not say it already, so a report of the whole chain repeats nothing.
pub struct Error {
    kind: ErrorKind,
    reason: Option<Reason>,
    message: String,
    is_unconnected: bool,
    address: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What to do about an [`Error`]. There are as many kinds as there are different things to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A condition on a revision does not hold, and nothing was written. Read again, decide again.
    Conflict {
        /// The record's revision, 0 if there is no such record.
        revision: u64,
        /// Of a transaction or batch: the operation at fault, from 0; else 0.
        operation: u32,
    },
    /// The call was sent, and whether it took effect cannot be known: the deadline ended, or the replay session expired, while
    /// it was under way. A call that bore an identity of the caller's own may be repeated under that identity. Otherwise read
    /// the record again, and decide by what it holds; never repeat blindly what must not happen twice.
    Ambiguous,
    /// No node answered within the deadline, or no leader was known, and the call certainly had no effect. Try again later.
    Unavailable,
    /// The cluster, or this client, has too much under way; the call had no effect. Try again after a pause, with less at once.
    Overloaded,
    /// A quota is used up, or a disk is below its reserve; the call had no effect. Delete or take something, or call the
    /// operator: trying again alone does not help.
    Full,
    /// The request breaks a limit or a rule, and had no effect. Change it: it will never succeed.
    Invalid,
    /// The store, or the client, was closed. Open another one.
    Closed,
    /// The credential is missing, or does not allow this. Get another one.
    Denied,
    /// The identity that the caller gave is older than what the cluster remembers, or too far ahead. The call had no effect now;
    /// what an earlier call under that identity did is not known any more.
    Forgotten,
    /// A list took too long for its view, and what was read of it is dropped: its rest would be of another view. List less at
    /// once: by owner, by prefix, or without values. Of a watch: no node has all changes that follow any more. List again, and watch
    /// after the list's revision.
    Lapsed,
    /// A value could not be encoded as JSON, or a stored one is not what this type expects. Nothing was written. A stored value
    /// stays as it is: read it with the type that it was written with.
    Codec,
    /// A sealed value does not open under the keys at hand for this tenant, owner, key and field:
    /// it was sealed under another key, or it was changed or moved here. Nothing of it is given
    /// out, and it stays as it is. Give the key that it was sealed under; or clear the field and
    /// obtain a new value, by logging in again.
    Sealed,
    /// The operating system gave no randomness. Nothing was minted or sent. Repair the machine.
    Entropy,
    /// This implementation cannot promise that, or was built without it; nothing was done. Use another one, or do without.
    Unsupported,
    /// Something contradicts itself: a defect of Helve, or versions that do not fit together. Report it.
    Internal,
}

impl Error {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            reason: None,
            message: message.into(),
            is_unconnected: false,
            address: None,
            source: None,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The cluster's own reason, where it gave one.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// The message, for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether no connection was made to any node that was tried last: none runs there, or its address or TLS is another.
    #[must_use]
    pub fn is_unconnected(&self) -> bool {
        self.is_unconnected
    }

    /// The address that the text names: of a node, or of a proxy before it. A server that passes texts on to callers of its own should not
    /// tell them where its cluster is.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn at(mut self, address: &str) -> Self {
        self.address = Some(address.to_owned());
        self
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn unconnected(mut self) -> Self {
        self.is_unconnected = true;
        self
    }

    /// The same error with the cluster's reason.
    #[must_use]
    pub fn with_reason(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// The same error with its cause, unless the message repeats the cause already.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        if !self.message.contains(&source.to_string()) {
            self.source = Some(source);
        }
        self
    }

    /// The same error with the record's name, if a value could not be decoded: in a list, the name
    /// says which one.
    #[must_use]
    pub fn of_record(mut self, name: &str) -> Self {
        if self.kind == ErrorKind::Codec {
            self.message = format!("record {name:?}: {}", self.message);
        }
        self
    }

    /// The error of every call to a store or client after its `close`.
    #[must_use]
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "this store or its client was closed")
    }

    /// An error of kind [`Internal`](ErrorKind::Internal).
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The error for a call that was refused for this reason; the reason decides the kind. `revision` and
    /// `operation` are used for conflicts only.
    #[must_use]
    pub fn refused(
        reason: Reason,
        message: impl Into<String>,
        revision: u64,
        operation: u32,
    ) -> Self {
        let kind = match reason {
            Reason::Conflict => ErrorKind::Conflict {
                revision,
                operation,
            },
            Reason::Ambiguous => ErrorKind::Ambiguous,
            Reason::NoLeader | Reason::Stopping | Reason::AuditFailing | Reason::KeyMissing => {
                ErrorKind::Unavailable
            }
            Reason::Damaged => ErrorKind::Sealed,
            Reason::Overloaded => ErrorKind::Overloaded,
            Reason::Quota | Reason::DiskFull => ErrorKind::Full,
            Reason::ReplayMismatch
            | Reason::TooLarge
            | Reason::BadId
            | Reason::BadKey
            | Reason::BadName
            | Reason::BadLifetime
            | Reason::Claimed
            | Reason::BadRequest => ErrorKind::Invalid,
            Reason::Unauthenticated | Reason::Denied => ErrorKind::Denied,
            Reason::StaleCall
            | Reason::TooEarly
            | Reason::SessionExpired
            | Reason::RequestTooOld => ErrorKind::Forgotten,
            Reason::ListLapsed | Reason::WatchTooOld | Reason::WatchLapsed => ErrorKind::Lapsed,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, message).with_reason(reason)
    }
}

/// One line, whatever is asked for: it is what a `main` that returns it prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = format!("{:?}: {}", self.kind, self.message);
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            said = format!("{said}: {error}");
            source = error.source();
        }
        f.write_str(&said.replace(['\n', '\r'], " "))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_says_its_cause_once_in_one_line() {
        let cause = || std::io::Error::other("the disk\nis full");
        let told = Error::new(ErrorKind::Full, format!("cannot write: {}", cause()));
        let told = told.with_source(cause());
        assert!(std::error::Error::source(&told).is_none());
        let untold = Error::new(ErrorKind::Full, "cannot write").with_source(cause());
        assert!(std::error::Error::source(&untold).is_some());
        for error in [told, untold] {
            assert_eq!(format!("{error:?}"), "Full: cannot write: the disk is full");
            assert_eq!(format!("{error:#?}"), format!("{error:?}"));
        }
    }
}
