//! That consensus stopped on this node.

/// Consensus stopped on this node, because it was asked to or because its storage failed. Nothing can be answered any more.
#[derive(Debug, Clone, thiserror::Error)]
#[error("consensus stopped on this node: {0}")]
pub struct Stopped(pub String);

impl Stopped {
    /// Consensus stopped while something waited for it to change.
    pub(crate) fn meanwhile() -> Self {
        Self("stopped".to_owned())
    }

    /// Consensus failed with this error.
    pub(crate) fn by(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}
