//! What traces may take up.

use std::time::Duration;

/// Spans that may wait for the collector; over it, further ones are dropped and counted. About 1 MiB.
pub const TRACE_SPANS_QUEUED_MAX: usize = 4_096;

/// Spans in one message to the collector.
pub const TRACE_BATCH_SPANS_MAX: usize = 512;

/// How long a span waits for others, to go in one message with them.
pub const TRACE_LINGER: Duration = Duration::from_millis(500);

/// How long the collector may take for a message. Its spans are dropped then.
pub const TRACE_EXPORT_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of a text in a span.
pub const TRACE_TEXT_BYTES_MAX: usize = 128;
