//! How commands reach a bucket.

use helve_node::backup::PlainHttp;

/// How a bucket is reached.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BucketArgs {
    /// Reach a store at http:// elsewhere than on this machine, in a network that you trust
    #[arg(long, env = "HELVE_BACKUP_ALLOW_HTTP")]
    allow_http: bool,
}

impl BucketArgs {
    /// Whether a bucket may be reached without TLS.
    pub(crate) fn http(&self) -> PlainHttp {
        if self.allow_http {
            PlainHttp::Allowed
        } else {
            PlainHttp::Refused
        }
    }
}
