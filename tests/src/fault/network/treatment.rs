//! What a network does to what is sent over it.

use std::time::Duration;

/// What becomes of what one side sends to another. Connections are TCP: nothing is lost, doubled or reordered inside one, but it
/// can come late, never, or wrong, and the connection can end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Treatment {
    /// It goes through.
    Pass,
    /// It comes late: by `base`, and up to `jitter` more.
    Delay {
        /// At least.
        base: Duration,
        /// At most so much more.
        jitter: Duration,
    },
    /// Packets are lost, and TCP sends them again: this many in a hundred pieces come late by the
    /// time that takes, and everything behind them with them.
    Loss {
        /// Of a hundred pieces.
        percent: u8,
    },
    /// This many in a hundred pieces reset their connection instead.
    Reset {
        /// Of a hundred pieces.
        percent: u8,
    },
    /// Nothing comes through, and nothing is lost: when the lane passes again, what was sent meanwhile arrives late, as TCP's
    /// repeated packets do when a cable is back.
    Hold,
    /// All is taken and thrown away, while the connection stays: a peer that is gone without a word. When the lane passes again its
    /// connections are reset, for their streams have holes.
    Swallow,
    /// Connections are reset, and new ones refused.
    Refuse,
    /// No more goes through than this.
    Limit {
        /// Bytes a second.
        bytes_per_s: u64,
    },
    /// In this many of a hundred pieces one bit is flipped.
    Corrupt {
        /// Of a hundred pieces.
        percent: u8,
    },
}
