//! Keys that are read again because an operator asks for it.

use std::sync::Arc;

use super::Source;

/// What came of reading a source again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysRead {
    /// The file or URL.
    pub from: String,
    /// How many keys are in use now; or why it could not be read, and what is in use then.
    pub outcome: Result<usize, String>,
}

impl Source {
    /// Reads the source again at once, whether it is time to or not; `None` if it can be read once
    /// alone.
    pub(crate) async fn read_now(self: &Arc<Self>) -> Option<KeysRead> {
        if self.is_once() {
            return None;
        }
        self.look().await;
        let trouble = self.lock(&self.trouble).clone();
        let keys = self.known.load().keys.len();
        Some(KeysRead {
            from: self.name(),
            outcome: if trouble.is_empty() {
                Ok(keys)
            } else {
                Err(trouble)
            },
        })
    }
}
