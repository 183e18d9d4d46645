//! A call that came over HTTP without the framing of gRPC.

use tokio::time::Instant;

use super::{codec::Codec, schema::Rpc};

/// A call that came as JSON, or as bare protobuf. In the extensions of its request.
#[derive(Debug, Clone)]
pub(in crate::service) struct JsonCall {
    pub(super) rpc: Rpc,
    pub(super) codec: Codec,
    /// When its caller has its answer at the latest.
    pub(super) until: Instant,
}
