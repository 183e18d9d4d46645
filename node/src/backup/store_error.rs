//! Why a bucket cannot be used as a place for backups.

/// A request to an object store that was not carried out. It holds no credentials, and nothing of
/// what the store said but its code.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {place}: {problem}")]
pub struct StoreError {
    /// The bucket with its prefix, as a URL.
    pub place: String,
    /// What was attempted.
    pub action: &'static str,
    /// Why, and what to do.
    pub problem: StoreProblem,
}

/// What is wrong with an object store, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreProblem {
    /// The build has no object stores.
    #[error(
        "this build of `helve` lacks object stores: name a directory, or build it with the feature `object-store`"
    )]
    NotBuilt,
    /// The URL leads nowhere.
    #[error("{0}: write s3://BUCKET/PREFIX, or name a directory")]
    BadUrl(&'static str),
    /// It is reached without TLS.
    #[error(
        "{0} is reached by plain http, where others can read and change what is sent: use https, or --allow-http in a network that you trust"
    )]
    PlainHttp(String),
    /// No certificate can be checked.
    #[error("this machine has no certificate authorities: install ca-certificates")]
    NoAuthorities,
    /// The variables that begin with `AWS_` do not fit.
    #[error(
        "the environment does not fit ({0}): look at AWS_REGION, AWS_ENDPOINT_URL and the other variables that begin with AWS_"
    )]
    Environment(String),
    /// There are no credentials.
    #[error(
        "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run it on a machine that has a role"
    )]
    NoCredentials,
    /// The credentials are wrong, or have too few rights.
    #[error(
        "the store refuses these credentials ({0}): check them, and their rights to list, read, write and delete there"
    )]
    Refused(String),
    /// There is no such bucket.
    #[error(
        "there is no such bucket: create it, or correct its name, AWS_REGION or AWS_ENDPOINT_URL"
    )]
    NoBucket,
    /// The bucket is elsewhere.
    #[error("the bucket is in another region: set AWS_REGION to the bucket's")]
    OtherRegion,
    /// The clocks are too far apart.
    #[error(
        "this machine's clock differs too much from the store's: set it right, such as by NTP, and run the command again"
    )]
    ClockSkew,
    /// It has no conditional writes.
    #[error(
        "the store has no conditional writes (If-None-Match), which keep two backups apart: use one that has, such as S3, MinIO or R2"
    )]
    Unconditional,
    /// It does not list at once what was put.
    #[error(
        "the store does not list what was just put, which keeps two commands apart: use one that does, such as S3, MinIO or R2"
    )]
    ListsLate,
    /// It cannot be reached.
    #[error("no connection to {host} ({why}): check AWS_ENDPOINT_URL, AWS_REGION and the network")]
    Unreachable {
        /// The host, and its port.
        host: String,
        /// The error below.
        why: String,
    },
    /// It takes too long.
    #[error(
        "no answer within {0} s: check the network and run the command again; files that arrived whole are not sent again"
    )]
    Slow(u64),
    /// The place holds too much.
    #[error("it holds more than {0} objects: use another prefix")]
    TooMany(usize),
    /// The manifests of the place are too large together.
    #[error("its manifests have more than {0} bytes together: use another prefix")]
    TooLarge(u64),
    /// The store failed otherwise.
    #[error("the store answers {0}: run the command again, and look at the store if that fails")]
    Other(String),
}

impl StoreProblem {
    /// Whether another command, or another environment, would help; otherwise something broke while
    /// the command ran.
    #[must_use]
    pub fn is_of_command(&self) -> bool {
        match self {
            Self::NotBuilt
            | Self::BadUrl(_)
            | Self::PlainHttp(_)
            | Self::Environment(_)
            | Self::NoCredentials
            | Self::Refused(_)
            | Self::NoBucket
            | Self::OtherRegion
            | Self::Unconditional
            | Self::ListsLate
            | Self::TooMany(_)
            | Self::TooLarge(_) => true,
            Self::NoAuthorities
            | Self::ClockSkew
            | Self::Unreachable { .. }
            | Self::Slow(_)
            | Self::Other(_) => false,
        }
    }
}
