//! How slowly connections are read whose calls find no room for their streams.

use std::time::Duration;

/// Calls of one connection in a row that find no room for their streams before it is read after a [`REFUSALS_PAUSE`] alone. As many of one
/// principal, or of strangers of one address, within one such pause: beyond them each connection pauses that brings one more.
pub const REFUSALS_WITHOUT_PAUSE: u32 = 64;

/// How long a connection is not read whose calls find no room.
pub const REFUSALS_PAUSE: Duration = Duration::from_millis(250);
/// The longest such pause: each is twice the one before, until more than [`REFUSALS_WITHOUT_PAUSE`] calls in a row find room.
pub const REFUSALS_PAUSE_MAX: Duration = Duration::from_secs(4);

/// The pause after this many others.
#[must_use]
pub fn refusals_pause(before: u32) -> Duration {
    let times = 1_u32.checked_shl(before).unwrap_or(u32::MAX);
    REFUSALS_PAUSE.saturating_mul(times).min(REFUSALS_PAUSE_MAX)
}

/// Bytes that are read of a connection at once, until a call of it is let in, and again after one is refused. They hold a few calls
/// without a message. The transport answers no call while there is more to read: without this limit it takes up a thousand calls before
/// it refuses the first.
pub const LITTLE_READ_BYTES: usize = 1 << 10;
/// How long a connection is not read after [`LITTLE_READ_BYTES`], so that its calls are answered.
pub const LITTLE_READ_REST: Duration = Duration::from_millis(1);
/// How often in a row that happens without a refusal: by then, the bytes belong to calls that are under way.
pub const LITTLE_READS_MAX: u32 = 64;
