//! What one node said to `helve status`.

use helve_proto::v1::StatusReply;

use crate::diagnosis::Finding;

/// What one node said, or why it did not.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) endpoint: String,
    pub(super) reply: Result<StatusReply, Finding>,
}
