//! How the messages of calls over HTTP are encoded.

pub(super) const JSON: &str = "application/json";
pub(super) const PROTO: &str = "application/proto";

/// How the messages of a call are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    /// The canonical JSON of protobuf.
    Json,
    /// Protobuf.
    Proto,
}

impl Codec {
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Proto => PROTO,
        }
    }
}
