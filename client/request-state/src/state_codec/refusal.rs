//! Why a sealed state was refused.

use helve_client::Error;

/// Why a sealed state does not hold. For the log: a client that could tell these apart would have an oracle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is longer than any sealed state.
    #[error("longer than {max} bytes", max = super::bounds::SEALED_BYTES_MAX)]
    TooLong,
    /// It has another mode's or version's prefix, or none.
    #[error("not of the form that this codec opens")]
    Form,
    /// It has the prefix, but no sealed state has this shape: parts are missing, or its base64 is not canonical.
    #[error("malformed")]
    Malformed,
    /// The key it names is not in the ring: never was, was removed, or has not been picked up yet.
    #[error("sealed under a key that is not in the ring")]
    UnknownKey,
    /// Forged or changed; of an encrypted compat state also: sealed for another subject or tool.
    #[error("not authentic")]
    Forged,
    /// Its time is over.
    #[error("expired")]
    Expired,
    /// It was sealed further in the future than clocks may differ. Check the clocks of the replicas.
    #[error("issued in the future")]
    NotYet,
    /// It was sealed for another subject.
    #[error("sealed for another subject")]
    Subject,
    /// It was sealed for another audience.
    #[error("sealed for another audience")]
    Audience,
    /// It was sealed for another method.
    #[error("sealed for another method")]
    Method,
    /// It was sealed for another tool, prompt or resource.
    #[error("sealed for another tool, prompt or resource")]
    Target,
    /// It was sealed for other arguments.
    #[error("sealed for other arguments")]
    Arguments,
    /// It was sealed for another subject, or another tool of the same.
    #[error("sealed for another subject or tool")]
    Binding,
    /// This context cannot be bound in this form, so nothing can have been sealed in it.
    #[error("no state can have been sealed in this context")]
    Context,
    /// It was redeemed before.
    #[error("redeemed before")]
    Used,
    /// The keys, or the memory of what was used up, cannot be had now. Nothing is known of the state: it may be presented again.
    #[error("cannot be checked now: {0}")]
    Unavailable(#[source] Error),
}
