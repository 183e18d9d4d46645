//! That consensus stopped on this node.

/// Consensus stopped on this node, because it was asked to or because its storage failed. Nothing can be answered any more.
#[derive(Debug, Clone, thiserror::Error)]
#[error("consensus stopped on this node: {0}")]
pub struct Stopped(pub String);
