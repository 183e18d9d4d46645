//! Messages as they arrive, before `rmcp` reads them: what does not parse is answered, and what a parser would change is refused.
//!
//! `rmcp` drops a line that is no JSON without an answer, and answers such a body with plain text. Its parser also turns integers
//! beyond 64 bits into doubles and keeps one of two members with the same name. This layer reads each message first, over standard
//! input as over HTTP.

mod bounds;
pub(crate) mod charged;
pub(crate) mod content_type;
pub(crate) mod envelope;
pub(crate) mod host;
pub(crate) mod http;
pub(crate) mod lines;
pub(crate) mod message;
#[cfg(test)]
pub(crate) mod pieces;
mod short;
pub(crate) mod sse;
mod under_way;
pub(crate) mod weight;

/// Bytes of one message, as an HTTP body or a line of standard input: the 4 MiB of text that a transaction may hold, each byte
/// written as an escape of six, and 1 MiB that frames them. More is refused, unread.
pub(crate) const MESSAGE_BYTES_MAX: usize = 25 << 20;
