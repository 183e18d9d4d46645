//! What proxies say in words, where they speak gRPC: its codes alone do not tell whether a call was passed on.

use tonic::{Code, Status};

/// What a proxy means that speaks gRPC. A status of the transport itself has a source, and none of these meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The request is too large for it, so that it passed nothing on.
    LargeRequest,
    /// The request, or else the reply, is too large for it.
    LargeMessage,
    /// It limits the rate of calls, and passed nothing on.
    Rate,
    /// No node took the call: it knows none, reached none, or its node refused the stream.
    NoNode,
    /// Nothing of those: the code tells.
    Other,
}

impl Meaning {
    /// Of a status without a reason of Helve's.
    pub(crate) fn of(status: &Status) -> Self {
        let is_said = std::error::Error::source(status).is_none();
        let said = status.message().to_ascii_lowercase();
        // Before the resets: Envoy begins both alike.
        if is_said && status.code() == Code::Unavailable && has_any(&said, &UNTAKEN) {
            return Self::NoNode;
        }
        if is_said && has_any(&said, &RESETS) {
            return Self::Other;
        }
        match status.code() {
            // What Envoy makes of its own 413.
            Code::Unknown | Code::OutOfRange | Code::ResourceExhausted
                if is_said && has_any(&said, &REQUEST_SIZES) =>
            {
                Self::LargeRequest
            }
            Code::Unknown if is_said && has_any(&said, &SIZES) => Self::LargeMessage,
            Code::OutOfRange | Code::ResourceExhausted if has_any(&said, &SIZES) => {
                Self::LargeMessage
            }
            Code::ResourceExhausted if is_said => Self::Rate,
            Code::Unavailable if is_said && is_rate(status, &said) => Self::Rate,
            Code::Unavailable if is_said && said.contains("no healthy upstream") => Self::NoNode,
            _ => Self::Other,
        }
    }
}

/// Names of HTTP 413, of which the request is too large.
const REQUEST_SIZES: [&str; 4] = [
    "payload too",
    "request entity too large",
    "content too large",
    "request too large",
];

/// A transport has a code for a message that is too large, but shares it: only the words tell.
const SIZES: [&str; 3] = ["too large", "larger than max", "size limit"];

/// How Envoy says that no server took a call: its circuit breaker is open, it got no connection, or
/// the server refused the stream (RFC 9113, section 8.7). Once it has retried, it says "retried and
/// the latest reset reason" instead: an earlier try of its own may have reached a node.
const UNTAKEN: [&str; 6] = [
    "before headers. reset reason: overflow",
    "before headers. reset reason: connection failure",
    "before headers. reset reason: local connection failure",
    "before headers. reset reason: remote connection failure",
    "before headers. reset reason: connection timeout",
    "before headers. reset reason: remote refused stream reset",
];

/// How a proxy passes on that its own connection broke: then the call may have reached a node.
const RESETS: [&str; 7] = [
    "rst_stream",
    "goaway",
    "enhance_your_calm",
    "stream terminated",
    "too_many_pings",
    "disconnect/reset",
    "connection reset",
];

fn has_any(said: &str, words: &[&str]) -> bool {
    words.iter().any(|words| said.contains(words))
}

/// Whether a message of a proxy has words of a reset. Envoy also says them of calls that no server
/// took: [`Meaning::of`] tells these apart.
pub(crate) fn is_of_reset(message: &str) -> bool {
    has_any(&message.to_ascii_lowercase(), &RESETS)
}

/// What Envoy says of its rate limits with the code of an unreachable server.
fn is_rate(status: &Status, said: &str) -> bool {
    let header = status.metadata().get("x-envoy-ratelimited");
    let is_marked = header.is_some_and(|value| value.as_encoded_bytes() == b"true");
    is_marked || has_any(said, &["rate_limited", "rate limited", "ratelimited"])
}
