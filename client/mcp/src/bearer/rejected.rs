//! Why a token is refused.

/// Why a token does not hold: for the log only. The caller hears no more than that it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// It is no signed JWT, or lacks a claim, or a claim is not of its type.
    #[error("it is malformed")]
    Malformed,
    /// It demands an extension that must be understood (`crit`), or is of another type (`typ`).
    #[error("it has critical extensions, or is no access token")]
    Kind,
    /// No key is the token's, or its key is for another algorithm.
    #[error("no key is this token's")]
    NoKey,
    /// The keys could not be read again for longer than they may be used.
    #[error("the keys are too old to be trusted, and cannot be read again")]
    KeysTooOld,
    /// The signature is not of its key.
    #[error("the signature does not hold")]
    Forged,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// Its time has not come.
    #[error("it is not valid yet")]
    NotYet,
    /// It is meant for another server.
    #[error("it is for another audience")]
    Audience,
    /// It comes from another issuer, or does not say from which.
    #[error("it is from another issuer")]
    Issuer,
    /// The subject is empty, too long to own anything, or of a reserved form.
    #[error("the subject is empty, makes an owner of over {max} bytes, or is reserved", max = super::owner::OWNER_BYTES_MAX)]
    Subject,
}
